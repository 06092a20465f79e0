"""Kinds of features: what their heads compute, how far off they are, and what they round. The rows: `catalogue.py`."""
