"""Taylor coefficients f^(k)/k! of functions of one variable over a ball, each a ball that holds all their values there.

They are asked for at a point, for the polynomial, and over a whole range, for Lagrange's remainder: the latter ball may
be wide, and a coefficient must then be finite only where f has that many derivatives all over the ball.

    by series       flint's power series with a ball for the constant term: interval arithmetic on derivatives
    by integration  erf, erfc, normcdf, asinh, acosh, atanh, softplus: the derivative is a simpler series
    sigmoid, tanh   e^x is taken where it is below 1: 1/(1 + E) then loses little on a wide ball
    lgamma          f^(k) = (-1)^k (k-1)! zeta(k, x) for k >= 2 and digamma for k = 1 are monotone: two ends suffice
    gamma           exp of that
    j0, j1          J_n' = (J_{n-1} - J_{n+1})/2, so f^(k) = 2^-k sum_i (-1)^i C(k,i) J_{n-k+2i}: no division by x
    sinc            x f = sin gives x c_k + c_{k-1} = sin^(k)/k!, run upwards for |x| >= 1 and downwards for |x| < 1

For the last two |f^(k)| <= B_k everywhere: B_k = 1 as J_n(x) is the mean of cos(n t - x sin t), and B_k = 1/(k+1) as
sinc(x) is the mean of cos(x t) over 0 <= t <= 1. With |c_k| <= M_k on the whole ball, c_k over m +- r is c_k(m) +-
r (k+1) M_{k+1}, and at most M_k. M_k = B_k/k! holds everywhere; for sinc the recursion says too that, where |x| >= L,
|c_0| <= 1/L and |c_k| <= (1/k! + |c_{k-1}|)/L, which is far less when L is large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flint import arb, arb_series, ctx

ZERO, ONE, TWO = arb(0), arb(1), arb(2)
UNIT_BALL = arb(0, 1)
Coefficients = Callable[[arb, int], list[arb]]  # ball, how many


def unknown(count: int) -> list[arb]:
    return [arb.nan()] * count


def by_series(function: Callable[[Any], Any]) -> Coefficients:
    """`function` takes power series. Flint refuses 1/x where x may be 0."""

    def coefficients(x: arb, count: int) -> list[arb]:
        try:
            series = function(arb_series([x, 1], count))
        except (ValueError, ZeroDivisionError):
            return unknown(count)
        return [series[k] for k in range(count)]

    return coefficients


def with_value(value: Callable[[arb], arb], slopes: Coefficients) -> Coefficients:
    """The coefficients `slopes`, but for the first: cancellation would spoil it."""
    return lambda x, count: [value(x), *slopes(x, count)[1:]]


def integrated(value: Callable[[arb], arb], derivative: Coefficients) -> Coefficients:
    return lambda x, count: [value(x), *(c / (k + 1) for k, c in enumerate(derivative(x, count - 1)))]


def times_x(other: Coefficients) -> Coefficients:
    """x f(x)."""

    def coefficients(x: arb, count: int) -> list[arb]:
        inner = other(x, count)
        return [x * inner[0], *(x * inner[k] + inner[k - 1] for k in range(1, count))]

    return coefficients


def hull(a: arb, b: arb) -> arb:
    return a if a == b else a.union(b)


def square(x: arb) -> arb:
    """x^2 over a ball; x*x would forget that both are the same number."""
    return hull(x.abs_lower() * x.abs_lower(), x.abs_upper() * x.abs_upper())


def quadratic(constant: arb | int, factor: arb | int, outer: Callable[[Any], Any]) -> Coefficients:
    """outer(constant + factor x^2)."""

    def coefficients(x: arb, count: int) -> list[arb]:
        inner = [constant + factor * square(x), 2 * factor * x, arb(factor)]
        try:
            series = outer(arb_series(inner, count))
        except (ValueError, ZeroDivisionError):
            return unknown(count)
        return [series[k] for k in range(count)]

    return coefficients


def scaled(factor: Callable[[], arb], other: Coefficients) -> Coefficients:
    return lambda x, count: [factor() * c for c in other(x, count)]


# ------------------------------------------------------------------------------------ sigmoid, tanh, coth, cube root


def sigmoid_at(x: arb) -> arb:
    """1/(1 + e^-x) for an exact x."""
    small = (-abs(x)).exp()
    return (small if x < 0 else ONE) / (1 + small)


def sigmoid_series(x: Any) -> Any:
    return 1 - 1 / (1 + x.exp()) if x[0].mid() < 0 else 1 / (1 + (-x).exp())


def tanh_series(x: Any) -> Any:
    return 2 * sigmoid_series(x + x) - 1


def coth_series(x: Any) -> Any:
    """2/(1 - e^-2x) - 1 for x > 0; coth is odd."""
    if x[0].mid() < 0:
        return -coth_series(-x)
    falling = (-x - x).exp()
    count = falling.prec
    # The constant term without the cancellation of 1 - e^-2x.
    rest = [-(-2 * x[0]).expm1(), *(-falling[k] for k in range(1, count))]
    return 2 / arb_series(rest, count) - 1


def softplus_at(x: arb) -> arb:
    """log(1 + e^x) for an exact x."""
    return x.max(ZERO) + (-abs(x)).exp().log1p()


def cube_root_at(x: arb) -> arb:
    """For an exact x."""
    return x if x.is_zero() else -(-x).root(3) if x < 0 else x.root(3)


def cube_root(x: arb, count: int) -> list[arb]:
    if x < 0:  # f^(k)/k! is even or odd as k + 1 is
        return [c if k % 2 else -c for k, c in enumerate(cube_root(-x, count))]
    return by_series(lambda t: (t.log() / 3).exp())(x, count) if x > 0 else unknown(count)


# --------------------------------------------------------------------------------------------- gamma, Bessel, sinc


def log_gamma_slopes(x: arb, count: int) -> list[arb]:
    """All but the first, which has a minimum: it is not finite here."""
    if not x > 0:
        return unknown(count)
    low, high = (arb_series([end, 1], count).lgamma() for end in (x.lower(), x.upper()))
    return [arb.nan(), *(hull(low[k], high[k]) for k in range(1, count))]


def exp_of(other: Coefficients) -> Coefficients:
    def coefficients(x: arb, count: int) -> list[arb]:
        series = arb_series(other(x, count), count).exp()
        return [series[k] for k in range(count)]

    return coefficients


def about_middle(at_point: Coefficients, bound: Callable[[int], arb], far: Coefficients | None = None) -> Coefficients:
    """From the coefficients at an exact point and bounds of |f^(k)| on the whole line; `far` bounds |c_k| where |x| is
    at least its argument."""

    def coefficients(x: arb, count: int) -> list[arb]:
        middle, radius = at_point(x.mid(), count), x.rad()
        most = [bound(k) / math.factorial(k) for k in range(count + 1)]
        if far is not None and (distance := x.abs_lower()) >= 1:
            most = [b if b < a else a for a, b in zip(most, far(distance, count + 1), strict=True)]
        result = []
        for k, c in enumerate(middle):
            spread = radius * (k + 1) * most[k + 1]
            result.append(c + UNIT_BALL * spread if spread < most[k] else UNIT_BALL * most[k])
        return result

    return coefficients


def far_sinc(distance: arb, count: int) -> list[arb]:
    """Bounds of |c_k| of sinc where |x| >= distance > 0."""
    found = [ONE / distance]
    for k in range(1, count):
        found.append((ONE / math.factorial(k) + found[-1]) / distance)
    return found


def bessel_at(order: int) -> Coefficients:
    def coefficients(x: arb, count: int) -> list[arb]:
        above = [x.bessel_j(n) for n in range(count + order)]
        values = dict(enumerate(above)) | {-n: -v if n % 2 else v for n, v in enumerate(above)}
        result = []
        for k in range(count):
            terms = (values[order - k + 2 * i] * ((-1) ** i * math.comb(k, i)) for i in range(k + 1))
            result.append(sum(terms, ZERO) / (math.factorial(k) * 2**k))
        return result

    return coefficients


def sinc_at(x: arb, count: int) -> list[arb]:
    upwards = abs(x) >= 1
    last = count if upwards else count + ctx.prec // 4 + 8  # 1/last! is then below the precision
    sin, cos = x.sin_cos()
    sines, inverse = [sin], ONE  # of the factorial
    for k in range(1, last + 1):
        inverse = inverse / k
        sines.append((sin, cos, -sin, -cos)[k % 4] * inverse)
    c, result = sin / x if upwards else UNIT_BALL * inverse / (last + 1), []
    for k in range(1, count + 1) if upwards else range(last, 0, -1):
        result.append(c)
        c = (sines[k] - c) / x if upwards else sines[k] - x * c
    return result if upwards else [*result[1:], c][::-1][:count]
