"""Heads of transpiled networks as polynomials, in C: no exp and no quotient while every number stays in a range.

A head of a transpiled network is a smooth function of one number s, and on |s| <= B, B a little more than what s is at
sampled inputs, a polynomial of few terms is as near to it as its own exps and quotient are charged to be. What leaves
the range, infinity and nan too, is noticed while it runs, and the whole point then takes the way of all others.

*Form*, z = s s. Pairs of tokens with scores +-r s/2 have T = tanh(r s/2), and with slopes v and offsets u they are

    (u_0 + u_1)/2 + (v_0 + v_1)/2 s + ((u_1 - u_0)/2 + (v_1 - v_0)/2 s) T,

where one of the differences is 0, and none is rounded; even tokens (`transpiler/closed_softmax.py`) are s/2 and an even
function. So a head is  offset + slope s + L q(z),  L = 1, s or z, and q a quotient N/Z of entire functions, sums of
cosh(k s), sinh(k s)/s and s sinh(k s). A product with a gate is b sum_k a_k tanh(s_k u), or of sigmoids, each such a
function of u.

*Error of q*: that of `near/series.py` on [0, M], as Z has no negative coefficient and is at least Z(0). Of the
polynomial found there the fewest terms are kept that are near enough.
Terms are powers of y = z - c, c the middle of [0, M]: as poles are on the other side of 0, coefficients fall from
there, and hardly anything cancels.

*Rounding*, with q = C_0 + y R(y), R of the other coefficients as a tree (`c_trees.py`):

    g = (offset + slope s + L C_0) + (L y) R

Cell by cell of sizes of s every operation is followed with what its result is there at most, and is charged half a last
place of it; powers of y are made of products, a coefficient is rounded once, and y = s s - c is off by z + |y| or,
where it is fused, less, which q' passes on. The slope is a power of two, or 0.

*Charged* (`transpiler/unit_bounds.py`, `checker/transpiled/smooth.py`) is, for a head at s or at anything smaller, on
either side, at least

    16 sum_{j /= r} w_j |v_j s + u_j - g|  +  6 sum_j w_j (|v_j s| + |u_j|),

w the weights and r the largest of them: a weight beside the largest is off by two exps of 8 each, and products and the
quotient are 6 or more, in every layout. A product is charged 20 |a_k b| for every head, in the layout softmax
(`checker/transpiled/products.py`). What is charged does not fall as s grows: what it is where a cell begins holds in
all of it. Farther in than the cells all is proportional to s, or constant, up to 2^-20.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np

from softwright.export.near.series import DIGITS, LOST, about_middle, interpolated
from softwright.export.program import Product
from softwright.precision import PRECISIONS

NODES = 48
MOST_TERMS = {"float64": 26, "float32": 16}
STEEPEST = 30.0  # k B
_GRID = 2.0 ** -np.concatenate([np.arange(256) / 64, np.arange(32, 242) / 8])
_LARGEST = {"float64": 2.0**900, "float32": 2.0**100}  # of coefficients: powers that underflow are lost beside it
_NEARLY = 0.98  # of what is charged
_ABOVE = 1 + 2.0**-20  # room for numbers that are rounded


@dataclass(frozen=True)
class Powers:
    """offset + slope s + s^lead sum_i numbers_i y^i, y = s s - middle <= most; times a second input, of a product."""

    offset: float
    slope: float
    lead: int
    numbers: tuple[float, ...]
    middle: float
    most: float
    product: bool = False


@dataclass(frozen=True)
class _Quotient:
    """factor N/Z: N the sum of c cosh(k s), c sinh(k s)/s or c s sinh(k s), Z that of d cosh(k s)."""

    factor: float
    above: tuple[tuple[Decimal, float, str], ...]  # c, k and which
    below: tuple[tuple[Decimal, float], ...]


@dataclass(frozen=True)
class _Smooth:
    """offset + slope s + s^lead (constant + quotients), and what is charged for |s|, in units of rounding."""

    offset: float
    slope: float
    lead: int
    quotients: tuple[_Quotient, ...]
    charged: Callable[[np.ndarray], np.ndarray]
    constant: float = 0.0
    product: bool = False


def powers_of(what: np.ndarray | Product, most: float, dtype: str) -> Powers | None:
    """The polynomial of a head for |s| <= most, if there is one of few terms: of a pair of tokens (4, 2) without
    biases, of even tokens (4, p), or of a product."""
    if isinstance(what, Product):
        numbers = tuple(what.steps.ravel().tolist()), tuple(what.shares.ravel().tolist())
        return _of_product(*numbers, what.second, most, dtype)
    return _of_tokens(what.astype(np.float64).tobytes(), most, dtype)


@lru_cache(maxsize=256)
def _of_product(
    steps: tuple[float, ...], shares: tuple[float, ...], second: float, most: float, dtype: str
) -> Powers | None:
    """sum_k a_k tanh(s_k u), or of sigmoids (1 + tanh(s_k u/2))/2."""
    half = 0.5 if second == 0.0 else 1.0
    offset = float(sum(shares)) / 2 if second == 0.0 else 0.0
    if second == 0.0 and len(shares) > 1:
        return None  # the sum of shares is rounded
    size = sum(map(abs, shares))
    parts = tuple(
        _Quotient(half * share, ((Decimal(1), half * step, "over"),), ((Decimal(1), half * step),))
        for step, share in zip(steps, shares, strict=True)
    )
    return _fitted(_Smooth(offset, 0.0, 1, parts, lambda s: 20 * size + 0 * s, product=True), most, dtype)


@lru_cache(maxsize=256)
def _of_tokens(content: bytes, most: float, dtype: str) -> Powers | None:
    table = np.frombuffer(content, dtype=np.float64).reshape(4, -1)
    smooth = _of_pair(table) if table.shape[1] == 2 else _of_even(table)
    return None if smooth is None else _fitted(smooth, most, dtype)


def _of_pair(table: np.ndarray) -> _Smooth | None:
    (k0, k1), _, (v0, v1), (u0, u1) = table.tolist()
    halves = k1 - k0, u1 - u0, v1 - v0, u0 + u1, v0 + v1
    exact = [Fraction(b) - Fraction(a) for a, b in ((k0, k1), (u0, u1), (v0, v1), (-u0, u1), (-v0, v1))]
    if (v0 != v1 and u0 != u1) or any(a != b for a, b in zip(halves, exact, strict=True)):
        return None
    k, by_offset, by_slope, offset, slope = (one / 2 for one in halves)
    lead, factor = (1, by_offset) if v0 == v1 else (2, by_slope)
    quotient = _Quotient(factor, ((Decimal(1), k, "over"),), ((Decimal(1), k),))
    if lead == 1:
        return _Smooth(offset, 0.0, 1, (quotient,), _charged(table), constant=slope)
    return _Smooth(offset, slope, 2, (quotient,), _charged(table))


def _of_even(table: np.ndarray) -> _Smooth:
    k, b, v, u = table
    with localcontext(Context(prec=DIGITS)):
        weights = [(Decimal(float(one)) - Decimal(float(b.max()))).exp() for one in b]
        below = tuple(zip(weights, k.tolist(), strict=True))
        slopes = [w * (Decimal(float(x)) - Decimal("0.5")) for w, x in zip(weights, v, strict=True)]
        offsets = [w * Decimal(float(x)) for w, x in zip(weights, u, strict=True)]
    if not u.any():
        above = tuple((c, one, "over") for c, one in zip(slopes, k.tolist(), strict=True))
        return _Smooth(0.0, 0.5, 2, (_Quotient(1.0, above, below),), _charged(table))
    above = tuple((c, one, "times") for c, one in zip(slopes, k.tolist(), strict=True))
    above += tuple((c, one, "cosh") for c, one in zip(offsets, k.tolist(), strict=True))
    return _Smooth(0.0, 0.5, 0, (_Quotient(1.0, above, below),), _charged(table))


def _charged(table: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """For |s| growing: what is charged there at least, the larger of both sides and of all before."""
    k, b, v, u = table

    def on_one_side(s: np.ndarray) -> np.ndarray:
        scores = s[:, None] * k + b
        w = np.exp(scores - scores.max(axis=1, keepdims=True))
        w /= w.sum(axis=1, keepdims=True)
        values = s[:, None] * v + u
        off = np.abs(values - (w * values).sum(axis=1, keepdims=True))
        off[np.arange(len(s)), scores.argmax(axis=1)] = 0.0
        return (16 * w * off + 6 * w * (np.abs(s[:, None] * v) + np.abs(u))).sum(axis=1)

    return lambda s: np.maximum.accumulate(np.maximum(on_one_side(s), on_one_side(-s)))


def _fitted(smooth: _Smooth, most: float, dtype: str) -> Powers | None:
    """The fewest terms for which the error is charged."""
    kind, unit = np.dtype(dtype).type, PRECISIONS[dtype].unit
    ends = smooth.offset, smooth.slope
    exact = all(float(kind(x)) == x and abs(np.frexp(x)[0]) in (0.0, 0.5) for x in ends[1:])
    steepest = max(abs(k) for one in smooth.quotients for _, k in one.below) * most
    if not exact or float(kind(smooth.offset)) != smooth.offset or not 0 < steepest <= STEEPEST:
        return None
    middle = float(kind(most * most / 2))
    square = 2 * middle
    if not 2.0**-60 < square < 2.0**60:
        return None
    with localcontext(Context(prec=DIGITS)):
        found = [_interpolated(one, square) for one in smooth.quotients]
        chebyshev = [sum(column, Decimal(0)) for column in zip(*(row for row, _ in found), strict=True)]
        chebyshev[0] += Decimal(smooth.constant)
        wrong = float(sum((abs(off) for _, off in found), Decimal(0))) * 1.01
        sizes = [float(abs(one)) * 1.01 for one in chebyshev]
        s = np.sqrt(square) * _GRID[::-1]
        allowed = _NEARLY * smooth.charged(s) * unit
        for count in range(1, MOST_TERMS[dtype] + 1):
            cut = wrong + sum(sizes[count:])
            if _cut_off(smooth, cut, s, allowed):
                numbers = [float(c) for c in about_middle(chebyshev[:count], Decimal(square))]
                if _rounds_within(smooth, numbers, cut, square, s, allowed, unit):
                    stored = tuple(float(kind(one)) for one in numbers)
                    if all(2.0**-100 < abs(one) < _LARGEST[dtype] or one == 0 for one in stored):
                        return Powers(*ends, smooth.lead, stored, middle, float(kind(middle / _ABOVE)), smooth.product)
    return None


def _cut_off(smooth: _Smooth, cut: float, s: np.ndarray, allowed: np.ndarray) -> bool:
    return bool((cut * s[1:] ** smooth.lead <= allowed[:-1]).all())


def _rounds_within(
    smooth: _Smooth,
    numbers: Sequence[float],
    cut: float,
    square: float,
    s: np.ndarray,
    allowed: np.ndarray,
    unit: float,
) -> bool:
    """Whether all that an answer is off is charged, in every cell of sizes of s."""
    cells = _Cells.of(s, square)
    first, rest = abs(numbers[0]), np.array(numbers[1:])
    L, lead = s[1:] ** smooth.lead, smooth.lead
    size, error = cells.tree(rest) if len(rest) else (0 * L, 0 * L)
    above, term = abs(smooth.offset) + abs(smooth.slope) * s[1:] + first * L, L * cells.reach * size
    sums = max(1, (smooth.offset != 0) + (smooth.slope != 0))  # before the last one
    total = first * L * (1 + lead) + sums * above + L * cells.reach * error + (1 + lead) * term + (above + term)
    slope = np.arange(1, len(numbers)) * np.array(numbers[1:])
    total += L * cells.largest(slope) * (s[1:] ** 2 + cells.reach) if len(rest) else 0.0
    total += (above + term) * smooth.product
    return bool((total * unit * (1 + 200 * unit) + cut * L <= allowed[:-1]).all())


@dataclass(frozen=True)
class _Cells:
    """Cells of y: their middles, half of their lengths, the largest |y| in each, and in all."""

    middle: np.ndarray
    radius: np.ndarray
    reach: np.ndarray
    most: float

    @classmethod
    def of(cls, s: np.ndarray, square: float) -> _Cells:
        low, high = s[:-1] ** 2 - square / 2, s[1:] ** 2 - square / 2
        ends = np.maximum(np.abs(low), np.abs(high)) * _ABOVE
        return cls((low + high) / 2, (high - low) / 2 * _ABOVE + square * 2.0**-40, ends, float(ends.max()))

    def largest(self, numbers: np.ndarray) -> np.ndarray:
        """|sum_m numbers_m y^m| at most."""
        steep = sum(m * abs(c) * self.most ** (m - 1) for m, c in enumerate(numbers) if m)
        return np.abs(np.polynomial.polynomial.polyval(self.middle, numbers)) * _ABOVE + self.radius * steep

    def tree(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same, and how far off it is, in units of rounding."""
        nodes = [(numbers[m : m + 1], abs(c) + 0 * self.reach) for m, c in enumerate(numbers)]
        power = 1
        while len(nodes) > 1:
            pairs, nodes = [nodes[i : i + 2] for i in range(0, len(nodes), 2)], []
            for low, *high in pairs:
                if not high:
                    nodes.append(low)
                    continue
                (row, off), grown = high[0], self.reach**power
                product = grown * (off + power * self.largest(row))  # power - 1 products, and this one
                joined = np.concatenate([low[0], row])
                nodes.append((joined, low[1] + product + self.largest(joined)))
            power *= 2
        return self.largest(nodes[0][0]), nodes[0][1]


def _interpolated(one: _Quotient, most: float) -> tuple[list[Decimal], Decimal]:
    """Of the quotient on [0, most], and how far off."""
    M = Decimal(most)
    above, below = _series(one.above, M), _series([(c, k, "cosh") for c, k in one.below], M)
    p, off = interpolated(above, below, below[0], NODES)
    factor = Decimal(one.factor)
    return [factor * c for c in p], abs(factor) * off


def _series(terms: Sequence[tuple[Decimal, float, str]], M: Decimal) -> list[Decimal]:
    """Coefficients of x^i, z = M x, as many as are not below `LOST` in all."""
    steepest = max(Decimal(abs(k)) for _, k, _ in terms)
    size, n, most = Decimal(1) + sum(abs(c) for c, _, _ in terms) * (1 + steepest) * (1 + M), 0, steepest * steepest * M
    while size > LOST / 4 or (2 * n + 1) * (2 * n + 2) < 2 * most:
        n += 1
        size *= most / ((2 * n - 1) * (2 * n))
    found = [Decimal(0)] * (n + 2)
    for c, k, which in terms:
        square, power = Decimal(k) * Decimal(k) * M, c if which == "cosh" else c * Decimal(k)
        first = 1 if which == "times" else 0
        if which == "times":
            power *= M
        for i in range(n + 1):
            found[i + first] += power
            a = 2 * i + (1 if which == "cosh" else 2)
            power = power * square / (a * (a + 1))
    return found
