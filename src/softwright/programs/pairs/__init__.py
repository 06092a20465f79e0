"""Sums over pairs of tokens: kernels by exponential sums, and what they make possible: order statistics of reals."""
