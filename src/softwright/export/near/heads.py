"""Heads of few tokens on their box, in C: no maximum to look for, values and slopes in one sum.

Inside the box of an approximation the scores of a head lie in an interval that is known when the file is written. Where
2^c e^s is a normal number all over it, and one token's is at least 1 everywhere, softmax needs no shift: every weight
is 2^c e^s_j, with c a whole number that costs nothing, since it is part of the exponent. What lies outside of the box,
nan and infinity too, takes the way of all networks (`c_loops.py`), behind a branch.

    z_j = v_j + sum_i G_ji t_i,     y = (sum_j e_j z_j) / (sum_j e_j).

*Rounding* (`proof/arithmetic/rounding.py`, `checker/head.py`). Scores are sums of d + 1 terms, as charged; that the
largest is not subtracted is one rounding less; a token loses nothing in exp, and in products less than what is charged
against a largest weight of 1. With z a term meets the additions of step 5, of which the last now rounds the term and
not the sum, one product and A - 1 additions: A + 1 roundings on its own, as charged; the quotient rounds g once (twice
with a reciprocal, for several outputs), and the denominator meets A - 1: A + 1 that all share.

*exp.* 2^n p, n whole, p = 1 + f Q(f), |f| <= 1/2 (or ln(2)/2); 2^n is added to the exponent of p. Q is three sums of
numbers below 1, which round by u/2 (u is the unit of rounding; or below 1.2, which round by u), and what rounds less:
f Q is off by 1.4 u with its own product, and p rounds by u/2 below 1 and u above it: less than 2.7 u of p in all.
*Direct*: keys and biases are stored times log2(e), and f = s - n is exact; p misses 2^f by at most 0.4 u (degree 11 in
double, 6 in float): below 3.2 u, where 8 u are charged. The rest of the charge must hold what the stored numbers are
off, which is computed here, in fractions. A multiple of t and a number that all tokens share cancel in a softmax, so
they may be added before the numbers are rounded: of several such shifts the one is taken for which rounding comes out
best. *Natural*, where that does not fit: r = s - n ln 2 with ln 2 in two parts, as in `exp.py`, 0.8 u more, and p of
one degree less in double misses e^r by at most 2.8 u: below 6.4 u.

*Pairs.* Of two tokens whose scores span more than exp does, as those of a kink, the larger one has weight 1 and the
other e^-|s_1 - s_0|, which is 0 where it is below what is charged for an exp that is lost. They lie in the first
numbers of the first vector: one vector of exps serves all heads as far as it reaches. What a vector holds of other
heads is multiplied by 0, which is exact, as is a product with 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from softwright.export.near.lines import REACH, Exp, Near, Run, Tokens, Writer
from softwright.export.near.pieces import Pieces, pieces_of
from softwright.export.programs import tensors_of
from softwright.export.selftest import rounding_at_a_point
from softwright.export.vectors.exp import DIRECT, LOG2E, lanes_of
from softwright.precision import computing_in

MOST_VECTORS = 16  # of exps, written out one by one
MOST_OUTPUTS, MOST_VARIABLES = 4, 8
MOST_TOKENS = 64  # of a sum of heads that becomes polynomials
TRIES = 4096  # shifts that are tried
_HIGHEST = {"double": 1000, "float": 120}  # exponents of two of what is summed, and -these of weights
_EXP_ERROR = {"double": 3.1, "float": 3.2}  # of direct exps, in units of rounding; see above
_CHARGED = 8.0  # 4 ulp; claims that rest on more charge more


_NATURAL = {
    "double": (
        *("0x1.0000000000029p+0", "0x1.000000000004bp-1", "0x1.5555555548c99p-3", "0x1.555555552f91ap-5"),
        *("0x1.11111133719c1p-7", "0x1.6c16c20da9497p-10", "0x1.a01967c4f3458p-13", "0x1.a017fb60512efp-16"),
        *("0x1.730bd56d1ecc9p-19", "0x1.2a475a39aa4f1p-22"),
    ),
    "float": (
        *("0x1.000000p+0", "0x1.000002p-1", "0x1.5553c0p-3", "0x1.55515ap-5", "0x1.129106p-7", "0x1.709dc6p-10"),
    ),
}
_LOGS = {
    "double": ("0x1.62e42fefa2000p-1", "0x1.9ef35793c7673p-41"),
    "float": ("0x1.62e000p-1", "0x1.0bfbe8p-15"),
}


def _read(tensors: Mapping[str, np.ndarray], i: int) -> Tokens:
    keys, biases, values = (
        tensors[f"layer.heads.{i}.{name}"].astype(np.float64) for name in ("keys", "biases", "values")
    )
    slopes = tensors.get(f"layer.heads.{i}.slopes")
    shape = (*values.shape, keys.shape[1])
    return Tokens(keys, biases, values, np.zeros(shape) if slopes is None else slopes.astype(np.float64))


def _bounded(head: Tokens, real: str) -> Tokens | None:
    """The head with its c, or as a pair, or nothing. Margins of 1 are far above what is rounded: scores that matter are
    below 1000 in size."""
    spread = np.abs(head.keys).sum(axis=1) * REACH
    per_log, most = 1 / math.log(2.0), _HIGHEST[real]
    low, high = (per_log * (head.biases + sign * spread) for sign in (-1, 1))
    sizes = (np.abs(head.values)[:, :, None] + np.abs(head.slopes).sum(axis=2, keepdims=True) * REACH).max(initial=1.0)
    room = math.log2(len(head.keys) * sizes) + 2
    if max(np.abs(low).max(), np.abs(high).max()) < most:
        exponent = math.ceil(1 - low.max())
        if exponent + low.min() - 1 > -most and exponent + high.max() + 1 + room < most:
            return Tokens(head.keys, head.biases, head.values, head.slopes, exponent)
    whole = np.abs(head.keys).sum(axis=1).max() * REACH + np.abs(head.biases).max()
    if len(head.keys) == 2 and math.log2(max(whole, 1.0)) < 60 and room < most:
        return Tokens(head.keys, head.biases, head.values, head.slopes, 0, True)
    return None


@dataclass(frozen=True)
class Shifted:
    """Keys and biases times log2(e), after a shift that all tokens share."""

    keys: np.ndarray
    biases: np.ndarray
    off: float  # how far off they may make a score, in units of rounding


def _in_powers_of_two(head: Tokens, unit: float, kind: type) -> Shifted:
    """The best of several shifts: the first is none, each is below 2^-8, which is what the scores grow by."""
    rng = np.random.default_rng(0)
    d = head.keys.shape[1]
    numbers = np.concatenate([head.keys, head.biases[:, None]], axis=1)
    exact = np.vectorize(lambda x: Fraction(float(x)) * LOG2E, otypes=[object])(numbers)
    high = exact.astype(np.float64)
    rest = (exact - np.vectorize(Fraction, otypes=[object])(high)).astype(np.float64)
    tries = rng.uniform(-(2.0**-8), 2.0**-8, size=(TRIES, d + 1))
    tries[0] = 0.0
    reach = np.append(np.full(d, REACH), 1.0)

    def off(rounded: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """To a few of their last places: it chooses."""
        return (np.abs((rounded - high) - shift[:, None, :] - rest) * reach).sum(axis=2).max(axis=1)

    rounded = (high + tries[:, None, :]).astype(kind).astype(np.float64)
    best = int(np.argmin(off(rounded, tries)))
    found, shift = rounded[best], [Fraction(float(one)) for one in tries[best]]
    worst = Fraction(0)
    for row, wanted in zip(found, exact, strict=True):
        errors = (abs(Fraction(float(a)) - b - s) for a, b, s in zip(row, wanted, shift, strict=True))
        worst = max(worst, sum((e * Fraction(r) for e, r in zip(errors, map(float, reach), strict=True)), Fraction(0)))
    tail = Fraction(int(np.ceil(np.abs(numbers).max())) * (d + 1), 10**38)  # of log2(e)
    units = float((worst + tail) * Fraction(7, 10) / Fraction(unit))  # ln 2 < 0.7
    return Shifted(found[:, :-1], found[:, -1], units + (d + 2) * float(np.abs(tries[best]) @ reach))


def near_of(built: Any) -> Near | Pieces | None:
    """What C runs inside the box of a network, if that is an approximation in one variable or by few tokens."""
    if built.kind != "approximation":
        return None
    model, tensors = built.network.describe(), tensors_of(built.network)
    precision = computing_in(model["dtype"], model.get("engine", ""))
    real = "double" if precision.name == "float64" else "float"
    center, scale = (tensors[name].astype(np.float64) for name in ("center", "scale"))
    run = Run(real, "float" if model["dtype"] == "float32" else "double", center, scale)
    if not all(np.isfinite(tensor).all() for tensor in tensors.values() if tensor.dtype.kind == "f"):
        return None
    read = [_read(tensors, i) for i in range(len(model["heads"]))]
    if len(center) == 1 and sum(len(head.keys) for head in read) <= MOST_TOKENS:
        box = built.network.box
        rounding = rounding_at_a_point(built)
        if rounding > 0 and built.certificate.between is not None:  # of a table: at its points, which may be less
            rounding = min(rounding, float(built.certificate.rounding_part))
        pieces = pieces_of(read, (float(box.lower[0]), float(box.upper[0])), rounding, run)
        if pieces is not None:
            return pieces
    heads = [_bounded(head, real) for head in read]
    known = [head for head in heads if head is not None]
    if not known or len(known) < len(heads):
        return None
    d, m = known[0].keys.shape[1], known[0].values.shape[1]
    lanes = lanes_of(real)
    order = sorted(range(len(known)), key=lambda i: not known[i].pair)
    pairs = sum(head.pair for head in known)
    exps = sum(head.exps for head in known)
    if d > MOST_VARIABLES or m > MOST_OUTPUTS or pairs > lanes or -(-exps // lanes) > MOST_VECTORS:
        return None
    kind = np.float64 if real == "double" else np.float32
    exp = Exp(_NATURAL[real], _LOGS[real])
    rows = [(head.keys, head.biases) for head in known]
    if not pairs:
        shifted = [_in_powers_of_two(head, precision.unit, kind) for head in known]
        off = max(one.off for one in shifted)
        if off + _EXP_ERROR[real] <= _CHARGED:
            exp = Exp(DIRECT[real])
            rows = [(one.keys, one.biases) for one in shifted]
    writer = Writer([known[i] for i in order], order, [rows[i] for i in order], exp, run)
    narrow, count = writer.function(lanes), writer.vectors(lanes) * lanes
    wide = ""
    if writer.vectors(2 * lanes) < writer.vectors(lanes):
        wide, count = writer.function(2 * lanes), writer.vectors(2 * lanes) * 2 * lanes
    tables = {name: np.pad(row, (0, count - len(row))) for name, row in writer.tables.items()}
    return Near(tables, narrow, wide, " && ".join(map(run.inside, range(d))))
