"""The automatic choice of one layer: structure first, then the construction that needs fewest tokens.

    affine?            one token
    jumps with a gap   a stack of layers (`compose`)
    one variable       kinks: `pieces`; smooth: `affine` (optimised keys) or uniform grids; singular: `graded`
    piecewise linear   gates (`pieces`)
    one direction      as for one variable, along w.t (`ridge`)
    terms with kinks   each on its own, the smooth rest together (`sum`)
    a callable of many  a tensor train (`train`)
    sparse coupling    one head for each clique of interacting variables (`sum`)
    a few variables    one grid head (`grid`)
    more               sums of ridge functions (`ridge`), scattered centres (`scattered`)

Every strategy can also be asked for by name (`catalogue.py`). All of them return heads; nothing is trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from softwright.approximation.catalogue import STRATEGIES, attempts, loaded
from softwright.approximation.formula import Formula
from softwright.approximation.problem import (
    PROVED_TOGETHER,
    Fit,
    OutOfBudget,
    Problem,
    affine_fit,
    best_of,
    one_head_a_variable,
    probe_points,
)
from softwright.approximation.strategies.graded import fit_graded_line
from softwright.approximation.strategies.line import fit_line

if TYPE_CHECKING:
    from softwright.approximation.catalogue import Fitter

_SHARE = 0.5  # of the work that is left, for each attempt: none starves those after it
_MANY = 40  # tokens graded towards a singular point: other keys have never met one with more than this


def choose(problem: Problem, formula: Formula | None = None, strategy: str = "auto") -> Fit:
    """Heads for the problem by the named strategy; the most accurate fit found if none meets the tolerance."""
    fit = STRATEGIES[strategy].fit(problem, formula)
    if fit is None:
        fit = STRATEGIES["scattered"].fit(problem, formula)
        if fit is None:
            raise RuntimeError("scattered tokens always give something")
        fit = fit.because(f"the strategy {strategy!r} does not apply to this target")
    return fit


def automatic(problem: Problem, formula: Formula | None = None) -> Fit:
    """The first attempt that meets the tolerance or finds a jump, else the best of all."""
    return _frugal(problem) if problem.saves_queries else _by_attempts(problem, formula)


def one_layer(problem: Problem, formula: Formula | None = None) -> Fit:
    """The same among what is one layer of heads."""
    return _by_attempts(problem, formula, attempts(stacks=False))


def _frugal(problem: Problem) -> Fit:
    """Where values are few: a train, which asks for the fewest; what is left of them is for the others."""
    train = loaded("strategies.train:fit_frugal")(problem, None)
    if train is not None and train.error <= problem.tolerance and train.tokens <= problem.budget.max_tokens:
        return train
    try:
        other = _by_attempts(problem, None)
    except OutOfBudget:
        if train is None:
            raise
        return train
    return other if train is None else best_of([other, train], problem.tolerance)


def _by_attempts(problem: Problem, formula: Formula | None, order: Sequence[Fitter] | None = None) -> Fit:
    points = probe_points(problem.dim, 4000, seed=1)
    trivial = affine_fit(problem, points, problem.function(points))
    if trivial is not None and not problem.kinks and not problem.suspects:
        few = problem.dim <= PROVED_TOGETHER
        return trivial if few or formula is None or formula.is_rational else one_head_a_variable(trivial)
    if problem.gap is not None and formula is not None and formula.jumps:
        return choose(problem, formula, "compose")
    if problem.dim == 1:
        return _one_variable(problem, formula)
    fits: list[Fit] = []
    # The last attempt gives something where nothing else does: not needed if a network is at hand.
    for attempt in (order or attempts())[: -1 if problem.only_fewer else None]:
        try:
            with problem.budget.share(_SHARE):
                fit = attempt(problem, formula)
        except OutOfBudget:
            continue  # what needs more than its share is passed over; the last attempt always gives something
        if fit is None or fit.tokens > problem.budget.max_tokens:
            continue
        if fit.error <= problem.tolerance or fit.jumps:  # nothing continuous meets a jump
            return fit
        fits.append(fit)
    if not fits:
        raise OutOfBudget
    return best_of(fits, problem.tolerance)


def _one_variable(problem: Problem, formula: Formula | None) -> Fit:
    """Graded keys where the formula is singular; else, or if fewer tokens do, what one variable always has."""
    graded = fit_graded_line(problem, formula)
    if graded is None or graded.tokens > problem.budget.max_tokens:
        return fit_line(problem)
    if graded.error <= problem.tolerance and graded.tokens > _MANY and graded.origin is not None:
        return graded
    try:
        return best_of([fit_line(problem), graded], problem.tolerance)
    except OutOfBudget:
        return graded
