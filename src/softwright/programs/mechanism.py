"""`mechanism`: what every head of a program looks at, and what it writes, layer by layer, in words."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from softwright.precision import Dtype, precision_of
from softwright.programs.build import build
from softwright.programs.columns import Board, Head
from softwright.programs.fields import Sequence
from softwright.programs.meaning import meaning

_KINDS = {
    "sum": "adds up",
    "mean": "averages",
    "table": "looks up",
    "digit": "looks up",
    "largest": "takes the largest over",
    "smooth": "averages, by weights that fall off, over",
    "kernel": "adds up, times an exponential of both tokens, over",
    "weighed": "adds up, times known weights, over",
    "order": "singles out, by rank, among",
    "line": "singles out, by whether the query lies between its times, among",
    "choose": "picks at the largest score among",
}
_BIT = re.compile(r"bit (\d+) of (.*)", re.DOTALL)


def attends(board: Board, head: Head) -> str:
    """Which tokens a head looks at."""
    if head.kind in ("table", "digit"):
        count = head.numbers["count"]
        return f"the one of {count} tokens of the bank that is this number" + (
            "'s higher digit" if head.kind == "digit" else ""
        )
    conditions = [_factor(board, factor) for factor in head.where]
    tokens = "tokens j <= i" if head.causal else "all tokens j"
    given = " and ".join(text for text in conditions if text)
    return f"{tokens} with {given}" if given else tokens


def _factor(board: Board, factor: list[Any]) -> str:
    if factor[0] == "equal":
        names = [board.columns[side[0]].name for side in factor[1:]]
        match = [_BIT.match(name) for name in names]
        mine, other = (found.group(2) if found else name for found, name in zip(match, names, strict=True))
        lowest = min(int(found.group(1)) for k in factor[1] if (found := _BIT.match(board.columns[k].name)))
        if lowest == 0:
            return f"{_at(mine, 'j')} == {_at(other, 'i')}"
        return f"{_at(mine, 'j')} // {2**lowest} == {_at(other, 'i')} // {2**lowest}"
    _, side, column, sign = factor
    name = board.columns[column].name
    found = _BIT.match(name)
    if found:
        return f"bit {found.group(1)} of {_at(found.group(2), side)} is {0 if sign == 1 else 1}"
    return _at(name, side)


def _at(name: str, side: str) -> str:
    if name == "i":
        return side
    return f"{name}[{side}]" if name.isidentifier() else f"({name})[{side}]"


def writes(board: Board, head: Head) -> str:
    """What a head writes."""
    if head.text and head.kind in ("table", "digit"):
        return head.text
    return ", ".join(board.columns[column].name for column, _ in head.writes)


def mechanism(board: Board) -> list[str]:
    """One line for the heads of each column, under a line for each layer."""
    lines: list[str] = []
    for layer in sorted({head.layer for head in board.heads}):
        lines.append(f"layer {layer}")
        heads = [head for head in board.heads if head.layer == layer]
        groups: dict[tuple[int, ...], list[Head]] = {}
        for head in heads:
            groups.setdefault(tuple(column for column, _ in head.writes), []).append(head)
        for same in groups.values():
            how = "1 head" if len(same) == 1 else f"{len(same)} heads"
            lines.append(f"  {how}: {_KINDS.get(same[0].kind, same[0].kind)} {attends(board, same[0])}")
            if len(same) > 1:
                lines[-1] += ", and so on for each case"
            lines.append(f"    writes {writes(board, same[0])}")
    return lines


def told(text: str, tokens: Sequence, dtype: Dtype, tol: float) -> list[str]:
    """The mechanism of a program."""
    return mechanism(build(meaning(text, tokens), precision_of(dtype), Fraction(tol)).board)
