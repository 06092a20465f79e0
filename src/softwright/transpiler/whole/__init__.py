"""Transpiled transformers from end to end: what a model is made of, and how far the whole is off at a prompt."""
