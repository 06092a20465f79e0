"""`by_place`: sums and means of what places and the length decide are functions of n, or of i, and known."""

from __future__ import annotations

from fractions import Fraction

from softwright.programs.finite import Undefined, is_rational, leaves_of, value_at
from softwright.programs.terms import Term

LONGEST = 512  # tokens of sequences for which such sums are written out
CROSSED = 128  # the same for sums of what the length and the place decide together


def is_causal(condition: Term) -> bool:
    """Whether a condition is j <= i as it is written."""
    if condition.op != "le":
        return False
    return [(arg.op, arg.args[0].op if arg.args else "") for arg in condition.args] == [
        ("j", "position"),
        ("i", "position"),
    ]


def by_place(term: Term, longest: int) -> tuple[str, list[Fraction]] | None:
    """("length", values by n) or ("position", values by i) of a term that one of the two decides."""
    if term.op in ("length", "position"):
        return term.op, [Fraction(k) for k in range(longest + 1)]
    if term.op not in ("sum", "mean") or longest > LONGEST or term.args[0].op not in ("j", "number"):
        return None
    inner = term.args[0].args[0] if term.args[0].op == "j" else term.args[0]
    causal = is_causal(term.args[1])
    if not (causal or term.args[1].op == "number") or not is_rational(inner):
        return None
    leaves = leaves_of(inner) if inner.plain else [inner] if inner.op != "number" else []
    rows = {leaf.number: by_place(leaf, longest) for leaf in leaves}
    known = {number: row for number, row in rows.items() if row is not None}
    by_length = any(name == "length" for name, _ in known.values())
    if len(known) < len(rows) or (by_length and (causal or longest > CROSSED)):
        return None

    def at(j: int, n: int) -> Fraction:
        return value_at(inner, {k: row[n if name == "length" else j] for k, (name, row) in known.items()}, ())

    try:
        if by_length:
            totals = [sum((at(j, n) for j in range(n)), Fraction(0)) for n in range(longest + 1)]
        else:
            totals = [Fraction(0)]
            for j in range(longest):
                totals.append(totals[-1] + at(j, longest))
    except (ArithmeticError, Undefined):
        return None
    if term.op == "mean":
        totals = [total / max(k, 1) for k, total in enumerate(totals)]
    return ("position", totals[1:]) if causal else ("length", totals)
