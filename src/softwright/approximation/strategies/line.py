"""One variable: the strategies `spectral`, `affine` and `pieces`, and the choice between them.

A smooth target first tries optimised keys with affine values (few tokens, little work), then uniform grids. A target
with kinks, or one whose convergence betrays a singularity, goes to `pieces`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from softwright.approximation.fitting.axis_search import (
    AxisFit,
    AxisProblem,
    optimised_share,
    search_optimised,
    search_uniform,
    uniform_tokens,
)
from softwright.approximation.fitting.edges import find_edges, merged, steep_places, zeros_of
from softwright.approximation.fitting.families import chebyshev_points
from softwright.approximation.problem import Fit, Problem, Scaling, affine_fit, best_of, scaling_of
from softwright.approximation.strategies.pieces import fit_pieces
from softwright.attention.head import Head

_SAFETY = 0.9  # aim a little below the tolerance: the check points are not all points


def line_breaks(problem: Problem) -> list[float]:
    """Where the target's smoothness breaks on (-1, 1): zeros of its kink functions, or found by zooming."""
    if problem.kinks is not None:
        kinks = merged([x for kink in problem.kinks for x in zeros_of(lambda t, kink=kink: kink(t[:, None]))])
        if kinks and not problem.suspects:
            return kinks
        steep = steep_places(lambda t: problem.function(t[:, None]), 20.0 * problem.tolerance)
        return merged([*kinks, *(problem.suspects if not steep else ()), *([] if kinks else steep)])
    found: list[float] = []
    for o in range(problem.outputs):
        found += find_edges(lambda t, o=o: problem.function(t[:, None])[:, o])
    return merged(found, gap=1e-7)


def axis_problem(problem: Problem, scaling: Scaling, cap: float) -> AxisProblem:
    relative = min(_SAFETY * problem.tolerance / scaling.scale, 0.5)
    return AxisProblem(
        lambda t: (problem.function(t[:, None]) - scaling.middle) / scaling.scale, relative, cap, problem.budget.check
    )


def as_fit(fit: AxisFit, scaling: Scaling, strategy: str, *reasons: str) -> Fit:
    n = fit.tokens
    slopes = (fit.values[n:] * scaling.scale)[:, :, None] if fit.affine else None
    values = fit.values[:n] * scaling.scale + scaling.middle
    head = Head.on_grid([fit.axis], values, slopes).centred()
    return Fit([head], fit.error * scaling.scale, strategy, reasons)


def scaling_on_line(problem: Problem) -> Scaling:
    t = np.concatenate([np.linspace(-1, 1, 1001), chebyshev_points(200)])
    return scaling_of(problem.function(t[:, None]))


def fit_spectral_line(problem: Problem, most: int = 400) -> Fit:
    """Uniform grid, constant values of at most about 100 times the target's range (more only if that fails)."""
    scaling = scaling_on_line(problem)
    fits = []
    for cap in (100.0, problem.value_cap(scaling.scale)):
        setting = axis_problem(problem, scaling, cap)
        fits.append(search_uniform(setting, False, min(most, problem.budget.max_tokens)))
        if fits[-1].error <= setting.tolerance or cap >= problem.value_cap(scaling.scale):
            break
    best = min(fits, key=lambda fit: fit.error)
    reason = f"a smooth target: {best.tokens} tokens on a uniform grid at finite temperature, constant values"
    return as_fit(best, scaling, "spectral", reason)


def fit_affine_line(problem: Problem, most: int = 400) -> Fit:
    """Affine values, keys optimised by variable projection; uniform grids when that does not reach."""
    scaling = scaling_on_line(problem)
    cap = problem.value_cap(scaling.scale)
    setting = axis_problem(problem, scaling, cap)
    problem.budget.say("optimising keys")
    limit = problem.budget.max_tokens
    guess = optimised_share(uniform_tokens(setting, True, 26))
    few = search_optimised(setting, True, min(17, limit + 1), 10 * cap, guess=guess)
    if few is not None:
        reason = f"a smooth target: {few.tokens} tokens with affine values, keys optimised by variable projection"
        return as_fit(few, scaling, "affine", reason)
    problem.budget.check()
    problem.budget.say("searching uniform grids")
    uniform = search_uniform(setting, True, min(most, limit))
    if uniform.error <= setting.tolerance and 17 < uniform.tokens <= 36:
        fewer = search_optimised(setting, True, uniform.tokens, 10 * cap, smallest=max(18, int(0.7 * uniform.tokens)))
        if fewer is not None:
            reason = f"a smooth target: {fewer.tokens} tokens with affine values, keys optimised by variable projection"
            return as_fit(fewer, scaling, "affine", reason)
    reason = f"a smooth target: {uniform.tokens} tokens on a uniform grid at finite temperature, affine values"
    return as_fit(uniform, scaling, "affine", reason)


def fit_pieces_line(problem: Problem) -> Fit | None:
    return fit_pieces(problem, line_breaks(problem))


def _affordable(fit: Fit | None, problem: Problem) -> Fit | None:
    return fit if fit is not None and fit.tokens <= problem.budget.max_tokens else None


def fit_line(problem: Problem) -> Fit:
    """The automatic choice for one variable."""
    t = np.concatenate([np.linspace(-1, 1, 801), chebyshev_points(100)])[:, None]
    trivial = affine_fit(problem, t, problem.function(t))
    if trivial is not None and not problem.suspects:
        return trivial
    breaks = line_breaks(problem)
    pieces: Fit | None = None
    if breaks:
        problem.budget.say(f"fitting pieces between {len(breaks)} kink(s)")
        pieces = _affordable(fit_pieces(problem, breaks), problem)
        if pieces is not None and pieces.error <= problem.tolerance:
            return pieces
        if pieces is not None and pieces.jumps:
            return pieces  # nothing continuous does better, and this one says why
    smooth = fit_affine_line(problem, most=160)
    if not breaks and (smooth.error > problem.tolerance or smooth.tokens > 40):
        problem.budget.say("splitting towards a singularity")
        pieces = _affordable(fit_pieces(problem, []), problem)
        if pieces is None and smooth.error > problem.tolerance:
            smooth = fit_spectral_line(problem)
    best = best_of([smooth, pieces], problem.tolerance)
    if best.error > problem.tolerance:
        # A looser request may end nearer to the target than a failed tight one: rounding grows with what is asked.
        for factor in (10.0, 100.0):
            easier = fit_pieces(replace(problem, tolerance=factor * problem.tolerance), breaks)
            best = best_of([best, _affordable(easier, problem)], problem.tolerance)
    return best
