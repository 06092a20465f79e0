"""Approximations in one variable as polynomials of pieces of their box, in C.

What heads of one variable x add up to is a smooth function of it, and where no head is a step, few terms are as near to
it as the network's own run is claimed to be. The rounding part of a claim bounds how far a run may be from the network
in real arithmetic; here half of it bounds how far these polynomials are, as they run, or half of what a rounding to a
coarser type at the end leaves of it. Points outside of the box, nan and infinity take the way of all others.

*Pieces.* The box is 2 K + 1 pieces of one length 1/A around C: k = (x - C) A + S, S the number that leaves whole
numbers in the last digits of a sum, plus K, has the number of a piece there, 0 to 2 K. The middle m of a piece and its
coefficients are a row of a table; f = x - m, and y = C_0 + f (C_1 + ..) as a tree (`c_trees.py`). (x - C) A is rounded
twice and the sum once more: |f| <= h = (1/2 + 2^-10)/A, of which 2^-11 is more than roundings of A, S and m come to.

*Nearness.* With t = (x - center) scale and x = m - h + 2 h X a head is N/Z, sums of e^{b_j + k_j t} times v_j + G_j t
and 1, which are power series in X (`near/series.py`); Z is at least the sum of what its terms are at least. What stored
coefficients are off is counted too.

Tokens that weigh nothing all over a piece are left out there: with r the token that leads in its middle, and g the head
of the others, one of weight at most e^{s_j - s_r}, the larger of both ends, changes it by that times |v_j + G_j t - g|.
Steps of kinks and jumps lie in few pieces. Such a piece has no polynomial: its numbers are nan, and what is nan has no
answer here.

*Rounding*, u the unit, V the sum of |C_m| h^{m-1} for m > 0: the last sum |C_0| + h V; the product h V, and of a term
of V as many sums and products as its place has and m more for powers of f; f itself one more, h sum_m m |C_m| h^{m-1}.
Where a network ends in a coarser type than it computes in, so does this, and that rounding is counted. Products below
the smallest normal number lose half of the smallest number e each, times what follows, powers of H = max(1, h) and
coefficients: 2 e for each term with H^terms (1 + sum |C_m| H^m) is more than all of it.
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
_HOLES = 0.05  # of all pieces, without a polynomial
_SLOW = 150.0  # what a point without one costs, in terms
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
        """The tables and `softwright_near`, which says whether it had an answer."""
        (count, terms, outputs), real = self.rows.shape, self.run.real
        width = 1 if outputs == 1 else 2 if outputs == 2 else 4
        rows = np.pad(self.rows, ((0, 0), (0, 0), (0, width - outputs))).reshape(count, -1)
        if width == 1:
            rows = np.concatenate([self.middles[:, None], rows], axis=1)
        number = self.run.number
        kind, stored = "softwright_few" if width > 1 else real, rows.shape[1]
        found = [self._table("near_rows", rows)]
        if width > 1:
            size = f"vector_size({width} * sizeof({real})), aligned(sizeof({real})), may_alias"
            found = [f"typedef {real} softwright_few __attribute__(({size}));", *found]
            found.append(self._table("near_middles", self.middles))
        found += [f"SOFTWRIGHT_INLINE int softwright_near(const {self.run.ends} *x, {self.run.ends} *y)", "{"]
        place = ""
        if count > 1:
            word, low = ("uint64_t", "(uint32_t)bits") if real == "double" else ("uint32_t", "(bits & 0x3fffffu)")
            found += [
                f"  const {real} k = ({self._offset()}) * {number(self.rate)} + {number(self.shift)};",
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
        cast, holes = self.run.cast, bool(np.isnan(self.rows).any())
        found.append(f"  const {kind} all = {value};")
        parts = ["all"] if width == 1 else [f"all[{o}]" for o in range(outputs)]
        found += [f"  if (!({parts[0]} == {parts[0]})) return 0;"] * holes
        return [*found, *(f"  y[{o}] = {cast}{part};" for o, part in enumerate(parts)), "  return 1;", "}"]

    def asked(self) -> list[str]:
        """The lines of a self-test that ask both ways about the middle of every piece."""
        count, _, outputs = self.rows.shape
        place = f"(i - {count // 2}) / {self.run.number(self.rate)}"
        middle = place if self.center == 0 else f"({self.run.number(self.center)} + {place})"
        return [
            "#if SOFTWRIGHT_LANES > 1",
            f"  for (int i = 0; i < {count}; i++) {{",
            f"    const {self.run.ends} x[1] = {{{self.run.cast}({middle})}};",
            f"    {self.run.ends} y[{outputs}], z[{outputs}];",
            "    SOFTWRIGHT_NAME(x, y);",
            "    softwright_any(x, z);",
            f"    for (int o = 0; o < {outputs}; o++) {{ double d = fabs((double)y[o] - (double)z[o]);",
            "      if (!(d <= off)) off = d; }",
            "  }",
            "#endif",
        ]

    def _table(self, name: str, array: np.ndarray) -> str:
        words = ["NAN" if np.isnan(one) else self.run.number(one) for one in array.ravel().tolist()]
        rows = [", ".join(words[i : i + 4]) for i in range(0, len(words), 4)]
        return "\n".join(
            [f"SOFTWRIGHT_TABLE {self.run.real} {name}[{len(words)}] = {{", "  " + ",\n  ".join(rows) + "};"]
        )


def pieces_of(heads: Sequence[Tokens], ends: tuple[float, float], rounding: float, run: Run) -> Pieces | None:
    """The polynomials of heads on a box, if few terms are near enough; `rounding` is that of the claim."""
    kind, m = run.kind, heads[0].values.shape[1]
    if not 0 < rounding < np.inf or m > MOST_OUTPUTS:
        return None
    C = float(kind(ends[0] / 2 + ends[1] / 2))
    r = max(float(abs(kind(end) - kind(C))) for end in ends)
    if not float(np.finfo(kind).tiny) / _SLACK < r < float(np.finfo(kind).max) * _SLACK:
        return None
    for _, K, terms in sorted(_choices(heads, C, r, rounding, run))[:3]:
        made = _made(heads, K, terms, C, r, rounding, run)
        if made is not None:
            return made
    return None


def _grid(K: int, C: float, r: float, run: Run) -> tuple[float, np.ndarray, float]:
    """A, the middles and h."""
    kind = run.kind
    A = float(kind((K + 0.5 - 4 * _SLACK) / r)) if K else float(kind(0.5 / r))
    middles = (C + np.arange(-K, K + 1) / A).astype(kind).astype(np.float64)
    return A, middles, (0.5 + _SLACK) / A


def _choices(heads: Sequence[Tokens], C: float, r: float, rounding: float, run: Run) -> list[tuple[float, int, int]]:
    """K and a number of terms with what they cost, estimated: terms, a row to look for in a longer or shorter table,
    and pieces that they do not suffice for."""
    angles = np.arccos(np.longdouble(-1)) * (np.arange(_SAMPLED) + 0.5) / _SAMPLED
    points, basis = np.cos(angles), np.cos(np.arange(_SAMPLED)[:, None] * angles) * 2 / _SAMPLED
    found, m = [], heads[0].values.shape[1]
    for K in COUNTS:
        _, middles, h = _grid(K, C, r, run)
        y = _evaluated(heads, middles[:, None] + h * points, run)  # (P, points, m)
        sizes = np.abs(np.einsum("np,kpm->knm", basis, y)).max(axis=2)
        sizes[sizes <= 2.0**-58 * float(np.abs(y).max(initial=0.0))] = 0.0
        rest = np.cumsum(sizes[:, ::-1], axis=1)[:, ::-1] > SHARE * rounding / 2  # (P, terms)
        for terms in range(1, MOST_TERMS + 1):
            holes = float(rest[:, terms].mean())
            if holes <= _HOLES and len(middles) * terms * m <= MOST_STORED:
                table = 6 + max(0.0, float(np.log2(max(K, 1))) - 4) if K else 0
                found.append((terms + table + _SLOW * holes + (2 if holes else 0), K, terms))
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


def _made(heads: Sequence[Tokens], K: int, terms: int, C: float, r: float, rounding: float, run: Run) -> Pieces | None:
    """All pieces, if so many terms are near enough in nearly all."""
    kind = run.kind
    unit, (A, middles, h) = float(np.finfo(kind).eps) / 2, _grid(K, C, r, run)
    if 8 * unit * (abs(C) + r) > _SLACK / 2 / A or 8 * unit * (K + 1) > _SLACK / 2:
        return None
    rows, m = [], heads[0].values.shape[1]
    with localcontext(Context(prec=DIGITS)):
        for middle in middles:
            row = np.full((terms, m), np.nan)
            found = _series_of(heads, Decimal(float(middle)), Decimal(h), rounding, run)
            stored = [_stored(chebyshev, off, terms, h, kind, unit) for chebyshev, off in found]
            off, size = (max((one[i] for one in stored), default=np.inf) for i in (1, 2))
            last = 0.0 if run.real == run.ends else 2.0**-24 * (size + off) + 2.0**-150
            if off * (1 + 2.0**-30) <= SHARE * (rounding - last):
                row = np.stack([one[0] for one in stored], axis=-1)
            rows.append(row if np.isfinite(row).all() else np.full_like(row, np.nan))
    if np.isnan(rows).any(axis=(1, 2)).mean() > _HOLES:
        return None
    shift = (1.5 * 2.0**52 if run.real == "double" else 1.5 * 2.0**23) + K
    return Pieces(middles, np.array(rows), C, r, A, shift, run)


def _series_of(
    heads: Sequence[Tokens], middle: Decimal, h: Decimal, rounding: float, run: Run
) -> list[tuple[list[Decimal], Decimal]]:
    """Of every output on a piece: Chebyshev coefficients, and how far off they are; nothing where a head is a step."""
    scale = Decimal(float(run.scale[0]))
    start, T = (middle - h - Decimal(float(run.center[0]))) * scale, 2 * h * scale
    m, lost = heads[0].values.shape[1], Decimal(rounding) / 2**12
    found = [([Decimal(0)] * _SAMPLED, Decimal(0)) for _ in range(m)]
    for head in heads:
        keys, biases = ([Decimal(float(x)) for x in row] for row in (head.keys[:, 0], head.biases))
        scores = [b + k * start for k, b in zip(keys, biases, strict=True)]
        leader = max(range(len(keys)), key=lambda j: scores[j] + keys[j] * T / 2)
        keys = [k - keys[leader] for k in keys]
        scores = [s - scores[leader] for s in scores]
        tops = [max(s, s + k * T).exp() for s, k in zip(scores, keys, strict=True)]  # of weights
        values, slopes = (
            [[Decimal(float(x)) for x in row] for row in one.T] for one in (head.values, head.slopes[:, :, 0])
        )
        values = [[v + g * start for v, g in zip(*row, strict=True)] for row in zip(values, slopes, strict=True)]
        slopes = [[g * T for g in row] for row in slopes]
        sizes = [[abs(v) + abs(g) for v, g in zip(*row, strict=True)] for row in zip(values, slopes, strict=True)]
        largest = max(map(max, sizes))
        kept = [j for j, top in enumerate(tops) if top * largest * 2 * len(tops) > lost]
        out = sum((tops[j] for j in range(len(tops)) if j not in kept), Decimal(0)) * 2 * largest
        if not kept:  # it is at most that
            found = [(total, wrong + out) for total, wrong in found]
            continue
        if max(abs(keys[j]) for j in kept) * abs(T) > _STEEPEST:
            return []
        first = {j: scores[j].exp() for j in kept}
        least = sum((first[j] * min(Decimal(1), (keys[j] * T).exp()) for j in kept), Decimal(0))
        grown = {j: _exponential(first[j], keys[j] * T) for j in kept}
        length = max(map(len, grown.values())) + 1
        grown = {j: one + [Decimal(0)] * (length - len(one)) for j, one in grown.items()}
        below = [sum((one[n] for one in grown.values()), Decimal(0)) for n in range(length)]
        for o in range(m):
            terms = [(values[o][j], slopes[o][j], [*grown[j], Decimal(0)]) for j in kept]
            above = [sum((v * e[n] + g * e[n - 1] for v, g, e in terms), Decimal(0)) for n in range(length)]
            chebyshev, off = interpolated(above, below, least, _SAMPLED)
            total, wrong = found[o]
            off += out + LOST * (1 + sum(sizes[o])) / least
            found[o] = [a + b for a, b in zip(total, chebyshev, strict=True)], wrong + off
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
    wide = max(1.0, h) ** np.arange(terms + 1)
    tiny = 2 * terms * float(np.finfo(kind).smallest_subnormal) * wide[-1] * (1 + (np.abs(stored) * wide[:-1]).sum())
    return stored, float(cut) * (1 + 2.0**-40) + lost * unit * (1 + 2.0**-10) + tiny, float(sizes.sum())
