"""`build`: a program's meaning as a network, with the board that says what every column holds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from softwright.attention.program import ProgramNetwork
from softwright.precision import Precision
from softwright.programs.assemble import assemble
from softwright.programs.columns import ONE, Board, Form
from softwright.programs.lower import Compiler
from softwright.programs.meaning import Meaning
from softwright.programs.reals.formulas import SHARE
from softwright.programs.terms import Term
from softwright.programs.types import Refused

_ROUNDS = 3


@dataclass(frozen=True)
class Construction:
    """A network and what is proved of it: the error of every output, 0 for those that are exact."""

    network: ProgramNetwork
    board: Board
    forms: list[Form]
    outputs: list[Term]
    errors: list[Fraction]


def build(meaning: Meaning, precision: Precision, tol: Fraction) -> Construction:
    """The network; `InvalidInput` with the place of what cannot be compiled.

    If errors add up to more than the tolerance, curves and maxima get smaller shares of it, and are made again.
    """
    share, best = SHARE, None
    for _ in range(_ROUNDS):
        made = _built(meaning, precision, tol, share)
        bound = max(made.errors)
        least = None if best is None else max(best.errors)
        if least is None or bound < least:
            best = made
        if least is not None and bound > least * Fraction(9, 10):
            break  # rounding decides, and smaller shares make tables larger
        if bound <= tol or not any(head.kind in ("curve", "maximum", "largest") for head in made.board.heads):
            break
        share *= max(min(tol / bound * Fraction(3, 4), Fraction(1, 2)), Fraction(1, 50))
    if best is None:
        raise AssertionError("at least one round was run")
    return best


def _built(meaning: Meaning, precision: Precision, tol: Fraction, share: Fraction) -> Construction:
    board = Board(precision, meaning.tokens.longest)
    try:
        compiler = Compiler(meaning, board, tol, share)
    except Refused as refused:
        meaning.faults.at(refused.term.place, refused.reason)
        meaning.faults.raise_if_any()
        raise
    forms: list[Form] = []
    for output in meaning.outputs:
        try:
            forms.append(compiler.value(output))
        except Refused as refused:
            meaning.faults.at(refused.term.place, refused.reason)
    meaning.faults.raise_if_any()
    blueprint, causal, _ = assemble(board)
    width, tokens = len(board.columns), meaning.tokens
    read = np.zeros((width, len(forms)))
    for m, form in enumerate(forms):
        read[ONE, m] += float(form.constant)
        for column, factor in form.parts:
            read[column, m] += float(factor)
    places = np.zeros((tokens.longest, width))
    fields = {
        name: np.zeros((1 if field.kind == "real" else len(field.values), width))
        for name, field in tokens.fields.items()
    }
    for column, entry in compiler.embedding.items():
        if entry["values"] is None:
            fields[entry["of"]][0, column] = 1.0
        elif entry["of"] is None:
            for k, value in entry["values"].items():
                places[k, column] = float(value)
        else:
            low = int(tokens.fields[entry["of"]].low)
            for k, value in entry["values"].items():
                fields[entry["of"]][k - low, column] = float(value)
    kinds = [meaning.type_of(output).kind for output in meaning.outputs]
    network = ProgramNetwork(
        blueprint, causal, read, places, fields, tokens.describe(), kinds, dtype=precision.torch_dtype
    )
    errors = [board.run_error(form) for form in forms]
    return Construction(network, board, forms, list(meaning.outputs), errors)
