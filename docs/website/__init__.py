"""The documentation site: pages from the texts of docs/, a reference from docstrings, a gallery, and a search."""
