"""`compile`: the text of a program over sequences becomes layers of attention, with a proof for all sequences.

read -> terms with types -> columns and heads, a lemma each -> matrices -> errors seen
"""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

from softwright.attention.program import ProgramNetwork
from softwright.errors import Faults, ToleranceNotReached
from softwright.precision import Dtype, Precision, precision_of
from softwright.programs.build import Construction, build
from softwright.programs.evidence import certificate_of
from softwright.programs.fields import Sequence, as_sequence
from softwright.programs.meaning import meaning as meaning_of
from softwright.programs.observe import observe
from softwright.progress import Progress, reporting
from softwright.result.built import Built
from softwright.result.plan import Plan

_TEXTS = {
    "sum": "adds up the values of matching tokens, beside a null token",
    "mean": "averages, or picks, the values of matching tokens",
    "table": "looks a whole number up in the bank",
    "digit": "looks the higher digit of a whole number up in the bank",
    "largest": "takes the largest value of matching tokens",
    "smooth": "averages with weights that fall off",
    "choose": "picks the value of the token with the largest score",
    "product": "a gate of the token and the null token: part of a product",
    "exponential": "a gate of the token and the null token: a value times an exponential",
    "maximum": "a gate of the token and the null token: the larger of a value and 0",
    "attend": "averages with weights exp(score), a score of both tokens",
    "select": "picks the value of the token with the largest score of both tokens",
    "kernel": "adds up values times an exponential of both tokens, beside a null token: part of a kernel",
    "weighed": "adds up values times known weights, beside a null token",
    "order": "averages with weights that single out the number of this rank",
    "line": "averages the lines between two points, with weights that single out those around the query",
    "curve": "looks a function of one number up in the bank",
}


def compile(
    text: str,
    tokens: Sequence | dict[str, Any],
    *,
    tol: float = 1e-6,
    dtype: Dtype = "float64",
    certify: bool = True,
    progress: Progress = None,
    seed: int = 0,
) -> Built[ProgramNetwork]:
    """Layers of attention that compute a program at every token of every sequence.

    `tokens` says what a token brings and how long sequences are, for example Sequence(length=(1, 64), x=(-1, 1),
    s=Symbols("abc")). Whole numbers, symbols and truth values come out exactly; reals within `tol`. Nothing is trained
    and nothing of the text is executed. `certify=False` leaves the certificate out; `seed` draws the sequences on which
    errors are looked at.
    """
    faults, started = Faults("compile"), time.monotonic()
    with reporting(progress, "reading the program") as say:
        precision = faults.take(precision_of, dtype)
        where = faults.take(as_sequence, tokens)
        good = isinstance(tol, int | float) and not isinstance(tol, bool) and 0 < tol < 1e300
        faults.check(good, f"tol = {tol!r} must be a positive number, such as 1e-6")
        meant = faults.take(meaning_of, text, where) if where is not None else None
        faults.raise_if_any()
        if precision is None or where is None or meant is None:
            raise AssertionError("every fault was raised")
        say("making heads")
        made = build(meant, precision, Fraction(tol))
        target = {"kind": "program", "text": text, "tokens": where.describe()}
        certificate = certificate_of(made, meant, target, started, Fraction(tol)) if certify else None
        say("running it on sequences")
        seen = observe(made.network, meant, tol, seed)
        built: Built[ProgramNetwork] = Built(
            network=made.network,
            plan=_plan(made, started, tol, precision),
            target=target,
            observed=seen,
            certificate=certificate,
            unproved="" if certify else "not asked for",
        )
    bound = float(max(made.errors))
    if bound > tol:
        how = "ask for a larger tolerance, float64, or shorter sequences"
        raise ToleranceNotReached(f"the error is at most {bound:.3g}, more than {tol:g}; {how}", built)
    return built


def _plan(made: Construction, started: float, tol: float, precision: Precision) -> Plan:
    heads = [
        {
            "layer": head.layer,
            "structure": head.kind,
            "computes": head.text or head.kind,
            "values": _TEXTS[head.kind],
        }
        for head in sorted(made.board.heads, key=lambda head: head.layer)
    ]
    network = made.network
    exact = all(error == 0 for error in made.errors)
    reasons = [f"{len(made.board.columns)} columns, each written once; whole numbers are restored after every count"]
    reasons.append("all numbers are exact" if exact else f"errors are charged column by column in {precision.name}")
    return Plan.of(
        network,
        started,
        strategy="program",
        heads=heads,
        tokens=network.fixed_tokens,
        parameters=network.parameter_count,
        tolerance=tol,
        reasons=reasons,
    )
