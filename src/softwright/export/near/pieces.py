"""Approximations in one variable as polynomials of pieces of their box, in C.

What heads of one variable x add up to is a smooth function of it, and where no head is a step, few terms are as near to
it as the network's own run is claimed to be. The rounding part of a claim bounds how far a run may be from the network
in real arithmetic; here half of it bounds how far these polynomials are, as they run. Points outside of the box, nan
and infinity take the way of all others.

*Pieces.* The box is 2 K + 1 pieces of one length 1/A around C: k = (x - C) A + S, S the number that leaves whole numbers
in the last digits of a sum, plus K, has the number of a piece there, 0 to 2 K. The middle m of a piece and its
coefficients are a row of a table; f = x - m, and y = C_0 + f (C_1 + ..) as a tree (`c_trees.py`). (x - C) A is rounded
twice and the sum once more: |f| <= h = (1/2 + 2^-10)/A, of which 2^-11 is more than roundings of A, S and m come to.

*Nearness.* With t = (x - center) scale and x = m - h + 2 h X a head is N/Z, sums of e^{b_j + k_j t} times v_j + G_j t and
1, which are power series in X (`near/series.py`); Z is at least the sum of what its terms are at least. What stored
coefficients are off is counted too.

*Rounding*, u the unit, V the sum of |C_m| h^{m-1} for m > 0: the last sum |C_0| + h V; the product h V, and of a term of
V as many sums and products as its place has and m more for powers of f; f itself one more, h sum_m m |C_m| h^{m-1}.
Where a network ends in a coarser type than it computes in, so does this, and that rounding is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext

import numpy as np

from softwright.export.c_trees import folded, met, powers
from softwright.export.near.lines import Run, Tokens
from softwright.export.near.series import LOST, about_middle, interpolated

MOST_TERMS, MOST_STORED = 14, 4096
COUNTS = (0, 4, 8, 16, 32, 64, 128)  # K
MOST_OUTPUTS = 4
SHARE = 0.5  # of the rounding part of the claim
DIGITS = 70
_SLACK = 2.0**-10
_STEEPEST = 40.0  # of k over a piece
_SAMPLED = 18  # points of a piece


@dataclass(frozen=True)
class Pieces:
    """Middles (P,), coefficients (P, terms, outputs), and the numbers C, r, A, S; |x - C| <= r is the box."""

    middles: np.ndarray
    rows: np.ndarray
    center: float
    reach: float
    rate: float
    shift: float
    run: Run

    @property
    def inside(self) -> str:
        return f"fabs{self.run.suffix}({self._offset()}) <= {self.run.number(self.reach)}"

    def _x(self) -> str:
        return "x[0]" if self.run.real == self.run.ends else f"({self.run.real})x[0]"

    def _offset(self) -> str:
        return self._x() if self.center == 0 else f"{self._x()} - {self.run.number(self.center)}"

    def lines(self) -> list[str]:
        """The tables and `softwright_near`."""
        (count, terms, outputs), real = self.rows.shape, self.run.real
        width = 1 if outputs == 1 else 2 if outputs == 2 else 4
        rows = np.pad(self.rows, ((0, 0), (0, 0), (0, width - outputs))).reshape(count, -1)
        if width == 1:
            rows = np.concatenate([self.middles[:, None], rows], axis=1)
        kind, stored = "softwright_few" if width > 1 else real, rows.shape[1]
        found = [self._table("near_rows", rows)]
        if width > 1:
            size = f"vector_size({width} * sizeof({real})), aligned(sizeof({real})), may_alias"
            found = [f"typedef {real} softwright_few __attribute__(({size}));", *found]
            found.append(self._table("near_middles", self.middles))
        found += [f"SOFTWRIGHT_INLINE void softwright_near(const {self.run.ends} *x, {self.run.ends} *y)", "{"]
        place = ""
        if count > 1:
            word, low = ("uint64_t", "(uint32_t)bits") if real == "double" else ("uint32_t", "(bits & 0x3fffffu)")
            found += [
                f"  const {real} k = ({self._offset()}) * {self.run.number(self.rate)} + {self.run.number(self.shift)};",
                f"  {word} bits;",
                "  memcpy(&bits, &k, sizeof bits);",
                f"  const unsigned piece = {low};",
            ]
            place = f" + {stored} * piece"
        middle = f"near_middles[{'piece' if count > 1 else 0}]" if width > 1 else "row[0]"
        words = [f"row[{1 + i}]" if width == 1 else f"*(const {kind} *)(row + {width * i})" for i in range(terms)]
        found.append(f"  const {real} *const row = near_rows{place};")
        found.append(f"  const {real} f = {self._x()} - {middle};")
        variable = "f" if width == 1 else "g"
        if width > 1:
            found.append(f"  const {kind} g = f - ({kind}){{0}};")
        found += [f"  {line}" for line in powers(terms - 1, variable, kind)]
        value = words[0] + (f" + {variable} * {folded(words[1:], variable)}" if terms > 1 else "")
        cast = self.run.cast
        if width == 1:
            return [*found, f"  y[0] = {cast}{f'({value})' if cast else value};", "}"]
        return [*found, f"  const {kind} all = {value};", *(f"  y[{o}] = {cast}all[{o}];" for o in range(outputs)), "}"]

    def _table(self, name: str, array: np.ndarray) -> str:
        words = [self.run.number(one) for one in array.ravel().tolist()]
        rows = [", ".join(words[i : i + 4]) for i in range(0, len(words), 4)]
        return "\n".join(
            [f"SOFTWRIGHT_TABLE {self.run.real} {name}[{len(words)}] = {{", "  " + ",\n  ".join(rows) + "};"]
        )


def pieces_of(heads: Sequence[Tokens], ends: tuple[float, float], rounding: float, run: Run) -> Pieces | None:
    """The polynomials of heads on a box, if few terms are near enough; `rounding` is that of the claim."""
    kind = np.float64 if run.real == "double" else np.float32
    unit = float(np.finfo(kind).eps) / 2
    m = heads[0].values.shape[1]
    if rounding <= 0 or m > MOST_OUTPUTS:
        return None
    C = float(kind((ends[0] + ends[1]) / 2))
    r = max(float(abs(kind(end) - kind(C))) for end in ends)
    choices = sorted(_choices(heads, C, r, rounding, run))
    for _, K in choices[:2]:
        made = _made(heads, K, C, r, rounding, unit, run)
        if made is not None:
            return made
    return None


def _grid(K: int, C: float, r: float, kind: type) -> tuple[float, np.ndarray, float]:
    """A, the middles and h."""
    A = float(kind((K + 0.5 - 4 * _SLACK) / r)) if K else float(kind(0.5 / r))
    middles = (C + np.arange(-K, K + 1) / A).astype(kind).astype(np.float64)
    return A, middles, (0.5 + _SLACK) / A


def _choices(heads: Sequence[Tokens], C: float, r: float, rounding: float, run: Run) -> list[tuple[float, int]]:
    """What K costs, estimated: terms, and a row to look for in a longer or shorter table."""
    kind = np.float64 if run.real == "double" else np.float32
    angles = np.arccos(np.longdouble(-1)) * (np.arange(_SAMPLED) + 0.5) / _SAMPLED
    points, basis = np.cos(angles), np.cos(np.arange(_SAMPLED)[:, None] * angles) * 2 / _SAMPLED
    found, m = [], heads[0].values.shape[1]
    for K in COUNTS:
        _, middles, h = _grid(K, C, r, kind)
        if max(float(np.abs(head.keys).max()) for head in heads) * float(run.scale[0]) * 2 * h > _STEEPEST:
            continue
        y = _evaluated(heads, middles[:, None] + h * points, run)  # (P, points, m)
        sizes = np.abs(np.einsum("np,kpm->knm", basis, y)).max(axis=(0, 2))
        noise = 2.0**-58 * float(np.abs(y).max(initial=0.0))
        sizes = np.where(sizes <= noise, 0.0, sizes)
        rest = np.cumsum(sizes[::-1])[::-1]
        terms = int(np.argmax(rest <= SHARE * rounding / 2)) if (rest <= SHARE * rounding / 2).any() else _SAMPLED
        if terms > MOST_TERMS or len(middles) * terms * m > MOST_STORED:
            continue
        found.append((float(terms + (6 if K else 0) + max(0.0, np.log2(max(K, 1)) - 4)), K))
    return found


def _evaluated(heads: Sequence[Tokens], x: np.ndarray, run: Run) -> np.ndarray:
    t = ((x - run.center[0]) * run.scale[0])[..., None]
    total = 0.0
    for head in heads:
        scores = t * head.keys[:, 0] + head.biases
        w = np.exp(scores - scores.max(axis=-1, keepdims=True))
        w /= w.sum(axis=-1, keepdims=True)
        total = total + w @ head.values + (w @ head.slopes[:, :, 0]) * t
    return np.asarray(total)


def _made(heads: Sequence[Tokens], K: int, C: float, r: float, rounding: float, unit: float, run: Run) -> Pieces | None:
    """All pieces with the fewest terms that are near enough everywhere."""
    kind = np.float64 if run.real == "double" else np.float32
    A, middles, h = _grid(K, C, r, kind)
    if 8 * unit * (abs(C) + r) > _SLACK / 2 / A or 8 * unit * (K + 1) > _SLACK / 2:
        return None
    with localcontext(Context(prec=DIGITS)):
        each = [_series_of(heads, Decimal(float(middle)), Decimal(h), run) for middle in middles]
        for terms in range(1, MOST_TERMS + 1):
            pieces = [[_stored(chebyshev, off, terms, h, kind, unit) for chebyshev, off in row] for row in each]
            off = max(one[1] for row in pieces for one in row)
            size = max(one[2] for row in pieces for one in row)
            last = 0.0 if run.real == run.ends else 2.0**-24 * (size + off)
            if off * (1 + 2.0**-30) <= SHARE * (rounding - last):
                rows = np.stack([np.stack([one[0] for one in row], axis=-1) for row in pieces])
                if not np.isfinite(rows).all():
                    return None
                shift = (1.5 * 2.0**52 if run.real == "double" else 1.5 * 2.0**23) + K
                return Pieces(middles, rows, C, r, A, shift, run)
    return None


def _series_of(heads: Sequence[Tokens], middle: Decimal, h: Decimal, run: Run) -> list[tuple[list[Decimal], Decimal]]:
    """Of every output on a piece: Chebyshev coefficients, and how far off they are."""
    scale = Decimal(float(run.scale[0]))
    start, T = (middle - h - Decimal(float(run.center[0]))) * scale, 2 * h * scale
    m = heads[0].values.shape[1]
    found = [([Decimal(0)] * _SAMPLED, Decimal(0)) for _ in range(m)]
    for head in heads:
        keys, biases = ([Decimal(float(x)) for x in row] for row in (head.keys[:, 0], head.biases))
        scores = [b + k * start for k, b in zip(keys, biases, strict=True)]
        top = max(scores)
        first = [(s - top).exp() for s in scores]
        least = sum((e * min(Decimal(1), (k * T).exp()) for e, k in zip(first, keys, strict=True)), Decimal(0))
        grown = [_exponential(e, k * T) for e, k in zip(first, keys, strict=True)]
        length = max(map(len, grown)) + 1
        grown = [one + [Decimal(0)] * (length - len(one)) for one in grown]
        below = [sum(column, Decimal(0)) for column in zip(*grown, strict=True)]
        for o in range(m):
            values = [
                Decimal(float(v)) + Decimal(float(g)) * start
                for v, g in zip(head.values[:, o], head.slopes[:, o, 0], strict=True)
            ]
            slopes = [Decimal(float(g)) * T for g in head.slopes[:, o, 0]]
            above = [
                sum(
                    (
                        v * one[n] + (g * one[n - 1] if n else 0)
                        for v, g, one in zip(values, slopes, grown, strict=True)
                    ),
                    Decimal(0),
                )
                for n in range(length)
            ]
            chebyshev, off = interpolated(above, below, least, _SAMPLED)
            size = sum((abs(v) + abs(g) for v, g in zip(values, slopes, strict=True)), Decimal(1))
            total, wrong = found[o]
            found[o] = [a + b for a, b in zip(total, chebyshev, strict=True)], wrong + off + LOST * size / least
    return found


def _exponential(first: Decimal, rate: Decimal) -> list[Decimal]:
    """The series of first e^{rate X}, until what is left is lost; one more place is kept free for a slope."""
    found, size, n = [first], abs(first) * (1 + abs(rate)), 0
    while size > LOST / 64 or n < 2 * abs(rate):
        n += 1
        found.append(found[-1] * rate / n)
        size *= abs(rate) / n
    return found


def _stored(
    chebyshev: Sequence[Decimal], off: Decimal, terms: int, h: float, kind: type, unit: float
) -> tuple[np.ndarray, float, float]:
    """Coefficients as stored, how far off all is, and how large."""
    exact = about_middle(chebyshev[:terms], 2 * Decimal(h))
    stored = np.array([float(kind(float(c))) for c in exact])
    missed = sum(
        (abs(c - Decimal(float(s))) * Decimal(h) ** i for i, (c, s) in enumerate(zip(exact, stored, strict=True))),
        Decimal(0),
    )
    cut = sum(map(abs, chebyshev[terms:]), off + missed)
    sizes = np.abs(stored) * h ** np.arange(terms)
    rest = sizes[1:]
    lost = sizes.sum() + rest.sum() + (np.arange(1, terms) * rest).sum()
    lost += sum((meets + i) * size for i, (meets, size) in enumerate(zip(met(max(1, terms - 1)), rest, strict=False)))
    return stored, float(cut) * (1 + 2.0**-40) + lost * unit * (1 + 2.0**-10), float(sizes.sum())
