"""Inputs whose roundings point one way, found in a lattice.

A sum that has reached r_h takes the product w_h x in one rounding, to a multiple of its last place q_h. For x = x_0 + j
d, d the last place of x_0, what is rounded away depends on the fraction of

    (r_h + w_h x_0)/q_h + j a_h,     a_h = w_h d/q_h,

modulo 1: it is largest, and of the wanted sign, a little above or below one half. Which whole j brings all of these
fractions near such targets is a closest-vector problem in the lattice of the vectors (c_h (j a_h - n_h), e j), c_h the
weight of a neuron and e the price of a long way. It is answered by LLL and Babai's planes, for many targets at once.
Drawing j some thousand times finds a sum of errors of about four standard deviations; here each of some thirty neurons
gets about the right one, and 2^40 numbers x are looked at instead. What is found is run, and counts only as it runs.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from flint import fmpz_mat

NEURONS, _TARGETS, _SCALE = 44, 384, 1 << 62


def aimed(
    x: float, reach: float, sums: np.ndarray, weights: np.ndarray, gains: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Numbers near x (within `reach`) at which errors of sums_h + weights_h x times gains_h tend to add up."""
    if x == 0:
        return np.zeros(0)
    step = float(np.spacing(abs(x)))
    least, most = 2.0 ** np.floor(np.log2(abs(x))), 2.0 ** (np.floor(np.log2(abs(x))) + 1)
    room = min(reach, abs(x) - least, most - abs(x)) / step
    value = sums + weights * x
    places = np.spacing(np.abs(value))
    sizes = np.abs(gains) * places * (weights != 0)
    used = np.argsort(-sizes)[:NEURONS]
    used = used[sizes[used] > 0.02 * sizes.max()]
    if room < 2.0**20 or len(used) < 2 or not sizes.max() > 0:
        return np.zeros(0)
    c = sizes[used] / sizes.max()
    fractions = np.array(
        [
            float(
                (Fraction(float(sums[h])) + Fraction(float(weights[h])) * Fraction(x)) / Fraction(float(places[h])) % 1
            )
            for h in used
        ]
    )
    rates = weights[used] * (step / places[used])
    price = 0.5 * float(c.mean()) / room
    count = len(used)
    rows = [[0] * (count + 1) for _ in range(count + 1)]
    unit = max(1, round(price * _SCALE))
    rows[0] = [*(round(float(ch * a) * _SCALE) for ch, a in zip(c, rates, strict=True)), unit]
    for i in range(count):
        rows[i + 1][i] = round(float(c[i]) * _SCALE)
    reduced = fmpz_mat(rows).lll()
    basis = np.array([[float(int(reduced[i, j])) for j in range(count + 1)] for i in range(count + 1)])
    wanted = np.where(gains[used] * 1.0 > 0, 1.0, -1.0)  # the sign that an error should have
    off = rng.uniform(0.02, 0.3, size=(_TARGETS, 1)) * rng.uniform(0.5, 1.5, size=(_TARGETS, count))
    targets = np.hstack([c * (0.5 + wanted * off - fractions), rng.uniform(-0.5, 0.5, (_TARGETS, 1)) * price * room])
    found = _nearest(basis, targets * float(_SCALE))
    j = np.rint(found[:, -1] / unit)
    j = j[np.abs(j) <= room]
    return np.unique(x + j * step)


def _nearest(basis: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """A vector of the lattice near each target (t, n): one plane after another, the last of the basis first."""
    n = len(basis)
    orthogonal = basis.copy()
    for i in range(n):
        for k in range(i):
            along = orthogonal[k]
            orthogonal[i] -= (orthogonal[i] @ along) / (along @ along) * along
    left, found = targets.copy(), np.zeros_like(targets)
    for i in range(n - 1, -1, -1):
        along = orthogonal[i]
        times = np.rint(left @ along / (along @ along))[:, None]
        left, found = left - times * basis[i], found + times * basis[i]
    return found
