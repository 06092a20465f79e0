"""What activations come to between two numbers, and how steep they are left of 0.

Slope and range of s sigma(z), z = 2 r (s + k s^3), which is the tanh form: s z' = z (1 + 3t)/(1 + t), t = k s^2, so
|phi'| <= sigma(z) + |z| sigma'(z) (1 + 2 t) <= 1.1 + 2.5 k/(2 r)^2, because |s| <= |z|/(2r) and |z|^3 sigma'(z) < 1.25;
and <= 1.6, which is above sigma + 3 |z| sigma'. As z is odd, phi(s) - phi(-s) = s, so phi' >= 1 - sup phi'; GELU is
of the same kind. For s < 0 it is at least s sigma(2 r s) >= -0.2785/(2 r).

Left of 0, r = -s:  silu's phi' = sigma(s) (1 + s (1 - sigma(s))) has a factor between 1 - r and 1, and (r - 1)
sigma(-r) <= 0.12 falls from r = 2.3 on. GELU's is Q(r) - r e^{-r^2/2}/sqrt(2 pi), Q(r) <= e^{-r^2/2}/2, whose last term
falls from r = 1 on. Of s sigma(z) it is sigma(z) (1 + q z (1 - sigma(z))), 1 <= q = (1 + 3t)/(1 + t) <= 3, between -3
|z| e^{-|z|} and sigma(z), and |z| e^{-|z|} falls from 1 on. Mish's is T + s T', T = tanh(log(1 + e^s)) <= e^s, 0 <= T'
<= e^s.
"""

from __future__ import annotations

import numpy as np

from softwright.targets.mlp.activation_row import Array


def leaky_span(low: Array, high: Array, slope: float) -> tuple[Array, Array]:
    ends = (low, high, np.clip(0.0, low, high))  # which may be infinite: 0 times them is 0
    sides = np.stack([np.where(x > 0, x, slope * x if slope else 0.0) for x in ends])
    return sides.min(axis=0), sides.max(axis=0)


def hardsigmoid_span(low: Array, high: Array, slope: float, offset: float) -> tuple[Array, Array]:
    ends = [np.clip(slope * x + offset, 0.0, 1.0) for x in (low, high)]
    slack = 1e-15 * (1 + abs(offset))  # slope x and offset may cancel
    return ends[0] - slack, ends[1] + slack


def elu_span(low: Array, high: Array, alpha: float) -> tuple[Array, Array]:
    size, above = np.minimum(np.maximum(-low, 0.0), 1.0) * abs(alpha), np.maximum(high, 0.0)
    return (-size, above) if alpha >= 0 else (np.zeros_like(size), above + size)


def dip(least: float, low: Array, high: Array) -> tuple[Array, Array]:
    """phi(s) between s/2 and s for s >= 0, between s and 0 and not below `least` for s < 0."""
    return np.where(low >= 0, 0.5 * low, np.maximum(least, low)), np.maximum(high, 0.0)


def silu_left(r: Array) -> Array:
    small = np.exp(-r) / (1 + np.exp(-r))
    return np.maximum(small, np.where(r < 2.3, 0.12, (r - 1) * small))


def gelu_left(r: Array, rate: float = 1.0) -> Array:
    """`rate` sqrt(2): that of s in erf."""
    x = np.minimum(rate * r, 1e9)
    small = np.exp(-0.5 * x**2)
    return np.maximum(0.5 * small, np.where(x < 1, 0.13, np.minimum(0.4 * x * small, 0.13)))


def cubic_left(r: Array, rate: float, cubic: float, least: float) -> Array:
    z = np.minimum(2 * rate * r * (1 + cubic * np.minimum(r, 1e9) ** 2), 1e9)
    return np.maximum(np.exp(-z) / (1 + np.exp(-z)), np.where(z < 1, -least, np.minimum(3 * z * np.exp(-z), -least)))
