"""Balls and power series of the functions that flint has no series of, or loose ones.

A power series f(x_0 + t) is made from its coefficients c_k = f^(k)(x_0)/k!, each a ball for the whole ball x_0, because
the prover takes Lagrange's remainder from c_(p+1) over a box. Where f and all its derivatives are known to be small,
that bound is taken in:

    J_n, all derivatives at most 1 (J_n(x) is a mean of cos(n a - x sin a)), with
        J_n^(k) = 2^-k sum_i (-1)^i C(k, i) J_(n-k+2i)
    spherical j_n, all derivatives at most 1 (j_n(x) is a mean of e^(ixt) P_n(t)), with
        j_n' = (n j_(n-1) - (n+1) j_(n+1))/(2n+1) and j_n(x) = x^n/(2n+1)!! 0F1(n + 3/2, -x^2/4);  j_0 = sin(x)/x
    psi_n = (-1)^(n+1) n! zeta(n+1, x), monotone on x > 0, and c_k = psi_(k-1)/k! for log gamma
    cube roots, c_k = C(1/3, k) x^(1/3 - k)
    asinh, acosh, atanh: the series of the derivative, integrated
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from flint import arb, arb_series, fmpq

Ball = Any
Series = Any
Coefficients = Callable[[Ball, int], list[Ball]]  # x_0 and how many -> c_0, c_1, ...


def _exact(value: Fraction) -> Ball:
    return arb(fmpq(value.numerator, value.denominator))


def composed(coefficients: Coefficients) -> Callable[[Series], Series]:
    """The function of power series x_0 + t (...) that has these coefficients at x_0."""

    def function(x: Series) -> Series:
        inner = arb_series([0, *x.coeffs()[1:]], x.prec)
        return arb_series(coefficients(x[0], x.prec), x.prec)(inner)

    return function


def integrated(ball: Callable[[Ball], Ball], slope: Callable[[Series], Series]) -> Callable[[Series], Series]:
    """f(x_0 + t) = f(x_0) + the integral of f', for power series t (the variable itself)."""
    return lambda x: ball(x[0]) + slope(x).integral()


def by_ends(function: Callable[[Ball], Ball]) -> Callable[[Ball], Ball]:
    """The range of a monotone function over a ball."""

    def ball(x: Ball) -> Ball:
        return function(x) if x.is_exact() else function(x.lower()).union(function(x.upper()))

    return ball


def bounded(function: Callable[[Ball], Ball], largest: float, slope: float) -> Callable[[Ball], Ball]:
    """The range of a function whose size and slope are bounded: its value at the middle, give or take slope times
    radius."""

    def ball(x: Ball) -> Ball:
        limits = arb(0, largest)
        if not x.is_finite():
            return limits
        near = function(arb(x.mid())) + arb(0, 1) * slope * x.rad()
        return near.intersection(limits) if near.is_finite() else limits

    return ball


def convex(function: Callable[[Ball], Ball], slope: Callable[[Ball], Ball]) -> Callable[[Ball], Ball]:
    """The range of a convex function on x > 0: below its ends, above its tangent in the middle."""

    def ball(x: Ball) -> Ball:
        if not x > 0:
            return arb("nan")
        if x.is_exact():
            return function(x)
        middle = arb(x.mid())
        tangent = function(middle) - abs(slope(middle)) * x.rad()
        return tangent.union(function(x.lower())).union(function(x.upper()))

    return ball


# Bessel functions -------------------------------------------------------------------------------------------------


def bessel(order: int) -> Callable[[Ball], Ball]:
    return bounded(lambda x: x.bessel_j(order), 1.0, 1.0)


def bessel_series(order: int) -> Callable[[Series], Series]:
    def coefficients(x: Ball, count: int) -> list[Ball]:
        values = {m: bessel(m)(x) for m in range(order - count, order + count + 1)}
        found = []
        for k in range(count):
            terms = [(-1) ** i * math.comb(k, i) * values[order - k + 2 * i] for i in range(k + 1)]
            derivative = sum(terms, arb(0)) / 2**k
            found.append(derivative.intersection(arb(0, 1)) / math.factorial(k))
        return found

    return composed(coefficients)


def spherical(order: int) -> Callable[[Ball], Ball]:
    odd = math.prod(range(1, 2 * order + 2, 2))

    def value(x: Ball) -> Ball:
        return x**order * (-x * x / 4).hypgeom_0f1(arb(2 * order + 3) / 2) / odd

    return bounded(value, 1.0, 1.0)


def spherical_series(order: int) -> Callable[[Series], Series]:
    def coefficients(x: Ball, count: int) -> list[Ball]:
        values = [spherical(m)(x) for m in range(order + count)]
        weights = {order: Fraction(1)}  # the k-th derivative is the sum of weights[m] j_m
        found = []
        for k in range(count):
            derivative = sum((_exact(weight) * values[m] for m, weight in weights.items()), arb(0))
            found.append(derivative.intersection(arb(0, 1)) / math.factorial(k))
            further: dict[int, Fraction] = {}
            for m, weight in weights.items():
                further[m + 1] = further.get(m + 1, Fraction(0)) - weight * Fraction(m + 1, 2 * m + 1)
                if m:
                    further[m - 1] = further.get(m - 1, Fraction(0)) + weight * Fraction(m, 2 * m + 1)
            weights = further
        return found

    return composed(coefficients)


# Gamma ------------------------------------------------------------------------------------------------------------


def polygamma(order: int) -> Callable[[Ball], Ball]:
    """psi_n on x > 0."""

    def value(x: Ball) -> Ball:
        if not x > 0:
            return arb("nan")
        return x.digamma() if order == 0 else (-1) ** (order + 1) * arb.fac_ui(order) * arb(order + 1).zeta(x)

    return by_ends(value)


def polygamma_series(order: int) -> Callable[[Series], Series]:
    return composed(lambda x, count: [polygamma(order + k)(x) / math.factorial(k) for k in range(count)])


lgamma = convex(lambda x: x.lgamma(), lambda x: x.digamma())
gamma = convex(lambda x: x.gamma(), lambda x: x.gamma() * x.digamma())
lgamma_series = composed(
    lambda x, count: [lgamma(x), *(polygamma(k - 1)(x) / math.factorial(k) for k in range(1, count))]
)


# Roots, jumps, several arguments ----------------------------------------------------------------------------------


def _root(x: Ball) -> Ball:
    if x.is_zero():
        return x
    return -((-x).root(3)) if x < 0 else x.root(3)


cbrt = by_ends(_root)


def _cbrt_coefficients(x: Ball, count: int) -> list[Ball]:
    found, binomial = [], Fraction(1)
    for k in range(count):
        found.append(_exact(binomial) * cbrt(x) / x**k)
        binomial *= (Fraction(1, 3) - k) / (k + 1)
    return found


cbrt_series = composed(_cbrt_coefficients)


def _nearest_even(x: Ball) -> Ball:
    lower = (x - arb(0.5)).ceil()
    upper = (x + arb(0.5)).floor()
    if lower == upper:
        return lower
    return lower if (lower / 2).is_integer() else upper  # a tie: the even neighbour


nearest_even = by_ends(_nearest_even)


def xlogy(x: Ball, y: Ball) -> Ball:
    """x log(y), 0 at x = 0; x log(x) if both are the same ball."""
    if x.is_zero():
        return arb(0)
    if x is not y or x > 0:
        return x * y.log() if y > 0 else arb("nan")
    if not x.is_finite() or x < 0:
        return arb("nan")
    top = x.upper()
    end = top * top.log() if top > 0 else arb(0)  # the range over [0, top]: lowest at 1/e, and 0 at 0
    lowest = end if top < (-arb(1)).exp() else -(-arb(1)).exp()
    return lowest.union(arb(0)).union(end)


def remainder(a: Ball, b: Ball) -> Ball:
    """a - b floor(a/b), which lies between 0 and b."""
    if not (b > 0 or b < 0):
        return arb("nan")
    whole = (a / b).floor()
    return a - b * whole if whole.is_exact() else arb(0).union(b)
