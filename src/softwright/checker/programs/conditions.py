"""Conditions on two tokens: what the program says, as a polynomial of atoms; and what a head's factors mean.

A condition is a sum of products of atoms with whole factors, in one way only. Atoms: ("flag", side, value), a truth
value; ("equal", a, b), a_j == b_i; ("less", a, b), a_j < b_i; ("more", a, b); and ("causal",). A head's condition is a
set of literals; the atom less is shared between as many heads as there are bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from softwright.checker.entries import is_count, list_of
from softwright.checker.programs.polynomials import CAUSAL, Atom
from softwright.checker.programs.state import State
from softwright.checker.refusal import require

Literals = frozenset[tuple[Any, ...]]


# ------------------------------------------------------------------------------------------------------- heads' factors


def code_of(state: State, value: int) -> tuple[int, int]:
    """The least number and the bits by which a value of token j is compared for equality."""
    kind = state.ranges.of(value)
    require(kind.whole, "equality of real numbers")
    return int(kind.low), kind.size.bit_length()


def order_of(state: State, mine: int, other: int) -> tuple[int, int]:
    kinds = state.ranges.of(mine), state.ranges.of(other)
    require(kinds[0].whole and kinds[1].whole, "order of real numbers")
    low = min(kind.low for kind in kinds)
    return int(low), int(max(kind.high for kind in kinds) - low + 1).bit_length()


def cases_of(state: State, atoms: frozenset[Atom]) -> Iterator[Literals]:
    """The sets of literals, one for every head, that a product of atoms needs; they exclude each other."""
    choices: list[list[list[tuple[Any, ...]]]] = []
    for atom in atoms - {CAUSAL}:
        if atom[0] == "flag":
            choices.append([[atom]])
        elif atom[0] == "equal":
            choices.append([[("top", atom[1], atom[2], *code_of(state, atom[1]), -1)]])
        else:
            low, bits = order_of(state, atom[1], atom[2])
            mine, other = (1, -1) if atom[0] == "less" else (-1, 1)
            one = []
            for b in range(bits):
                literals: list[tuple[Any, ...]] = [
                    ("bit", "j", atom[1], low, bits, b, mine),
                    ("bit", "i", atom[2], low, bits, b, other),
                ]
                if b + 1 < bits:
                    literals.append(("top", atom[1], atom[2], low, bits, b))
                one.append(literals)
            choices.append(one)
    for chosen in product(*choices):
        yield frozenset(literal for part in chosen for literal in part)


def literals_of(state: State, where: list[list[Any]], layer: int) -> Literals:
    """What the factors of a head say, each column proved to hold what is said of it, exactly."""
    found: list[tuple[Any, ...]] = []
    for factor in where:
        if factor[0:1] == ["equal"]:
            require(len(factor) == 3 and all(list_of(is_count)(part) for part in factor[1:]), "a factor is damaged")
            require(len(factor[1]) == len(factor[2]) > 0, "a factor is damaged")
            pairs = [(_bit(state, a, layer), _bit(state, b, layer)) for a, b in zip(factor[1], factor[2], strict=True)]
            mine, other = pairs[0][0][0], pairs[0][1][0]
            low, bits = pairs[0][0][1:3]
            same = all(a == (mine, low, bits, a[3]) and b == (other, low, bits, a[3]) for a, b in pairs)
            places = sorted(a[3] for a, _ in pairs)
            lowest = bits - len(places)
            require(same and places == list(range(lowest, bits)), "a factor compares bits that do not belong together")
            inside(state, mine, low, bits)
            if lowest > 0:
                inside(state, other, low, bits)
            found.append(("top", mine, other, low, bits, lowest - 1))
            continue
        good = len(factor) == 4 and factor[0] == "flag" and factor[1] in ("i", "j") and is_count(factor[2])
        require(good and factor[3] in (1, -1), "a factor is damaged")
        _, side, column, sign = factor
        line = state.said[column] if column < len(state.said) else None
        if line is not None and line.kind == "bit":
            value, low, bits, b = _bit(state, column, layer)
            inside(state, value, low, bits)
            found.append(("bit", side, value, low, bits, b, sign))
            continue
        require(line is not None and line.kind == "sign" and sign == 1, "a flag is no truth value")
        _ready(state, column, layer)
        if line is not None:
            found.append(("flag", side, line.value))
    require(len(set(found)) == len(found), "a factor stands there twice")
    return frozenset(found)


def inside(state: State, value: int, low: int, bits: int) -> None:
    """All numbers of a value have codes of their own: none has that of a number without one."""
    kind = state.ranges.of(value)
    require(low <= kind.low and kind.high - low <= 2**bits - 2, "a value has numbers without a code")


def _bit(state: State, column: int, layer: int) -> tuple[int, int, int, int]:
    require(column < len(state.said) and state.said[column].kind == "bit", "a column holds no bit")
    _ready(state, column, layer)
    line = state.said[column]
    return (line.value, *line.numbers)


def _ready(state: State, column: int, layer: int) -> None:
    held = state.held.get(column)
    require(held is not None and held.exact and held.layer < layer, "a factor reads a column that is not there yet")
    if held is not None:
        require(held.low >= -1 and held.high <= 1, "a factor reads a column that is no sign")


def grouped(state: State, literals: Literals, groups: int) -> Iterator[Literals]:
    """The same literals for every group of places by their lowest bits."""
    place = state.graph.make("position")
    bits = state.bounds.data.bit_length()
    for signs in product((1, -1), repeat=groups):
        yield literals | {("bit", "j", place, 0, bits, b, sign) for b, sign in enumerate(signs)}
