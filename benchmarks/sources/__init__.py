"""Networks that people have, as `benchmarks/networks.py` hands them to `transpile`: each a `Case`."""
