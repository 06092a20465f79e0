"""`approximate(style="readable")`: no token holds more than twice the target's range, and what each one adds is told.

Fewest tokens often means large values of alternating sign that cancel: exact, and hard to read. With M the middle and R
the range of the target over the box (the least and the largest of many values, so R is not too large), what a token
holds is c_j(t) = v_j + s_j.t, and the style asks

    |c_j(t) - M| <= 2 R   on the whole box       (of several heads that add up: |c_j(t)| <= |M| + 2 R).

If the network that `approximate` finds anyway is such a one, it is taken. Else tokens of constant value stand on a
uniform grid, as many as it takes: a softmax over a grid of spacing h and width s smooths the values, v = f - s^2 f''/2
+ ..., so values come as close to the target as is wished when s shrinks with h, and the error of the grid itself,
about e^(-2 pi^2 s^2/h^2), depends on s/h alone. The plan tells the price: tokens with and without the style.

What a token adds at a point is its weight times c_j - M; the plan tells the largest seen for every token (of many
tokens, for those that add most).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.approximation.fitting.axis_search import search_uniform
from softwright.approximation.problem import Fit, Problem, probe_points
from softwright.approximation.strategies.line import as_fit, axis_problem, scaling_on_line
from softwright.attention.token_names import token_names
from softwright.domain import Box
from softwright.errors import Faults, ToleranceNotReached

if TYPE_CHECKING:
    from softwright.attention import Head
    from softwright.result.built import Built
    from softwright.targets import Target

STYLES = {
    "plain": "as few tokens as meet the tolerance",
    "readable": "no token holds more than twice the target's range; the plan tells what each one adds",
}
TIMES = 2.0  # the target's range
_POINTS = 6000
_MOST_ON_A_LINE = 2000
_MOST_VARIABLES = 5  # of a grid of tokens
_NAMED = 40  # tokens that the plan calls by name


def style_faults(style: Any, target: Target | None, box: Box | None, norm: Any, gap: Any, strategy: Any) -> list[str]:
    """What is wrong with a style, alone and beside the other options."""
    faults = Faults("approximate")
    known = isinstance(style, str) and style in STYLES
    faults.check(known, f"unknown style {style!r}; choose from {', '.join(STYLES)}")
    if style != "readable":
        return faults.found
    faults.check(
        norm == "sup" and gap is None, "style='readable' is for the sup norm without a gap; leave norm and gap out"
    )
    faults.check(strategy == "auto", f"style='readable' chooses by itself; leave strategy={strategy!r} out")
    anywhere = target is None or target.given_points() is None
    faults.check(anywhere, "style='readable' is for formulas and callables; a table is known at its points alone")
    few = box is None or box.dim <= _MOST_VARIABLES
    faults.check(
        few,
        f"style='readable' is for up to {_MOST_VARIABLES} variables; use strategy='compose', whose features have names",
    )
    return faults.found


class Limits:
    """Middle (m,) and range of the target, seen at many points of the box."""

    def __init__(self, problem: Problem) -> None:
        values = problem.function(probe_points(problem.dim, _POINTS, seed=71))
        low, high = values.min(axis=0), values.max(axis=0)
        self.middle, self.range = 0.5 * (low + high), float((high - low).max())

    def most(self, heads: list[Head]) -> float:
        """The largest distance that is asked about over what is allowed: at most 1 is readable."""
        alone = len(heads) == 1
        middle = self.middle if alone else np.zeros_like(self.middle)
        allowed = TIMES * self.range + (0.0 if alone else float(np.abs(self.middle).max()))
        worst = 0.0
        for head in heads:
            reach = 0.0 if head.slopes is None else np.abs(head.slopes).sum(axis=2)  # (N, m)
            worst = max(worst, float((np.abs(head.values - middle) + reach).max()))
        return worst / allowed if allowed > 0 else (0.0 if worst == 0 else np.inf)


def fit_readable(problem: Problem) -> Fit | None:
    """Tokens of constant, small values on a grid; None if the budget does not hold enough of them."""
    limits = Limits(problem)
    if problem.dim == 1:
        return _on_line(problem, limits)
    best: Fit | None = None
    for largest in ((2 * TIMES) ** (1 / problem.dim), 1.3, 1.1):  # in units of half the range
        from softwright.approximation.strategies.grid import fit_grid

        fit = fit_grid(problem, optimise=False, affine=False, cap=2 * TIMES, largest=largest)
        if fit is not None and limits.most(fit.heads) <= 1:
            if fit.error <= problem.tolerance:
                return fit
            best = fit if best is None or fit.error < best.error else best
    return best


def _on_line(problem: Problem, limits: Limits) -> Fit | None:
    scaling = scaling_on_line(problem)
    setting = axis_problem(problem, scaling, 2 * TIMES)
    most = min(_MOST_ON_A_LINE, problem.budget.max_tokens)
    for largest in (2 * TIMES, 1.8 * TIMES):  # the range was seen at other points
        found = search_uniform(setting, False, most, largest)
        fit = as_fit(found, scaling, "spectral", f"{found.tokens} tokens of constant value on a uniform grid")
        if limits.most(fit.heads) <= 1:
            return fit
    return None


def unreadable(problem: Problem, formula: Any) -> str:
    """Why no network came of the style, although its budget was not spent."""
    most = min(_MOST_ON_A_LINE, problem.budget.max_tokens) if problem.dim == 1 else problem.budget.max_tokens
    lines = [
        f"no network of at most {most} tokens on a grid meets {problem.tolerance:.3g} with tokens that hold at most "
        f"{TIMES:g} times the target's range"
    ]
    if formula is not None and formula.jumps:
        lines.append(
            "  the formula may jump, which no continuous network meets in the sup norm: leave style= out and give "
            "gap=1e-6 or norm='L1', exclude the jump from the box, or smooth the target"
        )
    else:
        room = ", more max_tokens" if most == problem.budget.max_tokens else ""
        lines.append(f"  give a larger tol{room} or a smaller box, or leave style= out")
    return "\n".join(lines)


def readable_as_it_is(problem: Problem, plain: Callable[..., Built[Any]]) -> tuple[Built[Any] | None, int | None]:
    """What `plain` builds, told, if it is readable; and how many tokens it has, or None if it was not reached.

    Of a stack whose formula has kinks one layer is looked at as well: it may be one of gates.
    """
    tokens = None
    for options in ({}, {"strategy": "layer"}):
        try:
            built = plain(**options)
        except ToleranceNotReached:
            continue
        tokens = built.plan.tokens if tokens is None else tokens
        if built.kind == "approximation" and Limits(problem).most(built.network.heads()) <= 1:
            return told(built, problem, tokens if tokens != built.plan.tokens else None), tokens
        if built.kind == "approximation" or not problem.kinks:
            break
    return None, tokens


def told(built: Built[Any], problem: Problem, without: int | None) -> Built[Any]:
    """The plan with the bound that holds, the price and what every token adds; `without`: tokens of plain style."""
    network, limits = built.network, Limits(problem)
    heads = network.heads()
    points = probe_points(problem.dim, _POINTS, seed=72)
    entries, named = [], []
    center, scale = network.center.double().numpy(), network.scale.double().numpy()
    for entry, head in zip(built.plan.heads, heads, strict=True):
        adds = _adds(head, limits.middle / len(heads), points)
        entries.append({**entry, "most_added": float(adds.max())})
        named += zip(adds.tolist(), token_names(head, network.box, center, scale), strict=True)
    held = limits.most(heads) * TIMES
    price = f"{built.plan.tokens} tokens instead of {without}" if without else "the same tokens as without it"
    if without == built.plan.tokens:
        price = f"{without} tokens, as many as without it"
    reasons = [
        *built.plan.reasons,
        f"style readable: no token holds more than {held:.3g} times the target's range, {limits.range:.3g}; {price}",
        f"a token adds to the middle of the range at most, as seen: {_in_words(named)}",
    ]
    return replace(built, plan=replace(built.plan, heads=entries, reasons=reasons))


def _in_words(named: list[tuple[float, str]]) -> str:
    """What tokens add, by name: all of them, or those that add most."""
    told = named if len(named) <= _NAMED else sorted(named, key=lambda pair: -pair[0])[:_NAMED]
    words = [f"{name}: {one:.3g}" for one, name in told]
    rest = sorted((one for one, _ in named), reverse=True)[len(told) :]
    return "; ".join([*words, *([f"{len(rest)} others: {rest[0]:.3g}"] if rest else [])])


def _adds(head: Head, middle: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(N,): the largest weight times distance from the middle, over the points."""
    found = np.zeros(head.tokens)
    step = max(1, 2_000_000 // head.tokens)
    for start in range(0, len(points), step):
        t = points[start : start + step]
        weights = head.weights(t)  # (q, N)
        for o in range(head.outputs):
            held = head.values[:, o] - middle[o]
            held = held if head.slopes is None else held + t @ head.slopes[:, o].T
            found = np.maximum(found, np.abs(weights * held).max(axis=0))
    return found
