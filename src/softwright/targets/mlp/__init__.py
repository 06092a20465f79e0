"""Feed-forward networks as data."""
