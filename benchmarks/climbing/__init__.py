"""Random certified networks of every verb, one file each, for `climb.py`."""
