"""From what a search found to what is said: proved with which bound, refuted by which point, or open and why.

A stated bound keeps a little room above what was proved, so that a checker with other enclosures agrees; a search that
looks for the smallest bound aims a little lower for it. Where the exact error is 0, or next to it, its part is a share
of the rounding: a checker's enclosures are good to a small part of the rounding, not to any number however small.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from flint import arb

from softwright.proof.arithmetic.balls import ball_below, precision
from softwright.proof.models.exact_heads import dtype_name
from softwright.proof.question import Certification, Question, as_point, rest_below
from softwright.proof.search.residual import LEAST_SHARE
from softwright.proof.search.search import SearchResult, lower_at
from softwright.result.certificate import sum_rounded_up
from softwright.result.outcome import Outcome
from softwright.targets import evaluate

_SLACK = 0.02  # share of the stated bound kept free, so that a checker with other enclosures agrees
_ROUNDING_SLACK = 1.1  # the same of the rounding part, which a checker counts with other tokens left out


def aimed_tightness(tightness: float | None) -> float:
    """What the search aims at, so that the stated bound with its slack is as tight as asked."""
    asked = 0.05 if tightness is None else tightness
    return (1.0 + asked) / (1.0 + _SLACK * min(1.0, asked / 0.05)) - 1.0


def stated_factor(tightness: float | None) -> float:
    """By how much the stated bound exceeds what was proved: room for a checker with other enclosures."""
    return 1.0 + 0.5 * _SLACK * min(1.0, (0.05 if tightness is None else tightness) / 0.05)


def dtype_advice(question: Question) -> str:
    single = dtype_name(question.network) == "float32"
    return (
        "" if not single else ", or use float64" if question.engine == "double" else ", or engine='double', or float64"
    )


def boundless_rounding(question: Question) -> str:
    """What is said where gates are so steep, or numbers so large, that rounding has no finite bound."""
    return f"the rounding of {dtype_name(question.network)} has no finite bound here" + dtype_advice(question)


def refuted_by(question: Question, witness: np.ndarray | None, lower: float, bound: float) -> float | None:
    """The error that the network really makes near the witness, if it certainly exceeds the bound.

    The exact error at the witness exceeds the bound; what runs is the rounded network. So it is run, at the witness in
    its own dtype, and compared with the formula in ball arithmetic. Without a formula the rounding bound decides.
    """
    if witness is None:
        return None
    if question.formula is not None:
        point = np.asarray(witness, dtype=np.float32 if dtype_name(question.network) == "float32" else np.float64)
        inside = np.clip(point.astype(float), question.domain.lower, question.domain.upper)
        if np.array_equal(inside, point.astype(float)):
            output = question.network.evaluate(point.astype(float)[None], engine=question.engine)[0]
            worst = 0.0
            with precision(200):
                named = {name: arb(float(x)) for name, x in zip(question.domain.names, point, strict=True)}
                for node, value in zip(question.formula, output, strict=True):
                    gap = abs(evaluate(node, named) - arb(float(value)))
                    worst = max(worst, ball_below(gap) if gap.is_finite() else 0.0)
            if worst > bound:
                return worst
    _, _, found = lower_at(question.residual, witness[None], bound)
    certain = lower - float(found.rounding[0])
    return certain if certain > bound else None


def conclude(
    question: Question,
    bound: float | None,
    tightness: float | None,
    result: SearchResult,
    share: float = 0.0,
    ended: Outcome = Outcome.BUDGET,
) -> Certification:
    common = {
        "lower": result.lower,
        "witness": as_point(result.witness),
        "boxes": result.leaves,
        "evaluations": result.evaluations,
        "leaf_upper": result.leaf_upper,
    }
    if bound is not None and result.refuted:
        found = refuted_by(question, result.witness, result.lower, bound)
        if found is not None:
            return Certification(Outcome.REFUTED, bound, **{**common, "lower": found})
    if bound is not None and result.finished:
        stated = min(share, 1.25 * result.rounding)
        certificate = question.certificate(bound, rest_below(bound, stated), stated, result)
        return Certification(Outcome.PROVED, bound, certificate=certificate, proved_bound=bound, **common)
    weaker, proved = None, math.inf
    if math.isfinite(result.exact) and math.isfinite(result.rounding):
        slack = stated_factor(tightness)
        rounding = result.rounding * _ROUNDING_SLACK
        exact = max(result.exact * slack, result.lower, LEAST_SHARE * rounding)
        proved = sum_rounded_up(exact, rounding)
        weaker = question.certificate(proved, exact, rounding, result)
    if bound is None and result.finished and weaker is not None:
        return Certification(Outcome.PROVED, proved, certificate=weaker, proved_bound=proved, **common)
    outcome, detail = (Outcome.INTERRUPTED if result.interrupted else ended), ""
    if result.refuted and not result.interrupted:
        outcome = Outcome.ROUNDING
        detail = "the exact error exceeds what the rounding leaves of the bound" + dtype_advice(question)
    elif result.finished:
        outcome, detail = Outcome.ROUNDING, boundless_rounding(question)
    asked = proved if bound is None else bound
    return Certification(outcome, asked, detail=detail, proved_bound=proved, weaker=weaker, **common)


def smaller_of(found: Certification, more: Certification) -> Certification:
    """What a proved claim and a search for the smallest bound say together.

    A search that ran out of work before it was as tight as asked may still have proved less than the claim.
    """
    stated, smaller = found.certificate, more.certificate or more.weaker
    if stated is not None and smaller is not None and smaller.bound < stated.bound:
        tight = replace(more, outcome=Outcome.PROVED, bound=smaller.bound, detail="")
        return replace(tight, certificate=smaller, weaker=None, proved_bound=smaller.bound)
    if stated is None or more.lower <= found.lower:
        return found
    lower = min(more.lower, stated.exact_part)
    stated = replace(stated, lower=lower, witness=more.witness)
    return replace(found, lower=lower, witness=more.witness, certificate=stated)
