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

from collections.abc import Callable

import numpy as np
from flint import fmpq

from softwright.checker.composition.dag import Node
from softwright.checker.composition.enclosing import Masks, Values
from softwright.checker.composition.intervals import Interval
from softwright.checker.composition.polynomials import (
    UNIT,
    Exponent,
    Poly,
    constant,
    fraction,
    key,
    plus,
    prime_powers,
    scaled,
    tidy,
    whole,
)
from softwright.checker.composition.powers import Powers
from softwright.checker.composition.ranges import Ranges
from softwright.checker.refusal import require

HALF = fmpq(1, 2)
ODD = ("sin", "asin", "atan", "asinh", "atanh", "erf", "tanh", "j1", "cbrt")
EVEN = ("cos", "sinc", "j0")
POINTS = 6
MOST_COMPARED = 40  # atoms of one function whose arguments are compared with a new one's


class Normaliser(Powers):
    """Normal forms of the nodes of `ranges.dag`."""

    def __init__(self, ranges: Ranges) -> None:
        super().__init__(ranges)
        self.known: dict[int, Poly] = {}
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
                self.spelt.add(n)
                self.known[n] = self._rule(node, [self.known[a] for a in node.arguments])
                self.origins.setdefault(key(self.known[n]), n)
        return self.known[number]

    def forget(self) -> None:
        """All normal forms, because what is assumed has changed."""
        self.known.clear()

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
        if not others and (name in ODD or name in EVEN):
            if not p:
                return {} if name in ODD else constant(1)
            if p[max(p)] < 0:
                turned = self.function(name, [scaled(p, -1)])
                return scaled(turned, -1) if name in ODD else turned
        return self.single(self.same_atom(name, tuple(x)))

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


# --------------------------------------------------------------------------------------- rules of single operations

Rule = Callable[[Normaliser, Node, list[Poly]], Poly]


def _power(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    base, exponent = x
    if not exponent or (len(exponent) == 1 and UNIT in exponent):
        q = fraction(exponent.get(UNIT, fmpq(0)))
        # Whether a power is one of whole order is what the text says, not what it is worth.
        spelt = self.dag.rational(node.arguments[1])
        require(
            not whole(q) or spelt is not None or self.ranges.is_positive(node.arguments[0]), "an exponent is unclear"
        )
        return self.raised(base, q)
    return self.exponential(self.times(exponent, self.logarithm(base)))


def _extreme(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    side = HALF if node.kind == "max" else -HALF
    result = x[0]
    for other in x[1:]:
        size = self.absolute(plus(result, other, -1))
        result = plus(scaled(plus(result, other), HALF), size, side)
    return result


def _compare(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    result = constant(1)
    for symbol, a, b in zip(node.payload, x, x[1:], strict=False):
        less, more = (a, b) if symbol[0] == "<" else (b, a)
        if symbol in ("<", ">"):
            truth = self.step(plus(more, less, -1))
        else:
            truth = plus(constant(1), self.step(plus(less, more, -1)), -1)
        result = self.times(result, truth)
    return result


def _and(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    result = constant(1)
    for p in x:
        result = self.times(result, p)
    return result


def _not(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    return plus(constant(1), x[0], -1)


def _or(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    return _not(self, node, [_and(self, node, [_not(self, node, [p]) for p in x])])


def _where(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    condition, first, second = x
    return plus(second, self.times(condition, plus(first, second, -1)))


def _hypotenuse(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    return self.raised(plus(self.power(x[0], 2), self.power(x[1], 2)), fraction(HALF))


def _angle(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    """By half planes of proved sign; else the function itself."""
    above, right = (self.node_sign(a, strict=True) for a in node.arguments)
    y, z = x
    pi = self.single(self.atom("pi", None))
    if right > 0 or (right < 0 and self.node_sign(node.arguments[0]) != 0):
        angle = self.function("atan", [self.times(y, self.power(z, -1))])
        turn = 0 if right > 0 else 1 if self.node_sign(node.arguments[0]) > 0 else -1
        if turn == -1 and above == 0:  # y = 0 may be there, where the angle is pi and not -pi
            return self.function("atan2", x)
        return plus(angle, pi, turn)
    if above != 0:
        angle = self.function("atan", [self.times(z, self.power(y, -1))])
        return plus(scaled(pi, above * HALF), angle, -1)
    return self.function("atan2", x)


def _x_log_y(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    if self.ranges.is_positive(node.arguments[1]):
        return self.times(x[0], self.logarithm(x[1]))
    return self.function("xlogy", x)


def _cube_root(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    side = self.node_sign(node.arguments[0])
    if side == 0:
        return self.function("cbrt", x)
    return scaled(self.raised(scaled(x[0], side), fraction(fmpq(1, 3))), side)


def _wave(numerator: str, denominator: str) -> Rule:
    """A quotient of sine and cosine; "" is 1."""

    def rule(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
        top = self.function(numerator, x) if numerator else constant(1)
        return self.times(top, self.power(self.function(denominator, x), -1))

    return rule


def _hyperbolic(sign: int) -> Rule:
    def rule(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
        return scaled(plus(self.exponential(x[0]), self.exponential(scaled(x[0], -1)), sign), HALF)

    return rule


def _in_base(base: int) -> Rule:
    def rule(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
        return self.times(self.logarithm(x[0]), self.power(self.logarithm(constant(base)), -1))

    return rule


def _sign(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    return plus(self.step(x[0]), self.step(scaled(x[0], -1)), -1)


def _step(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    return plus(constant(1), self.step(scaled(x[0], -1)), -1)


def _normal_density(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    bell = self.exponential(scaled(self.power(x[0], 2), -HALF))
    root = self.fractional(scaled(self.single(self.atom("pi", None)), 2), tidy(fraction(-HALF)))
    return self.times(bell, root)


def _normal_share(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    error = self.function("erf", [self.times(x[0], self.constant_power(fmpq(2), fraction(-HALF)))])
    return scaled(plus(constant(1), error), HALF)


def _arc_cosine(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    quarter = scaled(self.single(self.atom("pi", None)), HALF)
    return plus(quarter, self.function("asin", x), -1)


def _gelu(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    return self.times(x[0], _normal_share(self, node, x))


def _ceiling(self: Normaliser, node: Node, x: list[Poly]) -> Poly:
    return scaled(self.function("floor", [scaled(x[0], -1)]), -1)


RULES: dict[str, Rule] = {
    "pow": _power,
    "sqrt": lambda self, node, x: self.raised(x[0], fraction(HALF)),
    "cbrt": _cube_root,
    "exp": lambda self, node, x: self.exponential(x[0]),
    "expm1": lambda self, node, x: plus(self.exponential(x[0]), constant(1), -1),
    "exp2": lambda self, node, x: self.exponential(self.times(x[0], self.logarithm(constant(2)))),
    "log": lambda self, node, x: self.logarithm(x[0]),
    "log1p": lambda self, node, x: self.logarithm(plus(x[0], constant(1))),
    "log2": _in_base(2),
    "log10": _in_base(10),
    "abs": lambda self, node, x: self.absolute(x[0]),
    "max": _extreme,
    "min": _extreme,
    "compare": _compare,
    "and": _and,
    "or": _or,
    "not": _not,
    "where": _where,
    "sign": _sign,
    "step": _step,
    "ceil": _ceiling,
    "hypot": _hypotenuse,
    "atan2": _angle,
    "xlogy": _x_log_y,
    "tan": _wave("sin", "cos"),
    "cot": _wave("cos", "sin"),
    "sec": _wave("", "cos"),
    "csc": _wave("", "sin"),
    "coth": _wave("", "tanh"),
    "sinh": _hyperbolic(-1),
    "cosh": _hyperbolic(1),
    "acos": _arc_cosine,
    "erfc": lambda self, node, x: plus(constant(1), self.function("erf", x), -1),
    "normcdf": _normal_share,
    "normpdf": _normal_density,
    "gamma": lambda self, node, x: self.exponential(self.function("lgamma", x)),
    "silu": lambda self, node, x: self.times(x[0], self.function("sigmoid", x)),
    "gelu": _gelu,
}
