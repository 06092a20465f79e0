"""A grid head on a box in balls: softmax weights axis by axis, and their products summed one axis at a time.

The tokens of a grid are all choices of one place j_i on each of d lines, keys have the coordinates k_i[j_i], and
biases are sums of one number from each line up to at most `off` (read off the stored numbers, exactly). So weights are
products, and with w_ij the softmax of line i the head is g = sum_J v_J w_1j1 .. w_djd.

One line. On t = c + r s it is w_j = N_j/D with N_j = W_j e^{q_j s}, D = sum N_j, q_j = (k_j - kbar) r. The series P_j
= N_j/D is cut at degree q; then with tails as in `head.py`, e_D the sum of W_j tail(|q_j|), D >= D_min by Jensen,

    |w_j - P_j| <= (W_j tail(|q_j|) + e_D |P_j| + sum_{k+l>q} |P_jk| |D_l|) / D_min = rho_j,    w_j <= omega_j.

All lines. A partial sum is, for every choice on the lines left, a polynomial T and an error E. One line more:

    T' = sum_j P_j T_j without degrees above p,    E' <= sum_j (omega_j E_j + rho_j |T_j|) + |what was left out|.

Weights are not negative, so errors add up with omega. Partial sums are kept: boxes with the same first sides share
them. A value with a slope is v + G t along one line only, which comes first: there v + G c and G r are its two
coefficients.

Biases that do not add up change each log weight by at most off_J, and w'_J - w_J = w_J (e^{eps_J}/sum w e^eps - 1), so
g moves by at most sum_J w_J |e^{eps_J} - 1| |v_J - g| e^{off} <= e^{2 off} sum_J w_J off_J |v_J - g|: an error from
the start.

Windows. On a small region few tokens of a large grid weigh anything. A token j of a line weighs at most e^{s_j - s_top}
against any token `top` of it, and s_j - s_top <= b_j - b_top + (k_j - k_top) c + |k_j - k_top| r on c +- r. Floats
propose a window of each line, balls add up D_i, a bound of what the other tokens of the line weigh. A token of the grid
is left out if it is on one of its lines: all of them weigh at most T = e^{2 off} sum_i D_i, and against the largest
weight, which rounding is about, sum_i D_i prod_{l != i} n_l, as no token weighs more than the largest of its line. So g
differs from the head of the windows, g', by at most T (max|v| + |g'|).

What rounding adds is bounded as for any head (`head.py`): the weights and distances of all tokens are those of the
lines, multiplied and added up.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from flint import arb, arb_mat, arb_series, ctx

from softwright.checker.head import LARGEST_EXPONENT, Head, View, above, ceiling, exact
from softwright.checker.limits import check_time
from softwright.checker.taylor import ONE, ZERO, Model, Space, dot, total

EXTRA = 3  # degrees of a line's series beyond those that are kept in the end
NEAR = 2  # degrees above those that are kept whose coefficients are summed before their modulus is taken
NEARLY = 0.01  # biases farther off than this are no sums
REMEMBERED = 400_000  # balls of partial sums that are kept
LINES = 4_000_000  # balls of lines' series that are kept
WIDER = 2.5  # times as many tokens as weigh something at a point: a line that is not cut further
Box = tuple[list[arb], list[arb]]


@dataclass
class Line:
    """The weights of one line on an interval: series as a matrix (degree, token), and bounds for each token."""

    series: arb_mat
    moduli: np.ndarray  # of the series, (degree, token)
    missed: np.ndarray  # rho
    largest: np.ndarray  # omega
    away: np.ndarray  # |k_j - kbar|
    gaps: np.ndarray  # by how much the score may stay below the largest


@dataclass
class Partial:
    """A sum over some lines, ready for the next one of n tokens: rows of T are polynomials in the variables done."""

    powers: list[tuple[int, ...]]  # of the rows
    wide: arb_mat  # (n, rows * left)
    moduli: np.ndarray  # (rows, n, left) of T
    error: np.ndarray  # (n, left)


class Sides:
    """The lines of a grid head, or a window of each: tokens `index`, `sizes` of each line, in the order of the
    variables. `off` is what the biases of these tokens are off, `most_off` what that of any token is."""

    def __init__(
        self, head: Head, keys: list[np.ndarray], bias: list[list[arb]], index: np.ndarray, off: np.ndarray
    ) -> None:
        self.head, self.keys, self.bias, self.index, self.off = head, keys, bias, index, off
        self.most_off = float(off.max())
        self.sizes = list(map(len, bias))
        self.order = sorted(range(len(bias)), key=lambda i: (i not in head.sloped, i))
        self.first = [0] * len(bias)  # place of the windows on their lines
        self.lines: dict[tuple, Line] = {}  # windows of one head share them
        self.sums: dict[tuple, Partial] = {}
        self.held = 0
        self.rows: dict[tuple[int, int], list[int]] = {}

    def within(self, windows: list[tuple[int, int, int]]) -> Sides:
        """The windows (first, after the last) of the lines."""
        parts = [slice(first, after) for first, after, _ in windows]
        chosen = np.ravel(np.arange(len(self.index)).reshape(self.sizes)[tuple(parts)])
        keys = [line[part] for line, part in zip(self.keys, parts, strict=True)]
        bias = [line[part] for line, part in zip(self.bias, parts, strict=True)]
        found = Sides(self.head, keys, bias, self.index[chosen], self.off[chosen])
        found.most_off, found.lines = self.most_off, self.lines
        found.first = [start + part.start for start, part in zip(self.first, parts, strict=True)]
        return found

    @functools.cached_property
    def place(self) -> np.ndarray:
        """On which place of each line a token is, (d, N)."""
        return np.indices(self.sizes).reshape(len(self.sizes), -1)

    @functools.cached_property
    def float_bias(self) -> list[np.ndarray]:
        return [np.array(list(map(float, line))) for line in self.bias]

    @functools.cached_property
    def values(self) -> np.ndarray:
        return self._arranged(self.head.values)

    @functools.cached_property
    def exact_values(self) -> arb_mat:
        return arb_mat(self.values.tolist())

    @functools.cached_property
    def exact_slopes(self) -> arb_mat | None:
        if not self.head.sloped:
            return None
        return arb_mat(self._arranged(self.head.slopes[:, :, 0]).tolist())

    def _arranged(self, columns: np.ndarray) -> np.ndarray:
        """Of numbers (all tokens, outputs) those of these tokens: rows are places on the first line, columns those on
        the others, then the outputs."""
        table = columns[self.index].reshape(*self.sizes, -1).transpose(*self.order, len(self.sizes))
        return table.reshape(self.sizes[self.order[0]], -1)

    def line(self, i: int, c: arb, r: arb, degree: int) -> Line:
        key = (i, self.first[i], self.sizes[i], degree, ctx.prec, *known(c), *known(r))
        if key not in self.lines:
            if len(self.lines) * self.sizes[i] * degree > LINES:
                self.lines.clear()
            self.lines[key] = line_on(self.keys[i], self.bias[i], c, r, degree)
        return self.lines[key]


def known(x: arb) -> tuple:
    """What tells balls apart."""
    return (*x.mid().man_exp(), *x.rad().man_exp())


def sides_of(head: Head, sizes: list[int] | None) -> Sides | None:
    """The lines of a head whose tokens are said to be a grid; None if they are not, or not nearly."""
    d = head.keys.shape[1]
    if sizes is None or d < 2 or len(head.sloped) > 1 or len(sizes) != d or math.prod(sizes) != head.tokens:
        return None
    known = head.sides.get(tuple(sizes))
    if known is not None:
        return known
    place = np.indices(sizes).reshape(d, -1)
    strides = [math.prod(sizes[i + 1 :]) for i in range(d)]
    for i in range(d):
        if not np.array_equal(head.keys[:, i], head.keys[place[i] * strides[i], i]):
            return None
    off, lines = np.zeros(head.tokens), head.edges
    if lines is None:  # stored biases: by how much are they no sums?
        corner = head.bias[0]
        lines = [[head.bias[j * strides[i]] - corner for j in range(sizes[i])] for i in range(d)]
        for J, b in enumerate(head.bias):
            rest = b - corner - total(lines[i][place[i, J]] for i in range(d))
            off[J] = 0.0 if rest.is_zero() else ceiling(rest)
    if not off.max() < NEARLY:
        return None
    keys = [head.keys[: sizes[i] * strides[i] : strides[i], i] for i in range(d)]
    head.sides[tuple(sizes)] = found = Sides(head, keys, lines, np.arange(head.tokens), off)
    return found


def line_on(keys: np.ndarray, bias: list[arb], c: arb, r: arb, degree: int) -> Line:
    """The series of the softmax weights of a line on c +- r."""
    n = len(bias)
    exact_keys = [exact(k) for k in keys]
    scores = [k * c + b for k, b in zip(exact_keys, bias, strict=True)]
    top = max(scores, key=float).mid()
    W = [(s - top).exp() for s in scores]
    whole = total(W)
    kbar = float(dot(W, exact_keys) / whole)
    step = [(k - exact(kbar)) * r for k in exact_keys]
    rows = []
    for w, q in zip(W, step, strict=True):
        row = [w / whole]
        for k in range(1, degree + 1):
            row.append(row[-1] * q / k)
        rows.append(row)
    N = arb_mat(rows)
    D = (arb_mat(1, n, [1] * n) * N).tolist()[0]
    inverse = ONE / arb_series(D, degree + 1)
    shift = arb_mat([[inverse[b - a] if b >= a else ZERO for b in range(degree + 1)] for a in range(degree + 1)])
    P = N * shift

    z = np.array([float(s - top) for s in scores])
    slack = np.abs(z) * 2.0**-50
    rho = np.array([ceiling(q) for q in step])
    exponent = np.nextafter(z + slack + rho, np.inf)
    raised = np.where(exponent < LARGEST_EXPONENT, np.exp(np.minimum(exponent, LARGEST_EXPONENT)), np.inf)
    small = np.minimum(rho, degree / 2)
    tails = np.exp(z + slack) * small ** (degree + 1) / math.factorial(degree + 1) * (degree + 2) / (degree + 2 - small)
    tails = above(np.where(rho < degree / 2, tails, raised)) / float(whole.lower()) * (1 + 2.0**-40)
    moduli = np.array([[ceiling(x) for x in row] for row in P.tolist()])  # (n, degree + 1)
    sizes = np.array([ceiling(x) for x in D])
    norm = above(moduli.sum(axis=1))
    beyond = np.concatenate([np.cumsum(sizes[::-1])[::-1], [0.0]])
    cut = sum((moduli[:, k] * beyond[degree - k + 1] for k in range(1, degree + 1)), np.zeros(n))
    least = float((D[0] * (-abs(D[1]) / D[0]).exp()).lower()) * (1 - 2.0**-50) if degree else float(D[0].lower())
    missed = above((tails + tails.sum() * norm + cut) / least) if least > 0 else np.full(n, np.inf)
    largest = np.minimum(1.0, np.where(np.isnan(missed), 1.0, above(norm + missed)))
    gaps = max(float(exponent.max()), 0.0) + rho - (z - slack)
    away = above(np.abs(keys - kbar) * (1 + 2.0**-50))
    return Line(P.transpose(), moduli.T, missed, largest, away, gaps)


def proposed(keys: np.ndarray, bias: np.ndarray, c: float, r: float, smallest: float) -> tuple[int, int, int]:
    """The first token that is kept, the one after the last, and the winner in the middle; nothing is proved by it."""
    top = int(np.argmax(keys * c + bias))
    away = keys - keys[top]
    kept = np.flatnonzero(away * c + np.abs(away) * r + bias - bias[top] >= math.log(smallest))
    return min(top, int(kept[0])) if len(kept) else top, max(top, int(kept[-1])) + 1 if len(kept) else top + 1, top


def left_out(keys: np.ndarray, bias: list[arb], c: arb, r: arb, window: tuple[int, int, int]) -> arb:
    """D_i: what the tokens outside of a window weigh together at most."""
    check_time()
    first, after, top = window
    highest, weight = arb(float(keys[top])), arb(0)
    for j in (*range(first), *range(after, len(bias))):
        away = arb(float(keys[j])) - highest
        weight += (bias[j] - bias[top] + away * c + abs(away) * r).exp()
    return weight


def log_error(head: Head) -> float:
    """By how much the computed weight of any token may be too large against another's, as a logarithm: what `View`
    bounds of some tokens before it leaves them out, with the largest sizes and gaps that the head has."""
    n, u = head.keys.shape[1] + 8, head.precision.unit
    return float(above(2 * n * u / (1 - n * u) * 5 * head.extent + 2 * head.exps() + 2 * head.lost))


class GridView:
    """A grid head on a region, with the interface of a `View` of its tokens; `dropped` and `run` as there."""

    def __init__(self, sides: Sides, dropped: float = 0.0, run: float = 0.0) -> None:
        self.sides, self.head, self.dropped, self.run = sides, sides.head, dropped, run

    @functools.cached_property
    def view(self) -> View:
        return View(self.head, self.sides.index, self.dropped, self.run)

    def narrowed(self, c: list[arb], r: list[arb], smallest: float) -> GridView:
        """A window of the lines that are long, if that leaves out at least half of the tokens."""
        sides, head = self.sides, self.head
        windows, error = [], log_error(head)
        for keys, bias, at, reach in zip(sides.keys, sides.float_bias, map(float, c), map(float, r), strict=True):
            first, after, top = proposed(keys, bias, at, 0.0, smallest)
            if len(bias) <= WIDER * (after - first):  # neighbours share what is known of it
                windows.append((0, len(bias), top))
            else:
                windows.append(proposed(keys, bias, at, reach, smallest))
        if 2 * math.prod(after - first for first, after, _ in windows) > math.prod(sides.sizes) or not error < 1:
            return self
        dropped, run, grow = self.dropped, self.run, math.exp(2 * sides.most_off) * (1 + 2.0**-40)
        for keys, bias, x, y, window in zip(sides.keys, sides.bias, c, r, windows, strict=True):
            weight = ceiling(left_out(keys, bias, x, y, window)) * grow
            others = head.tokens / len(bias)  # tokens of this line may be fewer than it has: then these are more
            dropped, run = dropped + weight, run + weight * others * math.exp(2 * error)
        if not run < math.inf:
            return self
        return GridView(sides.within(windows), float(above(dropped)), float(above(run)))

    def on_boxes(
        self, space: Space, boxes: list[Box], allowed: float
    ) -> Iterator[tuple[list[Model], list[float], list[float]]]:
        """For each box (c, r): models of the outputs, bounds of their rounding errors and of their moduli."""
        for c, r in boxes:
            check_time()
            yield self._on_box(space, c, r, allowed)

    def _on_box(
        self, space: Space, c: list[arb], r: list[arb], allowed: float
    ) -> tuple[list[Model], list[float], list[float]]:
        sides, head, m = self.sides, self.head, self.head.values.shape[1]
        lines = [sides.line(i, c[i], r[i], space.degree + EXTRA) for i in range(space.dim)]
        table, E, powers = self._contracted(space, lines, c, r)
        rows = sides.rows.get((space.dim, space.degree))
        if rows is None:
            place = {tuple(row[sides.order.index(i)] for i in range(space.dim)): n for n, row in enumerate(powers)}
            rows = sides.rows[space.dim, space.degree] = [place[monomial] for monomial in space.monomials]
        off, radius = sides.most_off, np.array(list(map(ceiling, r)))
        largest = [line.largest[at] for line, at in zip(lines, sides.place, strict=True)]
        with np.errstate(divide="ignore"):
            log_omega = sum((np.log(w) for w in largest), np.zeros(len(sides.index))) + (1e-9 + 2 * off)
        drift = float(above(np.prod(largest, axis=0) @ sides.off)) * math.exp(2 * off) * (1 + 2.0**-30)
        models, run = [], []
        for o in range(m):
            column = [table[n][o] for n in rows]
            error = arb(float(E[o]))
            size = total(map(abs, column)) + error
            center = exact(column[0])
            offset = size - abs(column[0]) + abs(column[0] - center)
            base, lean = self.view.values[:, o] - float(center), np.zeros(len(sides.index))
            doubt = np.abs(self.view.values[:, o]) + abs(float(center))
            for slopes, i in zip(self.view.slopes[:, o].T, head.sloped, strict=True):
                base, doubt = base + slopes * float(c[i]), doubt + 2 * np.abs(slopes * float(c[i]))
                lean = lean + np.abs(slopes) * radius[i]
            deviation = np.abs(base) + lean + 2.0**-48 * (doubt + lean)
            if sides.off.any():  # sum w off |v - g|, all that the stored biases can change
                moved = float(above(np.prod(largest, axis=0) @ (sides.off * deviation))) * math.exp(2 * off)
                moved = arb(float(above(moved))) + arb(drift) * offset
                error, size, offset = error + moved, size + moved, offset + moved
            far = arb(self.dropped) * (arb(head.largest) + size)
            error, size, offset = error + far, size + far, offset + far
            models.append(Model(space, space.polynomial(column), error))
            run.append((deviation, ceiling(offset), ceiling(size)))
        gaps = sum((line.gaps[at] for line, at in zip(lines, sides.place, strict=True)), np.zeros(len(sides.index)))
        kappa = np.stack([line.away[at] for line, at in zip(lines, sides.place, strict=True)], axis=1)
        reach = np.array([ceiling(abs(x) + y) for x, y in zip(c, r, strict=True)])
        errors = self.view.rounding(
            at=np.array(list(map(float, c))),
            radius=radius,
            reach=reach,
            log_omega=log_omega,
            gaps=gaps + 2 * off,
            kappa=kappa,
            run=run,
            allowed=allowed,
        )
        return models, errors, [size for _, _, size in run]

    def _contracted(
        self, space: Space, lines: list[Line], c: list[arb], r: list[arb]
    ) -> tuple[list[list[arb]], np.ndarray, list[tuple[int, ...]]]:
        """The polynomials (rows `powers`, columns outputs) and errors of the outputs when all lines are summed."""
        sides = self.sides
        first, *others = sides.order
        left = len(sides.index) * self.head.values.shape[1] // sides.sizes[first]
        key: tuple = (space.degree, ctx.prec, *known(c[first]), *known(r[first]))
        partial = sides.sums.get(key)
        powers = [(a,) for a in range(space.degree + 1)]
        T, E = [], np.zeros(0)
        if partial is None:
            T, E = self._first(lines[first], c[first], r[first], space.degree)
            partial = self._kept(key, powers, T, E, sides.sizes[others[0]])
        for level, i in enumerate(others):
            left //= sides.sizes[i]
            key = (*key, *known(c[i]), *known(r[i]))
            after = sides.sums.get(key)
            if after is None:
                powers, T, E = summed(lines[i], partial, space.degree, left)
                if i != others[-1]:
                    after = self._kept(key, powers, T, E, sides.sizes[others[level + 1]])
            partial = partial if after is None else after
        return T, E, powers

    def _kept(self, key: tuple, powers: list[tuple[int, ...]], T: list[list[arb]], E: np.ndarray, n: int) -> Partial:
        """A sum made ready for the next line, and remembered."""
        left = len(T[0]) // n
        wide = arb_mat([[x for row in T for x in row[j * left : (j + 1) * left]] for j in range(n)])
        partial = Partial(powers, wide, ceilings(T).reshape(len(T), n, left), E.reshape(n, left))
        self.sides.held += len(T) * len(T[0])
        if self.sides.held > REMEMBERED:
            self.sides.sums.clear()
            self.sides.held = len(T) * len(T[0])
        self.sides.sums[key] = partial
        return partial

    def _first(self, line: Line, c: arb, r: arb, degree: int) -> tuple[list[list[arb]], np.ndarray]:
        """The sum over the first line, along which values may have slopes."""
        sides = self.sides
        slopes = sides.exact_slopes
        at_center = sides.exact_values if slopes is None else sides.exact_values + slopes * c
        full = (line.series * at_center).tolist()
        moduli = np.abs(sides.values)  # floats are what they are
        if slopes is not None:
            rising = (line.series * (slopes * r)).tolist()
            full = [
                [x + y for x, y in zip(row, before, strict=True)]
                for row, before in zip([*full, [ZERO] * len(full[0])], [[ZERO] * len(full[0]), *rising], strict=True)
            ]
            moduli = ceilings(at_center.tolist()) + ceilings((slopes * r).tolist())
        E = line.missed @ moduli + ceilings(full[degree + 1 :]).sum(axis=0)
        return full[: degree + 1], above(E)


def ceilings(rows: list[list[arb]]) -> np.ndarray:
    return np.array([[ceiling(x) for x in row] for row in rows])


def summed(
    line: Line, partial: Partial, degree: int, left: int
) -> tuple[list[tuple[int, ...]], list[list[arb]], np.ndarray]:
    """One line more: powers and rows of the sum, each with `left` columns, and errors.

    What is left out is a little above the degree that is kept, and counted as it is, or far above and counted token by
    token.
    """
    full = (line.series * partial.wide).tolist()  # (degree of the line + 1, rows * left)
    kept, beyond, far = shares(tuple(partial.powers), degree, len(full))
    rows = [full[a][p * left : (p + 1) * left] for p, a in kept]
    near = [full[a][p * left : (p + 1) * left] for p, a in beyond]
    E = line.largest @ partial.error + line.missed @ partial.moduli.sum(axis=0)
    E = E + ceilings(near).sum(axis=0) + np.einsum("pa,aj,pjx->x", far, line.moduli, partial.moduli, optimize=True)
    return [(*partial.powers[p], a) for p, a in kept], rows, above(E)


@functools.lru_cache(maxsize=64)
def shares(
    powers: tuple[tuple[int, ...], ...], degree: int, count: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]], np.ndarray]:
    """Of the products of rows p and powers a < count of the next line: those that are kept, those a little above the
    degree, and 1 in (p, a) where one is far above.
    """
    every = [(p, a, sum(alpha) + a - degree) for p, alpha in enumerate(powers) for a in range(count)]
    far = np.zeros((len(powers), count))
    for p, a, over in every:
        far[p, a] = over > NEAR
    return [(p, a) for p, a, over in every if over <= 0], [(p, a) for p, a, o in every if 0 < o <= NEAR], far
