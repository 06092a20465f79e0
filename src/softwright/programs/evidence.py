"""The certificate of a program: one claim for all sequences, and the lines from which a checker proves it again.

    terms     the graph of what the program means, arguments first: [operation, places of arguments, value]
    outputs   their places in it
    columns   what each column of the stream holds:
              ["real", t]             the term t, to within an error
              ["near", t]             a whole number t, to within less than 1/2
              ["whole", t, shift]     t + shift exactly      ["sign", t]       1 or -1 exactly, whether t holds
              ["bit", t, low, m, b]   1 - 2 (bit b of t - low), of m bits; all bits 1 where t has no code
              ["digit", t, low, D, "high" or "low"]            1 + the digit of t - low to the base D
              and, where a table writes it, the terms that the table looks up
              ["key", c], ["bias", c] the keys of the fixed tokens that the curve of column c looks up
    heads     kind, layer, place in the layer, condition, what it writes, and its few numbers

Forms are not written down: the checker reads them from the weights.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from softwright.precision import assumptions
from softwright.programs.build import Construction
from softwright.programs.columns import Board, Head
from softwright.programs.meaning import Meaning
from softwright.programs.observe import choices_of
from softwright.programs.terms import Term, shown
from softwright.result.closed_form import ClosedForm

METHOD = "columns of the stream, one lemma for every head"
_ROOM = Fraction(33, 32)
_REFERS = {"real": (1,), "near": (1,), "whole": (1,), "sign": (1,), "bit": (1,), "digit": (1,)}


def certificate_of(
    made: Construction, meaning: Meaning, target: dict[str, Any], started: float, tol: Fraction
) -> ClosedForm:
    """The certificate of this very network.

    Its bound is stated a little above what was proved, but not above a tolerance that was met: a checker that
    encloses ranges in its own way arrives at other digits, and a claim that only one of two true
    proofs can show is of no use."""
    proved = max(made.errors)
    bound = min(proved * _ROOM, tol) if proved <= tol else proved * _ROOM
    dtype = made.board.precision.name
    total = _up(bound)
    return ClosedForm.of(
        made.network,
        target,
        started,
        statement=claim_of(meaning, total),
        bound=total,
        exact_part=total,
        rounding_part=0.0,
        method=METHOD,
        assumptions=(*assumptions(dtype), "exp(0) is exactly 1 in torch's CPU kernels"),
        engine="sdpa",
        parts=parts_of(made, meaning),
    )


def claim_of(meaning: Meaning, bound: float) -> str:
    """The sentence of a certificate."""
    tokens = meaning.tokens
    what = "exactly the value" if bound == 0 else "within the bound of the value"
    sentence = (
        f"at every token of every sequence of {tokens.shortest} to {tokens.longest} tokens of the stated fields, every "
        f"output is {what} that the program means"
    )
    margins = [_hypothesis(term) for term in choices_of(meaning.outputs)]
    return f"{sentence}, where {' and '.join(margins)}" if margins else sentence


def _hypothesis(term: Term) -> str:
    """What a term takes for granted, in words."""
    if term.op == "place_of":
        name, lead = shown(term.args[0]), float(term.args[1].value)
        return f"number {len(term.args) - 1} of the largest {name} leads by at least {lead:.17g}"
    if term.op == "interp":
        name, apart = shown(term.args[1]), float(term.args[3].value)
        return f"each {name} is at least {apart:.17g} more than the one before"
    if term.op == "assume":
        low, high = (float(arg.value) for arg in term.args[1:])
        return f"{shown(term.args[0])} lies between {low:.17g} and {high:.17g}"
    score = shown(term.args[1], "j" if term.op == "choose" else "")
    return f"the largest {score} leads by at least {float(term.args[2].value):.17g}"


def _up(number: Fraction) -> float:
    """The least float that is no smaller."""
    near = float(number)
    return near if Fraction(near) >= number else math.nextafter(near, math.inf)


def parts_of(made: Construction, meaning: Meaning) -> dict[str, list[Any]]:
    """Terms, outputs, columns and heads, ready for JSON."""
    board, terms = made.board, meaning.pool.terms
    needed: dict[int, Term] = {}
    pending = [*made.outputs, *(terms[number] for column in board.columns for number in _numbers(column.holds))]
    while pending:
        term = pending.pop()
        if term.number not in needed:
            needed[term.number] = term
            pending += term.args
    place = {number: k for k, number in enumerate(sorted(needed))}
    rows = [
        [needed[n].op, [place[arg.number] for arg in needed[n].args], _value(needed[n].value)] for n in sorted(needed)
    ]
    return {
        "terms": rows,
        "outputs": [place[term.number] for term in made.outputs],
        "columns": [_holds(column.holds, place) for column in board.columns],
        "heads": _heads(board),
    }


def _value(value: Any) -> Any:
    return f"{value.numerator}/{value.denominator}" if isinstance(value, Fraction) else value


def _numbers(holds: list[Any]) -> list[int]:
    """The numbers of the terms that a column's line names."""
    found = [holds[k] for k in _REFERS.get(holds[0], ()) if len(holds) > k]
    if holds[0] in _REFERS and isinstance(holds[-1], list):
        found += holds[-1]
    return found


def _holds(holds: list[Any], place: dict[int, int]) -> list[Any]:
    if holds[0] not in _REFERS:
        return list(holds)
    out = [holds[0], place[holds[1]], *holds[2:]]
    if isinstance(out[-1], list):
        out[-1] = [place[number] for number in out[-1]]
    if holds[0] == "whole":
        out[2] = int(Fraction(out[2]))
    return out


def _heads(board: Board) -> list[dict[str, Any]]:
    counts: dict[int, int] = {}
    found = []
    for head in sorted(board.heads, key=lambda head: head.layer):
        number = counts.get(head.layer, 0)
        counts[head.layer] = number + 1
        found.append(
            {
                "kind": head.kind,
                "layer": head.layer - 1,
                "head": number,
                "where": head.where,
                "writes": [column for column, _ in head.writes],
                "numbers": _small(head),
            }
        )
    return found


def _small(head: Head) -> dict[str, Any]:
    names: dict[str, tuple[str, ...]]
    names = {"table": ("sharpness", "middle", "count", "low"), "digit": ("sharpness", "middle", "count", "base")}
    names |= {"largest": ("penalty", "sign"), "sum": ("groups",), "kernel": ("exact",)}
    names["curve"] = ("count", "center", "halfwidth", "exact", "rounding", "order", "tree")
    more = ("side",) if head.numbers.get("side") else ()
    return {name: head.numbers[name] for name in (*names.get(head.kind, ()), *more)}
