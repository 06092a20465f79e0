"""`as_map`: whether a program is a continuous map of sequences, and whether it takes notice of places.

That it takes none is read off the terms: fields, the length, functions at one token and aggregates over pairs of tokens
do not, and neither do order statistics of what is sorted by itself. Such a program is permutation-equivariant.
"""

from __future__ import annotations

from typing import Any

from softwright.programs.fields import Sequence, as_sequence
from softwright.programs.meaning import meaning
from softwright.programs.terms import Term, shown
from softwright.programs.written import read_tokens

_WITHOUT_PLACES = ("field", "length", "number", "symbol", "i", "j", "sum", "mean", "max_of", "min_of")
_WITHOUT_PLACES += ("attend", "choose", "select", "assume")


def as_map(text: str, tokens: Sequence | dict[str, Any] | str, places: bool) -> tuple[Sequence, list[str]]:
    """The tokens, and what keeps a program from being such a map: outputs that jump; places, unless they may matter."""
    where = read_tokens(tokens) if isinstance(tokens, str) else as_sequence(tokens)
    meant = meaning(text, where)
    found = [
        f"{shown(output)} is no real number; the theorem is for continuous maps, `softwright compile` takes this one"
        for output in meant.outputs
        if meant.type_of(output).kind != "real"
    ]
    return where, found if places else found + _places(meant.outputs)


def _places(outputs: list[Term]) -> list[str]:
    found, seen, pending = [], set[int](), list(outputs)
    while pending:
        term = pending.pop()
        if term.number in seen:
            continue
        seen.add(term.number)
        if _is_order_statistic(term):
            pending += [term.args[0].args[0], *term.args[1:]]
        elif term.plain or term.op in _WITHOUT_PLACES:
            pending += term.args
        else:
            found.append(
                f"{shown(term)} depends on the places of tokens, and the theorem is for maps that do not; "
                "`softwright compile` or theorem A3 take this one"
            )
    return found


def _is_order_statistic(term: Term) -> bool:
    """A value at a place in its own order: it stays the same however the tokens are ordered."""
    return term.op == "at" and term.args[0].op == "sort" and term.args[0].args[0] is term.args[0].args[1]
