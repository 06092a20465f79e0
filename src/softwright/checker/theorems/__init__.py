"""Theorems of the papers, proved again from the file alone: one file per theorem or per family of them."""
