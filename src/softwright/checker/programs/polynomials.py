"""Conditions on two tokens as polynomials of atoms, and values of two tokens as sums of products of what each has.

A condition is a sum of products of atoms with whole factors, in one way only. Atoms: ("flag", side, value), a truth
value; ("equal", a, b), a_j == b_i; ("less", a, b), a_j < b_i; ("more", a, b); and ("causal",).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from softwright.checker.programs.graph_core import Graph
from softwright.checker.programs.words import shown
from softwright.checker.refusal import require

Atom = tuple[Any, ...]
Terms = dict[frozenset[Atom], int]
CAUSAL: Atom = ("causal",)
MOST = 64
Monomial = tuple[tuple[int, ...], tuple[int, ...]]


def polynomial(graph: Graph, condition: int) -> Terms:
    """What a condition means, as {atoms: factor}."""
    op, args = graph.op[condition], graph.args[condition]
    if op == "number":
        require(graph.constant[condition] == 1, "a condition is a number")
        return {frozenset(): 1}
    if op in ("i", "j"):
        return {frozenset([("flag", op, args[0])]): 1}
    if op == "not":
        return _sum({frozenset(): 1}, polynomial(graph, args[0]), -1)
    if op in ("and", "or"):
        one, other = polynomial(graph, args[0]), polynomial(graph, args[1])
        both = _times(graph, one, other)
        return both if op == "and" else _sum(_sum(one, other, 1), both, -1)
    require(op in ("eq", "lt", "le"), "a condition that has no polynomial")
    left, right = args
    require({graph.op[left], graph.op[right]} == {"i", "j"}, "a comparison that mixes both tokens")
    forward = graph.op[left] == "j"
    mine, other = (left, right) if forward else (right, left)
    mine, other = graph.args[mine][0], graph.args[other][0]
    equal, one, causal = {frozenset([("equal", mine, other)]): 1}, {frozenset(): 1}, {frozenset([CAUSAL]): 1}
    if op == "eq":
        return equal
    if graph.op[mine] == graph.op[other] == "position":
        if op == "lt":  # j < i, or i < j
            return _sum(causal, equal, -1) if forward else _sum(one, causal, -1)
        return causal if forward else _sum(_sum(one, causal, -1), equal, 1)
    if op == "lt":
        return {frozenset([("less" if forward else "more", mine, other)]): 1}
    return _sum(one, {frozenset([("more" if forward else "less", mine, other)]): 1}, -1)


def rank_polynomial(graph: Graph, key: int) -> Terms:
    """How many tokens stand before this one when sorted by a key, ties in their order."""
    equal = frozenset([("equal", key, key), CAUSAL])
    place = graph.make("position")
    if graph.op[key] == "position":
        raise ValueError("a sequence sorted by its places")
    own = frozenset([("equal", key, key), ("equal", place, place)])
    return {frozenset([("less", key, key)]): 1, equal: 1, own: -1}


def is_itself(graph: Graph, atom: Atom) -> bool:
    """Whether an atom is that token j is token i."""
    return atom[0] == "equal" and graph.op[atom[1]] == graph.op[atom[2]] == "position"


def _sum(one: Terms, other: Terms, factor: int) -> Terms:
    found = dict(one)
    for atoms, number in other.items():
        found[atoms] = found.get(atoms, 0) + factor * number
    return {atoms: number for atoms, number in found.items() if number != 0}


def _times(graph: Graph, one: Terms, other: Terms) -> Terms:
    found: Terms = {}
    for a, x in one.items():
        for b, y in other.items():
            atoms = a | b
            if any(is_itself(graph, atom) for atom in atoms):
                atoms -= {CAUSAL}  # a token is not after itself
            found[atoms] = found.get(atoms, 0) + x * y
    require(len(found) <= MOST, "a condition has too many cases")
    return {atoms: number for atoms, number in found.items() if number != 0}


def expand(graph: Graph, value: int) -> dict[Monomial, Fraction]:
    """A value of both tokens as a sum of products of factors of either."""
    op, args = graph.op[value], graph.args[value]
    number = graph.folded(args[0] if op in ("i", "j") else value)
    if number is not None:
        return {((), ()): number} if number else {}
    if op in ("i", "j"):
        return {((args[0],), ()) if op == "i" else ((), (args[0],)): Fraction(1)}
    if op in ("add", "sub", "neg"):
        found: dict[Monomial, Fraction] = {}
        for sign, arg in zip((-1,) if op == "neg" else (1, 1 if op == "add" else -1), args, strict=True):
            for key, c in expand(graph, arg).items():
                found[key] = found.get(key, Fraction(0)) + sign * c
        return {key: c for key, c in found.items() if c}
    if op == "div":
        divisor = graph.folded(args[1])
        require(bool(divisor), "a score divides by what is no number")
        return {key: c / (divisor or 1) for key, c in expand(graph, args[0]).items()}
    if op == "pow":
        power = graph.folded(args[1])
        require(power in range(1, 9), "a score has a power that is not known")
        return _multiplied(graph, [expand(graph, args[0])] * int(power or 1))
    require(op == "mul", "a score is no polynomial")
    return _multiplied(graph, [expand(graph, arg) for arg in args])


def _multiplied(graph: Graph, parts: list[dict[Monomial, Fraction]]) -> dict[Monomial, Fraction]:
    total = parts[0]
    for other in parts[1:]:
        found: dict[Monomial, Fraction] = {}
        for (i, j), a in total.items():
            for (k, m), b in other.items():
                sides = ((*i, *k), (*j, *m))
                key = tuple(tuple(sorted(side, key=lambda one: shown(graph, one))) for side in sides)
                found[key[0], key[1]] = found.get((key[0], key[1]), Fraction(0)) + a * b
        require(len(found) <= MOST, "a score has too many products")
        total = {key: c for key, c in found.items() if c}
    return total
