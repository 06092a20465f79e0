"""Sums: heads that add up, one (or a few) for each part of the target.

*Cliques.* Without an edge between two variables in the graph of interactions there is no joint term, so
f(t) = sum_C f_C(t_C) over the maximal cliques C (`structure.py`), and every f_C is a problem in few variables.

*Terms.* A formula that is a sum has terms with kinks and smooth ones: each of the former is treated on its own, the
smooth rest together.

Every part gets an equal share of the tolerance and is solved by whatever suits it. Affine parts cost no token: softmax
weights add to one, so any head carries them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from softwright.approximation.choose import automatic
from softwright.approximation.formula import Formula
from softwright.approximation.problem import Fit, Problem, probe_points
from softwright.approximation.structure import clique_functions, interaction_strengths, maximal_cliques
from softwright.attention.head import Head


def fit_cliques(problem: Problem, formula: Formula | None = None) -> Fit | None:
    """Sparse coupling: one head (or a few) for each clique of interacting variables; None if all variables interact."""
    strengths = interaction_strengths(problem.function, problem.dim)
    cliques = maximal_cliques(strengths > 0.05 * problem.tolerance)
    if len(cliques) == 1:
        return None
    parts = clique_functions(problem, cliques)
    reason = "sparse coupling: " + ", ".join("{" + ", ".join(f"t{i + 1}" for i in c) + "}" for c in cliques)
    embed = [(lambda head, c=c: head.embedded(problem.dim, c)) for c in cliques]
    return _add_up(problem, [(part, None) for part in parts], embed, reason)


def fit_terms(problem: Problem, formula: Formula | None = None) -> Fit | None:
    """Terms with kinks one by one, the smooth rest together; None if that splits nothing."""
    if formula is None or problem.outputs != 1:
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
    """Fit every part to a share of the tolerance and put the heads side by side; None if a part misses it.

    A part that jumps misses it whatever is done: it stays, so that the result says so.
    """
    points = probe_points(problem.dim, 6000, seed=51)
    share = 0.9 * problem.tolerance / len(parts)
    heads: list[Head] = []
    constant, gradient = np.zeros(problem.outputs), np.zeros((problem.outputs, problem.dim))
    reasons = [reason]
    jumps: tuple[str, ...] = ()
    error = 0.0
    for left, (part, part_formula), place in zip(range(len(parts), 0, -1), parts, embed, strict=True):
        problem.budget.check()
        with problem.budget.share(2.0 / (left + 1)):  # twice an even share: parts differ, and most need little
            fit = automatic(replace(part, tolerance=share), part_formula)
        if fit.error > share and not fit.jumps:
            return None
        error += fit.error
        jumps += fit.jumps
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
    return Fit(heads, max(seen, min(error, problem.tolerance)), "sum", tuple(reasons), jumps=jumps)
