"""Gates: tokens whose scores switch between the pieces of a continuous piecewise linear phi.

phi has pieces a_j s + c_j that meet at x_i; the tokens, by rising keys, have values v_j s + u_j and scores that meet
at kappa_i = (b_i - b_{i+1})/(k_{i+1} - k_i). All of these are taken as rational numbers, as stored. Let * be phi's
piece at s and gap_j the distance of score j from the largest. Between j and * lie knots i, where a_{i+1} s + c_{i+1} -
a_i s - c_i = (a_{i+1} - a_i) (s - x_i), and the scores of neighbours differ by (k_{i+1} - k_i) (s - kappa_i); so with
C = max |a_{i+1} - a_i|/(k_{i+1} - k_i), as s can lie on the wrong side of kappa_i only between it and x_i,

    |a_j s + c_j - phi(s)| <= C gap_j + sum_i (|a_{i+1} - a_i| + C (k_{i+1} - k_i)) |kappa_i - x_i|.

A softmax of N tokens has sum_j w_j gap_j <= W0((N - 1)/e). The weights that run are those of scores within t of the
true ones, gaps rounded once, times 1 +- E: sum_j w_j gap_j <= (1 + E)/(1 - E) (1 + 2u) W0 + 2t. Of two tokens with the
scores 0 and k s the one gap is only wrong by a factor, and t is not needed. Values that the dtype stores as others add
|u_j - c_j| and |v_j - a_j| |s|. The latter is `tilt` times |s| where piece j reaches to infinity; a piece between two
knots has sum w_j |s| <= max |x_i| + (W0 + ..)/min(k_{i+1} - k_i) + max |kappa_i - x_i|. What values lose in their sums
is in proportion to sum_j w_j (|v_j s| + |u_j|) <= |phi| + (the error above) + 2 max |u_j|. Where the one value that is
not 0 is s itself and heads are not run by attention kernels, a weight is a quotient by a sum of two (or the product
with its reciprocal) and is multiplied by s: 4 roundings in all."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
from flint import arb, fmpq

from softwright.checker.refusal import require
from softwright.checker.transpiled.activations import Activation
from softwright.checker.transpiled.outward import gamma
from softwright.checker.transpiled.unit import Array, Run, Unit

SLACK = 1 + 1e-12  # of some tens of roundings of float64 in what follows


def above(number: Fraction | arb) -> float:
    """A float that is not below."""
    ball = arb(fmpq(number.numerator, number.denominator)) if isinstance(number, Fraction) else number
    return 0.0 if ball.is_zero() else math.nextafter(float(ball.upper()), math.inf)


def weighted_gap(tokens: int) -> float:
    """W0((N - 1)/e), rounded up: the largest mean gap of a softmax."""
    return above((arb(tokens - 1) / arb(1).exp()).lambertw())


def gate_unit(activation: Activation, table: Array, run: Run) -> Unit:
    if activation.row.pieces is None:
        raise ValueError("not a gate")
    pieces, knots = activation.row.pieces(*activation.parameters)
    count = len(pieces)
    require(table.shape == (4, count), f"a head of {activation} has {count} tokens")
    k, b, v, u = ([Fraction(float(x)) for x in row] for row in table)
    rises = [high - low for low, high in pairwise(k)]
    require(min(rises) > 0, f"the keys of {activation} do not rise")
    bends = [abs(high[0] - low[0]) for low, high in pairwise(pieces)]
    misses = [abs((b[i] - b[i + 1]) / rise - knot) for i, (rise, knot) in enumerate(zip(rises, knots, strict=True))]
    ratio = max(bend / rise for bend, rise in zip(bends, rises, strict=True))
    moved = sum(
        ((bend + ratio * rise) * miss for bend, rise, miss in zip(bends, rises, misses, strict=True)), Fraction(0)
    )
    shifted = max(abs(stored - offset) for stored, (_, offset) in zip(u, pieces, strict=True))
    tilts = [abs(stored - slope) for stored, (slope, _) in zip(v, pieces, strict=True)]
    gap, unit, E = weighted_gap(count), run.precision.unit, run.exps
    grown = (1 + E) / (1 - E) * (1 + 2 * unit) * SLACK
    simple = count == 2 and k[0] == 0 and not any(b)
    if simple:
        grown *= 1 + 3 * gamma(run.score, unit)
    C, least = above(ratio), float(min(rises)) * (1 - 1e-15)
    middle = above(max(map(abs, knots)) + max(misses))
    inner = above(max(tilts[1:-1], default=Fraction(0)))
    fixed = above(moved) + above(shifted)
    exact = (C * gap + fixed + inner * (middle + gap / least)) * SLACK
    keys, biases = float(np.abs(table[0]).max()), float(np.abs(table[1]).max())
    slopes, offsets = float(np.abs(table[2]).max()), float(np.abs(table[3]).max())
    tilt = above(max(tilts[0], tilts[-1]))
    tiny = run.precision.smallest + run.precision.exp_floor  # of a product and of a weight

    lone = simple and (v, u) == ([0, 1], [0, 0]) and run.layout in ("softmax", "double")
    roundings = 4 if lone else run.values(count)

    def running(m: Array, top: Array) -> Array:
        wrong = 0.0 * m if simple else 2 * gamma(run.score, unit) * (keys * m + biases) * (1 + 4 * unit)
        gate = C * (gap * (grown - 1) + wrong) + inner * (gap * (grown - 1) + wrong) / least
        size = top + gate + exact + tilt * m + 2 * offsets
        lost = 16 * count * tiny * (1 + m) * (1 + slopes + offsets)
        return (gate + tilt * m + gamma(roundings, unit) * size + lost) * SLACK

    affine = float(np.abs(table[3][table[2] != 0]).max(initial=0.0))
    return Unit(table, exact, running, slopes, affine, tilt)
