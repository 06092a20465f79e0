"""Rows of files that commands read and write: points as CSV, sequences as text."""
