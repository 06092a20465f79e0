"""Two and more variables: tokens on a product grid, values by a Kronecker least-squares solve.

Over a product of axes the softmax factorises into one softmax per axis, so the design matrix is a Kronecker product
and m^d tokens never form a dense matrix. Along axis i the tokens must resolve every slice t_i -> f(..., t_i, ...);
slices come from one sample of f on a Chebyshev grid, unfolded along the axis. At most one axis carries affine values,
which keeps the product structure.

Token counts: for every axis the smallest axis that meets a share of the tolerance is found (keys in closed form, then
optimised by variable projection), the values are solved for, and the whole is checked on a grid that no fit has seen;
a miss tightens the shares, a comfortable pass loosens them.

How few tokens can do is known before: N tokens along an axis make N functions of t_i, 2N with affine values. If a grid
is within eps of f everywhere, the slices along the axis, n points of m slices, lie within eps sqrt(n m) of a matrix of
that rank in the Frobenius norm, so N is at least the first rank whose tail of singular values is as small (Eckart and
Young). Where the product of these exceeds the tokens that are allowed, nothing is searched for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from softwright.approximation.fitting.axis_search import (
    AxisFit,
    AxisProblem,
    optimised_share,
    polished,
    search_optimised,
    search_uniform,
    uniform_tokens,
)
from softwright.approximation.fitting.edges import merged, zeros_of
from softwright.approximation.fitting.families import chebyshev_points, rule, uniform_axis
from softwright.approximation.fitting.least_squares import design, kron_evaluate, kron_ridge_solve, regularisation
from softwright.approximation.formula import Formula
from softwright.approximation.problem import Fit, OutOfBudget, Problem, Scalar, probe_points, scaling_of
from softwright.approximation.strategies.line import fit_affine_line
from softwright.approximation.strategies.pieces import gate_head
from softwright.attention.head import Axis, Head
from softwright.chunks import arrays_in_chunks, rows_within

_MOST_SAMPLES = 4_000_000
_MOST_OPTIMISED = {1: 40, 2: 28, 3: 14}  # tokens per axis beyond which optimising keys takes longer than it is worth
_COARSE = 2  # times as many are looked for with keys in closed form, before any are optimised
_CLOSE = 3.0  # times the tolerance: a grid that misses by less may do with keys that are optimised further
_MOST_VARIABLES = 5  # beyond which a product of axes has too many tokens to be tried unasked
_RANKED = 48  # points a slice whose ranks say how few tokens can do
_CHECK_NODES = {1: 4001, 2: 257, 3: 61, 4: 23, 5: 13, 6: 9}


@dataclass(frozen=True)
class _Grid:
    """A candidate: one axis fit per coordinate, the values tensor (p_1, ..., p_d, m) and its sup error (scaled)."""

    axes: tuple[AxisFit, ...]
    values: np.ndarray
    error: float

    @property
    def tokens(self) -> int:
        return int(np.prod([axis.tokens for axis in self.axes]))


@dataclass(frozen=True)
class _Found:
    """What was found along an axis for a share of the tolerance, and how many tokens keys in closed form needed."""

    share: float
    fit: AxisFit
    uniform: int


class _Slices:
    """Slices of the scaled target along each axis, through random points and corners, cached by the axis problem."""

    def __init__(self, problem: Problem, count: int = 80, seed: int = 0) -> None:
        self.problem = problem
        points = probe_points(problem.dim, 4000, seed)
        self.scaling = scaling_of(problem.function(points))
        self.through = probe_points(problem.dim, count, seed + 1)

    def scaled(self, points: np.ndarray) -> np.ndarray:
        return (self.problem.function(points) - self.scaling.middle) / self.scaling.scale

    def along(self, axis: int, t: np.ndarray) -> np.ndarray:
        """(len(t), slices * outputs): the target along one axis through the fixed points."""
        points = np.repeat(self.through[None], len(t), axis=0)  # (n, slices, d)
        points[:, :, axis] = t[:, None]
        return self.scaled(points.reshape(-1, self.problem.dim)).reshape(len(t), -1)

    def on_grid(self, nodes: list[np.ndarray]) -> np.ndarray:
        shape = tuple(len(n) for n in nodes)

        def values(places: np.ndarray) -> np.ndarray:
            index = np.unravel_index(places, shape)
            return self.scaled(np.stack([n[i] for n, i in zip(nodes, index, strict=True)], axis=1))

        dim, outputs = self.problem.dim, self.problem.outputs
        rows = rows_within(8 * (4 * dim + 3 * outputs))
        return arrays_in_chunks(values, np.arange(int(np.prod(shape))), rows).reshape(*shape, outputs)

    @cache  # noqa: B019 (a problem's slices live as long as its search)
    def _tails(self, axis: int) -> np.ndarray:
        """By rank, how far the slices along the axis are from the nearest matrix of that rank: root mean squares."""
        F = self.along(axis, chebyshev_points(_RANKED))
        squares = np.linalg.svd(F, compute_uv=False)[::-1] ** 2
        return np.sqrt(np.cumsum(squares)[::-1] / F.size)

    def least_along(self, axis: int, allowed: float, affine: bool) -> int:
        """What no axis falls below whose slices are within `allowed`."""
        rank = max(1, int((self._tails(axis) > allowed).sum()))
        return -(-rank // 2) if affine else rank

    def least_tokens(self, affine: bool) -> int:
        """What no grid that meets the tolerance falls below, at most one axis being affine."""
        allowed = self.problem.tolerance / self.scaling.scale
        ranks = [self.least_along(axis, allowed, False) for axis in range(self.problem.dim)]
        least = int(np.prod(ranks))
        return min(least // rank * -(-rank // 2) for rank in ranks) if affine else least


class _Search:
    def __init__(
        self, slices: _Slices, optimise: bool, affine: bool, cap: float, most_axis: int, largest: float = np.inf
    ) -> None:
        problem = slices.problem
        self.problem, self.optimise, self.affine, self.most_axis = problem, optimise, affine, most_axis
        self.slices = slices
        self.relative = min(0.9 * problem.tolerance / self.slices.scaling.scale, 0.5)
        self.cap, self.largest = cap, largest
        d = problem.dim
        self.check_nodes = [_check_nodes(d, i) for i in range(d)]
        self.wanted = self.slices.on_grid(self.check_nodes)
        self.aligned = [_aligned_kinks(problem, i) for i in range(d)]
        self.column_cache: dict[tuple[int, bytes], np.ndarray] = {}
        self.missed: dict[tuple[int, bool], dict[int, float]] = {}  # and how near smaller counts of tokens came
        self.found: dict[tuple[int, bool], _Found] = {}  # by axis and kind of values, what the last attempt found

    def columns(self, axis: int, t: np.ndarray) -> np.ndarray:
        key = (axis, t.tobytes())
        if key not in self.column_cache:
            self.column_cache[key] = self.slices.along(axis, t)
        return self.column_cache[key]

    def setting(self, axis: int, share: float, cap: float) -> AxisProblem:
        return AxisProblem(lambda t: self.columns(axis, t), share, cap, self.problem.budget.check)

    def axis_fits(self, share: float, cap: float) -> tuple[list[AxisFit], list[AxisFit]]:
        """For every axis, the smallest with constant values and (where allowed) with affine values.

        Only the axis that saves most becomes affine. So affine values are searched first where ranks leave most to save
        and no longer where they leave less than was saved already: such an axis counts with its constant values.
        """
        d = self.problem.dim
        settings = [self.setting(i, share, cap) for i in range(d)]
        constant = [self.smallest_axis(setting, i, False) for i, setting in enumerate(settings)]
        if not self.affine:
            return constant, []
        affine = list(constant)
        most = [fit.tokens / self.slices.least_along(i, share, True) for i, fit in enumerate(constant)]
        saved = 1.0
        for i in sorted(range(d), key=lambda i: -most[i]):
            if most[i] > saved:
                affine[i] = self.smallest_axis(settings[i], i, True, constant[i].tokens)
                saved = max(saved, constant[i].tokens / affine[i].tokens)
        return constant, affine

    def smallest_axis(self, setting: AxisProblem, axis: int, affine: bool, constant: int = 0) -> AxisFit:
        """The fewest tokens along an axis, `constant` being how many constant values need, if that is known. What an
        earlier attempt found, for a smaller share, passes for a larger one: only fewer are then searched for. For a
        smaller share no fewer do than did for a larger one."""
        share, least = setting.tolerance, self.slices.least_along(axis, setting.tolerance, affine)
        before = self.found.get((axis, affine))
        fit = self.gated_axis(setting, axis) if affine else None
        if fit is None and before is not None and before.fit.error <= before.share <= share:
            fit = before.fit
        if fit is None and least <= 1:
            alone = setting.fit(uniform_axis(1, 1.0, 0.0), affine)
            fit = alone if alone.error <= share else None
        known = 0 if before is None else before.uniform
        if fit is not None:
            below, guess = fit.tokens, fit.tokens - 1
        elif constant and self.optimise:  # affine values need no more; about two thirds of them, where all is smooth
            below, guess = constant, optimised_share(constant)
        else:  # how many tokens keys in closed form need, roughly, and about two thirds of that
            below = uniform_tokens(
                setting, affine, _COARSE * _MOST_OPTIMISED.get(self.problem.dim, 8), max(least, known)
            )
            guess = optimised_share(below)
        fewer: AxisFit | None = None
        if self.optimise and below > 2:
            tighter = before is not None and share < before.share
            smallest = below // 4 if before is None or not tighter else before.fit.tokens
            fewer = search_optimised(
                setting,
                affine,
                below,
                10 * setting.value_cap,
                most_tokens=_MOST_OPTIMISED.get(self.problem.dim, 8),
                smallest=max(2, least, smallest),
                iterations=25,
                most_starts=8 if self.problem.dim == 2 else 6,
                guess=guess,
                missed=self.missed.setdefault((axis, affine), {}),
            )
        fit = fewer or fit or search_uniform(setting, affine, self.most_axis, self.largest, max(least, known))
        self.found[axis, affine] = _Found(share, fit, below)
        return fit

    def gated_axis(self, setting: AxisProblem, axis: int) -> AxisFit | None:
        """Hard gates at kinks that stand at the same place in every slice along the axis, if these suffice."""
        if not self.aligned[axis]:
            return None
        knots = np.array(self.aligned[axis])
        steepness = np.full(len(knots), 4.0 / setting.tolerance)
        head = gate_head(knots, np.zeros((len(knots) + 1, 1)), np.zeros((len(knots) + 1, 1)), steepness)
        fit = setting.fit(Axis(head.keys[:, 0], head.biases), True)
        return fit if fit.error <= setting.tolerance else None

    def solve(self, axes: tuple[AxisFit, ...]) -> _Grid | None:
        for oversampling in (2.5, 1.6, 1.2):
            nodes = []
            for axis in axes:
                unknowns = axis.tokens * (1 + axis.affine)
                nodes.append(chebyshev_points(int(np.ceil(oversampling * unknowns)) + (4 if unknowns > 1 else 0)))
            if np.prod([float(len(n)) for n in nodes]) * self.problem.outputs <= _MOST_SAMPLES:
                break
        else:
            return None
        matrices = [design(axis.axis, n, axis.affine) for axis, n in zip(axes, nodes, strict=True)]
        values = kron_ridge_solve(matrices, self.slices.on_grid(nodes), regularisation(self.relative, self.cap))
        seen = kron_evaluate(
            [design(axis.axis, n, axis.affine) for axis, n in zip(axes, self.check_nodes, strict=True)], values
        )
        return _Grid(axes, values, float(np.abs(seen - self.wanted).max()))

    def coarse(self) -> _Grid | None:
        """Something to show whatever happens: a plain grid of moderate size."""
        size = {2: 24, 3: 10, 4: 6}.get(self.problem.dim, 3)
        axis = uniform_axis(size, rule(self.relative, False)[0], 0.0)
        if size**self.problem.dim > self.problem.budget.max_tokens:
            return None
        return self.solve((AxisFit(axis, False, np.zeros((size, 1)), np.inf),) * self.problem.dim)

    def run(self) -> _Grid | None:
        """The smallest grid that passes, else the most accurate one found before the attempts or the time ran out."""
        d = self.problem.dim
        share, cap = self.relative / (1.5 * d), max(2.0, self.cap ** (1 / d))
        best = self.coarse()
        passed: _Grid | None = None
        for attempt in range(6):
            self.problem.budget.say(f"grid, attempt {attempt + 1}")
            try:
                constant, affine = self.axis_fits(share, cap)
            except OutOfBudget:
                break
            axes = _fewest(constant, affine)
            tokens = float(np.prod([float(axis.tokens) for axis in axes]))
            grid = self.solve(axes) if tokens <= self.problem.budget.max_tokens else None
            if grid is None:
                break
            if self.relative < grid.error <= _CLOSE * self.relative and self.optimise:
                closer = tuple(polished(self.setting(i, share, cap), axis) for i, axis in enumerate(axes))
                grid = min(grid, self.solve(closer) or grid, key=lambda grid: grid.error)
            if best is None or grid.error < best.error:
                best = grid
            if grid.error <= self.relative:
                if passed is None or grid.tokens < passed.tokens:
                    passed = grid
                if attempt >= 2 or (attempt and grid.error > 0.35 * self.relative):
                    break
                share *= 1.6  # a comfortable pass: fewer tokens may do
            elif passed is not None or any(axis.error > share for axis in axes):
                break  # the last pass stands; or an axis cannot be resolved (a kink), and tightening will not help
            else:
                # The miss says how much to tighten; the cap shrinks too when values near it amplify the axis errors.
                share *= float(np.clip(0.7 * self.relative / grid.error, 0.1, 0.6))
                cap = max(2.0, 0.6 * cap)
        return passed or best


def _aligned_kinks(problem: Problem, axis: int) -> list[float]:
    """Kinks at the same place in all of several slices along the axis (|t_1| e^{t_2} has one at t_1 = 0)."""
    if not problem.kinks:
        return []
    common: list[float] | None = None
    for through in probe_points(problem.dim, 6, seed=71)[:4]:
        found: list[float] = []
        for kink in problem.kinks:

            def along(t: np.ndarray, kink: Scalar = kink, through: np.ndarray = through) -> np.ndarray:
                points = np.repeat(through[None], len(t), axis=0)
                points[:, axis] = t
                return kink(points)

            found += zeros_of(along, samples=401)
        common = found if common is None else [x for x in common if any(abs(x - y) < 1e-9 for y in found)]
    return merged(common or [])


def _check_nodes(dim: int, axis: int) -> np.ndarray:
    """Check points along an axis: both ends, beside them, and a uniform line at an irrational offset from any fit's."""
    count = _CHECK_NODES.get(dim, 7)
    inner = np.linspace(-1, 1, count)
    shifted = inner[:-1] + (np.sqrt(2) - 1 + 0.05 * axis) * (inner[1] - inner[0]) * 0.5
    return np.unique(np.concatenate([[-1.0, 1.0, -0.999, 0.999], shifted]))


def _fewest(constant: list[AxisFit], affine: list[AxisFit]) -> tuple[AxisFit, ...]:
    """Make the one axis affine that saves most."""
    axes = list(constant)
    if affine:
        savings = [c.tokens / a.tokens for c, a in zip(constant, affine, strict=True)]
        i = int(np.argmax(savings))
        if savings[i] > 1:
            axes[i] = affine[i]
    return tuple(axes)


def grid_head(axes: tuple[AxisFit, ...], values: np.ndarray, scale: float, middle: np.ndarray) -> Head:
    """The head of a grid candidate: split the affine axis into values and slopes, undo the scaling."""
    d, m = len(axes), values.shape[-1]
    slopes: np.ndarray | None = None
    for i, axis in enumerate(axes):
        if axis.affine:
            split = np.moveaxis(values, i, 0)
            steep = np.moveaxis(split[axis.tokens :], 0, i).reshape(-1, m)
            values = np.moveaxis(split[: axis.tokens], 0, i)
            slopes = np.zeros((len(steep), m, d))
            slopes[:, :, i] = steep * scale
            break
    flat = np.ascontiguousarray(values).reshape(-1, m) * scale + middle
    return Head.on_grid([axis.axis for axis in axes], flat, slopes).centred()


def fit_affine(problem: Problem, formula: Formula | None = None) -> Fit | None:
    """Affine values and optimised keys: along the one variable, or along the axes of a grid."""
    return fit_affine_line(problem) if problem.dim == 1 else fit_grid(problem)


def fit_few_variables(problem: Problem, formula: Formula | None = None) -> Fit | None:
    """One grid head, if the variables are few."""
    return fit_grid(problem) if problem.dim <= _MOST_VARIABLES else None


def fit_grid(
    problem: Problem,
    *,
    optimise: bool = True,
    affine: bool = True,
    cap: float | None = None,
    largest: float = np.inf,
) -> Fit | None:
    """One grid head for a smooth target of several variables; None if samples or tokens would exceed the budget.

    `cap` is how large values become, roughly; slices along an axis are met with none above `largest`, both in units of
    half the target's range.
    """
    most_axis = {1: 400, 2: 120, 3: 60, 4: 30, 5: 16}.get(problem.dim, 12)
    slices = _Slices(problem)
    if slices.least_tokens(affine) > problem.budget.max_tokens:
        return None
    scaling = slices.scaling
    grid = _Search(slices, optimise, affine, cap or problem.value_cap(scaling.scale), most_axis, largest).run()
    if grid is None:
        return None
    head = grid_head(grid.axes, grid.values, scaling.scale, scaling.middle)
    shape = " x ".join(str(axis.tokens) for axis in grid.axes)
    kind = "affine along one axis" if any(axis.affine for axis in grid.axes) else "constant values"
    keys = "keys optimised by variable projection" if optimise else "keys in closed form"
    return Fit(
        [head], grid.error * scaling.scale, "grid", (f"a smooth target: a {shape} grid of tokens, {kind}, {keys}",)
    )
