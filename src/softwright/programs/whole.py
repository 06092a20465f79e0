"""`WholeNumbers`: whole numbers looked up: functions of them, their restoration, their digits and bits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from softwright.programs.columns import Column, Form, Part
from softwright.programs.fields import Sequence
from softwright.programs.finite import Undefined, is_rational, leaves_of, narrowest, value_at
from softwright.programs.heads import LARGEST_TABLE, SMALL_TABLE, Heads, TooLarge, Wanted
from softwright.programs.terms import Term, shown

WIDEST_TABLE = 2048  # values of several whole numbers that one table takes together


class WholeNumbers(Part):
    """The part of a compiler that looks whole numbers up; `value`, `near` and `type` are those of the whole."""

    heads: Heads
    tokens: Sequence
    embedding: dict[int, dict[str, Any]]
    _codes: dict[tuple[int, int, int], list[Column]]
    _signs: dict[int, Column]

    @abstractmethod
    def near(self, term: Term) -> tuple[Form, Fraction]:
        """A form near a term of whole numbers, and how near."""

    def _finite(self, term: Term) -> Form:
        """A term of whole numbers that is no sum: a column of the embedding, or of a table."""
        kind = self.type(term)
        if kind.kind == "truth":
            return Form.of(Fraction(1, 2), {self.sign(term).number: Fraction(1, 2)})
        if kind.whole:
            shift = 1 - kind.low
            column = self._function(term, shown(term), ["whole", term.number, str(shift)], lambda v: v + shift)
            return Form.of(-shift, {column.number: Fraction(1)})
        column = self._function(term, shown(term), ["real", term.number], lambda v: v, exact=False)
        if not is_rational(term):
            column.error += column.here / 2**100  # values of functions are known to 240 bits
        return Form.of(0, {column.number: Fraction(1)})

    def sign(self, term: Term) -> Column:
        """A truth value as -1 and 1."""
        found = self._signs.get(term.number)
        if found is None:
            holds = ["sign", term.number]
            found = self._function(term, shown(term), holds, lambda v: Fraction(1 if v else -1))
            self._signs[term.number] = found
        return found

    def _function(
        self, term: Term, name: str, holds: list[Any], out: Callable[[Fraction], Fraction], exact: bool = True
    ) -> Column:
        """A column that holds `out` of a term of whole numbers."""
        leaves = leaves_of(term) if term.plain else [term]
        if len(leaves) <= 1 and (not leaves or leaves[0].op in ("field", "position")):
            return self._embedded(term, leaves, name, holds, out, exact)
        count = prod(self.type(leaf).size for leaf in leaves)
        only = leaves[0] if len(leaves) == 1 and count <= LARGEST_TABLE else narrowest(term, self._size)
        if only is not None and (len(leaves) == 1 or count > SMALL_TABLE) and self._size(only) <= LARGEST_TABLE:
            return self._single_table(term, only, name, holds, out, exact)
        args = [arg for arg in dict.fromkeys(term.args) if arg.op not in ("number", "symbol")]
        fewer = prod(self._size(arg) for arg in args)
        if count <= SMALL_TABLE:
            return self._joint(term, leaves, name, holds, out, exact)
        if term.op in ("eq", "lt", "le"):
            return self._compared(term, name, holds, out)
        if term.plain and fewer <= WIDEST_TABLE:
            return self._joint(term, args, name, holds, out, exact)
        if count <= WIDEST_TABLE:
            return self._joint(term, leaves, name, holds, out, exact)
        known = f"{fewer} different values" if fewer < 10**9 else "real numbers"
        raise TooLarge(f"a function of {known} is too large for a table of {WIDEST_TABLE}; compare or count first")

    def _size(self, term: Term) -> int:
        """How many values a term has; of reals, more than any table."""
        kind = self.type(term)
        return kind.size if kind.whole else 10**9

    def _single_table(
        self, term: Term, only: Term, name: str, holds: list[Any], out: Callable[[Fraction], Fraction], exact: bool
    ) -> Column:
        """A table on the one whole number that decides a term."""
        low, high = int(self.type(only).low), int(self.type(only).high)
        form, _ = self.near(only)
        want = Wanted(name, [*holds, [only.number]], lambda k: out(self._at_one(term, only, k)), exact)
        return self.heads.table(form, low, high, [want], name)[0]

    def _at_one(self, term: Term, leaf: Term, k: int) -> Fraction:
        return self._at_numbers(term, {leaf.number: Fraction(k)})

    def _at_numbers(self, term: Term, given: dict[int, Fraction]) -> Fraction:
        """A plain term at whole numbers. Tables also have numbers that never stand together, such as a place beyond
        the length: there it may have no value, which is taken as 0, or one outside its range, which is cut off."""
        kind = self.type(term)
        try:
            found = value_at(term, given, self.tokens.symbols)
        except (Undefined, ZeroDivisionError):
            found = Fraction(0)
        return min(max(found, kind.low), kind.high) if kind.whole else found

    def _embedded(
        self,
        term: Term,
        leaves: list[Term],
        name: str,
        holds: list[Any],
        out: Callable[[Fraction], Fraction],
        exact: bool,
    ) -> Column:
        """A column of the embedding: a function of one field, or of the place."""
        leaf = leaves[0] if leaves else self.pool.make("position")
        codes = self.tokens.codes(leaf.value) if leaf.op == "field" else list(range(self.tokens.longest))
        values = {k: out(self._at_one(term, leaf, k)) for k in codes}
        held = {k: self.board.stored(value) for k, value in values.items()}
        error = max(abs(held[k] - values[k]) for k in codes)
        column = self.board.column(
            name, [*holds, []], min(values.values()), max(values.values()), exact=exact, layer=0, error=error
        )
        self.embedding[column.number] = {"of": leaf.value if leaf.op == "field" else None, "values": held}
        return column

    def _joint(
        self,
        term: Term,
        leaves: list[Term],
        name: str,
        holds: list[Any],
        out: Callable[[Fraction], Fraction],
        exact: bool,
    ) -> Column:
        """A table on several whole numbers, which one whole number stands for."""
        kinds = [self.type(leaf) for leaf in leaves]
        form, stride, strides = Form(), 1, []
        for leaf, kind in zip(leaves, kinds, strict=True):
            form = form + (self.value(leaf) - kind.low) * stride
            strides.append(stride)
            stride *= kind.size
        values: dict[int, Fraction] = {}
        for numbers in product(*(range(int(kind.low), int(kind.high) + 1) for kind in kinds)):
            key = sum(s * (k - int(kind.low)) for s, k, kind in zip(strides, numbers, kinds, strict=True))
            given = {leaf.number: Fraction(k) for leaf, k in zip(leaves, numbers, strict=True)}
            values[key] = out(self._at_numbers(term, given))
        want = Wanted(name, [*holds, [leaf.number for leaf in leaves]], lambda k: values[k], exact)
        return self.heads.table(form, 0, stride - 1, [want], name)[0]

    def _compared(self, term: Term, name: str, holds: list[Any], out: Callable[[Fraction], Fraction]) -> Column:
        """A comparison of two whole numbers: a table on their difference, or on its higher digit alone."""
        symbols = self.type(term.args[0]).kind == "symbol"
        difference = self.pool.make("difference" if symbols else "sub", *term.args)
        kind = self.type(difference)
        form, _ = self.near(difference)
        low, high = int(kind.low), int(kind.high)
        test = {"eq": lambda d: d == 0, "lt": lambda d: d < 0, "le": lambda d: d <= 0}[term.op]
        if term.op == "eq" or high - low < SMALL_TABLE:
            want = Wanted(name, [*holds, [difference.number]], lambda d: out(Fraction(int(test(d)))))
            return self.heads.table(form, low, high, [want], name)[0]
        base = 64
        border = 0 if term.op == "lt" else 1  # the first difference that is not taken
        start = border - base * -(-(border - low) // base)
        want = Wanted(name, [*holds, [difference.number]], lambda a: out(Fraction(int(test(start + base * a)))))
        return self.heads.digit(form, start, high, base, [want], name)[0]

    def _restored(self, term: Term, form: Form) -> Form:
        """The whole number that a form is near to, exactly."""
        kind = self.type(term)
        low, high = int(kind.low), int(kind.high)
        if kind.size <= SMALL_TABLE:
            shift = 1 - kind.low
            want = Wanted(shown(term), ["whole", term.number, str(shift), [term.number]], lambda k: k + shift)
            column = self.heads.table(form, low, high, [want], shown(term))[0]
            return Form.of(-shift, {column.number: Fraction(1)})
        base, digits = self._digits(term, low, kind.size.bit_length())
        return Form.of(low - 1 - base, {digits[0].number: Fraction(base), digits[1].number: Fraction(1)})

    def _digits(self, term: Term, low: int, bits: int) -> tuple[int, list[Column]]:
        """High and low digit of a whole number, and all its bits, in two heads."""
        form, _ = self.near(term)
        high = int(self.type(term).high)
        half = bits // 2
        base, name = 2**half, shown(term)

        def bit(k: int, b: int) -> Fraction:
            return Fraction(1 - 2 * ((k >> b) & 1))

        digit = ["digit", term.number, low, base]
        wanted = [Wanted(f"{name} // {base}", [*digit, "high"], lambda a: Fraction(a + 1))]
        wanted += [
            Wanted(f"bit {half + b} of {name}", ["bit", term.number, low, bits, half + b], lambda a, b=b: bit(a, b))
            for b in range(bits - half)
        ]
        first = self.heads.digit(form, low, high, base, wanted, f"{name} // {base}")
        rest = form - low - (Form.of(-1, {first[0].number: Fraction(1)}) * base)
        wanted = [Wanted(f"{name} % {base}", [*digit, "low"], lambda c: Fraction(c + 1))]
        wanted += [
            Wanted(f"bit {b} of {name}", ["bit", term.number, low, bits, b], lambda c, b=b: bit(c, b))
            for b in range(half)
        ]
        second = self.heads.table(rest, 0, base - 1, wanted, f"{name} % {base}")
        self._codes[(term.number, low, bits)] = [*second[1:], *first[1:]]
        return base, [first[0], second[0]]

    def codes(self, term: Term, low: int, bits: int) -> list[Column]:
        """The bits of a whole number less `low`, as -1 and 1; all ones if it has no code of so many bits."""
        key = (term.number, low, bits)
        if key not in self._codes:
            self._codes[key] = self._new_codes(term, low, bits)
        return self._codes[key]

    def _new_codes(self, term: Term, low: int, bits: int) -> list[Column]:
        kind, name = self.type(term), shown(term)

        def bit(value: Fraction, b: int) -> Fraction:
            code = int(value) - low
            code = code if 0 <= code < 2**bits - 1 else 2**bits - 1
            return Fraction(1 - 2 * ((code >> b) & 1))

        leaves = leaves_of(term) if term.plain else [term]
        if len(leaves) <= 1 and (not leaves or leaves[0].op in ("field", "position")):
            return [
                self._embedded(
                    term,
                    leaves,
                    f"bit {b} of {name}",
                    ["bit", term.number, low, bits, b],
                    lambda v, b=b: bit(v, b),
                    True,
                )
                for b in range(bits)
            ]
        inside = low <= kind.low and kind.high < low + 2**bits - 1
        if kind.size > SMALL_TABLE and inside:
            self._digits(term, low, bits)
            return self._codes[(term.number, low, bits)]
        form, _ = self.near(term)
        wanted = [
            Wanted(
                f"bit {b} of {name}",
                ["bit", term.number, low, bits, b, [term.number]],
                lambda k, b=b: bit(Fraction(k), b),
            )
            for b in range(bits)
        ]
        return self.heads.table(form, int(kind.low), int(kind.high), wanted, f"bits of {name}")
