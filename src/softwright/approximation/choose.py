"""The automatic choice: structure first, then the construction that needs fewest tokens.

    affine?            one token
    one variable       kinks: `pieces`; smooth: `affine` (optimised keys) or uniform grids; singular: graded `pieces`
    piecewise linear   gates (`pieces`)
    one direction      as for one variable, along w.t (`ridge`)
    terms with kinks   each on its own, the smooth rest together (`sum`)
    sparse coupling    one head for each clique of interacting variables (`sum`)
    a few variables    one grid head (`grid`)
    more               sums of ridge functions (`ridge`), scattered centres (`scattered`)

Every strategy can also be asked for by name. All of them return heads; nothing is trained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from softwright.approximation.formula import Formula
from softwright.approximation.problem import Fit, OutOfBudget, Problem, affine_fit, best_of, probe_points
from softwright.approximation.strategies.cells import fit_cells
from softwright.approximation.strategies.grid import fit_grid
from softwright.approximation.strategies.line import fit_affine_line, fit_line, fit_pieces_line, fit_spectral_line
from softwright.approximation.strategies.polyhedral import fit_polyhedral
from softwright.approximation.strategies.ridge import fit_ridge_sum
from softwright.approximation.strategies.scattered import fit_scattered
from softwright.approximation.structure import (
    along_ridge,
    clique_functions,
    interaction_strengths,
    maximal_cliques,
    ridge_direction,
)
from softwright.attention.head import Head

STRATEGIES = ("auto", "spectral", "affine", "grid", "pieces", "ridge", "sum", "scattered", "cells")
_MOST_GRID_VARIABLES = 5


def choose(problem: Problem, formula: Formula | None = None, strategy: str = "auto") -> Fit:
    """Heads for the problem by the named strategy; the most accurate fit found if none meets the tolerance."""
    if strategy == "auto":
        return _automatic(problem, formula)
    named: dict[str, Callable[[], Fit | None]] = {
        "spectral": lambda: _spectral(problem),
        "affine": lambda: fit_affine_line(problem) if problem.dim == 1 else fit_grid(problem),
        "grid": lambda: fit_affine_line(problem) if problem.dim == 1 else fit_grid(problem),
        "pieces": lambda: _pieces(problem, formula),
        "ridge": lambda: _ridge(problem) or fit_ridge_sum(problem),
        "sum": lambda: _sum(problem),
        "scattered": lambda: fit_scattered(problem),
        "cells": lambda: fit_cells(problem),
    }
    fit = named[strategy]()
    if fit is None:
        fit = fit_scattered(problem).because(f"the strategy {strategy!r} does not apply to this target")
    return fit


def _automatic(problem: Problem, formula: Formula | None) -> Fit:
    points = probe_points(problem.dim, 4000, seed=1)
    trivial = affine_fit(problem, points, problem.function(points))
    if trivial is not None and not problem.kinks:
        return trivial
    if problem.dim == 1:
        return fit_line(problem)
    fits: list[Fit | None] = []
    attempts: list[Callable[[], Fit | None]] = [lambda: _ridge(problem)]
    if formula is not None:
        # Piecewise-linear formulas come first: gates in max-affine form have a proof in closed form.
        attempts.insert(0, lambda: fit_polyhedral(problem, formula.expression.nodes, formula.box))
        attempts.append(lambda: _by_terms(problem, formula))
    attempts.append(lambda: _sum(problem))
    if problem.dim <= _MOST_GRID_VARIABLES:
        attempts.append(lambda: fit_grid(problem))
    attempts += [lambda: fit_ridge_sum(problem), lambda: fit_scattered(problem)]
    for attempt in attempts:
        try:
            fits.append(attempt())
        except OutOfBudget:
            continue  # what needs more time than is left is passed over; the last attempt always gives something
        newest = fits[-1]
        if newest is not None and newest.tokens > problem.budget.max_tokens:
            newest = fits[-1] = None
        if newest is not None and newest.error <= problem.tolerance:
            return newest
    return best_of(fits, problem.tolerance)


def _spectral(problem: Problem) -> Fit | None:
    if problem.dim == 1:
        return fit_spectral_line(problem)
    modest = fit_grid(problem, optimise=False, affine=False, cap=100.0)
    if modest is not None and modest.error <= problem.tolerance:
        return modest
    return best_of([modest, fit_grid(problem, optimise=False, affine=False), fit_scattered(problem)], problem.tolerance)


def _pieces(problem: Problem, formula: Formula | None) -> Fit | None:
    if problem.dim == 1:
        return fit_pieces_line(problem)
    if formula is not None:
        fit = fit_polyhedral(problem, formula.expression.nodes, formula.box)
        if fit is not None:
            return fit
    w = ridge_direction(problem)
    line = None if w is None else fit_pieces_line(along_ridge(problem, w))
    return None if line is None or w is None else _lift(line, w)


def _lift(line: Fit, w: np.ndarray) -> Fit:
    direction = ", ".join(f"{x:.4g}" for x in w / np.abs(w).max())
    reason = f"the target varies along one direction only, ({direction}) in the unit frame"
    heads = [head.along(w[None]) for head in line.in_unit_frame()]
    return Fit(heads, line.error, "ridge", (reason, *line.reasons))


def _ridge(problem: Problem) -> Fit | None:
    """A ridge function: find the direction, solve in one variable."""
    w = ridge_direction(problem)
    return None if w is None else _lift(fit_line(along_ridge(problem, w)), w)


def _sum(problem: Problem) -> Fit | None:
    """Sparse coupling: one head (or a few) for each clique of interacting variables; None if all variables interact."""
    strengths = interaction_strengths(problem.function, problem.dim)
    cliques = maximal_cliques(strengths > 0.05 * problem.tolerance)
    if len(cliques) == 1:
        return None
    parts = clique_functions(problem, cliques)
    reason = "sparse coupling: " + ", ".join("{" + ", ".join(f"t{i + 1}" for i in c) + "}" for c in cliques)
    embed = [(lambda head, c=c: head.embedded(problem.dim, c)) for c in cliques]
    return _add_up(problem, [(part, None) for part in parts], embed, reason)


def _by_terms(problem: Problem, formula: Formula) -> Fit | None:
    """Terms with kinks one by one, the smooth rest together; None if that splits nothing."""
    if problem.outputs != 1:
        return None
    smooth, rough = formula.split()
    formulas = ([smooth] if smooth is not None else []) + rough
    if not rough or len(formulas) < 2:
        return None
    parts: list[tuple[Problem, Formula | None]] = []
    for part in formulas:
        kinks = () if part is smooth else part.kinks
        parts.append((problem.derived(part.values, problem.dim, problem.tolerance, kinks), part))
    reason = f"{len(rough)} term(s) with kinks treated on their own" + (", the smooth rest together" if smooth else "")
    return _add_up(problem, parts, [lambda head: head] * len(parts), reason)


def _add_up(
    problem: Problem,
    parts: list[tuple[Problem, Formula | None]],
    embed: list[Callable[[Head], Head]],
    reason: str,
) -> Fit | None:
    """Fit every part to a share of the tolerance and put the heads side by side; None if a part misses badly."""
    points = probe_points(problem.dim, 6000, seed=51)
    share = 0.9 * problem.tolerance / len(parts)
    heads: list[Head] = []
    constant, gradient = np.zeros(problem.outputs), np.zeros((problem.outputs, problem.dim))
    reasons = [reason]
    error = 0.0
    for (part, part_formula), place in zip(parts, embed, strict=True):
        problem.budget.check()
        fit = _automatic(replace(part, tolerance=share), part_formula)
        if fit.error > share:
            return None
        error += fit.error
        for head in map(place, fit.in_unit_frame()):
            if head.tokens == 1:  # a single token is an affine function, which any other head carries for nothing
                constant += head.values[0]
                gradient += 0.0 if head.slopes is None else head.slopes[0]
            else:
                heads.append(head)
        reasons += [text for text in fit.reasons if text not in reasons and fit.tokens > 1]
    if not heads:
        heads = [Head(np.zeros((1, problem.dim)), np.zeros(1), np.zeros((1, problem.outputs)))]
    heads[0] = heads[0].plus_affine(constant, gradient)
    seen = float(np.abs(sum(head(points) for head in heads) - problem.function(points)).max())
    return Fit(heads, max(seen, min(error, problem.tolerance)), "sum", tuple(reasons))
