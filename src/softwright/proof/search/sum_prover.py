"""The proof of an additive problem: one search for each group of variables, one certificate for their sum.

The bound is divided among the groups by what each is seen to need, the rest of it half evenly and half in proportion. A
group that turns out to need more than its part sends the division back, a few times.

Walls (`walls.py`) are parts whose bounds are known beforehand, in closed form; what they leave of the bound is divided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from softwright.domain import Box
from softwright.proof.models.exact_heads import float_values
from softwright.proof.models.targets import FormulaModels
from softwright.proof.search.additive import Group, Term, groups_of, part_box, part_residual, terms_of
from softwright.proof.search.probe import worst_points
from softwright.proof.search.residual import LEAST_SHARE, Residual
from softwright.proof.search.search import Goal, Run, SearchResult, lower_at
from softwright.proof.search.units import find
from softwright.result.certificate import Part, sum_rounded_up
from softwright.result.outcome import Outcome
from softwright.targets import Node

_ATTEMPTS = 4


@dataclass
class Piece:
    """One group with what sampling and, later, its search found."""

    group: Group
    box: Box
    residual: Residual  # with the constant taken off
    half_range: float  # of the residual, as seen
    high: np.ndarray  # (outputs, variables) where each output is largest
    low: np.ndarray  # and smallest
    lower: float
    rounding: float
    least: float  # no smaller exact part is searched for
    result: SearchResult | None = None


@dataclass
class SumResult:
    """`parts` is empty if the proof failed; `outcome` and `detail` then say why."""

    parts: tuple[Part, ...]
    exact: float
    rounding: float
    leaves: int
    evaluations: int
    lower: float
    witness: np.ndarray | None
    outcome: Outcome = Outcome.PROVED
    detail: str = ""


def split_sum(
    residual: Residual, nodes: tuple[Node, ...], names: tuple[str, ...]
) -> tuple[list[Group], list[Term]] | None:
    """The groups of an additive problem; None if there is nothing to gain."""
    terms = terms_of(nodes)
    groups = groups_of(residual.heads, terms, names)
    if len(groups) == 1 and len(groups[0].columns) == len(names):
        return None
    return groups, terms


def make_pieces(
    residual: Residual, groups: list[Group], terms: list[Term], domain: Box, accuracy: float
) -> list[Piece]:
    """Each group's residual, centred by the middle of its sampled range."""
    pieces = []
    for group in groups:
        box = part_box(domain, group)
        part = part_residual(residual, group, terms, domain.names)
        signed = _signed(part)
        count = 1500
        high, low = np.empty((part.outputs, part.dim)), np.empty((part.outputs, part.dim))
        middle, half = np.zeros(part.outputs), 0.0
        for o in range(part.outputs):
            tops, up_to = worst_points(_one(signed, o, 1.0), part.heads, box.lower, box.upper, count)
            bottoms, down_to = worst_points(_one(signed, o, -1.0), part.heads, box.lower, box.upper, count)
            high[o], low[o] = tops[0], bottoms[0]
            middle[o] = 0.5 * (up_to[0] - down_to[0])
            half = max(half, 0.5 * float(up_to[0] + down_to[0]))
        part = part.with_constant(middle)
        places = np.concatenate([high, low, box.sample(24)])  # the latter show rounding
        lower, _, found = lower_at(part, places, accuracy)
        sampled = found.take(np.arange(len(places) - 24, len(places)))
        rounding = float(np.max(sampled.rounding))
        pieces.append(Piece(group, box, part, half, high, low, lower, rounding, sampled.exact_goal()))
    return pieces


def _one(signed: Callable[[np.ndarray], np.ndarray], output: int, sign: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda points: sign * signed(points)[:, output]


def _signed(part: Residual) -> Callable[[np.ndarray], np.ndarray]:
    """The residual of a part in plain float64, for sampling."""
    if not isinstance(part.target, FormulaModels):
        raise TypeError("only formulas can be taken apart")
    formula = part.target.expression

    def value(points: np.ndarray) -> np.ndarray:
        network = float_values(part.heads, points) if part.heads else np.zeros((len(points), part.outputs))
        with np.errstate(all="ignore"):
            return np.nan_to_num(network - formula(points), nan=0.0, posinf=0.0, neginf=0.0)

    return value


def _whole_witness(
    residual: Residual, pieces: list[Piece], dim: int, low: np.ndarray, accuracy: float
) -> tuple[float, np.ndarray | None]:
    """The error that is certain where all parts are largest together, or all are smallest, and the point."""
    points = []
    for output in range(residual.outputs):
        for name in ("high", "low"):
            point = low.copy()
            for piece in pieces:
                point[list(piece.group.columns)] = getattr(piece, name)[output]
            points.append(point)
    lower, witness, _ = lower_at(replace(residual, order=1), np.array(points).reshape(-1, dim), accuracy)
    return lower, witness


def prove_sum(
    residual: Residual,
    divided: tuple[list[Group], list[Term]],
    domain: Box,
    bound: float | None,
    run: Run,
    *,
    tightness: float | None = None,
    known: tuple[Part, ...] = (),
) -> SumResult:
    """Prove the bound, or without one the smallest within `tightness`, group by group.

    `known` are parts that are proved already; `divided` holds the groups of the rest.
    """
    pieces = make_pieces(residual, *divided, domain, bound or 1e-6)
    rest = abs(np.array([[Fraction(float(c)) for c in piece.residual.constant] for piece in pieces]).sum(axis=0)).max()
    remainder = sum_rounded_up(float(rest)) * (1.0 + 2.0**-50)
    lower, witness = _whole_witness(residual, pieces, domain.dim, domain.lower.copy(), bound or 1e-6)
    failed = SumResult((), np.inf, np.inf, 0, 0, lower, witness)
    remainder = sum_rounded_up(remainder, *(part.exact_part for part in known))
    taken = sum_rounded_up(remainder, *(part.rounding_part for part in known))
    evaluations = 0
    needs = [max(piece.half_range, piece.lower) for piece in pieces]
    shares = [max(2.0 * piece.rounding, 0.01 * (bound or 0.0) / len(pieces)) for piece in pieces]
    for _ in range(_ATTEMPTS):
        goals = _goals(pieces, needs, shares, None if bound is None else bound - taken, tightness)
        if goals is None:
            needed = sum(needs) + taken + 1.1 * sum(piece.rounding for piece in pieces)
            detail = f"the parts need {needed:.3g} together, rounding included; ask for more than that"
            return replace(failed, outcome=Outcome.ROUNDING, detail=detail, evaluations=evaluations)
        again = False
        for i, (piece, goal) in enumerate(zip(pieces, goals, strict=True)):
            if piece.result is not None and bound is None:
                continue
            found = find(piece.residual, (piece.box.lower, piece.box.upper), goal, run, lower=piece.lower)
            evaluations += found.evaluations
            piece.result, piece.lower = found, found.lower
            if found.interrupted:
                return replace(failed, outcome=Outcome.INTERRUPTED, evaluations=evaluations)
            if run.limits.spent:
                return replace(failed, outcome=run.limits.outcome, evaluations=evaluations)
            if found.refuted:
                needs[i], again = 1.02 * found.lower, True
            elif not found.finished:
                return replace(failed, outcome=run.limits.outcome, evaluations=evaluations)
            elif bound is not None and found.rounding > shares[i]:
                shares[i], again = 1.05 * found.rounding, True
        if not again:
            break
    else:
        return replace(failed, outcome=Outcome.DIVISION, evaluations=evaluations)
    parts = _parts(pieces, goals, bound, domain)
    exact = sum_rounded_up(remainder, *(part.exact_part for part in parts))
    parts = (*parts, *known)
    rounding = sum_rounded_up(*(part.rounding_part for part in parts))
    leaves = sum(piece.result.leaves for piece in pieces if piece.result is not None)
    return SumResult(parts, exact, rounding, leaves, evaluations, lower, witness)


def _goals(
    pieces: list[Piece],
    needs: list[float],
    shares: list[float],
    bound: float | None,
    tightness: float | None,
) -> list[Goal] | None:
    """What every part has to reach together to stay within the bound; None if it does not suffice."""
    count, total = len(pieces), sum(needs)
    if bound is None:
        inner = (tightness or 0.05) / 1.2
        floor = 0.3 * inner * total / count
        return [Goal(max(floor, piece.least), 1.1 * piece.rounding, 0.7 * inner) for piece in pieces]
    left = bound - sum(shares) - total
    if not left > 0.0:
        return None
    left *= 1.0 - 1e-9
    return [
        Goal(need + left * (0.5 / count + (0.5 * need / total if total > 0 else 0.5 / count)), share)
        for need, share in zip(needs, shares, strict=True)
    ]


def _parts(pieces: list[Piece], goals: list[Goal], bound: float | None, domain: Box) -> tuple[Part, ...]:
    """What is stated of every part; a little more than was proved, so that a checker with other enclosures agrees."""
    parts = []
    for piece, goal in zip(pieces, goals, strict=True):
        found = piece.result
        if found is None:
            raise RuntimeError("every part has been searched")
        rounding = 1.25 * found.rounding if bound is None else min(1.25 * found.rounding, goal.rounding)
        exact = 1.01 * max(found.exact, found.lower, LEAST_SHARE * rounding) if bound is None else goal.exact
        parts.append(
            Part(
                variables=tuple(domain.names[i] for i in piece.group.columns),
                heads=piece.group.heads,
                terms=piece.group.terms,
                exact_part=float(exact),
                rounding_part=float(rounding),
                tree=found.tree,
                constant=tuple(float(c) for c in piece.residual.constant),
            )
        )
    return tuple(parts)
