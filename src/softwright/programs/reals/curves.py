"""Curves: smooth functions of one term, by a head of fixed tokens with keys of their own.

    F(u)  ~  sum_j v_j softmax_j(k_j t + b_j),      t = (u - c)/h in [-1, 1].

The head, its fit and its proof on [-1, 1] are those of `compiler/tables.py` and `table_proof.py`. Here the keys k_j and
b_j stand in two columns of the bank, the values v_j in the column that the head writes; data tokens, the null token,
defaults and rows of the bank beyond the table are shut out by -SHUT, where exp is 0 or at most `floor`. Beside what is
proved for the table's tokens alone, a run has R = blocks of keys more rescalings, each of relative error at most e + 2u
in numerator and denominator, and N tokens without weight:

    err  <=  proved + 4 R (e + 2 u) V + 4 N floor (1 + V) + sup |F'| h |t^ - t|,         V = max |v_j|.

t^ is what the run has for t. All of the way from t to t^ must lie in [-1, 1].

A function whose slope is unbounded at an end p of its range (a root at 0, acos at 1) is taken beyond p as F(p); the
frame's centre is p, so that t is known relatively, and instead of a slope there is a modulus of continuity of F
(`compiler/graded.py`). If the argument is a sum of squares, F is taken as a function of its root (`roots.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from softwright.compiler.graded import Moduli
from softwright.compiler.table_proof import prove_halves, prove_table
from softwright.compiler.tables import (
    Frame,
    Table,
    clamped,
    fit_singular,
    fit_table,
    frame_of,
    shifted,
    singular_end,
    singular_points,
)
from softwright.programs.columns import Board, Column, Form, Head
from softwright.programs.heads import NotPossible
from softwright.programs.lemmas import above as above_of
from softwright.programs.lemmas import ball
from softwright.programs.reals.functions import (
    Node,
    Operation,
    Variable,
    above,
    below,
    enclosed,
    number,
    of,
    put,
    steepest,
)
from softwright.programs.reals.roots import root_of
from softwright.result.proof_tree import encode_tree

_FIT = {"float64": 0.8, "float32": 0.5}  # of what a table may err by is what its sample may show
_ROOM = 1e-7  # of the width of a range, beside its errors
Ends = tuple[Fraction, Fraction]
_LOOSER = (10.0, 100.0, 1000.0)  # where rounding is too much: what can be proved is told


def frame_for(function: Node, low: Fraction, high: Fraction, off: Fraction, unit: float) -> Frame | None:
    """A frame that holds the range and its errors, and on which the function is defined; None if there is none."""
    a, b = below(low - off), above(high + off)
    width = max(b - a, 1e-9 * max(abs(a), abs(b)), 1e-12)
    under = over = max(4.0 * float(off), _ROOM * width, 16.0 * unit * (abs(a) + abs(b)))
    for point in singular_points(function, a, b):
        if point < a:
            under = min(under, 0.2 * (a - point))
        elif point > b:
            over = min(over, 0.2 * (point - b))
    for _ in range(40):
        if enclosed(function, a - under, b + over) is not None:
            return frame_of(a, b, a - under, b + over)
        under, over = 0.3 * under, 0.3 * over
    return None


@dataclass(frozen=True)
class Made:
    """A table with its frame, its proof and the form that is looked up in it; `side` of a singular point, or 0."""

    table: Table
    frame: Frame
    proof: tuple[float, float, int, bytes]
    query: Form
    error: Fraction
    side: int = 0


def _by_roots(function: Node) -> bool:
    """Whether roots and powers alone make a function singular: arcs are not proved as far as their ends."""
    if not isinstance(function, Operation):
        return True
    arcs = ("asin", "acos", "acosh", "xlogy")
    return function.name not in arcs and all(_by_roots(part) for part in function.arguments)


class Curves:
    """Makes curves on a board."""

    def __init__(self, board: Board) -> None:
        self.board = board

    def curve(
        self,
        function: Node,
        form: Form,
        ends: tuple[Fraction, Fraction],
        values: tuple[Fraction, Fraction],
        allowed: Fraction,
        holds: list[Any],
        name: str,
    ) -> Column:
        """F of a form that lies between `ends`, itself between `values`; the head may err by `allowed`."""
        board = self.board
        made = self._towards(function, form, ends, allowed) or self._plain(function, form, ends, allowed)
        table, frame, proof, query, error = made.table, made.frame, made.proof, made.query, made.error
        layer = board.layer_of(form) + 1
        column = board.column(
            name,
            holds,
            *values,
            exact=False,
            layer=layer,
            error=error,
            rows=[Fraction(float(v)) for v in table.values[:, 0]],
        )
        shut = 2.0 ** math.ceil(math.log2(8 * float(np.abs(table.keys).max() + np.abs(table.biases).max()) + 2**16))
        beside = []
        for what, numbers in (("key", table.keys), ("bias", table.biases)):
            rows = [Fraction(float(k)) for k in numbers]
            beside.append(
                board.column(f"{what} of {name}", [what, column.number], 0, 0, exact=True, layer=0, rows=rows)
            )
        beside[1].fill = Fraction(-shut)
        board.bank(table.tokens)
        numbers = {
            "count": table.tokens,
            "center": str(frame.center),
            "halfwidth": str(frame.halfwidth),
            "exact": float(proof[0]),
            "rounding": float(proof[1]),
            "order": proof[2],
            "tree": encode_tree(proof[3]),
            "keys": (beside[0].number, beside[1].number),
            "shut": int(shut),
            "side": made.side,
        }
        value = Form.of(0, {column.number: Fraction(1)})
        board.heads.append(
            Head("curve", layer, [(column.number, Fraction(1))], [value], [], False, query, numbers, name)
        )
        return column

    def _plain(self, function: Node, form: Form, ends: Ends, allowed: Fraction) -> Made:
        """A table in a frame that holds the range, where the function has a slope."""
        board = self.board
        frame = frame_for(function, *ends, board.run_error(form), board.precision.unit)
        if frame is None:
            raise NotPossible("it may be undefined where its argument may come; add a number to that, or use float64")
        steep = steepest(function, frame.low, frame.high)
        if steep is None:
            raise NotPossible("it is steep without bound where its argument may come; add a number to that")
        found = self._fitted(function, frame, float(allowed))
        if found is None:
            raise NotPossible(
                f"no table of moderate size is within {float(allowed):.2g} of it; use a larger tolerance or use float64"
            )
        table, proof = found
        query = (form - frame.center) * (1 / frame.halfwidth)
        moved = board.run_error(query)
        low, high = ((end - frame.center) / frame.halfwidth for end in ends)
        if low - moved < -1 or high + moved > 1:
            raise NotPossible("its argument is not known well enough to stay where it is defined; use float64")
        largest = Fraction(float(np.abs(table.values).max()))
        error = Fraction(proof[0]) + Fraction(proof[1]) + self._hidden(largest) + steep * frame.halfwidth * moved
        return Made(table, frame, proof, query, error)

    def _towards(self, function: Node, form: Form, ends: Ends, allowed: Fraction) -> Made | None:
        """A table that is centred at an end where the slope is unbounded; None if there is no such end."""
        board, (a, b) = self.board, (below(ends[0]), above(ends[1]))
        end = singular_end(function, a, b)
        if end is None or steepest(function, a, b) is not None or not _by_roots(function):
            return None
        point, side = end
        if (ends[0] < point) if side > 0 else (ends[1] > point):
            return None
        held, off = clamped(function, point, side), board.run_error(form)
        reach = max(b - float(point), float(point) - a) * 1.000001 + 4 * float(off)
        frame = Frame(point, Fraction(reach).limit_denominator(2**20) + Fraction(1, 2**20))
        query = (form - point) * (1 / frame.halfwidth)
        moved = board.run_error(query) * frame.halfwidth
        moduli = Moduli(shifted(function, point, side), 1.5 * float(frame.halfwidth))
        root = root_of(board, query)
        if not (math.isfinite(wide := moduli.omega(above(moved))) and math.isfinite(moduli.by_root)):
            return None
        through = Fraction(wide)
        if root is not None:
            stretch = above_of(ball(frame.halfwidth).sqrt())
            through = min(through, Fraction(moduli.by_root) * stretch * root.apart() + Fraction(moduli.rest))
        (column, factor), *others = query.parts or ((0, Fraction(1)),)
        if not others and not query.constant and board.columns[column].error == 0 and math.isfinite(moduli.relative):
            # a number of the input, times one factor: a change by a share of it
            share = abs(board.stored(factor) / factor - 1) + 2 * Fraction(board.precision.unit)
            tiny = moduli.omega(8 * above(frame.halfwidth) * board.precision.smallest + 2 * float(moduli.edges[-1]))
            along = Fraction(moduli.relative) * share * Fraction(101, 100) + Fraction(moduli.rest)
            through = min(through, along + Fraction(tiny))
        own = max(allowed - through, allowed / 4)
        best: Made | None = None
        for share in (0.8, 0.4):
            table = fit_singular([held], end, frame, np.array([share * float(own)]), board.precision.name)
            if table is None:
                continue
            distance = of("mul", number(frame.halfwidth), Variable("t"))
            along = put(shifted(function, point, side), distance)
            proof = prove_halves(table, 0, along, side, float(own), board.precision)
            if proof.tree is None:
                continue
            largest = Fraction(float(np.abs(table.values).max()))
            error = Fraction(proof.exact) + Fraction(proof.rounding) + self._hidden(largest) + through
            if best is None or error < best.error:
                said = proof.exact, proof.rounding, proof.order, proof.tree
                best = Made(table, frame, said, query, error, side)
            if best.error <= allowed:
                break
        if best is None:
            raise NotPossible(f"no table of moderate size is within {float(own):.2g} of it; use a larger tolerance")
        return best

    def _hidden(self, largest: Fraction) -> Fraction:
        arithmetic = self.board.arithmetic
        rescaled = 4 * arithmetic.blocks() * (arithmetic.eps + 2 * arithmetic.u) * largest
        return rescaled + 4 * arithmetic.tokens * arithmetic.floor * (1 + largest)

    def _fitted(
        self, function: Node, frame: Frame, allowed: float
    ) -> tuple[Table, tuple[float, float, int, bytes]] | None:
        """A table with its proof: within what it may err by if there is one, else the best of looser ones."""
        precision, best = self.board.precision, None
        for share in (_FIT[precision.name], 0.25, *_LOOSER):
            if best is not None and share > 1:
                break
            table = fit_table([function], frame, np.array([share * allowed]), precision.name)
            if table is None:
                continue
            proof = prove_table(table, 0, frame.inside(function), allowed, precision)
            if proof.tree is None:
                continue
            total = proof.exact + proof.rounding
            if best is None or total < best[0]:
                best = total, table, (proof.exact, proof.rounding, proof.order, proof.tree)
            if total <= allowed:
                break
        return None if best is None else (best[1], best[2])
