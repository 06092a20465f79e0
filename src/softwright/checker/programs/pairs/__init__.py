"""Sums over pairs of tokens proved again: kernels by exponential sums, and the order of real numbers."""
