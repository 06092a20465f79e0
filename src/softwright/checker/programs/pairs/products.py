"""What a sum over pairs of tokens is made of: products with what token i has, of sums of one kernel each.

A value of both tokens is flattened, from the outside in, into a list of (number, factors of i, factors of j, kernels);
|e| is the root of e e, max and min are halves of sums and differences, exponentials of one product are one exponential.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from softwright.checker.programs.graph_core import Graph
from softwright.checker.programs.words import shown
from softwright.checker.refusal import require

MOST = 64
ONE = Fraction(1)


class Piece(NamedTuple):
    """A product: factors of token i, of token j, and of both."""

    mine: tuple[int, ...]
    other: tuple[int, ...]
    kernels: tuple[int, ...]


Pieces = dict[Piece, Fraction]
NOTHING = Piece((), (), ())


def is_over_pairs(graph: Graph, value: int) -> bool:
    """Whether a sum or mean takes more of its tokens than what token j has."""
    return graph.op[value] in ("sum", "mean") and graph.op[graph.args[value][0]] not in ("j", "number")


def sorted_by_text(graph: Graph, factors: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(factors, key=lambda factor: shown(graph, factor)))


def flattened(graph: Graph, value: int) -> Pieces:
    """The products that a value of both tokens is the sum of."""
    op, args = graph.op[value], graph.args[value]
    number = graph.quotient(args[0] if op in ("i", "j") else value)
    if number is not None:
        return {NOTHING: number} if number else {}
    if op == "i":
        return {Piece((args[0],), (), ()): ONE}
    if op == "j":
        return {Piece((), (args[0],), ()): ONE}
    if op in ("add", "sub"):
        return added(flattened(graph, args[0]), flattened(graph, args[1]), ONE if op == "add" else -ONE)
    if op == "neg":
        return added({}, flattened(graph, args[0]), -ONE)
    if op == "mul":
        return times(graph, flattened(graph, args[0]), flattened(graph, args[1]))
    if op == "pow":
        power = graph.quotient(args[1])
        if power is not None and power.denominator == 1 and 1 <= power <= 8:
            found = base = flattened(graph, args[0])
            for _ in range(int(power) - 1):
                found = times(graph, found, base)
            return found
    if op == "div":
        return _quotient(graph, *args)
    if op == "abs":
        return {Piece((), (), (modulus(graph, args[0]),)): ONE}
    if op in ("max", "min"):
        away = {Piece((), (), (modulus(graph, graph.make("sub", *args)),)): ONE}
        both = added(flattened(graph, args[0]), flattened(graph, args[1]), ONE)
        return added({}, added(both, away, ONE if op == "max" else -ONE), Fraction(1, 2))
    require(op == "pow" or op.startswith("map:"), "a sum over pairs has no form as a sum of products")
    return {Piece((), (), (without_moduli(graph, value),)): ONE}


def _quotient(graph: Graph, above: int, below: int) -> Pieces:
    divisor = graph.quotient(graph.args[below][0] if graph.op[below] in ("i", "j") else below)
    if divisor:
        return added({}, flattened(graph, above), 1 / divisor)
    if graph.op[below] in ("i", "j"):
        inverse = graph.make("div", graph.number(1), graph.args[below][0])
        return times(graph, flattened(graph, above), flattened(graph, graph.make(graph.op[below], inverse)))
    kernel = {Piece((), (), (graph.make("div", graph.number(1), without_moduli(graph, below)),)): ONE}
    return times(graph, flattened(graph, above), kernel)


def modulus(graph: Graph, value: int) -> int:
    return graph.make("map:sqrt", graph.make("mul", value, value))


def without_moduli(graph: Graph, value: int) -> int:
    """A kernel with roots of squares instead of moduli."""
    if _is_polynomial(graph, value):
        return value
    if graph.op[value] == "abs":
        return modulus(graph, graph.args[value][0])
    args = tuple(without_moduli(graph, arg) for arg in graph.args[value])
    return value if args == graph.args[value] else graph.make(graph.op[value], *args, constant=graph.constant[value])


def added(one: Pieces, other: Pieces, factor: Fraction) -> Pieces:
    found = dict(one)
    for piece, number in other.items():
        found[piece] = found.get(piece, Fraction(0)) + factor * number
    return {piece: number for piece, number in found.items() if number}


def times(graph: Graph, one: Pieces, other: Pieces) -> Pieces:
    found: Pieces = {}
    for a, x in one.items():
        for b, y in other.items():
            kernels = sorted_by_text(graph, (*a.kernels, *b.kernels))
            powers = [graph.args[kernel][0] for kernel in kernels if graph.op[kernel] == "map:exp"]
            if len(powers) > 1:
                total = powers[0]
                for power in powers[1:]:
                    total = graph.make("add", total, power)
                rest = tuple(kernel for kernel in kernels if graph.op[kernel] != "map:exp")
                kernels = sorted_by_text(graph, (*rest, graph.make("map:exp", total)))
            mine, others = sorted_by_text(graph, a.mine + b.mine), sorted_by_text(graph, a.other + b.other)
            piece = Piece(mine, others, kernels)
            found[piece] = found.get(piece, Fraction(0)) + x * y
    require(len(found) <= MOST, "a sum over pairs has too many products")
    return {piece: number for piece, number in found.items() if number}


def product_of(graph: Graph, factors: tuple[int, ...]) -> int:
    found = factors[0]
    for factor in factors[1:]:
        found = graph.make("mul", found, factor)
    return found


def pieces_of_sum(graph: Graph, value: int) -> list[tuple[Fraction, int]]:
    """A sum over pairs as multiples of values; a sum of one kernel alone is itself."""
    inner, condition = graph.args[value]
    more: tuple[int, ...] = ()
    if graph.op[value] == "mean":
        require(graph.is_number(condition), "a mean over some pairs")
        more = (graph.make("div", graph.number(1), graph.make("length")),)
    found: list[tuple[Fraction, int]] = []
    for piece, number in flattened(graph, inner).items():
        own = sorted_by_text(graph, piece.other + more)
        inside = graph.number(1) if not own else graph.make("j", product_of(graph, own))
        if piece.kernels:
            kernel = product_of(graph, piece.kernels)
            inside = kernel if not own else graph.make("mul", inside, kernel)
        part = graph.make("sum", inside, condition)
        part = graph.make("mul", product_of(graph, piece.mine), part) if piece.mine else part
        found.append((number, part))
    return found


def kernel_of(graph: Graph, value: int) -> tuple[int, int]:
    """What token j has (the number 1 if nothing) and the kernel, of a sum of one kernel alone."""
    require(pieces_of_sum(graph, value) == [(ONE, value)], "a sum of more than one kernel")
    inner = graph.args[value][0]
    if graph.op[inner] == "mul" and graph.op[graph.args[inner][0]] == "j":
        own, kernel = graph.args[inner]
        return graph.args[own][0], kernel
    return graph.number(1), inner


def polynomial_inside(graph: Graph, kernel: int) -> int:
    """The one polynomial of both tokens that a kernel is a function of."""
    if _is_polynomial(graph, kernel):
        return kernel
    op = graph.op[kernel]
    require(op in ("add", "sub", "neg", "mul", "div", "pow") or op.startswith("map:"), "a kernel that is not known")
    found = {polynomial_inside(graph, arg) for arg in graph.args[kernel] if graph.quotient(arg) is None}
    require(len(found) == 1, "a kernel of more than one polynomial")
    return found.pop()


def _is_polynomial(graph: Graph, value: int) -> bool:
    op, args = graph.op[value], graph.args[value]
    if op in ("i", "j", "number"):
        return True
    if op in ("add", "sub", "neg", "mul"):
        return all(_is_polynomial(graph, arg) for arg in args)
    number = graph.quotient(args[1]) if op in ("div", "pow") else None
    if op == "div":
        return bool(number) and _is_polynomial(graph, args[0])
    whole = number is not None and number.denominator == 1 and 1 <= number <= 8
    return op == "pow" and whole and _is_polynomial(graph, args[0])
