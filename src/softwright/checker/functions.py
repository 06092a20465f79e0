"""`FUNCTIONS`: every function of the language of formulas, one row each, for the checker's parser and Taylor models.

A row is one of three:

    curve   a function of one variable, analytic inside its domain: Taylor coefficients over a ball, the value at a
            point, the domain in words, and where it turns. Over an interval the hull of its values is that of the
            values at both ends and at the turning points inside; `turns=MONOTONE` claims that there are none, and
            `turns=None` claims nothing: the hull is then the value of the ball.
    rule    from the arguments' Taylor models, for jumps, kinks and several arguments: the piece where it is certain,
            the hull of the pieces where it is not, `UndefinedError` where the function may have no value
    means   the tree that the function stands for, with every argument in it once

To add a function is to add a row here; tests/checker/test_functions.py then demands that its values and models hold.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flint import arb, arb_series, fmpq

from softwright.checker import series
from softwright.checker.refusal import NotProvedError, UndefinedError, require
from softwright.checker.series import ONE, ZERO, Coefficients, by_series, hull, integrated, quadratic, with_value
from softwright.checker.trees import Tree, least_and_most, rational_value

if TYPE_CHECKING:
    from softwright.checker.taylor import Model

Point = Callable[[arb], arb]
Rule = Callable[[Sequence["Model"], Sequence[Tree]], "Model"]
MONOTONE: tuple[Callable[[], arb], ...] = ()
LARGEST_EXPONENT = 10_000


@dataclass(frozen=True)
class Domain:
    """An interval of reals: `holds(low, high)` is True only if [low, high] certainly lies in it."""

    words: str
    holds: Callable[[arb, arb], bool]


EVERYWHERE = Domain("a pole may be there", lambda low, high: True)
POSITIVE = Domain("the argument must be > 0", lambda low, high: bool(low > 0))
NOT_NEGATIVE = Domain("the argument must be >= 0", lambda low, high: bool(low >= 0))
NOT_ZERO = Domain("the divisor must not be 0", lambda low, high: bool(low > 0 or high < 0))
ABOVE_MINUS_ONE = Domain("the argument must be > -1", lambda low, high: bool(low > -1))
FROM_ONE = Domain("the argument must be >= 1", lambda low, high: bool(low >= 1))
UNIT_CLOSED = Domain("the argument must lie in [-1, 1]", lambda low, high: bool(low >= -1 and high <= 1))
UNIT_OPEN = Domain("the argument must lie in (-1, 1)", lambda low, high: bool(low > -1 and high < 1))


@dataclass(frozen=True)
class Curve:
    """A function of one variable. `point` is sharp at an exact number and, if `turns` is None, sound on any ball."""

    point: Point
    coefficients: Coefficients
    turns: tuple[Callable[[], arb], ...] | None = None
    domain: Domain = EVERYWHERE

    def over(self, low: arb, high: arb) -> arb:
        """A ball that holds the function's values on [low, high]; not finite where it may be undefined."""
        if not (low.is_finite() and high.is_finite() and self.domain.holds(low, high)):
            return arb.nan()
        if self.turns is None:
            return self.point(hull(low, high))
        found = self.point(low) if low == high else hull(self.point(low), self.point(high))
        for turn in self.turns:
            place = turn()
            if not (place < low or place > high):
                found = found.union(self.point(place))
        return found

    def at(self, x: arb) -> arb:
        return self.over(x.lower(), x.upper())

    def taylor(self, x: arb, count: int) -> list[arb]:
        """The first Taylor coefficients over a ball; not finite where the function may have none."""
        if not (x.is_finite() and (self.domain is EVERYWHERE or self.domain.holds(x.lower(), x.upper()))):
            return series.unknown(count)
        return self.coefficients(x, count)


def plain(name: str, turns: tuple[Callable[[], arb], ...] | None = None, domain: Domain = EVERYWHERE) -> Curve:
    """A function that flint has for balls and for power series."""
    return Curve(operator.methodcaller(name), by_series(operator.methodcaller(name)), turns, domain)


def monotone_value(point: Point) -> Point:
    return lambda x: point(x) if x.is_exact() else hull(point(x.lower()), point(x.upper()))


def rising(point: Point, derivative: Coefficients, domain: Domain = EVERYWHERE) -> Curve:
    """A monotone function known by its derivative."""
    return Curve(point, integrated(monotone_value(point), derivative), MONOTONE, domain)


def scaled(factor: Callable[[], arb], curve: Curve) -> Curve:
    coefficients = series.scaled(factor, curve.coefficients)
    return Curve(lambda x: factor() * curve.point(x), coefficients, curve.turns, curve.domain)


def bounded_waves(at_point: Coefficients, bound: Callable[[int], arb], far: Coefficients | None = None) -> Curve:
    coefficients = series.about_middle(at_point, bound, far)
    return Curve(lambda x: coefficients(x, 1)[0], coefficients)


# ------------------------------------------------------------------------------------------------ the curves in detail

AT_ZERO = (lambda: ZERO,)


def root_two_pi() -> arb:
    return (2 * arb.pi()).sqrt()


def least_gamma() -> arb:
    """Where digamma is 0."""
    return arb("1.46163214496836234126265954232572132846819620400644635 +/- 1e-52")


def least_silu() -> arb:
    """Where 1 + x (1 - sigmoid(x)) is 0: -1 - W(1/e)."""
    return -1 - arb(-1).exp().lambertw()


def least_gelu() -> arb:
    """Where normcdf(x) + x normpdf(x) is 0."""
    return arb("-0.75179152469356445745790494677952403966447115342345385 +/- 1e-52")


INVERSE = Curve(lambda x: 1 / x, by_series(lambda x: 1 / x), MONOTONE, NOT_ZERO)
EXP, LOG = plain("exp", MONOTONE), plain("log", MONOTONE, POSITIVE)
SQRT, ATAN = plain("sqrt", MONOTONE, NOT_NEGATIVE), plain("atan", MONOTONE)
XLOGX = Curve(
    lambda x: x if x.is_zero() else x * x.log(),
    by_series(lambda x: x * x.log()),
    (lambda: arb(-1).exp(),),
    NOT_NEGATIVE,
)
SIGMOID = Curve(
    series.sigmoid_at, with_value(monotone_value(series.sigmoid_at), by_series(series.sigmoid_series)), MONOTONE
)
NORMPDF = Curve(
    lambda x: (-x * x / 2).exp() / root_two_pi(),
    series.scaled(lambda: 1 / root_two_pi(), quadratic(0, arb(-0.5), arb_series.exp)),
    AT_ZERO,
)
NORMCDF = rising(lambda x: (-x / arb(2).sqrt()).erfc() / 2, NORMPDF.coefficients)
BELL = series.scaled(lambda: 2 / arb.pi().sqrt(), quadratic(0, -1, arb_series.exp))
LOG_GAMMA_AT = Curve(arb.lgamma, series.log_gamma_slopes, (least_gamma,), POSITIVE).at
LGAMMA = Curve(arb.lgamma, with_value(LOG_GAMMA_AT, series.log_gamma_slopes), (least_gamma,), POSITIVE)

CURVES: dict[str, Curve] = {
    "sin": plain("sin"),
    "cos": plain("cos"),
    "tan": plain("tan"),
    "sec": Curve(arb.sec, by_series(lambda x: 1 / x.cos())),
    "csc": Curve(arb.csc, by_series(lambda x: 1 / x.sin())),
    "cot": Curve(arb.cot, by_series(lambda x: x.cos() / x.sin())),
    "asin": plain("asin", MONOTONE, UNIT_CLOSED),
    "acos": plain("acos", MONOTONE, UNIT_CLOSED),
    "atan": ATAN,
    "sinh": Curve(arb.sinh, by_series(lambda x: (x.exp() - (-x).exp()) * (ONE / 2)), MONOTONE),
    "cosh": Curve(arb.cosh, by_series(lambda x: (x.exp() + (-x).exp()) * (ONE / 2)), AT_ZERO),
    "tanh": Curve(arb.tanh, with_value(arb.tanh, by_series(series.tanh_series)), MONOTONE),
    "coth": Curve(arb.coth, with_value(arb.coth, by_series(series.coth_series)), MONOTONE, NOT_ZERO),
    "asinh": rising(arb.asinh, quadratic(1, 1, arb_series.rsqrt)),
    "acosh": rising(arb.acosh, quadratic(-1, 1, arb_series.rsqrt), FROM_ONE),
    "atanh": rising(arb.atanh, quadratic(1, -1, lambda x: 1 / x), UNIT_OPEN),
    "exp": EXP,
    "exp2": Curve(lambda x: (x * arb.const_log2()).exp(), by_series(lambda x: (x * arb.const_log2()).exp()), MONOTONE),
    "expm1": Curve(arb.expm1, with_value(arb.expm1, EXP.coefficients), MONOTONE),
    "log": LOG,
    "log10": scaled(lambda: 1 / arb.const_log10(), LOG),
    "log2": scaled(lambda: 1 / arb.const_log2(), LOG),
    "log1p": Curve(arb.log1p, with_value(arb.log1p, by_series(lambda x: (1 + x).log())), MONOTONE, ABOVE_MINUS_ONE),
    "sqrt": SQRT,
    "cbrt": Curve(series.cube_root_at, series.cube_root, MONOTONE),
    "sinc": bounded_waves(series.sinc_at, lambda k: ONE / (k + 1), series.far_sinc),
    "erf": rising(arb.erf, BELL),
    "erfc": rising(arb.erfc, series.scaled(lambda: -ONE, BELL)),
    "normcdf": NORMCDF,
    "normpdf": NORMPDF,
    "lgamma": LGAMMA,
    "gamma": Curve(arb.gamma, series.exp_of(LGAMMA.coefficients), LGAMMA.turns, POSITIVE),
    "j0": bounded_waves(series.bessel_at(0), lambda k: ONE),
    "j1": bounded_waves(series.bessel_at(1), lambda k: ONE),
    "sigmoid": SIGMOID,
    "softplus": rising(series.softplus_at, SIGMOID.coefficients),
    "silu": Curve(lambda x: x * series.sigmoid_at(x), series.times_x(SIGMOID.coefficients), (least_silu,)),
    "gelu": Curve(lambda x: x * NORMCDF.point(x), series.times_x(NORMCDF.coefficients), (least_gelu,)),
}


# ------------------------------------------------------------------------ jumps, kinks and several arguments, on models


def either(models: Sequence[Model], nodes: Sequence[Tree]) -> Model:
    """The hull of two functions, one of which is meant."""
    one, other = models
    middle = (one + other).scaled(ONE / 2)
    return middle.blurred((one - other).size() / 2)


def larger(one: Model, other: Model) -> Model:
    """One of the two where that is certain, without what half of a sum with |one - other| would blur it by."""
    low, high = (one - other).bounds()
    if low >= 0 or high <= 0:
        return one if low >= 0 else other
    return (one + other + (one - other).absolute()).scaled(ONE / 2)


def maximum(models: Sequence[Model], nodes: Sequence[Tree]) -> Model:
    return functools.reduce(larger, models)


def minimum(models: Sequence[Model], nodes: Sequence[Tree]) -> Model:
    return functools.reduce(larger, [model.scaled(-ONE) for model in models]).scaled(-ONE)


def steps(point: Point) -> Rule:
    """A function that never falls and is constant but for jumps, known at exact points."""

    def rule(models: Sequence[Model], nodes: Sequence[Tree]) -> Model:
        return models[0].constant(hull(*map(point, models[0].bounds())))

    return rule


def round_half_even(x: arb) -> arb:
    up, down = (x + ONE / 2).floor(), (x - ONE / 2).ceil()
    tie = (x + ONE / 2).is_integer()
    return 2 * (up / 2).floor() if tie else hull(down, up)


def modulo(models: Sequence[Model], nodes: Sequence[Tree]) -> Model:
    """a - b floor(a/b): affine in a where the quotient's floor is certain, else anything between 0 and b."""
    a, b = models
    low, high = b.bounds()
    turns = a * b.composed(INVERSE)
    least, most = (end.floor() for end in turns.bounds())
    return a - b.scaled(least) if least == most else a.constant(hull(ZERO, high if low > 0 else low))


def root(models: Sequence[Model], nodes: Sequence[Tree]) -> Model:
    return models[0].composed(SQRT, least_and_most(nodes[0]))


def hypotenuse(models: Sequence[Model], nodes: Sequence[Tree]) -> Model:
    a, b = models
    return (a * a + b * b).composed(SQRT, (fmpq(0), None))


def angle(models: Sequence[Model], nodes: Sequence[Tree]) -> Model:
    """atan2: the arctangent of y/x or of x/y in three half planes; across the negative x axis anything."""
    y, x = models
    (y_low, y_high), (x_low, x_high) = y.bounds(), x.bounds()
    quarter = arb.pi() / 2
    steep = (y_low > 0 or y_high < 0) and not (x_low > y_high and x_low > -y_low)
    if steep:
        return (x * y.composed(INVERSE)).composed(ATAN).scaled(-ONE).shifted(quarter if y_low > 0 else -quarter)
    if x_low > 0 or (x_high < 0 and y_low >= 0):
        return (y * x.composed(INVERSE)).composed(ATAN).shifted(ZERO if x_low > 0 else 2 * quarter)
    if x_high < 0:
        return y.constant(series.UNIT_BALL * 2 * quarter)
    raise UndefinedError("atan2 has no value at (0, 0), which may be there")


def x_log_y(models: Sequence[Model], nodes: Sequence[Tree]) -> Model:
    """At y = 0 only where x = 0: there the form must show it."""
    x, y = models
    if nodes[0] == nodes[1]:
        return x.composed(XLOGX, least_and_most(nodes[0]))
    if x.fixed and x.parts[0][0].is_zero():
        return x
    return x * y.composed(LOG)


def real_power(exponent: arb) -> Curve:
    return Curve(
        lambda x: x if x.is_zero() else (exponent * x.log()).exp(),
        by_series(lambda x: (exponent * x.log()).exp()),
        MONOTONE,
        NOT_NEGATIVE if exponent > 0 else POSITIVE,
    )


def power(models: Sequence[Model], nodes: Sequence[Tree]) -> Model:
    base, exponent = models
    known = rational_value(nodes[1])
    if known is not None and known.q == 1:
        require(abs(known.p) <= LARGEST_EXPONENT, f"an exponent exceeds {LARGEST_EXPONENT}")
        result = base.constant(ONE)
        for bit in bin(abs(int(known.p)))[2:]:
            result = result * result * base if bit == "1" else result * result
        return result if known >= 0 else result.composed(INVERSE)
    if exponent.fixed:
        return base.composed(real_power(exponent.parts[0][0]), least_and_most(nodes[0]))
    return (base.composed(LOG) * exponent).composed(EXP)


# --------------------------------------------------------------------------------------------------------------- table


@dataclass(frozen=True)
class Function:
    """A row: how many arguments, how many of them are conditions, and one of curve, rule and means."""

    arity: range = range(1, 2)
    curve: Curve | None = None
    rule: Rule | None = None
    means: Callable[..., Tree] | None = None
    conditions: int = 0

    def model(self, arguments: Sequence[Model], nodes: Sequence[Tree]) -> Model:
        if self.curve is not None:
            return arguments[0].composed(self.curve, least_and_most(nodes[0]))
        if self.rule is not None:
            return self.rule(arguments, nodes)
        raise NotProvedError("the formula was not read to its end")  # `means` leaves no node of this name


TWO, THREE, MANY = range(2, 3), range(3, 4), range(2, 10_000)
NOUGHT = ("number", fmpq(0))

FUNCTIONS: dict[str, Function] = {
    **{name: Function(curve=curve) for name, curve in CURVES.items()},
    "ln": Function(curve=LOG),
    "sqrt": Function(rule=root),
    "abs": Function(rule=lambda models, nodes: models[0].absolute()),
    "sign": Function(rule=steps(arb.sgn)),
    "step": Function(rule=steps(lambda x: ONE if x >= 0 else ZERO if x < 0 else x)),
    "floor": Function(rule=steps(arb.floor)),
    "ceil": Function(rule=steps(arb.ceil)),
    "round": Function(rule=steps(round_half_even)),
    "relu": Function(means=lambda x: ("max", x, NOUGHT)),
    "clip": Function(THREE, means=lambda x, low, high: ("min", ("max", x, low), high)),
    "min": Function(MANY, rule=minimum),
    "max": Function(MANY, rule=maximum),
    "mod": Function(TWO, rule=modulo),
    "pow": Function(TWO, rule=power),
    "hypot": Function(TWO, rule=hypotenuse),
    "atan2": Function(TWO, rule=angle),
    "xlogy": Function(TWO, rule=x_log_y),
    "where": Function(THREE, rule=either, conditions=1),
}
