"""Memories that are larger than a machine's memory: built piece by piece, stored and asked shard by shard."""
