"""The checker's proof that a memory recalls, and the entries of its file."""
