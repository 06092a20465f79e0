"""What `benchmarks/exports.py` sends through the exporters, and how each format is run."""
