"""Taylor models of a formula in ball arithmetic.

A Taylor model of degree p over the cube |s_i| <= 1 is a polynomial of degree p, with balls for coefficients, plus a
bound `error` for everything else. |a|_k is the sum of the moduli of the coefficients of degree k and bounds that part.

    product      truncated; lost: sum_{k+l>p} |a|_k |b|_l, and |a| e_b + |b| e_a + e_a e_b
    f(a)         sum_{k<=p} c_k (a - a_0)^k, truncated, c_k the Taylor coefficients of f at a_0; A = |a - a_0| + e_a:
                 the rest is at most A^(p+1) |f^(p+1)|/(p+1)! over a_0 +- A (Lagrange); what the powers lose is the part
                 beyond degree p of the majorant sum_k |c_k| (|a|_1 z + |a|_2 z^2 + ..)^k at z = 1, with e_a added to A
                 Where that is worse than the hull of f over the range of a (wide boxes, ends of a domain as for sqrt
                 at 0), the hull is taken. The table of functions has every function's own rules
    |a|          a or -a where the sign is certain; else, over a range [l, h], it lies in la a + mu +- mu with
                 la = (h + l)/(h - l) and mu = -l h/(h - l)
    min, max     a or b where it is certain which, else (a + b -+ |a - b|)/2
    where        one branch if the condition is certain, else the hull of both, each with what the condition says of
                 signs where it is asked for (`guards.py`, `regions.py`)

Polynomials are lists of homogeneous parts. A part of degree k is one arb_poly: s_0 is set to 1 (its power follows from
k) and s_i to z^((p+1)^(i-1)), so that products of parts are products of arb_polys, in C.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Sequence
from itertools import product

from flint import arb, arb_mat, arb_poly, arb_series, ctx, fmpq

from softwright.checker.functions import FUNCTIONS, INVERSE, Curve
from softwright.checker.guards import Fact, facts_of, told, with_logarithms
from softwright.checker.limits import check_time
from softwright.checker.refusal import UndefinedError
from softwright.checker.regions import CLOSED, Region, bounded, region
from softwright.checker.series import hull
from softwright.checker.trees import Tree

ZERO, ONE, NOTHING = arb(0), arb(1), arb_poly()
Parts = list[arb_poly]
Within = tuple[fmpq | None, fmpq | None]


def total(numbers: Iterable[arb]) -> arb:
    return sum(numbers, ZERO)


def dot(a: Iterable[arb], b: Iterable[arb]) -> arb:
    return sum(map(operator.mul, a, b), ZERO)


class Space:
    """Polynomials of total degree <= `degree` in `dim` variables."""

    def __init__(self, dim: int, degree: int) -> None:
        self.dim, self.degree = dim, degree
        self.strides = [0] + [(degree + 1) ** i for i in range(dim - 1)]
        every = [powers for powers in product(range(degree + 1), repeat=dim) if sum(powers) <= degree]
        every.sort(key=lambda powers: (sum(powers), self.place(powers)))
        self.monomials = every
        self.places = [[self.place(powers) for powers in every if sum(powers) == k] for k in range(degree + 1)]
        at = {powers: n for n, powers in enumerate(every)}
        self.recipe: list[
            tuple[int, int, int]
        ] = []  # monomial n > 0 = an earlier one times s_axis, which then has power k
        for powers in every[1:]:
            axis = next(i for i, k in enumerate(powers) if k)
            before = tuple(k - (i == axis) for i, k in enumerate(powers))
            self.recipe.append((at[before], axis, powers[axis]))
        self.first = [at[tuple(int(i == k) for k in range(dim))] for i in range(dim)]  # where s_0, s_1, .. stand
        # Bernstein coefficients bound the polynomial up to degree `low`; in many variables higher degrees would cost
        # more than they gain and are bounded by their moduli.
        self.low = min(degree, {1: degree, 2: degree, 3: 6}.get(dim, 3))
        self.low_count = sum(len(places) for places in self.places[: self.low + 1])
        self.bernstein = self._bernstein_matrix(self.low)

    def place(self, powers: tuple[int, ...]) -> int:
        return sum(map(operator.mul, powers, self.strides))

    def _bernstein_matrix(self, n: int) -> arb_mat:
        """Rows: monomials. Columns: their Bernstein coefficients of degree n in each variable on [-1, 1]^dim.

        s^k with s = 2 z - 1 has coefficients a_m of z^m; then b_i = sum_{m <= i} C(i, m)/C(n, m) a_m.
        """
        C = math.comb
        terms = {
            (k, i): [fmpq(C(i, m) * C(k, m) * 2**m * (-1) ** (k - m), C(n, m)) for m in range(min(i, k) + 1)]
            for k in range(n + 1)
            for i in range(n + 1)
        }
        one = [[arb(sum(terms[k, i], fmpq(0))) for i in range(n + 1)] for k in range(n + 1)]
        products: dict[tuple[int, ...], list[arb]] = {(): [ONE]}

        def row(powers: tuple[int, ...]) -> list[arb]:
            if powers not in products:
                products[powers] = [a * b for a in row(powers[:-1]) for b in one[powers[-1]]]
            return products[powers]

        return arb_mat([row(powers) for powers in self.monomials[: self.low_count]])

    def powers(self, point: Sequence[arb], over_factorials: bool = False) -> list[arb]:
        """All monomials at a point, if asked divided by the factorials of their powers."""
        values = [ONE]
        for before, axis, k in self.recipe:
            value = values[before] * point[axis]
            values.append(value / k if over_factorials and k > 1 else value)
        return values

    def polynomial(self, coefficients: Sequence[arb]) -> Parts:
        parts, start = [], 0
        for places in self.places:
            own = list(coefficients[start : start + len(places)])
            start += len(places)
            if self.dim > 2:
                dense = [ZERO] * (places[-1] + 1)
                for place, c in zip(places, own, strict=True):
                    dense[place] = c
                own = dense
            parts.append(arb_poly(own))
        return parts

    def coefficients(self, parts: Parts) -> list[arb]:
        return [part[place] for part, places in zip(parts, self.places, strict=True) for place in places]

    def linear(self, constant: arb, slopes: Sequence[arb] = ()) -> Parts:
        dense = [ZERO] * (self.strides[-1] + 1)
        for stride, slope in zip(self.strides, slopes, strict=False):
            dense[stride] = slope
        return [arb_poly([constant]), arb_poly(dense)] + [NOTHING] * (self.degree - 1)

    def multiply(self, a: Parts, b: Parts, degree: int | None = None) -> Parts:
        """The product up to `degree` (all of it that a polynomial here can hold, if not given)."""
        degree = self.degree if degree is None else degree
        out = [NOTHING] * (self.degree + 1)
        nonzero = [(j, part) for j, part in enumerate(b) if part.length()]
        for i, left in enumerate(a[: degree + 1]):
            if left.length():
                for j, right in nonzero:
                    if i + j > degree:
                        break
                    out[i + j] = out[i + j] + left * right
        return out


def space_of(dim: int, degree: int) -> Space:
    """The polynomials in the precision of the moment, whose tables are made once: a tenth of a small proof."""
    return _space_in(dim, degree, ctx.prec)


@functools.lru_cache(maxsize=4)
def _space_in(dim: int, degree: int, _bits: int) -> Space:
    return Space(dim, degree)


def plus(a: Parts, b: Parts) -> Parts:
    return list(map(operator.add, a, b))


def norms(parts: Parts) -> list[arb]:
    return [total(map(abs, part.coeffs())) for part in parts]


def truncated(a: list[arb], b: list[arb]) -> arb:
    """What a product loses by truncation: the sum of a_k b_l over k + l > degree."""
    return total(a[k] * total(b[len(b) - k :]) for k in range(1, len(a)) if not a[k].is_zero())


class Model:
    """A function of s: the polynomial `parts`, and an error of modulus at most `error`."""

    __slots__ = ("error", "parts", "space")

    def __init__(self, space: Space, parts: Parts, error: arb = ZERO) -> None:
        self.space, self.parts, self.error = space, parts, error

    @property
    def fixed(self) -> bool:
        return self.error.is_zero() and not any(part.length() for part in self.parts[1:])

    def __add__(self, other: Model) -> Model:
        return Model(self.space, plus(self.parts, other.parts), self.error + other.error)

    def __sub__(self, other: Model) -> Model:
        return Model(self.space, list(map(operator.sub, self.parts, other.parts)), self.error + other.error)

    def scaled(self, factor: arb) -> Model:
        return Model(self.space, [part * factor for part in self.parts], self.error * abs(factor))

    def __mul__(self, other: Model) -> Model:
        if self.fixed or other.fixed:
            return other.scaled(self.parts[0][0]) if self.fixed else self.scaled(other.parts[0][0])
        a, b = norms(self.parts), norms(other.parts)
        lost = truncated(a, b) + total(a) * other.error + (total(b) + other.error) * self.error
        return Model(self.space, self.space.multiply(self.parts, other.parts), lost)

    def size(self) -> arb:
        return total(norms(self.parts)) + self.error

    def bounds(self) -> tuple[arb, arb]:
        """An interval that holds all values; exact for b s + c s^2 in each variable, by moduli for the rest."""
        low = high = self.parts[0][0]
        rest = total(norms([NOTHING, *self.parts[1:]])) + self.error
        for stride in self.space.strides:
            b, c = self.parts[1][stride], self.parts[2][2 * stride]
            low, high, rest = low + least(b, c), high - least(-b, -c), rest - abs(b) - abs(c)
        rest = rest.upper().max(ZERO)  # a sum of moduli less some of them: never below 0
        return (low - rest).lower(), (high + rest).upper()

    def constant(self, ball: arb) -> Model:
        """The function that is somewhere in a ball, in the same space."""
        return defined(Model(self.space, self.space.linear(ball.mid()), ball.rad()))

    def shifted(self, by: arb) -> Model:
        return Model(self.space, [self.parts[0] + by, *self.parts[1:]], self.error)

    def blurred(self, by: arb) -> Model:
        return Model(self.space, self.parts, self.error + by)

    def composed(self, curve: Curve, within: Within = (None, None)) -> Model:
        """curve(self); `within` are numbers that no value of self is below, or above, though its bounds here may be."""
        p, center = self.space.degree, self.parts[0][0]
        if self.fixed:
            value = curve.over(*kept_within(center.lower(), center.upper(), within))
            return defined(Model(self.space, self.space.linear(value)), curve.domain.words)
        moduli = norms([NOTHING, *self.parts[1:]])
        width = total(moduli) + self.error
        terms = curve.taylor(center, p + 1)
        beyond = abs(curve.taylor(center + arb(0, width), p + 2)[-1]) * width ** (p + 1)
        kept = abs(terms[0])  # the majorant up to degree p; flint composes no series with an inner one that is 0
        if not total(moduli).is_zero():
            majorant = arb_series([abs(c) for c in terms], p + 1)(arb_series(moduli, p + 1))
            kept = total(majorant[k] for k in range(p + 1))
        lost = total(abs(c) * width**k for k, c in enumerate(terms)) - kept
        error = abs(lost) + beyond
        if not error < abs(terms[1]) * width:  # the hull is seldom better otherwise
            values = curve.over(*kept_within(*self.bounds(), within))
            if values.is_finite() and not error < 2 * values.rad():  # twice: the hull forgets how values depend on s
                return self.constant(values)
        inner: Parts = [NOTHING, *self.parts[1:]]
        result: Parts = [NOTHING] * (p + 1)
        for k in range(p, -1, -1):  # Horner; k more factors without constant term follow, so degree p - k is enough
            result = self.space.multiply(result, inner, p - k)
            result[0] = result[0] + terms[k]
        return defined(Model(self.space, result, error), curve.domain.words)

    def absolute(self) -> Model:
        low, high = self.bounds()
        if low >= 0 or high <= 0:
            return self if low >= 0 else self.scaled(-ONE)
        mu = -low * high / (high - low)
        chord = self.scaled((high + low) / (high - low))
        return defined(Model(self.space, [chord.parts[0] + mu, *chord.parts[1:]], chord.error + abs(mu)))


def defined(model: Model, reason: str = "a number may be too large") -> Model:
    if not (model.error.is_finite() and model.parts[0][0].is_finite()):
        raise UndefinedError(f"the formula may be undefined there: {reason}")
    return model


def kept_within(low: arb, high: arb, within: Within) -> tuple[arb, arb]:
    """The interval, without what is known to be no value; ends of `within` must be exact in binary."""
    least, most = (None if end is None else arb(end) for end in within)
    low = low if least is None or not least.is_exact() else low.max(least)
    return low, high if most is None or not most.is_exact() else high.min(most)


def least(b: arb, c: arb) -> arb:
    """A lower bound of b s + c s^2 over |s| <= 1."""
    if c > 0 and not abs(b) >= 2 * c:
        return -b * b / (4 * c)
    return (c if c > 0 or c <= 0 else -abs(c)) - abs(b)


def evaluate(node: Tree, variables: list[Model]) -> Model:
    """The formula on a box, in the models of its variables."""
    try:
        return on_box(node, variables, (), None)
    except UndefinedError:
        return on_box(node, variables, (), region(variables, ()))


def on_box(node: Tree, variables: list[Model], facts: tuple[Fact, ...], sides: Region | None) -> Model:
    """The formula at those points of a box where the facts hold.

    `sides` is the box again, in rational numbers, if signs of arguments are to be found from it (`regions.py`).
    """
    check_time()
    kind, space = node[0], variables[0].space
    if kind in ("number", "pi", "e"):
        value = arb(node[1]) if kind == "number" else arb.pi() if kind == "pi" else arb.const_e()
        return Model(space, space.linear(value))
    if kind == "variable":
        return variables[node[1]]
    if kind in ("sum", "product"):
        result = Model(space, space.linear(ZERO if kind == "sum" else ONE))
        for sign, child in with_logarithms(node[1], facts) if facts and kind == "product" else node[1]:
            value = on_box(child, variables, facts, sides)
            if kind == "sum":
                result = result + value if sign > 0 else result - value
            else:
                result = result * (value if sign > 0 else value.composed(INVERSE))
        return result
    if kind == "where":
        certain = holds(node[1], variables)
        if certain is not None:
            return on_box(node[2] if certain else node[3], variables, facts, sides)
        asked = [(node[2], (*facts, *facts_of(node[1], True))), (node[3], (*facts, *facts_of(node[1], False)))]
        values = [found for child, known in asked if (found := branch(child, variables, known, sides)) is not None]
        if not values:
            raise UndefinedError("no branch of a choice is asked for there")
        return FUNCTIONS[kind].model(values, node[2:]) if len(values) == 2 else values[0]
    values = [on_box(child, variables, facts, sides) for child in node[1:]]
    nodes = [told(child, facts) for child in node[1:]] if facts else list(node[1:])
    if sides is not None and kind in CLOSED:
        nodes[0] = bounded(nodes[0], CLOSED[kind], sides)
    return FUNCTIONS[kind].model(values, nodes)


def branch(node: Tree, variables: list[Model], facts: tuple[Fact, ...], sides: Region | None) -> Model | None:
    """A branch of a choice at the points of a box where the facts ask for it; None if there are none.

    Where it has no values on the box, those on the part that the facts leave are taken, forgetting how they vary.
    """
    try:
        return on_box(node, variables, facts, sides)
    except UndefinedError:
        left = region(variables, facts)
        if left is None:
            return None
        if left == sides:
            raise
    space, models = variables[0].space, []
    for i, (low, high) in enumerate(left):
        slopes = [arb((high - low) / 2) if i == k else ZERO for k in range(space.dim)]
        models.append(Model(space, space.linear(arb((low + high) / 2), slopes)))
    return variables[0].constant(hull(*on_box(node, models, facts, left).bounds()))


def holds(node: Tree, variables: list[Model]) -> bool | None:
    """Whether a condition holds on the whole box (True), nowhere in it (False), or neither is certain (None)."""
    kind = node[0]
    if kind == "not":
        inner = holds(node[1], variables)
        return None if inner is None else not inner
    if kind == "compare":
        return compared(node[1], node[2], variables)
    settles, certain = kind == "or", True  # one True settles `or`, one False settles `and`
    for child in node[1]:
        found = holds(child, variables)
        if found is settles:
            return settles
        certain = certain and found is not None
    return not settles if certain else None


def compared(operands: list[Tree], symbols: list[str], variables: list[Model]) -> bool | None:
    left, certain = evaluate(operands[0], variables), True
    for operand, symbol in zip(operands[1:], symbols, strict=True):
        right = evaluate(operand, variables)
        low, high = (left - right if symbol[0] == ">" else right - left).bounds()
        if high < 0 or (high <= 0 and symbol in "<>"):
            return False
        certain = certain and bool(low > 0 or (low >= 0 and symbol not in "<>"))
        left = right
    return True if certain else None
