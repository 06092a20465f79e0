"""Structure first: does the target vary along one direction only, and which variables interact?

*Ridge.* If all gradients are parallel, f(t) = g(w.t) and one 1-D head does. With |w|_1 = 1 the point sign(w) s has
w.t = s and stays in the box, so the claim is checked exactly where it matters: |f(t) - f(sign(w) w.t)| on points that
the direction was not found from.

*Interactions.* Variables i and j interact where the mixed difference f(x_i', x_j') - f(x_i', x_j) - f(x_i, x_j') +
f(x_i, x_j) is not zero. Without an edge in that graph there is no joint term, so f is a sum over the maximal cliques
(anchored ANOVA).
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from softwright.approximation.problem import Problem, Values, probe_points


def _gradient_samples(problem: Problem, step: float, count: int, seed: int) -> np.ndarray:
    """Gradients (count * m, d) by fourth-order central differences."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1 + 2 * step, 1 - 2 * step, (count, problem.dim))
    columns = []
    for i in range(problem.dim):
        offset = np.zeros(problem.dim)
        offset[i] = step
        near = problem.function(points + offset) - problem.function(points - offset)
        far = problem.function(points + 2 * offset) - problem.function(points - 2 * offset)
        columns.append(((8 * near - far) / (12 * step)).ravel())
    return np.stack(columns, axis=1)


def ridge_direction(problem: Problem) -> np.ndarray | None:
    """The direction w, |w|_1 = 1, such that the target depends on w.t alone to a tenth of the tolerance; or None."""
    points = probe_points(problem.dim, 3000, seed=11)
    values = problem.function(points)
    candidates: list[np.ndarray] = []
    for step in (2e-3, 1e-5):  # the smaller step is for targets with kinks
        gradients = _gradient_samples(problem, step, 200, seed=7)
        if not np.all(np.isfinite(gradients)):
            continue
        lengths = np.sqrt((gradients**2).sum(axis=1))
        if lengths.max() == 0:
            continue
        w = np.linalg.svd(gradients, full_matrices=False)[2][0]
        w = np.where(np.abs(w) < 1e-7 * np.abs(w).max(), 0.0, w)
        candidates.append(w)
        # Directions written by people have small rational ratios; try the nearest ones, they remove the differencing
        # error.
        ratios = w / w[np.abs(w).argmax()]
        for denominator in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 100):
            rational = np.round(ratios * denominator) / denominator
            if np.abs(rational - ratios).max() < 1e-5:
                candidates.append(rational)
                break
    best: tuple[float, np.ndarray] | None = None
    for candidate in candidates:
        w = candidate / np.abs(candidate).sum()
        folded = (points @ w)[:, None] * np.sign(w)
        miss = float(np.abs(problem.function(folded) - values).max())
        if best is None or miss < best[0]:
            best = (miss, w)
    if best is None or best[0] > 0.1 * problem.tolerance:
        return None
    return best[1]


def along_ridge(problem: Problem, w: np.ndarray) -> Problem:
    """The 1-D problem g(s) = f(sign(w) s)."""
    sign = np.sign(w)

    def lifted(s: np.ndarray) -> np.ndarray:
        return s[:, :1] * sign

    kinks = None
    if problem.kinks is not None:
        kinks = tuple((lambda s, kink=kink: kink(lifted(s))) for kink in problem.kinks)
    return problem.derived(lambda s: problem.function(lifted(s)), 1, 0.9 * problem.tolerance, kinks)


def interaction_strengths(function: Values, dim: int, count: int = 400, seed: int = 3) -> np.ndarray:
    """Largest mixed second difference (d, d) over random pairs of points, a quarter of them corners."""
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(-1, 1, (count, dim)), rng.uniform(-1, 1, (count, dim))
    x[: count // 4] = np.sign(x[: count // 4])
    y[: count // 4] = -x[: count // 4]
    base = function(x)
    single = []
    for i in range(dim):
        moved = x.copy()
        moved[:, i] = y[:, i]
        single.append(function(moved))
    strengths = np.zeros((dim, dim))
    for i, j in combinations(range(dim), 2):
        moved = x.copy()
        moved[:, [i, j]] = y[:, [i, j]]
        mixed = np.abs(function(moved) - single[i] - single[j] + base).max()
        strengths[i, j] = strengths[j, i] = mixed
    return strengths


def maximal_cliques(adjacent: np.ndarray) -> list[tuple[int, ...]]:
    """Maximal cliques of a small graph (Bron and Kerbosch with a pivot), largest first."""
    neighbours = [set(np.flatnonzero(row).tolist()) - {i} for i, row in enumerate(adjacent)]
    found: list[tuple[int, ...]] = []

    def extend(clique: set[int], candidates: set[int], excluded: set[int]) -> None:
        if not candidates and not excluded:
            found.append(tuple(sorted(clique)))
            return
        pivot = max(candidates | excluded, key=lambda v: len(neighbours[v] & candidates))
        for v in sorted(candidates - neighbours[pivot]):
            extend(clique | {v}, candidates & neighbours[v], excluded & neighbours[v])
            candidates = candidates - {v}
            excluded = excluded | {v}

    extend(set(), set(range(len(adjacent))), set())
    return sorted(found, key=lambda clique: (-len(clique), clique))


def clique_functions(problem: Problem, cliques: list[tuple[int, ...]]) -> list[Problem]:
    """One problem a clique: the anchored-ANOVA terms that the clique is first to contain; together they add up to f.

    Each is an integer combination of cuts f(x_T, anchor), so that sum over cliques = f whenever no joint term is
    missing.
    """
    owner: dict[tuple[int, ...], int] = {}
    for index, clique in enumerate(cliques):
        for size in range(len(clique) + 1):
            for subset in combinations(clique, size):
                owner.setdefault(subset, index)
    problems = []
    for index, clique in enumerate(cliques):
        coefficients: dict[tuple[int, ...], int] = {}
        for subset, owned_by in owner.items():
            if owned_by != index:
                continue
            for size in range(len(subset) + 1):
                for part in combinations(subset, size):
                    sign = -1 if (len(subset) - size) % 2 else 1
                    coefficients[part] = coefficients.get(part, 0) + sign
        cuts = {part: c for part, c in coefficients.items() if c != 0}
        problems.append(_cut_problem(problem, clique, cuts))
    return problems


def _cut_problem(problem: Problem, clique: tuple[int, ...], cuts: dict[tuple[int, ...], int]) -> Problem:
    def lift(points: np.ndarray, part: tuple[int, ...]) -> np.ndarray:
        full = np.zeros((len(points), problem.dim))  # the anchor is the centre of the box
        for i in part:
            full[:, i] = points[:, clique.index(i)]
        return full

    def function(points: np.ndarray) -> np.ndarray:
        total = np.zeros((len(points), problem.outputs))
        for part, coefficient in cuts.items():
            total += coefficient * problem.function(lift(points, part))
        return total

    kinks = None
    if problem.kinks is not None:
        kinks = tuple(
            (lambda points, kink=kink, part=part: kink(lift(points, part)))
            for kink in problem.kinks
            for part in cuts
            if part
        )
    return problem.derived(function, len(clique), problem.tolerance, kinks)
