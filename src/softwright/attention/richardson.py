"""Odd Richardson weights: sums of heads in which the odd powers of the step cancel.

    sum_k c_k k = 1,   sum_k c_k k^{2n+1} = 0 for 0 < n < K,       c_k = prod_{i != k} i^2/(i^2 - k^2) / k

Then sum_k c_k f(k d)/d = f'(0) + O(d^{2K}) for every odd f: the products of gated units (`transpiler/gated_heads.py`)
and the bilinear heads of the in-context methods are such sums.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod


def richardson(order: int) -> list[Fraction]:
    """c_1, .., c_K, exactly."""
    squares = [Fraction(k * k) for k in range(1, order + 1)]
    return [
        prod((other / (other - own) for other in squares if other != own), start=Fraction(1)) / k
        for k, own in enumerate(squares, 1)
    ]
