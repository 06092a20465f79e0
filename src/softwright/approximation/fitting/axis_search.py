"""The smallest axis of tokens that resolves given functions of one coordinate.

This is the engine under `spectral`, `affine`, `tensor` and `ridge`: a set of functions of t in [-1, 1] (one column
each: the outputs of a 1-D target, or slices of a target in several variables) is to be met by one softmax along t
with free values. Two searches: keys in closed form (`search_uniform`), and keys optimised by variable projection
(`search_optimised`), which needs fewer tokens and more work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from softwright.approximation.fitting.families import (
    bernstein_axis,
    chebyshev_points,
    equidistributed_centres,
    graded_axis,
    rule,
    uniform_axis,
    uniform_candidates,
)
from softwright.approximation.fitting.least_squares import design, lawson_solve, regularisation
from softwright.approximation.fitting.tall import is_held, largest_miss, solved
from softwright.approximation.fitting.variable_projection import PRUNING, cheapest, optimise_axis, optimised_axes
from softwright.attention.head import Axis
from softwright.chunks import rows_within

# The sup error is at least the root mean square; a fit with half the regularisation, reweighted, gains less than this.
_FAR = 5.0
_WARM = 3  # starts that come from a network with one token more
_A_TOKEN = 300.0  # a token more makes the misfit so many times smaller, at the very best
_FEWER, _AT_ONCE = 3, 8  # so many times fewer than guessed are tried first, for so many steps
_SMALL = 13  # tokens up to which a search goes down below counts that failed

Columns = Callable[[np.ndarray], np.ndarray]  # t (n,) -> (n, q)


@dataclass(frozen=True)
class AxisFit:
    """An axis, whether its values are affine, its values (p, q) and the sup error on the check points."""

    axis: Axis
    affine: bool
    values: np.ndarray
    error: float

    @property
    def tokens(self) -> int:
        return self.axis.tokens


class AxisProblem:
    """Functions of one coordinate, to be met within `tolerance` with values of size up to about `value_cap`.

    `columns` must be scaled so that one tolerance fits all. Samples are cached by size: the target may be expensive.
    """

    spare = 2  # a search for keys looks at one sample in so many; a table's rows are all it has

    def __init__(
        self, columns: Columns, tolerance: float, value_cap: float, tick: Callable[[], None] = lambda: None
    ) -> None:
        """`tick` is called before every piece of work; it may raise when the time is up."""
        self.columns, self.tolerance, self.value_cap, self.tick = columns, tolerance, value_cap, tick
        self._cache: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = {}
        self._directions: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
        self._densities: dict[int, tuple[np.ndarray, list[np.ndarray]]] = {}

    @property
    def strength(self) -> float:
        return regularisation(self.tolerance, self.value_cap)

    def samples(self, unknowns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Fit points, their columns, check points, their columns: dense enough for that many unknowns."""
        size = 1 << max(4, int(np.ceil(np.log2(unknowns + 1))))
        if size not in self._cache:
            fit = chebyshev_points(4 * size + 60)
            check = np.sort(np.concatenate([np.linspace(-1, 1, 14 * size + 201), chebyshev_points(3 * size + 90)]))
            check = check[np.concatenate([[True], np.diff(check) != 0])]  # `unique` would load NumPy's masked arrays
            self._cache[size] = (fit, self.columns(fit), check, self.columns(check))
        return self._cache[size]

    def directions(self, unknowns: int, most_tokens: int) -> tuple[np.ndarray, np.ndarray]:
        """What a search for keys looks at: some of the samples (a Jacobian has 2 columns a token), and the few
        combinations of the columns that matter. `fit` looks at all of them."""
        t, F, _, _ = self.samples(min(64, unknowns))
        if (len(t), most_tokens) not in self._directions:
            few = _compressed(F, self.tolerance)
            step = max(self.spare, -(-len(t) // rows_within(8 * 2 * most_tokens * few.shape[1])))
            self._directions[len(t), most_tokens] = t[::step], few[::step]
        return self._directions[len(t), most_tokens]

    def densities(self, unknowns: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """Check points, and there how fast the functions vary: by their slopes, and by how these change."""
        _, _, check, wanted = self.samples(min(64, unknowns))
        if len(check) not in self._densities:
            slope = np.gradient(wanted, check, axis=0)
            bend = np.gradient(slope, check, axis=0)
            found = [np.sqrt((slope**2).mean(axis=1)), (bend**2).mean(axis=1) ** 0.25]
            self._densities[len(check)] = check, found
        return self._densities[len(check)]

    def fit(self, axis: Axis, affine: bool, sup: bool = False) -> AxisFit:
        """Values for the axis by least squares; with `sup`, reweighted towards the sup norm when that can rescue it."""
        self.tick()
        unknowns = axis.tokens * (1 + affine)
        t, F, check, wanted = self.samples(unknowns)

        def columns(t: np.ndarray) -> np.ndarray:
            return design(axis, t, affine)

        values = solved(columns, t, F, unknowns, self.strength)
        error = largest_miss(columns, check, wanted, values)
        if sup and self.tolerance < error <= 2.5 * self.tolerance and is_held(len(t), unknowns):
            better, _ = lawson_solve(columns(t), F, self.strength, 0.97 * self.tolerance)
            improved = largest_miss(columns, check, wanted, better)
            if improved < error:
                values, error = better, improved
        return AxisFit(axis, affine, values, error)


def _smallest(attempt: Callable[[int], AxisFit], tolerance: float, most: int, least: int = 1) -> AxisFit:
    """Grow the token count from `least` by a quarter until `attempt` meets the tolerance, then bisect; the best failure
    otherwise."""
    tried: dict[int, AxisFit] = {}

    def good(tokens: int) -> bool:
        if tokens not in tried:
            tried[tokens] = attempt(tokens)
        return tried[tokens].error <= tolerance

    tokens = min(max(1, least), most)
    failed = tokens - 1
    while not good(tokens):
        if tokens >= most or _hopeless(tried, tolerance, most):
            return min(tried.values(), key=lambda fit: fit.error)
        failed, tokens = tokens, min(most, max(tokens + 1, int(tokens * 1.25)))
    passed = tokens
    while passed - failed > 1:
        middle = (passed + failed) // 2
        if good(middle):
            passed = middle
        else:
            failed = middle
    return tried[passed]


def _hopeless(tried: dict[int, AxisFit], tolerance: float, most: int) -> bool:
    """Algebraic convergence (a hidden singularity): the observed rate, kept up, would not get there."""
    history = sorted((tokens, fit.error) for tokens, fit in tried.items())
    if len(history) < 5 or history[-1][0] < 80:
        return False
    (n0, e0), (n1, e1) = history[-4], history[-1]
    rate = np.log(max(e1, 1e-300) / e0) / np.log(n1 / n0)
    return bool(rate > -3 and e1 * (most / n1) ** rate > tolerance)


def fit_uniform(problem: AxisProblem, tokens: int, affine: bool) -> AxisFit:
    """The best of the closed-form keys with that many tokens (Bernstein biases are tried when they are few)."""
    candidates = uniform_candidates(tokens, problem.tolerance, affine)
    if 2 <= tokens <= 8:
        candidates += [bernstein_axis(tokens, steepness) for steepness in (0.3, 0.6, 1.0, 2.0)]
    best = problem.fit(candidates[0], affine)
    for axis in candidates[1:]:
        if best.error <= problem.tolerance or (tokens > 60 and best.error > 30 * problem.tolerance):
            break
        fit = problem.fit(axis, affine)
        best = fit if fit.error < best.error else best
    return best


def search_uniform(
    problem: AxisProblem, affine: bool, most: int = 400, largest: float = np.inf, least: int = 1
) -> AxisFit:
    """Fewest tokens, from `least` on, with keys in closed form: a uniform grid at finite temperature. Values above
    `largest` count as a miss: more tokens make them smaller."""

    def attempt(tokens: int) -> AxisFit:
        fit = fit_uniform(problem, tokens, affine)
        size = float(np.abs(fit.values).max()) / largest
        return fit if size <= 1 else replace(fit, error=max(fit.error, problem.tolerance * size))

    return _smallest(attempt, problem.tolerance, most, least)


def uniform_tokens(problem: AxisProblem, affine: bool, most: int, least: int = 2) -> int:
    """How many tokens the rule's own grid needs, to a third, from `least` on; 0 if more than `most`."""
    tokens = max(least, 2)
    while tokens <= most:
        if problem.fit(uniform_candidates(tokens, problem.tolerance, affine)[0], affine).error <= problem.tolerance:
            return tokens
        tokens = max(tokens + 1, int(1.35 * tokens))
    return 0


def optimised_share(uniform: int) -> int:
    """About how many of them do with optimised keys: between four and seven tenths, for smooth functions."""
    return round(0.52 * uniform)


def polished(problem: AxisProblem, fit: AxisFit) -> AxisFit:
    """The same number of tokens, keys optimised further; what was found already if that is no better."""
    if fit.tokens < 2:
        return fit
    t, F = problem.directions(fit.tokens * (1 + fit.affine), fit.tokens)
    axis = optimise_axis(fit.axis, t, F, affine=fit.affine, strength=2 * problem.strength, goal=0.0, iterations=25)
    again = problem.fit(axis, fit.affine, sup=True)
    return again if again.error < fit.error else fit


def _compressed(F: np.ndarray, tolerance: float, most: int = 8) -> np.ndarray:
    """The few combinations of the columns that matter: left singular vectors times singular values."""
    if F.shape[1] <= 3:
        return F
    U, s, _ = np.linalg.svd(F / np.sqrt(F.shape[1]), full_matrices=False)
    rank = int(np.clip((s > 0.1 * tolerance * np.sqrt(len(F))).sum(), 1, most))
    return U[:, :rank] * s[:rank]


def _starts(problem: AxisProblem, tokens: int, affine: bool, most: int) -> list[Axis]:
    """Starting points for variable projection: soft grids, Bernstein, and centres where the target varies."""
    r, m = rule(problem.tolerance, affine)
    starts: list[Axis] = []
    for ratio, margin in ((r, 0.0), (r, -0.5), (r, max(0, m - 1)), (1.3 * r, 1.0)):
        if tokens - 1 - 2 * margin >= 1:
            starts.append(uniform_axis(tokens, ratio, margin))
    starts += [bernstein_axis(tokens, steepness) for steepness in (1.0, 4.0)]
    t, densities = problem.densities(tokens * (1 + affine))
    for density in densities:
        centres = equidistributed_centres(t, density, tokens)
        if tokens > 1 and np.diff(centres).min() > 1e-9:
            starts.append(graded_axis(centres, 1.0))
    for sign in (1, -1):  # graded towards one end
        centres = np.sort(sign * (1 - 2 * np.exp(np.linspace(0, np.log(1e-3), tokens))))
        if tokens > 1:
            starts.append(graded_axis(centres, 1.2))
    return starts[:most]


def _without(axis: Axis, t: np.ndarray, F: np.ndarray, affine: bool, strength: float) -> list[Axis]:
    """The axis with one token less: the few choices whose lack costs least."""
    keep = [np.delete(np.arange(axis.tokens), j) for j in range(axis.tokens)]
    fewer = [Axis(axis.keys[kept], axis.biases[kept]) for kept in keep]
    return [fewer[j] for j in cheapest(fewer, t, F, affine=affine, strength=strength)[:_WARM]]


def search_optimised(
    problem: AxisProblem,
    affine: bool,
    below: int,
    value_limit: float,
    most_tokens: int = 40,
    smallest: int = 2,
    iterations: int = 40,
    most_starts: int = 10,
    guess: int = 0,
    missed: dict[int, float] | None = None,
) -> AxisFit | None:
    """Fewer than `below` tokens (any number, if 0), and at most `most_tokens`, with keys optimised by variable
    projection; None if not found.

    `value_limit` rejects solutions whose values are too large for the dtype asked for. The search begins at `guess`
    tokens and goes up from there, or down if these do; without a guess it begins with the smallest. `missed` is what is
    known of counts that failed, and learns more: the least root mean square misfit found. The sup error is no smaller,
    so what missed a larger tolerance than that is not tried again.
    """
    below = min(below or most_tokens + 1, most_tokens + 1)
    missed = {} if missed is None else missed
    best: AxisFit | None = None

    def attempt(tokens: int, iterations: int = iterations) -> AxisFit | None:
        t, F = problem.directions(tokens * (1 + affine), most_tokens)
        known = missed.get(tokens, 0.0) > 1.1 * problem.tolerance
        starts: list[Axis] = []
        if best is not None:
            starts = _without(best.axis, t, F, affine, 2 * problem.strength)
        warm = len(starts)
        starts += [] if known else _starts(problem, tokens, affine, most_starts)
        if not starts:
            return None
        found = optimised_axes(
            starts,
            t,
            F,
            affine=affine,
            strength=2 * problem.strength,
            goal=0.15 * problem.tolerance,
            iterations=iterations,
            pruning=PRUNING,
            kept=warm,
        )
        least = math.inf
        for _, axis, misfit in found:
            least = min(least, misfit)
            if misfit <= _FAR * problem.tolerance:
                fit = problem.fit(axis, affine, sup=True)
                if fit.error <= problem.tolerance and np.abs(fit.values).max() <= value_limit:
                    return fit
        if not known and iterations > _AT_ONCE:
            missed[tokens] = max(least, missed.get(tokens, 0.0))
        return None

    for tokens in (2, 3):  # some functions are two or three tokens, and found at once, where grids need many
        if smallest <= tokens < below and tokens <= guess // _FEWER:
            best = attempt(tokens, _AT_ONCE)
            if best is not None:
                return best
    tokens, failed = min(max(guess, smallest), below - 1), smallest - 1
    while best is None and smallest <= tokens < below:
        best = attempt(tokens)
        if best is None:
            failed = tokens
            short = math.log(min(max(missed[tokens] / problem.tolerance, 1.0), 1e30)) / math.log(_A_TOKEN)
            tokens = min(tokens + max(1, tokens // 5, int(short)), below - 1) if tokens < below - 1 else below
    # Few tokens that failed by themselves may do as a part of what has more of them; for many this takes too long.
    least = smallest if best is None or best.tokens <= _SMALL else max(smallest, failed + 1)
    while best is not None and best.tokens > least:
        fit = attempt(best.tokens - 1)
        if fit is None:
            break
        best = fit
    return best
