"""Rows of the library of programs, by what they are about."""
