"""`Compiler`: every term of a program as a form of columns, and the heads that make them, layer by layer.

Whole numbers are restored after every aggregate: what a sum is near to is looked up in a table and comes out exactly:
no error passes from one aggregate of whole numbers to the next. Functions of one field or of the place alone are
part of the embedding and need no head.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from softwright.programs.columns import Board, Column, Form
from softwright.programs.conditions import CAUSAL, Atom, polynomial
from softwright.programs.finite import Undefined, leaves_of, value_at
from softwright.programs.heads import NEAR, WHOLE_STEP, Heads, NotPossible, TooLarge
from softwright.programs.meaning import Meaning
from softwright.programs.pairs.interpolation import Interpolation
from softwright.programs.pairs.nearest import Nearest
from softwright.programs.pairs.products import is_pair
from softwright.programs.pairs.sums import PairSums
from softwright.programs.reals.attending import Attending
from softwright.programs.reals.formulas import SHARE, Formulas
from softwright.programs.reals.shapes import SMALL, Shapes
from softwright.programs.reals.weighed import Weighed
from softwright.programs.reals.weighing import Weighing
from softwright.programs.rewriting import smaller, zero_of
from softwright.programs.terms import Term, shown
from softwright.programs.types import Refused, Type
from softwright.programs.whole import WholeNumbers

_ZERO = Fraction(0)


class Compiler(WholeNumbers, Formulas, PairSums, Nearest, Interpolation, Weighed):
    """The columns and heads of a program's terms."""

    def __init__(self, meaning: Meaning, board: Board, tol: Fraction, share: Fraction = SHARE) -> None:
        self.meaning, self.board, self.tol = meaning, board, tol
        self.tokens, self.pool = meaning.tokens, meaning.pool
        self.heads = Heads(board)
        self.embedding: dict[int, dict[str, Any]] = {}  # column -> {"of": field or None for the place, "values"}
        self._forms: dict[int, Form] = {}
        self._near: dict[int, tuple[Form, Fraction]] = {}
        self._codes: dict[tuple[int, int, int], list[Column]] = {}
        self._signs: dict[int, Column] = {}
        self._scores: dict[int, Form] = {}
        lengths = self.tokens.shortest, self.tokens.longest
        self.weighing = Weighing(meaning.pool, self.type, lengths, self.tokens.symbols)
        self.shapes = Shapes(meaning.pool, self.type, self.tokens.longest, self.weighing)
        self._allowed: dict[int, Fraction] = {}
        self.share_out(meaning.outputs, share)

    def type(self, term: Term) -> Type:
        if term.op == "weighed":
            return self.weighed_type(term)
        if term.op in ("rank", "place"):
            return Type("integer", _ZERO, Fraction(self.tokens.longest - 1))
        if term.op == "difference":  # of the places of two symbols
            one, other = (self.type(arg) for arg in term.args)
            return Type("integer", one.low - other.high, one.high - other.low)
        return self.meaning.types.of(term)

    # -------------------------------------------------------------------------------------------------------- values

    def value(self, term: Term) -> Form:
        """A form of what the term is: exact for whole numbers."""
        found = self._forms.get(term.number)
        if found is None:
            try:
                found = self._value(term)
            except NotPossible as error:
                raise Refused(term, f"{shown(term)}: {error}") from error
            except Undefined as error:
                raise Refused(error.term, error.reason) from error
            self._forms[term.number] = found
        return found

    def _value(self, term: Term) -> Form:
        op, kind = term.op, self.type(term)
        if op == "number":
            return Form(term.value)
        if op == "symbol":
            return Form(kind.low)
        if op == "field" and not kind.whole:
            column = self.board.column(term.value, ["real", term.number], kind.low, kind.high, exact=False, layer=0)
            self.embedding[column.number] = {"of": term.value, "values": None}
            return Form.of(0, {column.number: Fraction(1)})
        linear = self._linear(term)
        if linear is not None:
            return linear
        if op == "weighed":
            return self.weighed(term)
        parts = self.weighing.parts(term) if kind.kind == "real" else None
        if parts is not None:
            found = Form()
            for factor, part in parts:
                found = found + self.value(part) * factor
            return found
        if term.plain:
            if not all(self.type(leaf).whole for leaf in leaves_of(term)):
                return self._mixed(term)
            try:
                return self._finite(term)
            except TooLarge:
                return self._smaller(term)
        if op in ("field", "position"):
            return self._finite(term)
        if op == "at":
            return self._at(term)
        if is_pair(term) or (op == "sort" and not self.type(term.args[1]).whole):
            return self.paired(term)
        if op == "sort":
            where = [self._equality(self.pool.make("rank", term.args[1]), self.pool.make("position"))]
            return self._picked(term, term.args[0], where, None)
        if op in ("attend", "select"):
            return self._attended(term)
        if op in ("interp", "assume"):
            return self.interpolated(term) if op == "interp" else self.value(term.args[0])
        if op == "smooth":
            value, alpha = self.value(term.args[0]), term.args[1].value
            place = self.value(self.pool.make("position"))
            ends = kind.low, kind.high
            column = self.heads.smooth(value, alpha, place, shown(term), ["real", term.number], ends)
            return Form.of(0, {column.number: Fraction(1)})
        form, _ = self.near(term)
        return self._restored(term, form) if kind.whole else form

    def _attended(self, term: Term) -> Form:
        """A head whose scores are those of both tokens."""
        kind, name, holds = self.type(term), shown(term), ["real", term.number]
        attending, value = Attending(self.board, self.pool, self.value), self.value(term.args[0])
        ends = kind.low, kind.high
        if term.op == "attend":
            column = attending.attend(value, term.args[1], name, holds, ends, len(term.args) == 3)
        else:
            margin = term.args[2].value
            column = attending.select(value, term.args[1], margin, name, holds, ends, self.tol / 4)
        return Form.of(0, {column.number: Fraction(1)})

    def _smaller(self, term: Term) -> Form:
        """A plain term that is too large for one table, by smaller ones; `TooLarge` if there are none."""
        kind = self.type(term)
        parts = smaller(self.pool, term, self.type, self.tokens.symbols, (self.tokens.shortest, self.tokens.longest))
        if parts is not None:
            found = Form()
            for factor, part in parts:
                found = found + self.value(part) * factor
            return found
        if term.op == "where" and kind.kind == "real":
            return self._mixed(term)
        if term.op == "where" and term.args[2] is zero_of(self.pool, kind, self.tokens.symbols):
            return self._picked(term, term.args[1], self._gate(term.args[0]), _ZERO)
        return self._finite(term)

    def near(self, term: Term) -> tuple[Form, Fraction]:
        """A form that is within a known error of the term, of whole numbers not yet restored."""
        found = self._near.get(term.number)
        if found is not None:
            return found
        if term.op in ("sum", "mean", "max_of", "min_of", "rank", "choose", "length", "place_of") and not is_pair(term):
            found = self.place_of(term) if term.op == "place_of" else self._aggregate(term)
            self._near[term.number] = found
            return found
        if term.op == "place":
            return self.near(term.args[0])
        parts = _parts(term)
        if parts is not None and term.number not in self._forms:
            # A sum of counts is as near as its parts together, and needs no layer of its own.
            form, error = Form(), _ZERO
            for factor, part in parts:
                if part.op == "number":
                    form = form + factor * part.value
                    continue
                inner, off = self.near(part)
                form, error = form + inner * factor, error + abs(factor) * off
            if error <= NEAR:
                return form, error
        form = self.value(term)
        return form, _ZERO if self.type(term).whole else sum(
            (abs(v) * self.board.columns[k].error for k, v in form.parts), _ZERO
        )

    def _linear(self, term: Term) -> Form | None:
        """Sums, differences, and products with numbers are forms already."""
        op, args = term.op, term.args
        if op in ("add", "sub", "difference"):
            left, right = self.value(args[0]), self.value(args[1])
            return left + right if op == "add" else left - right
        if op == "neg":
            return self.value(args[0]) * -1
        numbers = [_number(arg) for arg in args]
        if op == "mul" and any(number is not None for number in numbers):
            place = 0 if numbers[0] is not None else 1
            return self.value(args[1 - place]) * Fraction(numbers[place] or 0)
        if op == "div" and numbers[1] is not None and not self.type(args[0]).whole:
            return self.value(args[0]) * (1 / numbers[1])
        return None

    def _mixed(self, term: Term) -> Form:
        """Reals under truth values: where(c, a, b), and products and quotients with few whole numbers."""
        op, args = term.op, term.args
        if op == "where":
            return self.value(args[2]) + self._gated(args[0], self.pool.make("sub", args[1], args[2]))
        kinds = [self.type(arg) for arg in args]
        if op in ("mul", "div") and any(kind.whole for kind in kinds):
            place = 1 if kinds[1].whole else 0
            whole, real = args[place], args[1 - place]
            if kinds[place].size <= SMALL and not (op == "div" and place == 0):
                found = Form()
                for k in range(int(kinds[place].low), int(kinds[place].high) + 1):
                    factor = Fraction(k) if op == "mul" else Fraction(1, k)
                    if factor:
                        chosen = self.pool.make("eq", whole, self.pool.number(k))
                        found = found + self._gated(chosen, real) * factor
                return found
        return self.formula(term)

    def _gated(self, condition: Term, real: Term) -> Form:
        """real where the condition holds, else 0: a token that looks at itself, or at nothing."""
        gate = self.pool.make("where", condition, real, self.pool.number(0))
        if gate.number not in self._forms:
            kind, where = self.type(gate), self._gate(condition)
            value, ends = self.value(real), (kind.low, kind.high)
            column = self.heads.mean(value, where, False, shown(gate), ["real", gate.number], ends)
            self._forms[gate.number] = Form.of(0, {column.number: Fraction(1)})
        return self._forms[gate.number]

    def _gate(self, condition: Term) -> list[list[Any]]:
        """The factors of a head that looks at its own token if the condition holds there."""
        place = self.pool.make("position")
        return [self._equality(place, place), ["flag", "i", self.sign(condition).number, 1]]

    def _at(self, term: Term) -> Form:
        value, index, default = term.args[0], term.args[1], None
        if len(term.args) > 2:
            default = value_at(term.args[2], {}, self.tokens.symbols)
        elif self.type(index).size > self.tokens.longest:
            index = self.pool.make("place", index)  # one of the sequence: fewer numbers than its parts suggest
        place = self.pool.make("position")
        return self._picked(term, value, [self._equality(place, index)], default)

    def _picked(self, term: Term, value: Term, where: list[list[Any]], default: Fraction | None) -> Form:
        """The value of the one token that matches."""
        kind, form = self.type(term), self.value(value)
        if not kind.whole:
            ends = self.type(value).low, self.type(value).high
            column = self.heads.mean(form, where, False, shown(term), ["real", term.number], ends, default)
            return Form.of(0, {column.number: Fraction(1)})
        shift = 1 - kind.low
        ends = self.type(value).low + shift, self.type(value).high + shift
        other = None if default is None else default + shift
        holds = ["whole", term.number, str(shift)]
        column = self.heads.mean(form + shift, where, False, shown(term), holds, ends, other, exact=True)
        return Form.of(-shift, {column.number: Fraction(1)})

    # ---------------------------------------------------------------------------------------------------- aggregates

    def _equality(self, mine: Term, other: Term) -> list[Any]:
        """a_j == b_i as a factor: the bits of both."""
        kind = self.type(mine)
        low, bits = int(kind.low), int(kind.size).bit_length()
        ours, theirs = self.codes(mine, low, bits), self.codes(other, low, bits)
        return ["equal", [column.number for column in ours], [column.number for column in theirs]]

    def _orders(self, mine: Term, other: Term, less: bool) -> list[list[list[Any]]]:
        """a_j < b_i, or a_j > b_i, as factors for each bit that may decide."""
        kinds = self.type(mine), self.type(other)
        low = int(min(kind.low for kind in kinds))
        bits = int(max(kind.high for kind in kinds) - low + 1).bit_length()
        ours, theirs = self.codes(mine, low, bits), self.codes(other, low, bits)
        cases = []
        for b in range(bits):
            case: list[list[Any]] = []
            if b + 1 < bits:
                above = range(b + 1, bits)
                case.append(["equal", [ours[k].number for k in above], [theirs[k].number for k in above]])
            mine_bit, their_bit = (1, -1) if less else (-1, 1)
            case.append(["flag", "j", ours[b].number, mine_bit])
            case.append(["flag", "i", theirs[b].number, their_bit])
            cases.append(case)
        return cases

    def _factors(self, atoms: frozenset[Atom]) -> tuple[list[list[list[Any]]], bool]:
        """The conditions of heads, one for each case, that a product of atoms means; and whether they are causal."""
        cases: list[list[list[Any]]] = [[]]
        for atom in sorted(atoms, key=_order):
            if atom == CAUSAL:
                continue
            if atom[0] == "flag":
                more = [[["flag", atom[1], self.sign(atom[2]).number, 1]]]
            elif atom[0] == "equal":
                more = [[self._equality(atom[1], atom[2])]]
            else:
                more = self._orders(atom[1], atom[2], atom[0] == "less")
            cases = [[*case, *one] for case in cases for one in more]
        return cases, CAUSAL in atoms

    def monomials(self, condition: Term) -> tuple[list[tuple[int, list[list[Any]], bool]], int]:
        """The heads of a condition: sign, factors, causal; and how many tokens they match at most."""
        found: list[tuple[int, list[list[Any]], bool]] = []
        total = 0
        for atoms, sign in sorted(polynomial(condition).items(), key=lambda item: sorted(map(_order, item[0]))):
            cases, causal = self._factors(atoms)
            found += [(sign, case, causal) for case in cases]
            alone = any(atom[0] == "equal" and atom[1] is atom[2] and atom[1].op == "position" for atom in atoms)
            total += abs(sign) * (1 if alone else self.tokens.longest)
        return found, total

    def _single(self, term: Term) -> tuple[list[list[Any]], bool]:
        found, _ = self.monomials(term.args[1])
        if len(found) != 1 or found[0][0] != 1:
            how = "use equalities, truth values of one token and j <= i, joined by 'and'; or sum and count"
            raise Refused(term, f"{shown(term)} is over a condition of several cases; {how}")
        return found[0][1], found[0][2]

    def _aggregate(self, term: Term) -> tuple[Form, Fraction]:
        op, kind, name = term.op, self.type(term), shown(term)
        holds, ends = ["near" if kind.whole else "real", term.number], (kind.low, kind.high)
        if op in ("sum", "length", "rank"):
            column = self._sum(term, name, holds, ends)
        elif op == "mean":
            where, causal = self._single(term)
            column = self.heads.mean(self._inner(term), where, causal, name, holds, ends)
        elif op == "choose":
            value, score = self.value(term.args[0]), self.value(term.args[1])
            tol = min(self.tol / 4, Fraction(1, 8)) if not kind.whole else Fraction(1, 8)
            column = self.heads.choose(value, score, term.args[2].value, name, holds, ends, tol)
        else:
            where, causal = self._single(term)
            value, sign = self._inner(term), 1 if op == "max_of" else -1
            sharpness = Fraction(WHOLE_STEP)
            if not kind.whole:
                target = Fraction(self.board.stored(self.allowed(term)))
                top = self.board.arithmetic.largest(Fraction(1), _ZERO)
                sharpness = self.board.stored(max(top / target, Fraction(1)))
            column = self.heads.largest(value, sharpness, where, causal, name, holds, ends, sign)
            if kind.whole:  # one whole step is WHOLE_STEP in the score
                self._sharpen(column, value, ends)
        return Form.of(0, {column.number: Fraction(1)}), column.error

    def _sharpen(self, column: Column, value: Form, ends: tuple[Fraction, Fraction]) -> None:
        """Of whole numbers the largest weighs all: the others are a whole step below."""
        arithmetic = self.board.arithmetic
        if not self.board.is_exact(value * WHOLE_STEP):
            raise NotPossible("whole numbers are too large to be compared exactly; use float64")
        spread, size = ends[1] - ends[0] + 1, max(abs(ends[0]), abs(ends[1]))
        column.error = arithmetic.mean(size, _ZERO) + self.board.longest * spread * arithmetic.leak(WHOLE_STEP) * 2

    def _inner(self, term: Term) -> Form:
        """The value of an aggregate at token j."""
        inner = term.args[0]
        return self.value(inner.args[0] if inner.op == "j" else inner)

    def _sum(self, term: Term, name: str, holds: list[Any], ends: tuple[Fraction, Fraction]) -> Column:
        if term.op == "rank":
            key = term.args[0]
            mine, other = (self.pool.make(side, key) for side in ("j", "i"))
            place = self.pool.make("position")
            before = self.pool.make("lt", self.pool.make("j", place), self.pool.make("i", place))
            ties = self.pool.make("and", self.pool.make("eq", mine, other), before)
            parts = [self.monomials(self.pool.make("lt", mine, other)), self.monomials(ties)]
            # a smaller key and an equal one before exclude each other; the token itself is taken off once
            monomials, total = [*parts[0][0], *parts[1][0]], self.tokens.longest + 1
            value = Form(Fraction(1))
        elif term.op == "length":
            monomials, total, value = [(1, [], False)], self.tokens.longest, Form(Fraction(1))
        else:
            (monomials, total), value = self.monomials(term.args[1]), self._inner(term)
            if not monomials:
                raise Refused(term, f"{name} is over a condition that no two tokens meet; write 0")
        size = Fraction(self.tokens.longest)
        bits = int(size).bit_length()
        groups = [column.number for column in self.codes(self.pool.make("position"), 0, bits)]
        needed = Fraction(1, 4) if self.type(term).whole else self.tol / 4
        needed = Fraction(3, 10) if term.op == "rank" else needed  # it is looked up alone, never added to another
        found = self.heads.sum(value, monomials, total, name, holds, ends, groups, needed)
        if self.type(term).whole and found.error > NEAR:
            raise NotPossible(f"a sum is known to {float(found.error):.2g} only; use float64 or shorter sequences")
        return found


def _number(term: Term) -> Fraction | None:
    if term.op == "number":
        return term.value
    if term.op == "neg":
        inner = _number(term.args[0])
        return None if inner is None else -inner
    return None


def _parts(term: Term) -> list[tuple[Fraction, Term]] | None:
    """A sum as (factor, part); None if a term is no sum."""
    if term.op in ("add", "sub", "difference"):
        return [(Fraction(1), term.args[0]), (Fraction(1 if term.op == "add" else -1), term.args[1])]
    if term.op == "neg":
        return [(Fraction(-1), term.args[0])]
    return None


def _order(atom: Atom) -> tuple[Any, ...]:
    return tuple(part.number if isinstance(part, Term) else part for part in atom)
