"""Functions about a point: F(p + v) as a tree in which what cancels at v = 0 has been cancelled exactly.

A function that is singular at p is asked for numbers ever closer to p, which no float p + v tells apart unless p is 0.
So sub-trees that are polynomials in u with rational coefficients are expanded about p, in rational arithmetic, with

    max(a, b) = b + max(a - b, 0) = a + max(b - a, 0),  and so for min, where a - b = c v:  max(c v, 0) = c v+ or |c| v-

and v+ = max(v, 0), v- = max(-v, 0): sqrt(1 - min(u, 1)) about 1 is sqrt(v-). All else keeps its form. `Centred` is
given what v, v+ and v- are: multiples of a new variable t and of its two parts, or on one side of p alone, where one
of the parts is 0, the distance itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flint import fmpq

from softwright.checker.trees import Tree, rational_value

Powers = tuple[int, int, int]  # of t, max(t, 0) and max(-t, 0)
Poly = dict[Powers, fmpq]
MOST_TERMS, LARGEST_POWER = 40, 12
T: Tree = ("variable", 0)
ZERO: Tree = ("number", fmpq(0))
GENERATORS: tuple[Tree, ...] = (T, ("max", T, ZERO), ("max", ("sum", [(-1, T)]), ZERO))
FIRST, RISING, FALLING = (1, 0, 0), (0, 1, 0), (0, 0, 1)


class Centred:
    """Trees in u = point + v as trees in t."""

    def __init__(self, point: fmpq, v: Poly, rising: Poly, falling: Poly) -> None:
        self.u = _plus({(0, 0, 0): point} if point != 0 else {}, v)
        self.v, self.parts = v, (rising, falling)

    def tree(self, node: Tree) -> Tree:
        found = self._poly(node)
        return _mapped(node, self.tree) if found is None else _spelt(found)

    def _poly(self, node: Tree) -> Poly | None:
        """The polynomial that a tree is; None if it is none, or one of too many terms."""
        kind = node[0]
        if kind == "variable":
            return self.u
        if kind == "number":
            return {(0, 0, 0): node[1]} if node[1] != 0 else {}
        if kind == "sum":
            return self._sum(node[1])
        if kind == "product":
            return self._product(node[1])
        if kind == "pow":
            exponent = rational_value(node[2])
            if exponent is None or exponent.q != 1 or not 0 <= exponent <= LARGEST_POWER:
                return None
            return self._product([(1, node[1])] * int(exponent.p))
        if kind in ("max", "min") and len(node) == 3:
            return self._extreme(kind, *map(self._poly, node[1:]))
        return None

    def _sum(self, terms: list[tuple[int, Tree]]) -> Poly | None:
        total: Poly = {}
        for sign, child in terms:
            found = self._poly(child)
            if found is None:
                return None
            total = _plus(total, found, sign)
        return total

    def _product(self, factors: list[tuple[int, Tree]]) -> Poly | None:
        total: Poly = {(0, 0, 0): fmpq(1)}
        for sign, child in factors:
            found = self._poly(child)
            if found is None:
                return None
            if sign < 0:
                if found.keys() != {(0, 0, 0)}:
                    return None
                found = {(0, 0, 0): 1 / found[0, 0, 0]}
            product: Poly = {}
            for a, c in total.items():
                for b, d in found.items():
                    powers = (a[0] + b[0], a[1] + b[1], a[2] + b[2])
                    product = _plus(product, {powers: c * d})
            if len(product) > MOST_TERMS:
                return None
            total = product
        return total

    def _extreme(self, kind: str, a: Poly | None, b: Poly | None) -> Poly | None:
        if a is None or b is None:
            return None
        difference = _plus(a, b, -1)
        if not difference:
            return a
        c = next(iter(difference.values())) / next(iter(self.v.values()))
        if difference != {powers: c * d for powers, d in self.v.items()}:
            return None
        over, under = (
            {powers: abs(c) * d for powers, d in part.items()}
            for part in (self.parts if c > 0 else self.parts[::-1])  # max(a - b, 0) and max(b - a, 0)
        )
        found = (_plus(b, over), _plus(a, under)) if kind == "max" else (_plus(b, under, -1), _plus(a, over, -1))
        return min(found, key=len)  # v+ - v- is v: the shorter one shows signs


def in_frame(center: fmpq, halfwidth: fmpq) -> Centred:
    """u = center + halfwidth t, for a positive halfwidth."""
    return Centred(center, {FIRST: halfwidth}, {RISING: halfwidth}, {FALLING: halfwidth})


def on_side(point: fmpq, side: int) -> Centred:
    """u = point + side t for distances t >= 0."""
    distance: Poly = {FIRST: fmpq(1)}
    return Centred(point, {FIRST: fmpq(side)}, *((distance, {}) if side > 0 else ({}, distance)))


def turns_at(node: Tree, point: fmpq) -> bool:
    """Whether a tree in one variable holds max or min of that variable and the point."""
    if node[0] in ("max", "min") and len(node) == 3:
        for one, other in (node[1:], node[:0:-1]):
            if one == ("variable", 0) and rational_value(other) == point:
                return True
    found: list[bool] = []

    def look(child: Tree) -> Tree:
        found.append(turns_at(child, point))
        return child

    _mapped(node, look)
    return any(found)


def _plus(a: Poly, b: Poly, factor: int = 1) -> Poly:
    total = dict(a)
    for powers, c in b.items():
        total[powers] = total.get(powers, fmpq(0)) + factor * c
    return {powers: c for powers, c in total.items() if c != 0}


def _spelt(poly: Poly) -> Tree:
    terms = []
    for powers, c in sorted(poly.items()):
        factors: list[Tree] = [
            g if n == 1 else ("pow", g, ("number", fmpq(n))) for g, n in zip(GENERATORS, powers, strict=True) if n
        ]
        if c != 1 or not factors:
            factors.insert(0, ("number", c))
        terms.append((1, factors[0] if len(factors) == 1 else ("product", [(1, factor) for factor in factors])))
    if not terms:
        return ZERO
    return terms[0][1] if len(terms) == 1 else ("sum", terms)


def _mapped(node: Tree, change: Callable[[Tree], Tree]) -> Tree:
    """The tree with its children changed."""

    def inner(item: Any) -> Any:
        if isinstance(item, list):
            return [inner(entry) for entry in item]
        if isinstance(item, tuple):
            return (item[0], change(item[1])) if isinstance(item[0], int) else change(item)
        return item

    return node if node[0] in ("number", "variable", "pi", "e") else (node[0], *map(inner, node[1:]))
