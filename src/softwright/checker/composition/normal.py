"""`Normaliser`: nodes of a dag become polynomials over atoms (`algebra.py`), by rules that hold wherever both sides do.

    a**b           a^b for a rational b, else exp(b log a)
    exp            exp(sum c m) = product of exp(m)^c over monomials m; exp(c log D) = D^c
    log            log(c a^e b^f ..) = log c + e log a + ..: factors of proved sign, and even powers as those of |a|; of
                   the others one odd power may remain, log(s a^e) = e log(s a), and more stay together
    |.|            factor by factor; max(a, b) = (a + b + |a - b|)/2, min(a, b) = (a + b - |a - b|)/2
    conditions     [D > 0] is 0 or 1: a <= b is 1 - [a > b], and is a product, where(c, a, b) = b + c (a - b)
    sin, cos, ..   f(-D) = -f(D) or f(D) for odd and even functions; tan, sec, .. by sin and cos, sinh and cosh by exp
    hypot, atan2, xlogy, log1p, normcdf, ..   by their definitions, where a sign is needed after it was proved

Two atoms of one function are the same if their arguments are, by `Algebra.is_zero`; samples tell most others apart.
"""

from __future__ import annotations

import numpy as np
from flint import fmpq

from softwright.checker.composition.comparing import Comparing
from softwright.checker.composition.dag import Node
from softwright.checker.composition.enclosing import Masks, Values
from softwright.checker.composition.intervals import Interval
from softwright.checker.composition.polynomials import (
    UNIT,
    Exponent,
    Key,
    Poly,
    affine,
    constant,
    fraction,
    key,
    plus,
    prime_powers,
    scaled,
    whole,
)
from softwright.checker.composition.ranges import Ranges
from softwright.checker.composition.rules import RULES
from softwright.checker.refusal import require

HALF = fmpq(1, 2)
ODD = ("sin", "asin", "atan", "asinh", "atanh", "erf", "tanh", "j1", "cbrt")
EVEN = ("cos", "sinc", "j0")
POINTS = 6
MOST_RELATIVES = 3  # nodes that are kept as ways to spell a sum
MOST_COMPARED = 40  # atoms of one function whose arguments are compared with a new one's


class Normaliser(Comparing):
    """Normal forms of the nodes of `ranges.dag`."""

    def __init__(self, ranges: Ranges) -> None:
        super().__init__(ranges)
        self.known: dict[int, Poly] = {}
        self.relatives: dict[Key, dict[int, tuple[fmpq, fmpq]]] = {}  # nodes that are factor * shape + rest
        share = np.random.default_rng(1).random((POINTS, len(ranges.names)))
        x = ranges.lower + share * (ranges.upper - ranges.lower)
        self._points = {n: Interval(x[:, i], x[:, i]) for i, n in enumerate(ranges.inputs)}
        self._store: tuple[Values, Masks] | None = None

    def of(self, number: int) -> Poly:
        """The normal form of a node."""
        for n in self.dag.needed([number]):
            if n not in self.known:
                node = self.dag[n]
                self.spend(1)
                self.known[n] = self._rule(node, [self.known[a] for a in node.arguments])
                self.spell(n, self.known[n])
        return self.known[number]

    def spell(self, number: int, p: Poly) -> None:
        """Keep a node as the way in which a polynomial was written."""
        if not self.assumed:  # in a case the node is worth this on a part of the box only
            self.spelt.add(number)
            self.origins.setdefault(key(p), number)
            shape, factor, rest = affine(p)
            spelt = self.relatives.setdefault(shape, {}) if shape else {}
            if len(spelt) < MOST_RELATIVES:
                spelt.setdefault(number, (factor, rest))

    def relatives_of(self, number: int) -> list[tuple[int, fmpq, fmpq]]:
        """(other, a, b): nodes that were spelt before with node = a other + b wherever both have a value."""
        if self.assumed:
            return []
        shape, factor, rest = affine(self.of(number))
        found = self.relatives.get(shape, {}) if shape else {}
        return [(n, factor / c, rest - factor / c * d) for n, (c, d) in found.items() if n != number]

    def forget(self) -> None:
        """All that may rest on what is assumed, because that has changed."""
        for found in (self.known, self._made, self._factors):
            found.clear()

    def _rule(self, node: Node, x: list[Poly]) -> Poly:
        kind = node.kind
        if kind == "number":
            return constant(node.payload)
        if kind == "variable":
            return self.single(self.atom(kind, node.payload))
        if kind == "pi":
            return self.single(self.atom(kind, None))
        if kind == "e":
            return self.exponential(constant(1))
        if kind == "sum":
            result: Poly = {}
            for sign, term in zip(node.payload, x, strict=True):
                self.spend(len(term))
                result = plus(result, term, sign)
            return self.joined_squares(result)
        if kind == "product":
            return self._product(node.payload, x)
        rule = RULES.get(kind)
        if rule is not None:
            return rule(self, node, x)
        return self.function(kind, x)

    def _product(self, signs: tuple[int, ...], x: list[Poly]) -> Poly:
        """Single terms first, then sums by length."""
        factors = [p if sign > 0 else self.power(p, -1) for sign, p in zip(signs, x, strict=True)]
        factors.sort(key=len)
        result = factors[0]
        for p in factors[1:]:
            result = self.times(result, p)
        return result

    # Functions ------------------------------------------------------------------------------------------------------

    def raised(self, p: Poly, q: Exponent) -> Poly:
        return self.power(p, int(q)) if whole(q) else self.fractional(p, q)

    def exponential(self, p: Poly) -> Poly:
        result = constant(1)
        for m, c in p.items():
            e = fraction(c)
            if len(m) == 1 and m[0][1] == 1 and self.atoms[m[0][0]].kind == "log":
                d = self.atoms[m[0][0]].inner[0]
                factor = self.power(d, int(e)) if whole(e) else self.positive_root(d, e)
            else:
                factor = self.single(self.atom("exp", None, ({m: fmpq(1)},)), e)
            result = self.times(result, factor)
        return result

    def positive_root(self, d: Poly, e: Exponent) -> Poly:
        """d^e for the argument of a logarithm."""
        if len(d) == 1 and UNIT in d:
            return self.constant_power(d[UNIT], e)
        return self.root_of(d, e)

    def logarithm(self, p: Poly) -> Poly:
        require(p, "a logarithm of 0")
        c, m = self.factors(p)
        result = self._log_of_number(abs(c))
        inside: list[tuple[int, Exponent]] = []
        sign = 1 if c > 0 else -1
        for a, e in m:
            atom, side = self.atoms[a], self.sign(a)
            if atom.kind == "exp":
                result = plus(result, atom.inner[0], _rational(e))
            elif side != 0:
                result = plus(result, self._log_atom(scaled(self.base(a), side)), _rational(e))
                sign = side * sign if whole(e) and int(e) % 2 else sign
            elif not whole(e):
                result = plus(result, self._log_atom(self.base(a)), _rational(e))
            elif int(e) % 2 == 0:
                result = plus(result, self._log_atom(self.absolute_atom(a)), _rational(e))
            else:
                inside.append((a, e))
        if not inside:
            require(sign > 0, "a logarithm of something negative")
            return result
        if len(inside) == 1:
            ((a, e),) = inside
            return plus(result, self._log_atom(scaled(self.base(a), sign)), _rational(e))
        return plus(result, self._log_atom(self.reduced(dict(inside), fmpq(sign))))

    def _log_of_number(self, c: fmpq) -> Poly:
        result: Poly = {}
        for n, side in ((int(c.p), 1), (int(c.q), -1)):
            for prime, k in prime_powers(n):
                result = plus(result, self._log_atom(constant(prime)), side * k)
        return result

    def _log_atom(self, d: Poly) -> Poly:
        if d == constant(1):
            return {}
        return self.single(self.same_atom("log", (d,)))

    def step(self, p: Poly) -> Poly:
        """[p > 0]: factors that are proved positive are left out."""
        if not p:
            return {}
        c, m = self.factors(p)
        sign = 1 if c > 0 else -1
        weak = sign
        for a, e in m:  # a product that is nowhere positive
            weak *= self.sign(a) if whole(e) and int(e) % 2 else 1
        if weak < 0:
            return {}
        inside: Poly = constant(1)
        for a, e in m:
            side = self.sign(a, strict=True)
            if side == 0 or not whole(e):
                inside = self.times(inside, self.single(a, e))
            elif side < 0 and int(e) % 2:
                sign = -sign
        if inside == constant(1):
            return constant(1) if sign > 0 else {}
        return self.single(self.same_atom("step", (scaled(inside, sign),)))

    def function(self, name: str, x: list[Poly]) -> Poly:
        """An atom, after odd and even functions have turned a negative argument round."""
        (p, *others) = x
        if name == "asin":
            halved = self.half_angle(p)
            if halved is not None:
                return scaled(self.function("asin", [halved]), HALF)
        if not others and (name in ODD or name in EVEN):
            if not p:
                return {} if name in ODD else constant(1)
            if p[max(p)] < 0:
                turned = self.function(name, [scaled(p, -1)])
                return scaled(turned, -1) if name in ODD else turned
        return self.single(self.same_atom(name, tuple(x)))

    def half_angle(self, p: Poly) -> Poly | None:
        """a if p is (sqrt(1 + a) - sqrt(1 - a))/2: then asin(p) is asin(a)/2, wherever both roots are defined.

        So it is for p = r - t with products r, t >= 0 of odd powers of roots alone, if 4 r^2 + 4 t^2 is 2.
        """
        if len(p) != 2:
            return None
        squares: dict[int, Poly] = {}
        for m, c in p.items():
            if not m or any(whole(e) or not whole(2 * e) for _, e in m):
                return None
            squares[1 if c > 0 else -1] = scaled(self.power({m: c}, 2), 4)
        if set(squares) != {1, -1} or plus(plus(squares[1], squares[-1]), constant(2), -1):
            return None
        return plus(squares[1], constant(1), -1)

    def same_atom(self, name: str, inner: tuple[Poly, ...]) -> int:
        """The atom of a function, an older one if its arguments are the same in other words."""
        spelt = (name, None, *map(key, inner))
        if spelt in self._numbers:
            return self._numbers[spelt]
        nodes = [self.node(p) for p in inner]
        compared = 0
        for number, atom in enumerate(self.atoms):
            if atom.kind == name and len(atom.inner) == len(inner) and self._may_agree(nodes, atom.inner):
                compared += 1
                require(compared <= MOST_COMPARED, "too many functions of the program look alike")
                if all(self.is_zero(plus(p, q, -1)) for p, q in zip(inner, atom.inner, strict=True)):
                    if not self.assumed:  # in a case they may agree on a part of the box only
                        self._numbers[spelt] = number
                    return number
        return self.atom(name, None, inner)

    def _may_agree(self, nodes: list[int], inner: tuple[Poly, ...]) -> bool:
        """Whether the values at a few points leave it open that arguments are equal."""
        for n, p in zip(nodes, inner, strict=True):
            one, other = self.sample(n), self.sample(self.node(p))
            if ((one.upper < other.lower) | (other.upper < one.lower)).any():
                return False
        return True

    def sample(self, number: int) -> Interval:
        """Enclosures of a node at a few points of the box."""
        if self._store is None:
            self._store = dict(self._points), {n: np.ones(POINTS, dtype=bool) for n in self._points}
        values, masks = self._store
        self.ranges.enclosing.extend([number], values, masks, POINTS)
        return values[number].known(masks[number])


def _rational(e: Exponent) -> fmpq:
    return fmpq(e.numerator, e.denominator)
