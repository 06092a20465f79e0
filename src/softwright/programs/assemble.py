"""`assemble`: columns and heads as data become the matrices of a stack.

A score is a sum over dimensions of (form of the row's token) times (form of the key's token). Conditions are whole
numbers throughout: bits that agree give the penalty and bits that differ its negative, so that

    penalty (sum of b_i b_j - number of bits) = 0 where all agree, at most -2 penalty elsewhere,

and a truth value t = +-1 gives penalty (t - 1). Tokens that a head must not see get -SHUT, far below all scores.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from softwright.attention.stack import FIXED, Blueprint, HeadWeights, LayerWeights, Segment
from softwright.programs.columns import BANK, DEFAULT, FIRST_ROW, INDEX, NULL, ONE, SQUARE, Board, Form, Head
from softwright.programs.lemmas import PENALTY

LEAST_SHUT = 2**16
LOOKING = ("table", "digit", "curve")  # heads that look at the bank alone
GATES = ("product", "exponential", "maximum")  # heads of a token and the null token
Side = dict[int, Fraction]


def assemble(board: Board) -> tuple[Blueprint, list[list[bool]], np.ndarray]:
    """The stack, which heads of each layer are causal, and the bank's tokens."""
    width = len(board.columns)
    bank = _bank(board)
    program: list[LayerWeights] = []
    causal: list[list[bool]] = []
    for layer in range(1, max((head.layer for head in board.heads), default=0) + 1):
        heads = [head for head in board.heads if head.layer == layer]
        program.append(
            LayerWeights([weights_of(head, board, width) for head in heads], ("data",), ("bank", "data"), label="")
        )
        causal.append([head.causal for head in heads])
    base = np.zeros((1, width))
    base[0, ONE] = 1.0
    slots = {f"{k}: {column.name}": (k, k + 1) for k, column in enumerate(board.columns)}
    segments = [Segment("bank", FIXED, bank), Segment("data", "tokens", base)]
    return Blueprint(slots, segments, program), causal, bank


def _bank(board: Board) -> np.ndarray:
    defaults = [column for column in board.columns if column.default is not None]
    tables = board.bank_rows - FIRST_ROW
    bank = np.zeros((board.bank_rows + len(defaults), len(board.columns)))
    bank[0, NULL] = 1.0
    for k in range(tables):
        row = FIRST_ROW + k
        bank[row, [BANK, INDEX, SQUARE]] = 1.0, k, k * k
        for column in board.columns:
            if k < len(column.rows) or column.fill:
                bank[row, column.number] = float(column.rows[k] if k < len(column.rows) else column.fill)
    for k, column in enumerate(defaults):
        row = board.bank_rows + k
        bank[row, [DEFAULT, column.flag]] = 1.0
        bank[row, column.number] = float(column.default or 0)
    return bank


def weights_of(head: Head, board: Board, width: int) -> HeadWeights:
    """The four matrices of a head."""
    dims = _table_dims(head) if head.kind in LOOKING else _data_dims(head)
    shut = head.numbers["shut"] if head.kind == "curve" else _shut(dims, board, head.numbers.get("penalty", PENALTY))
    closed = (ONE, NULL, DEFAULT) if head.kind in LOOKING else (BANK, DEFAULT)
    last = dims[-1][1]
    for column in closed:
        last[column] = last.get(column, Fraction(0)) - shut
    if head.kind in ("smooth", "choose", "attend", "select", "order", "line") or (
        head.kind in GATES and head.query is None
    ):
        last[NULL] = last.get(NULL, Fraction(0)) - shut
    own = board.columns[head.writes[0][0]]
    if head.kind == "mean" and own.default is not None:
        last[own.flag], last[NULL] = Fraction(shut - PENALTY), Fraction(-shut)
    query, key = np.zeros((width, len(dims))), np.zeros((width, len(dims)))
    for d, (q, k) in enumerate(dims):
        for column, factor in q.items():
            query[column, d] = float(factor)
        for column, factor in k.items():
            key[column, d] = float(factor)
    value, out = np.zeros((width, len(head.values))), np.zeros((len(head.values), width))
    for v, (form, (column, factor)) in enumerate(zip(head.values, head.writes, strict=True)):
        for k, c in _side(form).items():
            value[k, v] = float(c)
        out[v, column] = float(factor)
    return HeadWeights(query, key, value, out)


def _side(form: Form, factor: int | Fraction = 1) -> Side:
    found = {k: v * factor for k, v in form.parts}
    if form.constant:
        found[ONE] = found.get(ONE, Fraction(0)) + form.constant * factor
    return found


def _table_dims(head: Head) -> list[tuple[Side, Side]]:
    numbers, query = head.numbers, head.query or Form()
    if head.kind == "curve":
        key, bias = numbers["keys"]
        return [(_side(query), {key: Fraction(1)}), ({ONE: Fraction(1)}, {bias: Fraction(1)})]
    middle, sharpness = numbers["middle"], numbers["sharpness"]
    index: Side = {INDEX: Fraction(1), BANK: Fraction(-middle)}
    square: Side = {SQUARE: Fraction(-1), INDEX: Fraction(2 * middle), BANK: Fraction(-middle * middle)}
    if head.kind == "table":
        return [(_side(query, 2 * sharpness), index), ({ONE: Fraction(sharpness)}, square)]
    return [(_side(query, sharpness), index), ({ONE: Fraction(sharpness * numbers["base"], 2)}, square)]


def _data_dims(head: Head) -> list[tuple[Side, Side]]:
    penalty = Fraction(head.numbers.get("penalty", PENALTY))
    dims: list[tuple[Side, Side]] = []
    last: Side = {} if head.query is None or head.kind in GATES else _side(head.query)

    def add(column: int, number: Fraction) -> None:
        last[column] = last.get(column, Fraction(0)) + number

    for factor in head.where:
        if factor[0] == "equal":
            for mine, other in zip(factor[1], factor[2], strict=True):
                dims.append(({other: penalty}, {mine: Fraction(1)}))
                add(ONE, -penalty)
        elif factor[1] == "j":
            add(factor[2], penalty * factor[3])
            add(ONE, -penalty)
        else:
            dims.append(({factor[2]: penalty * factor[3], ONE: -penalty}, {ONE: Fraction(1)}))
    for query, key in head.numbers.get("pairs", ()):
        dims.append((_side(query), _side(key)))
    if head.kind == "weighed":
        dims.append((_side(head.numbers["null"]), {NULL: Fraction(1)}))
    if head.kind in GATES and head.query is not None:
        dims.append((_side(head.query, -1), {NULL: Fraction(1)}))
    if head.kind in ("sum", "kernel"):
        last[NULL] = head.numbers["height"]
    elif head.kind == "mean":
        last[NULL] = -penalty
    elif head.kind == "largest":
        last[NULL] = -penalty / 2
    return [*dims, ({ONE: Fraction(1)}, last)]


def _shut(dims: list[tuple[Side, Side]], board: Board, penalty: int) -> int:
    """A power of two far above anything that a score can be."""

    def size(side: Side) -> Any:
        return sum(
            (abs(v) * max(board.columns[k].largest, _structural(board, k)) for k, v in side.items()), Fraction(0)
        )

    most = sum((size(q) * size(k) for q, k in dims), Fraction(0))
    return max(LEAST_SHUT, 2 ** math.ceil(math.log2(float(8 * most + 16 * penalty) + 8192)))


def _structural(board: Board, column: int) -> Fraction:
    rows = board.bank_rows
    return {INDEX: Fraction(rows), SQUARE: Fraction(rows * rows)}.get(column, Fraction(0))
