"""B3 again, and B4 in L_p: a head whose cells hold numbers v_j, against a function f that may jump.

With S = v_j on cell j, |g - f|_p <= |f - S|_p + |g - S|_p over the box, whatever the numbers are.

*|g - S|_p.* Let x lie in cell j, J_j the largest |v_i - v_j| of its 3^m - 1 neighbours, C = max v - min v. By `grid`,
the mass of near cells that differ in axis i is at most e^{2 delta} q_i, q_i = z/(1 + z), z = e^{-beta h s_i}, s_i
the distance from the wall, and that of far cells mu. So |g - S| <= e^{2 delta} J_j sum_i q_i + mu C. As s_i is spread
evenly over [0, h/2], with z as the variable

    mean of q_i^p  <=  2 I_p/b,    I_p = int_0^1 z^{p-1}/(1 + z)^p dz = sum_{k = p, p+1, ..} 2^{-k}/k,    b = beta h^2,

and never more than 2^{-p}. Minkowski's inequality over the axes gives

    |g - S|_p <= e^{2 delta} m (cell sum_j J_j^p min(2 I_p/b, 2^{-p}))^{1/p} + mu C box^{1/p}.

For large p and many axes it is better that near cells never have more than the whole mass: min(1, A)^p <= min(1, A)
for A = e^{2 delta} sum_i q_i, whose mean is at most e^{2 delta} 2 m I_1/b, and so

    |g - S|_p <= (cell sum_j J_j^p min(1, e^{2 delta} 2 m I_1/b))^{1/p} + mu C box^{1/p},    I_1 = log 2.

*|f - S|_p.* On a part B of a cell f - v_j has a Taylor model P + error. A grid of steps d on B, scaled to [-1, 1]^m,
and the function that takes P's values there and is affine along every axis in between, is off from P by at most (d^2/8)
sum_i max |P''_ii|. Its |.|^p is convex along every axis, so its mean over B is at most that of its values on the grid,
with the weights of the trapezoidal rule, T. With r the sum of the two errors,

    int_B |f - S|^p <= |B| min(T^{1/p} + r, max |f - v_j|)^p,

and at least about |B| (T'^{1/p} - r)^p, T' the mean of |P|^p over the middles of the grid. The parts where the two
differ most are halved until the roots of both sums are near each other, or nearer than what the theorem's own estimate
of |g - S|_p leaves. On [0, b] a power x^{-a}, a p < 1, has no model; there the integral is at most
((b^{1 - a p}/(1 - a p))^{1/p} + |v_j| b^{1/p})^p.
"""

from __future__ import annotations

import heapq
import itertools
import math

import numpy as np
from flint import arb, fmpq

from softwright.checker.entries import is_float, is_size
from softwright.checker.limits import check_time
from softwright.checker.proved import Proved
from softwright.checker.refusal import UndefinedError, require
from softwright.checker.taylor import total
from softwright.checker.theorems import cell_sup
from softwright.checker.theorems.grid import Box, Grid, read_grid
from softwright.checker.theorems.interpolation import FLOAT64, gamma, largest, rational
from softwright.checker.theorems.reading import REAL_ARITHMETIC, TheoremFile
from softwright.checker.trees import rational_value

MOST_EXPONENT = 1_000_000
MOST_CELLS, MORE_PARTS, UNKNOWN_PARTS = 300_000, 60_000, 3_000
NEAR_ENOUGH = 0.008  # of the norm: the distance of its bounds that is aimed at
CORNERS = {1: 65, 2: 9, 3: 5, 4: 3, 5: 3, 6: 3}  # per axis of the trapezoidal rule; 2 for more variables
UNIT = FLOAT64.unit
Item = tuple[arb, arb, Box, float, int]  # upper and lower bound of an integral, part, value of its cell, side to halve


def is_exponent(value: object) -> bool:
    """A number of at least 1, written as Python writes it: whole ones without a point."""
    if isinstance(value, float):
        return is_float(value) and value > 1 and value != int(value)
    return is_size(value)


def exponent_of(norm: object) -> float | None:
    """p of "L1", "L2", "L2.5", ..; None if it is none of them, or spelt otherwise."""
    text = norm[1:] if isinstance(norm, str) and norm[:1] == "L" else ""
    try:
        p = int(text) if text.isdecimal() and len(text) < 8 else float(text)
    except ValueError:
        return None
    return p if is_exponent(p) and str(p) == text else None


def prove(file: TheoremFile) -> Proved:
    """|network - f|_p over the box, in real arithmetic; B4 without a norm is about the sup norm."""
    if file.label == "B4" and "norm" not in file.sizes:
        return cell_sup.prove(file)
    cross = file.label == "B4"
    own = {"norm": lambda name: exponent_of(name) is not None} if cross else {"p": is_exponent}
    grid = read_grid(file, "formula" if cross else "target", cross, named=True, **own)
    p = float(exponent_of(file.sizes["norm"]) or math.inf) if cross else file.sizes["p"]
    require(p <= MOST_EXPONENT, f"an exponent above {MOST_EXPONENT} cannot be checked")
    p = int(p) if p == int(p) else p
    require(len(grid.trees) == 1, "the norm is that of one function")
    gates = gate_norm(grid, p)
    room = own_estimate(grid, p) - float(gates.upper())
    return Proved(
        statement=f"L{p} norm over {grid.where} of network - f for f = {grid.text}",
        exact=largest([gates + Steps(grid, p).norm(room)]),
        rounding=None,
        method=f"theorem {file.label}",
        norm=f"L{p}",
        quantities={"beta": arb(grid.beta), "eps0": arb(rational(file.sizes["eps0"])), "p": arb(p)},
        assumptions=REAL_ARITHMETIC,
    )


def volume(box: Box) -> arb:
    size = fmpq(1)
    for low, high in box:
        size *= high - low
    return arb(size)


def neighbour_jumps(grid: Grid) -> np.ndarray:
    """J_j in float64, each rounded once."""
    values = grid.values[:, 0].reshape((grid.per_axis,) * grid.dim)
    top, bottom = values, values
    for axis in range(grid.dim):
        top, bottom = cell_sup.widened(top, axis, np.maximum), cell_sup.widened(bottom, axis, np.minimum)
    return np.maximum(top - values, values - bottom)


def own_estimate(grid: Grid, p: float) -> float:
    """What the theorem's proof gives for |g - S|_p: it tells how sharp the rest must be, and nothing is proved with it.

    With e = (N - 1) e^{-beta h s}: at most C e off a band of width s, and J_j + C e in it, for the best of some s.
    """
    h, N, m, beta = 2.0 / grid.per_axis, len(grid.values), grid.dim, float(arb(grid.beta))
    jumps, C = neighbour_jumps(grid), float(np.ptp(grid.values))
    if C == 0.0:
        return 0.0
    best = math.inf
    for s in np.append(np.geomspace(1.0, 2000.0, 40) / (beta * h), h / 4):
        if s <= h / 4:
            e = min(1.0, (N - 1) * math.exp(-beta * h * s))
            scale = float(jumps.max()) + C * e
            band = min(1.0, 2 * m * s / h) * float((((jumps + C * e) / scale) ** p).mean())
            best = min(best, scale * ((C * e / scale) ** p + band) ** (1 / p))
    return best * float(volume(grid.box)) ** (1 / p)


def gate_norm(grid: Grid, p: float) -> arb:
    """|g - S|_p."""
    values, jumps = grid.values[:, 0], neighbour_jumps(grid)
    largest_jump, spread = float(jumps.max()), arb(float(values.max())) - arb(float(values.min()))
    require(math.isfinite(largest_jump), "the values are too large")
    if largest_jump == 0:
        return arb(0)
    # Powers of jumps relative to the largest: the rounding of a quotient counts p times, that of a power a few units
    # more; or they are below the least number.
    powers = float(((jumps / largest_jump) ** p).sum())
    added = arb(powers) * (1 + gamma(jumps.size + 8 * math.ceil(p) + 8)) + jumps.size * arb(FLOAT64.smallest)
    root = arb(1) / p
    each = (2 * inner_integral(p) / grid.sharpness).min(arb(2) ** -arb(p)) ** root * grid.more * grid.dim
    whole = (grid.more * 2 * grid.dim * inner_integral(1) / grid.sharpness).min(arb(1)) ** root
    jumped = (volume(grid.box) / jumps.size * added) ** root * largest_jump * (1 + 2 * arb(UNIT))
    return each.min(whole) * jumped + grid.far * spread * volume(grid.box) ** root


def inner_integral(p: float) -> arb:
    """I_p; what follows 100 terms is less than the last of them."""
    terms = [arb(2) ** -(arb(p) + k) / (arb(p) + k) for k in range(100)]
    return total(terms) + terms[-1]


def every(line: np.ndarray, dim: int) -> np.ndarray:
    """All points (k, dim) with coordinates out of a line."""
    return np.stack([axis.ravel() for axis in np.meshgrid(*[line] * dim, indexing="ij")], axis=1)


class Steps:
    """|f - S|_p, adaptively."""

    def __init__(self, grid: Grid, p: float) -> None:
        self.grid, self.p, self.tree = grid, p, grid.trees[0]
        count = CORNERS.get(grid.dim, 2)
        line, weights = np.linspace(-1.0, 1.0, count), np.full(count, 1.0)
        weights[[0, -1]] = 0.5
        powers = np.array(grid.space.monomials)  # (n, m)
        grids = (every(axis, grid.dim) for axis in (line, (line[1:] + line[:-1]) / 2))
        self.corners, self.middles = ((points[:, None] ** powers).prod(axis=-1) for points in grids)  # (k, n)
        self.bends = (powers * (powers - 1)).sum(axis=1) * (2 / (count - 1)) ** 2 / 8  # (n,) exact: few binary digits
        self.powers = powers
        self.weights = np.ones(1)
        for _ in range(grid.dim):
            self.weights = np.multiply.outer(self.weights, weights / (count - 1)).ravel()
        # Corners, weights, powers and the sum: a root of all that is rounded by less than this, relatively.
        self.slack = 1 + gamma(4 * len(self.weights) + 16 * math.ceil(p) + 64)
        self.order = self._order()
        self.heap: list[tuple[float, int, Item]] = []
        self.most, self.least, self.unknown, self.count = arb(0), arb(0), 0, itertools.count()

    def _order(self) -> fmpq | None:
        """a, if f is x^{-a} on a side that begins at 0, and in L_p."""
        tree, power = self.tree, None
        if tree[0] == "pow" and tree[1] == ("variable", 0) and self.grid.box[0][0] == 0 and self.grid.dim == 1:
            power = rational_value(tree[2])
        return -power if power is not None and power < 0 and -power * rational(self.p) < 1 else None

    def norm(self, room: float) -> arb:
        """An upper bound of the norm, within `room` of the norm itself or as near as can be."""
        require(len(self.grid.values) <= MOST_CELLS, "more cells than can be looked at here")
        for j, index in enumerate(itertools.product(range(self.grid.per_axis), repeat=self.grid.dim)):
            self.put(self.on(self.grid.cell(index), float(self.grid.values[j, 0])))
        root = arb(1) / self.p
        for tried in range(MORE_PARTS):
            if self.unknown:
                require(tried < UNKNOWN_PARTS, "the function may be undefined or unbounded on a cell")
            else:
                upper, lower = self.most.upper() ** root, self.least.max(arb(0)) ** root
                if upper - lower <= (NEAR_ENOUGH * upper).max(arb(0.9 * room)):
                    break
            _, _, (most, least, box, value, axis) = heapq.heappop(self.heap)
            if most.is_finite():
                self.most, self.least = self.most - most, self.least - least
            else:
                self.unknown -= 1
            low, high = box[axis]
            for side in ((low, (low + high) / 2), ((low + high) / 2, high)):
                self.put(self.on([side if i == axis else other for i, other in enumerate(box)], value))
            if not self.unknown and self.most.rad() * 1000 > self.most.mid():  # p-th powers that are gone hide the rest
                self.most = total(entry[2][0] for entry in self.heap)
                self.least = total(entry[2][1] for entry in self.heap)
        bound = total(entry[2][0] for entry in self.heap)
        require(bound.is_finite(), "the function may be undefined or unbounded on a cell")
        return bound.upper() ** root

    def put(self, item: Item) -> None:
        most, least = item[:2]
        if most.is_finite():
            self.most, self.least = self.most + most, self.least + least
        else:
            self.unknown += 1
        # By the logarithm: p-th powers need not be floats.
        first = -float((most - least).upper().log().mid()) if most > least else math.inf
        heapq.heappush(self.heap, (first if most.is_finite() else -math.inf, next(self.count), item))

    def on(self, box: Box, value: float) -> Item:
        """Upper and lower bound of the integral over a part of a cell with this value, and which side to halve."""
        check_time()
        p, size = self.p, volume(box)
        sides = [(high - low) / (top - bottom) for (low, high), (bottom, top) in zip(box, self.grid.box, strict=True)]
        widest = max(range(len(sides)), key=lambda i: sides[i])
        try:
            model = self.grid.model(self.tree, box).shifted(-arb(value))
        except UndefinedError:
            return self.at_singularity(box, value), arb(0), box, value, widest
        low, high = model.bounds()
        greatest = abs(low).max(abs(high)).upper()
        if not greatest.is_finite() or greatest == 0:
            return (size * 0 if greatest == 0 else arb.pos_inf()), arb(0), box, value, widest
        coefficients = self.grid.space.coefficients(model.parts)
        floats, moduli = np.array([float(c.mid()) for c in coefficients]), [abs(c) for c in coefficients]
        heights = np.abs(self.corners @ floats)
        spread = float(heights.max())
        rest = model.error + total(c * bend for c, bend in zip(moduli, self.bends.tolist(), strict=True))
        # What is lost by taking floats: of each number half a unit, of each sum one unit a term.
        rest += total(c.rad() for c in coefficients) + arb((2 * len(moduli) + 8) * UNIT) * total(moduli)
        mean = arb(float((self.weights * (heights / spread) ** p).sum())) if spread > 0 else arb(0)
        mean = mean * self.slack + arb(FLOAT64.smallest) * len(heights)
        upper = (mean ** (arb(1) / p) * spread + rest).upper().min(greatest)
        inner = float(((np.abs(self.middles @ floats) / spread) ** p).mean()) if spread > 0 else 0.0
        lower = inner ** (1 / p) * spread - float(rest.upper())
        pull = np.abs(floats) @ self.powers
        axis = int(pull.argmax()) if pull.any() and rest * 4 < spread else widest  # a jump may be anywhere
        return size * upper ** arb(p), size * arb(max(lower, 0.0)) ** arb(p), box, value, axis

    def at_singularity(self, box: Box, value: float) -> arb:
        if self.order is None or box[0][0] != 0:
            return arb.pos_inf()
        b, power = arb(box[0][1]), 1 - arb(self.order) * arb(self.p)
        root = arb(1) / self.p
        return ((b**power / power) ** root + abs(arb(value)) * b**root) ** arb(self.p)
