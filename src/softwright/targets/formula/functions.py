"""The functions of formulas: one row per function, with all its meanings.

A row here, and one in `checker/functions.py`, is all there is to add: every table of rules (values, derivatives,
intervals, balls, Taylor models, domains, kinks), the parser's list and the documentation are made from these rows, and
`tests/contracts/test_functions.py` holds each of them against an independent library over its whole domain. What is an
exact rewriting of other functions that keeps the digits of floats is not here but in `definitions.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from flint import arb

from softwright.targets import special
from softwright.targets.formula import interval_functions as intervals
from softwright.targets.formula import special_balls as balls
from softwright.targets.formula import torch_functions as tensors
from softwright.targets.formula.algebra import (
    ONE,
    TWO,
    ZERO,
    add,
    div,
    exact_value,
    mul,
    neg,
    number_node,
    of,
    power,
    sub,
)
from softwright.targets.formula.interval_functions import decreasing, even, increasing, stepped, valley, wave
from softwright.targets.formula.intervals import Interval, Rule, Ruled, absolute, sqrt
from softwright.targets.formula.nodes import Constant, Node

Slope = Callable[..., Node]


@dataclass(frozen=True)
class Elementary:
    """One function; its number of arguments is that of its slopes."""

    name: str
    meaning: str  # in words, for the documentation
    numpy: Callable[..., Any]
    torch: Callable[..., torch.Tensor]
    slopes: tuple[Slope, ...]  # for each argument: (arguments..., the node itself) -> the partial derivative
    interval: Rule
    ball: Callable[..., Any]  # of balls inside `domain`; of power series too unless `series` is given
    series: Callable[..., Any] | None = None
    monotone: bool = False  # on its whole domain: ranges are then those of the ends
    domain: tuple[float, float] = (-math.inf, math.inf)
    outside: Callable[..., np.ndarray] | None = None  # where it is undefined, at points
    reason: str = ""  # ... in words
    pole: bool = False  # whether its values grow without bound where it is undefined
    vanishing: Slope | None = None  # arguments -> an expression that changes its sign at each pole
    kink: Slope | None = None  # arguments -> an expression whose zeros hold every break of smoothness
    jump: bool = False  # whether the value itself breaks there, and not only a slope
    example: Mapping[str, tuple[float, float]] = field(
        default_factory=dict
    )  # arguments, and where it is built and proved


_UNIT, _POSITIVE = (-1.0, 1.0), (0.0, math.inf)
_HALF_PI = intervals.HALF_PI_UP
_PI = Constant("pi")
# What SciPy may be off: relatively in tails, where errors grow with the size of the exponent, and below the normal
# numbers, where it returns zeros; absolutely near the zeros of log gamma at 1 and 2.
_TAIL, _NEAR_ZEROS = (1e-12, 2.0**-1021), (1e-14, 1e-15)
_HALF = number_node(Fraction(1, 2))


def _bell(u: Node, f: Node) -> Node:
    return mul(div(TWO, of("sqrt", _PI)), of("exp", neg(power(u, TWO))))


def _arc(u: Node, f: Node) -> Node:
    return div(ONE, of("sqrt", sub(ONE, power(u, TWO))))


def _silu_slope(u: Node, f: Node) -> Node:
    return mul(of("sigmoid", u), add(ONE, mul(u, of("sigmoid", neg(u)))))


def _gelu_slope(u: Node, f: Node) -> Node:
    below = mul(_HALF, of("erfc", neg(div(u, of("sqrt", TWO)))))
    density = div(of("exp", neg(mul(_HALF, power(u, TWO)))), of("sqrt", mul(TWO, _PI)))
    return add(below, mul(u, density))


def _over_square(top: Node, y: Node, x: Node) -> Node:
    """top/(x^2 + y^2) without squares that overflow."""
    size = of("hypot", y, x)
    return div(div(top, size), size)


def _sinc(x: Any) -> Any:
    return np.where(x == 0.0, 1.0, np.sin(x) / np.where(x == 0.0, 1.0, x))


def _gamma(x: Any) -> Any:
    return np.where(x > 0.0, special.gamma(x), np.where(x == 0.0, np.inf, np.nan))


def _lgamma(x: Any) -> Any:
    # gamma(x) is 1/x for the smallest numbers, where SciPy overflows on its way.
    return np.where(x > 1e-300, special.gammaln(x), -np.log(x))


ROWS = (
    Elementary(
        "sin", "sine", np.sin, torch.sin, (lambda u, f: of("cos", u),), wave(np.sin, math.pi / 2, -math.pi / 2),
        lambda x: x.sin(), example={"x": (-3, 3)},
    ),
    Elementary(
        "cos", "cosine", np.cos, torch.cos, (lambda u, f: neg(of("sin", u)),), wave(np.cos, 0.0, math.pi),
        lambda x: x.cos(), example={"x": (-3, 3)},
    ),
    Elementary(
        "tan", "tangent", np.tan, torch.tan, (lambda u, f: add(ONE, power(f, TWO)),), intervals.tan, lambda x: x.tan(),
        reason="pole of the tangent", pole=True, vanishing=lambda u: of("cos", u), example={"x": (-1, 1)},
    ),
    Elementary(
        "cot", "cotangent", lambda x: 1.0 / np.tan(x), lambda x: 1.0 / torch.tan(x),
        (lambda u, f: neg(add(ONE, power(f, TWO))),), intervals.cot, lambda x: x.cot(),
        series=lambda x: x.cos() / x.sin(), outside=lambda a: a == 0.0, reason="pole of the cotangent", pole=True,
        vanishing=lambda u: of("sin", u), example={"x": (0.5, 2.5)},
    ),
    Elementary(
        "asin", "arcsine", np.arcsin, torch.asin, (_arc,), increasing(np.arcsin, -_HALF_PI, _HALF_PI, _UNIT),
        lambda x: x.asin(), monotone=True, domain=_UNIT, outside=lambda a: np.abs(a) > 1.0,
        reason="arcsine of a number outside [-1, 1]", example={"x": (-0.9, 0.9)},
    ),
    Elementary(
        "acos", "arccosine", np.arccos, torch.acos, (lambda u, f: neg(_arc(u, f)),),
        decreasing(increasing(lambda x: np.arccos(-x), 0.0, intervals.PI_UP, _UNIT)),
        lambda x: x.acos(), monotone=True, domain=_UNIT, outside=lambda a: np.abs(a) > 1.0,
        reason="arccosine of a number outside [-1, 1]", example={"x": (-0.9, 0.9)},
    ),
    Elementary(
        "atan", "arctangent", np.arctan, torch.atan, (lambda u, f: div(ONE, add(ONE, power(u, TWO))),),
        increasing(np.arctan, -_HALF_PI, _HALF_PI), lambda x: x.atan(), monotone=True, example={"x": (-3, 3)},
    ),
    Elementary(
        "sinh", "hyperbolic sine", np.sinh, torch.sinh, (lambda u, f: of("cosh", u),), increasing(np.sinh),
        lambda x: x.sinh(), monotone=True, example={"x": (-3, 3)},
    ),
    Elementary(
        "cosh", "hyperbolic cosine", np.cosh, torch.cosh, (lambda u, f: of("sinh", u),),
        even(increasing(np.cosh, least=1.0)), lambda x: x.cosh(), example={"x": (-3, 3)},
    ),
    Elementary(
        "tanh", "hyperbolic tangent", np.tanh, torch.tanh, (lambda u, f: sub(ONE, power(f, TWO)),),
        increasing(np.tanh, -1.0, 1.0), lambda x: x.tanh(), series=lambda x: 1 - 2 / ((2 * x).exp() + 1), monotone=True,
        example={"x": (-3, 3)},
    ),
    Elementary(
        "asinh", "inverse hyperbolic sine", np.arcsinh, torch.asinh,
        (lambda u, f: div(ONE, of("sqrt", add(ONE, power(u, TWO)))),), increasing(np.arcsinh), lambda x: x.asinh(),
        series=balls.integrated(lambda x: x.asinh(), lambda x: (1 + x * x).rsqrt()), monotone=True,
        example={"x": (-3, 3)},
    ),
    Elementary(
        "acosh", "inverse hyperbolic cosine", np.arccosh, torch.acosh,
        (lambda u, f: div(ONE, mul(of("sqrt", sub(u, ONE)), of("sqrt", add(u, ONE)))),),
        increasing(np.arccosh, least=0.0, domain=(1.0, math.inf)), lambda x: x.acosh(),
        series=balls.integrated(lambda x: x.acosh(), lambda x: ((x - 1) * (x + 1)).rsqrt()), monotone=True,
        domain=(1.0, math.inf), outside=lambda a: a < 1.0, reason="acosh of a number below 1", example={"x": (1.1, 5)},
    ),
    Elementary(
        "atanh", "inverse hyperbolic tangent", np.arctanh, torch.atanh,
        (lambda u, f: div(ONE, mul(sub(ONE, u), add(ONE, u))),), increasing(np.arctanh, domain=_UNIT, reached=False),
        lambda x: x.atanh(), series=balls.integrated(lambda x: x.atanh(), lambda x: 1 / ((1 - x) * (1 + x))),
        monotone=True, domain=_UNIT, outside=lambda a: np.abs(a) >= 1.0, reason="atanh of a number outside (-1, 1)",
        pole=True, example={"x": (-0.9, 0.9)},
    ),
    Elementary(
        "exp", "exponential", np.exp, torch.exp, (lambda u, f: f,), increasing(np.exp, least=0.0), lambda x: x.exp(),
        monotone=True, example={"x": (-3, 3)},
    ),
    Elementary(
        "expm1", "exp(x) - 1, exact near 0", np.expm1, torch.expm1, (lambda u, f: of("exp", u),),
        increasing(np.expm1, least=-1.0), lambda x: x.expm1(), monotone=True,
        example={"x": (-3, 3)},
    ),
    Elementary(
        "log", "natural logarithm", np.log, torch.log, (lambda u, f: div(ONE, u),),
        increasing(np.log, domain=_POSITIVE, reached=False), lambda x: x.log(), monotone=True,
        domain=_POSITIVE, outside=lambda a: a <= 0.0, reason="logarithm of a number that is not positive",
        pole=True, example={"x": (0.1, 10)},
    ),
    Elementary(
        "log1p", "log(1 + x), exact near 0", np.log1p, torch.log1p, (lambda u, f: div(ONE, add(ONE, u)),),
        increasing(np.log1p, domain=(-1.0, math.inf), reached=False), lambda x: x.log1p(),
        monotone=True, domain=(-1.0, math.inf), outside=lambda a: a <= -1.0,
        reason="log1p of a number that is not above -1", pole=True, example={"x": (-0.9, 5)},
    ),
    Elementary(
        "sqrt", "square root", np.sqrt, torch.sqrt, (lambda u, f: div(ONE, mul(TWO, f)),), sqrt, lambda x: x.sqrt(),
        monotone=True, domain=_POSITIVE, outside=lambda a: a < 0.0, reason="square root of a negative number",
        example={"x": (0.1, 10)},
    ),
    Elementary(
        "cbrt", "real cube root", np.cbrt, tensors.cbrt,
        (lambda u, f: div(ONE, mul(number_node(Fraction(3)), power(f, TWO))),), increasing(np.cbrt), balls.cbrt,
        series=balls.cbrt_series, monotone=True, example={"x": (0.1, 8)},
    ),
    Elementary(
        "hypot", "sqrt(x**2 + y**2)", np.hypot, torch.hypot, (lambda a, b, f: div(a, f), lambda a, b, f: div(b, f)),
        intervals.hypot, lambda a, b: (a * a + b * b).sqrt(), example={"x": (0.5, 2), "y": (0.5, 2)},
    ),
    Elementary(
        "atan2", "angle of the point (x, y), above -pi and at most pi", lambda y, x: np.arctan2(y + 0.0, x),
        lambda y, x: torch.atan2(y + 0.0, x),
        (lambda y, x, f: _over_square(x, y, x), lambda y, x, f: neg(_over_square(y, y, x))),
        intervals.atan2, arb.atan2, outside=lambda y, x: (y == 0.0) & (x == 0.0),
        reason="angle of the origin", kink=lambda y, x: of("where", of("less", ZERO, x), ONE, y), jump=True,
        example={"y": (-0.5, 0.5), "x": (1, 2)},
    ),
    Elementary(
        "xlogy", "x*log(y), 0 at x = 0", special.xlogy, torch.xlogy,
        (lambda x, y, f: of("log", y), lambda x, y, f: div(x, y)), intervals.xlogy, balls.xlogy,
        outside=lambda x, y: (y <= 0.0) & (x != 0.0), reason="logarithm of a number that is not positive", pole=True,
        example={"x": (0, 1), "y": (0.5, 2)},
    ),
    Elementary(
        "sinc", "sin(x)/x, 1 at 0", _sinc, tensors.sinc, (lambda u, f: neg(of("spherical_j", ONE, u)),),
        intervals.bounded(_sinc, -0.2172336282112217, 1.0, 0.4362), lambda x: x.sinc(),
        series=balls.spherical_series(0), example={"x": (-6, 6)},
    ),
    Elementary(
        "erf", "error function", special.erf, torch.erf, (_bell,), increasing(special.erf, -1.0, 1.0),
        lambda x: x.erf(), monotone=True, example={"x": (-3, 3)},
    ),
    Elementary(
        "erfc", "1 - erf(x), exact for large x", special.erfc, torch.erfc, (lambda u, f: neg(_bell(u, f)),),
        decreasing(increasing(lambda x: special.erfc(-x), 0.0, 2.0, slack=_TAIL)), lambda x: x.erfc(), monotone=True,
        example={"x": (-3, 3)},
    ),
    Elementary(
        "gamma", "gamma function of positive numbers", _gamma, tensors.gamma,
        (lambda u, f: mul(f, of("polygamma", ZERO, u)),),
        valley(_gamma, 1.4616321449683622, 0.8856031944108886, _POSITIVE, _TAIL), balls.gamma,
        series=lambda x: balls.lgamma_series(x).exp(), domain=_POSITIVE, outside=lambda a: a <= 0.0,
        reason="gamma of a number that is not positive", pole=True, example={"x": (0.5, 4)},
    ),
    Elementary(
        "lgamma", "log(gamma(x)) of positive numbers", _lgamma, tensors.lgamma,
        (lambda u, f: of("polygamma", ZERO, u),),
        valley(_lgamma, 1.4616321449683622, -0.1214862905358497, _POSITIVE, _NEAR_ZEROS), balls.lgamma,
        series=balls.lgamma_series, domain=_POSITIVE, outside=lambda a: a <= 0.0,
        reason="gamma of a number that is not positive", pole=True, example={"x": (0.5, 8)},
    ),
    Elementary(
        "j0", "Bessel function of order 0", special.j0, lambda x: tensors.bessel(0, x),
        (lambda u, f: neg(of("j1", u)),), intervals.bounded(special.j0, -0.4027593957025530, 1.0, 0.5819),
        balls.bessel(0), series=balls.bessel_series(0), example={"x": (-6, 6)},
    ),
    Elementary(
        "j1", "Bessel function of order 1", special.j1, lambda x: tensors.bessel(1, x),
        (lambda u, f: mul(_HALF, sub(of("j0", u), of("bessel_j", TWO, u))),),
        intervals.bounded(special.j1, -0.5818652242815965, 0.5818652242815965, 0.5001),
        balls.bessel(1), series=balls.bessel_series(1), example={"x": (-6, 6)},
    ),
    Elementary(
        "sigmoid", "1/(1 + exp(-x))", special.expit, torch.sigmoid, (lambda u, f: mul(f, of("sigmoid", neg(u))),),
        increasing(special.expit, 0.0, 1.0), lambda x: 1 / (1 + (-x).exp()), monotone=True, example={"x": (-6, 6)},
    ),
    Elementary(
        "softplus", "log(1 + exp(x))", lambda x: np.logaddexp(0.0, x), tensors.softplus,
        (lambda u, f: of("sigmoid", u),), increasing(lambda x: np.logaddexp(0.0, x), least=0.0),
        lambda x: x.exp().log1p(), series=lambda x: (1 + x.exp()).log(), monotone=True, example={"x": (-6, 6)},
    ),
    Elementary(
        "silu", "x*sigmoid(x)", lambda x: x * special.expit(x), torch.nn.functional.silu, (_silu_slope,),
        valley(lambda x: x * special.expit(x), -1.2784645427610738, -0.27846454276107385),
        lambda x: x / (1 + (-x).exp()), example={"x": (-6, 6)},
    ),
    Elementary(
        "gelu", "x*normcdf(x)", lambda x: x * special.ndtr(x), tensors.gelu, (_gelu_slope,),
        valley(lambda x: x * special.ndtr(x), -0.7517915246935645, -0.16997120747990376, slack=_TAIL),
        lambda x: x * (-x / arb(2).sqrt()).erfc() / 2, example={"x": (-4, 4)},
    ),
    Elementary(
        "abs", "absolute value", np.abs, torch.abs, (lambda u, f: of("sign", u),), absolute, abs, kink=lambda u: u,
        example={"x": (-1, 2)},
    ),
    Elementary(
        "sign", "-1, 0 or 1", np.sign, torch.sign, (lambda u, f: ZERO,), stepped(np.sign), lambda x: x.sgn(),
        monotone=True, kink=lambda u: u, jump=True, example={"x": (-1, 1)},
    ),
    Elementary(
        "floor", "largest integer not above x", np.floor, torch.floor, (lambda u, f: ZERO,), stepped(np.floor),
        balls.by_ends(lambda x: x.floor()), monotone=True, kink=lambda u: of("sin", mul(_PI, u)), jump=True,
        example={"x": (-1.5, 1.5)},
    ),
    Elementary(
        "round", "nearest integer, halves to the even one", np.rint, torch.round, (lambda u, f: ZERO,),
        stepped(np.rint), balls.nearest_even, monotone=True, kink=lambda u: of("cos", mul(_PI, u)), jump=True,
        example={"x": (-1, 1)},
    ),
    Elementary(
        "mod", "x - y*floor(x/y), with the sign of y", np.mod, torch.remainder,
        (lambda a, b, f: ONE, lambda a, b, f: neg(of("floor", div(a, b)))), intervals.remainder, balls.remainder,
        outside=lambda a, b: b == 0.0, reason="remainder of a division by zero",
        kink=lambda a, b: of("sin", mul(_PI, div(a, b))), jump=True, example={"x": (-1, 1), "y": (0.4, 0.4)},
    ),
)  # fmt: skip


# Families that derivatives lead to: no part of the language; their first argument is a written integer. ---------------


def _at(order: Any) -> int:
    """The order: a number, or an interval, a ball or a node that is one."""
    if isinstance(order, Interval):
        return int(order.lower)
    if isinstance(order, arb):
        order = order.unique_fmpz()
    value = exact_value(order) if isinstance(order, Node) else order
    if value is None:
        raise ValueError("the order of a family of functions is a written integer")
    return int(value)


def _order(n: int) -> Node:
    return number_node(Fraction(n))


def _spherical_slope(n: Node, u: Node, f: Node) -> Node:
    k = _at(n)
    below = mul(n, of("spherical_j", _order(k - 1), u)) if k else ZERO
    return div(sub(below, mul(_order(k + 1), of("spherical_j", _order(k + 1), u))), _order(2 * k + 1))


def _bessel_slope(n: Node, u: Node, f: Node) -> Node:
    return mul(_HALF, sub(of("bessel_j", _order(_at(n) - 1), u), of("bessel_j", _order(_at(n) + 1), u)))


def _polygamma_interval(n: Interval, x: Interval) -> Ruled:
    k = _at(n)
    rising = increasing(lambda t: special.polygamma(k, t) * (-1) ** k, domain=_POSITIVE, reached=False, slack=_TAIL)
    (lower, upper), outside = rising(x)
    return (Interval(lower, upper) if k % 2 == 0 else Interval(-upper, -lower)), outside


def _no_slope(n: Node, u: Node, f: Node) -> Node:
    return ZERO


FAMILIES = (
    Elementary(
        "bessel_j", "", special.jv, lambda n, x: tensors.bessel(_at(n), x), (_no_slope, _bessel_slope),
        lambda n, x: intervals.bounded(lambda t: special.jv(_at(n), t), -1.0, 1.0, 1.0)(x),
        lambda n, x: balls.bessel(_at(n))(x), series=balls.bessel_series,
    ),
    Elementary(
        "spherical_j", "", lambda n, x: special.spherical_jn(_at(n), x), lambda n, x: tensors.spherical(_at(n), x),
        (_no_slope, _spherical_slope),
        lambda n, x: intervals.bounded(lambda t: special.spherical_jn(_at(n), t), -1.0, 1.0, 1.0)(x),
        lambda n, x: balls.spherical(_at(n))(x), series=balls.spherical_series,
    ),
    Elementary(
        "polygamma", "", lambda n, x: np.where(x > 0.0, special.polygamma(_at(n), x), np.nan),
        lambda n, x: torch.special.polygamma(_at(n), x),
        (_no_slope, lambda n, u, f: of("polygamma", _order(_at(n) + 1), u)), _polygamma_interval,
        lambda n, x: balls.polygamma(_at(n))(x), series=balls.polygamma_series,
        outside=lambda n, x: x <= 0.0, reason="polygamma of a number that is not positive", pole=True,
    ),
)  # fmt: skip

ELEMENTARY: dict[str, Elementary] = {row.name: row for row in (*ROWS, *FAMILIES)}
OPERATIONS: dict[str, int] = {
    **{name: {"neg": 1, "where": 3}.get(name, 2) for name in intervals.STRUCTURAL},
    **{name: len(row.slopes) for name, row in ELEMENTARY.items()},
}
RULES: dict[str, Rule] = {**intervals.STRUCTURAL, **{name: row.interval for name, row in ELEMENTARY.items()}}
