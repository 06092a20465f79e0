"""`Shapes`: how each term of real numbers is computed, and how much its error matters to the outputs.

A term of reals that is no combination of others with constant factors is one of

    product (a, b)           a b                              gates, one column
    exponential (z, T)       z exp(T), or exp(T)              one gate
    maximum (d)              max(d, 0)                        one gate; max(a, b) = b + max(a - b, 0), and so on
    curve (leaf)             a smooth function of one term    a head of fixed tokens

and quotients are products with reciprocals: a / b = a (1 / b). An error e of a term moves an output by at most M e,
where M is the sum over all ways to the output of products of slopes, bounded over all sequences. What a curve or a
maximum may err by is its share of the tolerance over M.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from softwright.compiler.nodes import Node
from softwright.programs.finite import leaves_of
from softwright.programs.pairs.interpolation import lines_of
from softwright.programs.pairs.products import distances, is_kernel, is_pair, kernel_of, parts_of_sum
from softwright.programs.reals.functions import U, above, below, is_map, node_of, steepest
from softwright.programs.reals.weighing import Weighing
from softwright.programs.terms import Pool, Term
from softwright.programs.types import Type

_SMOOTH = ("add", "sub", "neg", "mul", "div", "pow")
SMALL = 16  # whole numbers of so few values are taken case by case


@dataclass(frozen=True)
class Shape:
    """`kind` is product, exponential, maximum, curve or linear; linear ones have factors and a constant is no part."""

    kind: str
    parts: tuple[Term, ...]
    factors: tuple[Fraction, ...] = ()


def number_of(term: Term) -> Fraction | None:
    """The number that a term is, signs included."""
    if term.op == "number":
        return term.value
    if term.op == "neg":
        inner = number_of(term.args[0])
        return None if inner is None else -inner
    return None


class Shapes:
    """Shapes of terms, made in the same pool."""

    def __init__(self, pool: Pool, type_of: Callable[[Term], Type], longest: int, weighing: Weighing) -> None:
        self.pool, self.type, self.longest, self.weighing = pool, type_of, longest, weighing
        self._known: dict[int, Shape] = {}

    def of(self, term: Term) -> Shape:
        found = self._known.get(term.number)
        if found is None:
            found = self._known[term.number] = self._shape(term)
        return found

    def _shape(self, term: Term) -> Shape:
        op, args = term.op, term.args
        one = Fraction(1)
        if op in ("max", "min", "abs"):
            return self._kink(term)
        if op == "div" and args[0].op == "sum" and not is_pair(args[0]) and args[1].op == "length":
            value, condition = args[0].args
            value = value.args[0] if value.op == "j" else value
            share = self.pool.make("j", self.pool.make("div", value, args[1]))
            return Shape("linear", (self.pool.make("sum", share, condition),), (one,))
        if op == "div" and number_of(args[0]) != 1:
            inverse = self.pool.make("div", self.pool.number(1), args[1])
            factor = number_of(args[0])
            if factor is not None:
                return Shape("linear", (inverse,), (factor,))
            return Shape("linear", (self.pool.make("mul", args[0], inverse),), (one,))
        if op == "map:exp" and is_linear(args[0]):
            return Shape("exponential", (self.pool.number(1), args[0]))
        leaf = self.leaf(term)
        if leaf is not None:
            return Shape("curve", (leaf,))
        if op == "mul":
            for z, other in (args, args[::-1]):
                if other.op == "map:exp" and self.leaf(other) is None:
                    return Shape("exponential", (z, other.args[0]))
            return Shape("product", args)
        if op == "map:exp":
            return Shape("exponential", (self.pool.number(1), args[0]))
        return Shape("curve", (args[1] if op == "div" else args[0],))

    def _kink(self, term: Term) -> Shape:
        """max(d, 0), and what is made of it."""
        op, args, zero = term.op, term.args, self.pool.number(0)
        if op == "max" and args[1] is zero:
            return Shape("maximum", (args[0],))
        if op == "abs":
            return Shape("linear", (self.pool.make("max", args[0], zero), args[0]), (Fraction(2), Fraction(-1)))
        difference = self.pool.make("max", self.pool.make("sub", args[0], args[1]), zero)
        if op == "max":
            return Shape("linear", (difference, args[1]), (Fraction(1), Fraction(1)))
        return Shape("linear", (difference, args[0]), (Fraction(-1), Fraction(1)))

    def leaf(self, term: Term) -> Term | None:
        """The one term of reals that a smooth term with a function in it depends on; None if there is none."""
        if not _has_function(term):
            return None
        if is_smooth(term):
            leaves = leaves_of(term)
            if len(leaves) == 1 and not self.type(leaves[0]).whole:
                return leaves[0]
        if is_map(term.op) or term.op == "pow":
            inner = term.args[0]
        elif term.op == "div" and number_of(term.args[0]) is not None:
            inner = term.args[1]
        else:
            return None
        deeper = self.leaf(inner) if is_smooth(inner) else None
        return inner if deeper is None else deeper

    def node(self, term: Term, leaf: Term) -> Node:
        """A curve as a tree in `u`."""
        return node_of(term, {leaf.number: U})

    # ---------------------------------------------------------------------------------------------------- what matters

    def edges(self, term: Term) -> list[tuple[Term, Fraction]]:
        """The terms that a term of reals is computed from, with bounds of its slopes."""
        op, args, one = term.op, term.args, Fraction(1)
        if term.op in ("number", "field", "position", "length", "symbol") or self.type(term).whole:
            return []
        if op == "weighed":
            return [(args[0], self.weighing.mass(term))]
        if op in ("add", "sub"):
            return [(args[0], one), (args[1], one)]
        if op == "neg":
            return [(args[0], one)]
        parts = self.weighing.parts(term)
        if parts is not None:
            return [(part, abs(factor)) for factor, part in parts]
        if is_pair(term):
            return self._pair_edges(term)
        if op == "sort" and not self.type(args[1]).whole:
            return [(args[0], one), (distances(self.pool, args[0]), Fraction(2))]
        if op in ("sum", "mean", "max_of", "min_of"):
            inner = args[0].args[0] if args[0].op == "j" else args[0]
            return [(inner, Fraction(self.longest) if op == "sum" else one)]
        if op == "interp":
            return self._line_edges(term)
        if op in ("at", "sort", "smooth", "choose", "attend", "select", "assume"):
            return [(args[0], one)]
        if op == "where":
            return [(args[1], one), (args[2], one)]
        if op in ("mul", "div"):
            numbers = [number_of(arg) for arg in args]
            if op == "mul" and (numbers[0] is not None or numbers[1] is not None):
                factor, other = (numbers[0], args[1]) if numbers[0] is not None else (numbers[1], args[0])
                return [(other, abs(factor or Fraction(0)))]
            if op == "div" and numbers[1] is not None:
                return [(args[0], abs(1 / numbers[1]))]
        if not term.plain or all(self.type(leaf).whole for leaf in leaves_of(term)):
            return []
        shape = self.of(term)
        sizes = [self.type(part).largest for part in shape.parts]
        if shape.kind == "linear":
            return [(part, abs(factor)) for part, factor in zip(shape.parts, shape.factors, strict=True)]
        if shape.kind == "product":
            return [(shape.parts[0], sizes[1]), (shape.parts[1], sizes[0])]
        if shape.kind == "exponential":
            size = self.type(self.pool.make("map:exp", shape.parts[1])).largest
            return [(shape.parts[0], size), (shape.parts[1], size * sizes[0])]
        if shape.kind == "maximum":
            return [(shape.parts[0], one)]
        return [(shape.parts[0], self.slope(term, shape.parts[0]))]

    def _pair_edges(self, term: Term) -> list[tuple[Term, Fraction]]:
        """A sum over pairs: its parts; of one kernel alone, what token j has."""
        parts = parts_of_sum(self.pool, term)
        if parts != [(Fraction(1), term)]:
            return [(part, abs(factor)) for factor, part in parts]
        value, kernel = kernel_of(term)
        return [] if value is None else [(value, self.longest * self.type(kernel).largest)]

    def _line_edges(self, term: Term) -> list[tuple[Term, Fraction]]:
        """Of an interpolation: its query, and levels and slopes of its lines."""
        parts = lines_of(self.pool, term, self.type(term.args[1]), self.type(term.args[2]))
        most = self.type(parts.steep).largest
        return [(parts.query, 4 * most), (parts.level, Fraction(1)), (parts.steep, self.type(parts.query).largest)]

    def slope(self, term: Term, leaf: Term) -> Fraction:
        """A bound of |dF/du| over the leaf's range; a large number where none is found."""
        kind = self.type(leaf)
        found = steepest(self.node(term, leaf), below(kind.low), above(kind.high))
        return Fraction(10**7) if found is None else found

    def multipliers(self, outputs: list[Term]) -> dict[int, Fraction]:
        """M of every term that outputs are computed from."""
        order: list[Term] = []
        seen: set[int] = set()
        edges: dict[int, list[tuple[Term, Fraction]]] = {}
        for output in outputs:
            pending = [(output, False)]
            while pending:
                term, done = pending.pop()
                if done:
                    order.append(term)
                    continue
                if term.number in seen:
                    continue
                seen.add(term.number)
                edges[term.number] = self.edges(term)
                pending.append((term, True))
                pending += [(child, False) for child, _ in edges[term.number]]
        found = dict.fromkeys(seen, Fraction(0))
        for output in outputs:
            found[output.number] = Fraction(1)
        for term in reversed(order):
            for child, slope in edges[term.number]:
                found[child.number] += found[term.number] * slope
        return found

    def is_approximate(self, term: Term) -> bool:
        """Whether what computes a term has a share of the tolerance: curves and maxima."""
        if term.op == "interp":
            return True
        if term.op == "weighed" or self.weighing.parts(term) is not None:
            return False
        if term.op in ("max_of", "min_of", "sort"):
            return not self.type(term.args[1] if term.op == "sort" else term).whole
        if is_pair(term):
            return is_kernel(self.pool, term)
        if not term.plain or self.type(term).whole or all(self.type(leaf).whole for leaf in leaves_of(term)):
            return False
        linear = term.op in ("add", "sub", "neg", "where") or (
            term.op in ("mul", "div") and any(number_of(arg) is not None for arg in term.args[term.op == "div" :])
        )
        return not linear and self.of(term).kind in ("curve", "maximum")


def is_linear(term: Term) -> bool:
    """Whether a term is a combination of terms that are not plain."""
    if not term.plain:
        return True
    if term.op in ("add", "sub", "neg"):
        return all(is_linear(arg) for arg in term.args)
    if term.op == "mul":
        return any(number_of(a) is not None and is_linear(b) for a, b in (term.args, term.args[::-1]))
    return term.op == "div" and number_of(term.args[1]) is not None and is_linear(term.args[0])


def is_smooth(term: Term) -> bool:
    """Whether all plain operations down to the leaves are smooth; powers have constant exponents."""
    if not term.plain:
        return True
    if term.op == "pow" and number_of(term.args[1]) is None:
        return False
    return (term.op in _SMOOTH or is_map(term.op)) and all(is_smooth(arg) for arg in term.args)


def _has_function(term: Term) -> bool:
    """Whether there is more than sums and products between a term and its leaves."""
    if not term.plain:
        return False
    if is_map(term.op) or term.op == "pow":
        return True
    if term.op == "div" and number_of(term.args[1]) is None:
        return True
    return any(_has_function(arg) for arg in term.args)
