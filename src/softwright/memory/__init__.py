"""Labelled sequences become a memory."""
