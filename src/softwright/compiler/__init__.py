"""Formulas compiled into stacks of attention: features, heads, layers, and a proof that adds up over the heads."""
