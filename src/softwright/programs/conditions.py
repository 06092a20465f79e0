"""`polynomial`: a condition on two tokens as a signed sum of products of simple ones.

Every condition is a polynomial of degree one in each of its atoms, and there is only one such polynomial:

    not A = 1 - A,  A and B = A B,  A or B = A + B - A B,  a <= b = 1 - (b < a)

Atoms are ("flag", side, term), a truth value of one token; ("equal", a, b), a_j == b_i; ("less", a, b), a_j < b_i;
("more", a, b), a_j > b_i; and ("causal",), j <= i. Of places, j < i is causal less equal, for equal implies causal. The
sum of v over a condition is then the signed sum of sums over products of atoms, and each of those is one head, or one
for every bit where numbers are compared: a < b means that all higher bits agree and one bit is 0 in a, 1 in b.
"""

from __future__ import annotations

from typing import Any

from softwright.programs.terms import Term, shown
from softwright.programs.types import Refused

Atom = tuple[Any, ...]
Polynomial = dict[frozenset[Atom], int]
CAUSAL: Atom = ("causal",)
MOST_MONOMIALS = 24


def polynomial(condition: Term) -> Polynomial:
    """The polynomial of a condition; `Refused` if it compares what is not apart."""
    if condition.op == "number":
        return {frozenset(): int(condition.value)}
    if condition.op in ("i", "j"):
        return {frozenset([("flag", condition.op, condition.args[0])]): 1}
    if condition.op == "not":
        return _add({frozenset(): 1}, polynomial(condition.args[0]), -1)
    if condition.op in ("and", "or"):
        left, right = (polynomial(arg) for arg in condition.args)
        both = _product(left, right)
        if len(both) > MOST_MONOMIALS:
            raise Refused(condition, f"{shown(condition)} has too many cases; split it into several counts")
        return both if condition.op == "and" else _add(_add(left, right, 1), both, -1)
    if condition.op in ("eq", "lt", "le"):
        return _comparison(condition)
    raise Refused(condition, f"{shown(condition)} joins tokens i and j in a way that has no head; compare them")


def _comparison(condition: Term) -> Polynomial:
    left, right = condition.args
    sides = left.op, right.op
    if set(sides) != {"i", "j"}:
        how = "bring all that token j has to one side: x[j] == y[i]"
        raise Refused(condition, f"{shown(condition)} mixes both tokens on one side; {how}")
    mine, other = (left.args[0], right.args[0]) if left.op == "j" else (right.args[0], left.args[0])
    places = mine.op == other.op == "position"
    equal: Polynomial = {frozenset([("equal", mine, other)]): 1}
    one: Polynomial = {frozenset(): 1}
    if condition.op == "eq":
        return equal
    causal: Polynomial = {frozenset([CAUSAL]): 1}
    first = left.op == "j"  # j < i or j <= i
    if condition.op == "lt":
        if places:
            return _add(causal, equal, -1) if first else _add(one, causal, -1)
        return {frozenset([("less" if first else "more", mine, other)]): 1}
    if places:
        return causal if first else _add(_add(one, causal, -1), equal, 1)
    return _add(one, {frozenset([("more" if first else "less", mine, other)]): 1}, -1)


def _add(one: Polynomial, other: Polynomial, factor: int) -> Polynomial:
    found = dict(one)
    for atoms, coefficient in other.items():
        found[atoms] = found.get(atoms, 0) + factor * coefficient
    return {atoms: coefficient for atoms, coefficient in found.items() if coefficient}


def _product(one: Polynomial, other: Polynomial) -> Polynomial:
    found: Polynomial = {}
    for atoms, a in one.items():
        for more, b in other.items():
            joined = atoms | more
            own = [atom for atom in joined if atom[0] == "equal" and atom[1].op == atom[2].op == "position"]
            if own:  # the token itself: it is causal
                joined = joined - {CAUSAL}
            found[joined] = found.get(joined, 0) + a * b
    return {atoms: coefficient for atoms, coefficient in found.items() if coefficient}
