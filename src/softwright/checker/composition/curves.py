"""Functions of one variable over intervals: their values and their slopes, for all boxes at once.

What is met often (exp, log, sqrt, sin, cos, powers and a few made of them) has a rule in float64 intervals; every other
row of checker/functions.py is asked in balls, box by box, the ends of monotone functions each once.

    values(name, x)   an interval that holds f(x), and where x certainly lies in the domain; the whole line elsewhere
    slopes(name, x)   an interval that holds f'(x); the whole line where f may have no derivative
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from flint import arb, ctx, fmpq

from softwright.checker.composition.intervals import BITS, Array, Interval, above, below
from softwright.checker.functions import CURVES, NOT_ZERO, Curve, root_two_pi
from softwright.checker.limits import check_time
from softwright.checker.refusal import NotProvedError

Rule = Callable[[Interval], Interval]
ALIASES = {"ln": "log"}
ROUNDED: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "sign": np.sign,
    "step": lambda x: np.where(x >= 0, 1.0, 0.0),
    "round": np.rint,
}
_BLOCK = 256  # boxes between two looks at the clock


def constant(value: float, like: Interval) -> Interval:
    return Interval(np.full_like(like.lower, value), np.full_like(like.upper, value))


def _divided(a: Interval, b: Interval) -> Interval:
    return a * b.reciprocal()


def quotient(a: Interval, b: Interval) -> tuple[Interval, Array]:
    """a/b, and where b is certainly not 0."""
    defined = (b.lower > 0) | (b.upper < 0)
    return _divided(a, b).known(defined), defined


def _sinh(x: Interval) -> Interval:
    """Rising, so from the ends; e^x - e^-x loses digits near 0 only."""
    return (x.exp() - (-x).exp()).scaled(0.5)


def _ends(rule: Rule) -> Rule:
    """A rising function from its rule at single numbers."""

    def over(x: Interval) -> Interval:
        low, high = rule(Interval(x.lower, x.lower)), rule(Interval(x.upper, x.upper))
        return Interval(low.lower, high.upper)

    return over


def _cosh(x: Interval) -> Interval:
    size = x.absolute()
    return _ends(lambda y: (y.exp() + (-y).exp()).scaled(0.5).maximum(constant(1.0, y)))(size)


def _sigmoid(x: Interval) -> Interval:
    return _ends(lambda y: (constant(1.0, y) + (-y).exp()).reciprocal())(x)


def _tanh(x: Interval) -> Interval:
    """2 sigmoid(2 x) - 1, within [-1, 1] and of the sign of x."""
    found = _sigmoid(x.scaled(2.0)).scaled(2.0).shifted(-1.0)
    found = found.meet(constant(0.0, x).hull(constant(1.0, x))).where(x.lower >= 0, found)
    found = found.meet(constant(-1.0, x).hull(constant(0.0, x))).where(x.upper <= 0, found)
    return found.meet(constant(-1.0, x).hull(constant(1.0, x)))


def _times(factor: Callable[[], arb], rule: Rule) -> Rule:
    def over(x: Interval) -> Interval:
        with ctx.workprec(BITS):
            return rule(x) * Interval.ball(factor(), len(x))

    return over


def _bell(rate: float) -> Rule:
    return lambda x: (-x.square().scaled(rate)).exp()


VALUES: dict[str, Rule] = {
    "exp": Interval.exp,
    "log": Interval.log,
    "log2": _times(lambda: 1 / arb.const_log2(), Interval.log),
    "log10": _times(lambda: 1 / arb.const_log10(), Interval.log),
    "sqrt": Interval.sqrt,
    "sin": Interval.sin,
    "cos": Interval.cos,
    "sinh": _ends(_sinh),
    "cosh": _cosh,
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "normpdf": _times(lambda: 1 / root_two_pi(), _bell(0.5)),
}


def _positive(x: Interval) -> Array:
    return x.lower > 0


def _unit(x: Interval) -> Array:
    return (x.lower > -1) & (x.upper < 1)


DOMAINS: dict[str, Callable[[Interval], Array]] = {
    **dict.fromkeys(("log", "log2", "log10"), _positive),
    "sqrt": lambda x: x.lower >= 0,
}

SLOPES: dict[str, Rule] = {
    "exp": Interval.exp,
    "log": Interval.reciprocal,
    "sqrt": lambda x: x.sqrt().scaled(2.0).reciprocal(),
    "sin": Interval.cos,
    "cos": lambda x: -x.sin(),
    "sinh": _cosh,
    "cosh": _ends(_sinh),
    "tanh": lambda x: _cosh(x).square().reciprocal(),
    "sigmoid": lambda x: _cosh(x.scaled(0.5)).square().scaled(4.0).reciprocal(),
    "atan": lambda x: x.square().shifted(1.0).reciprocal(),
    "asin": lambda x: (constant(1.0, x) - x.square()).sqrt().reciprocal(),
    "acos": lambda x: -(constant(1.0, x) - x.square()).sqrt().reciprocal(),
    "asinh": lambda x: x.square().shifted(1.0).sqrt().reciprocal(),
    "atanh": lambda x: (constant(1.0, x) - x.square()).reciprocal(),
    "log1p": lambda x: x.shifted(1.0).reciprocal(),
    "expm1": Interval.exp,
    "softplus": _sigmoid,
    "log2": _times(lambda: 1 / arb.const_log2(), Interval.reciprocal),
    "log10": _times(lambda: 1 / arb.const_log10(), Interval.reciprocal),
    "erf": _times(lambda: 2 / arb.pi().sqrt(), _bell(1.0)),
    "erfc": _times(lambda: -2 / arb.pi().sqrt(), _bell(1.0)),
    "normcdf": VALUES["normpdf"],
}
_SMOOTH_INSIDE: dict[str, Callable[[Interval], Array]] = {
    **dict.fromkeys(("log", "log2", "log10", "sqrt"), _positive),
    **dict.fromkeys(("asin", "acos", "atanh"), _unit),
    "log1p": lambda x: x.lower > -1,
}


def row(name: str) -> Curve:
    found = CURVES.get(ALIASES.get(name, name))
    if found is None:
        raise NotProvedError(f"{name} is not a function of one variable that has a slope")
    return found


def is_curve(name: str) -> bool:
    return ALIASES.get(name, name) in CURVES


def values(name: str, x: Interval) -> tuple[Interval, Array]:
    """f(x), and where it is certainly defined."""
    name = ALIASES.get(name, name)
    if name in VALUES:
        inside = DOMAINS.get(name)
        defined = np.ones(len(x), dtype=bool) if inside is None else inside(x)
        return VALUES[name](x).known(defined), defined
    curve = row(name)
    if curve.turns is not None:
        return _monotone(curve, x)
    return _by_balls(curve.over, x)


def slopes(name: str, x: Interval) -> Interval:
    """f'(x); the whole line where nothing is known."""
    name = ALIASES.get(name, name)
    if name in SLOPES:
        inside = _SMOOTH_INSIDE.get(name)
        found = SLOPES[name](x)
        return found if inside is None else found.known(inside(x))
    curve = row(name)
    return _by_balls(lambda low, high: curve.taylor(low.union(high), 2)[1], x)[0]


def power(x: Interval, exponent: fmpq) -> tuple[Interval, Array]:
    """x^q, and where it is certainly defined: q whole, or x >= 0; x > 0 where q < 0 or x is not 0."""
    if exponent.q == 1:
        found = x.power(abs(int(exponent.p)))
        if exponent >= 0:
            return found, np.ones(len(x), dtype=bool)
        defined = (x.lower > 0) | (x.upper < 0)
        return found.reciprocal().known(defined), defined
    defined = x.lower >= 0 if exponent > 0 else x.lower > 0
    if exponent == fmpq(1, 2):
        return x.sqrt().known(defined), defined
    factor = Interval.ball(arb(exponent), len(x))
    size = Interval(np.maximum(x.lower, 0.0), np.maximum(x.upper, 0.0))
    found = (factor * size.log()).exp()
    if exponent > 0:  # from 0 on, 0^q = 0
        found = Interval(np.where(size.lower == 0, 0.0, found.lower), np.where(size.upper == 0, 0.0, found.upper))
    return found.known(defined), defined


def power_slope(x: Interval, exponent: fmpq) -> Interval:
    """q x^(q-1)."""
    if exponent == 0:
        return constant(0.0, x)
    found, defined = power(x, exponent - 1)
    return (Interval.ball(arb(exponent), len(x)) * found).known(defined)


def _monotone(curve: Curve, x: Interval) -> tuple[Interval, Array]:
    """The hull of the values at the ends, each different end once, and at the turning points between them."""
    ends, place = np.unique(np.concatenate([x.lower, x.upper]), return_inverse=True)
    low, high, good = np.full(len(ends), -np.inf), np.full(len(ends), np.inf), np.zeros(len(ends), dtype=bool)
    with ctx.workprec(BITS):
        for i, end in enumerate(ends.tolist()):
            if i % _BLOCK == 0:
                check_time()
            if np.isfinite(end):
                exact = arb(end)
                if curve.domain.holds(exact, exact):
                    low[i], high[i], good[i] = _floats(curve.point(exact))
        defined = good[place[: len(x)]] & good[place[len(x) :]]
        a, b = place[: len(x)], place[len(x) :]
        found = Interval(np.minimum(low[a], low[b]), np.maximum(high[a], high[b]))
        for turn in curve.turns or ():
            spot = turn()
            inside = ~((x.upper < below(spot)) | (x.lower > above(spot)))
            least, most, _ = _floats(curve.point(spot))
            found = found.hull(Interval(np.full(len(x), least), np.full(len(x), most))).where(inside, found)
        if curve.domain is NOT_ZERO:  # every other domain is one interval, which holds what its ends hold
            defined &= (x.lower > 0) | (x.upper < 0)
    return found.known(defined), defined


def _floats(ball: arb) -> tuple[float, float, bool]:
    return (below(ball), above(ball), True) if ball.is_finite() else (-np.inf, np.inf, False)


def _by_balls(rule: Callable[[arb, arb], arb], x: Interval) -> tuple[Interval, Array]:
    lower, upper, defined = np.full(len(x), -np.inf), np.full(len(x), np.inf), np.zeros(len(x), dtype=bool)
    seen: dict[tuple[float, float], tuple[float, float, bool]] = {}
    with ctx.workprec(BITS):
        for i, ends in enumerate(zip(x.lower.tolist(), x.upper.tolist(), strict=True)):
            if i % _BLOCK == 0:
                check_time()
            if ends not in seen:
                usable = np.isfinite(ends[0]) and np.isfinite(ends[1])
                seen[ends] = _floats(rule(arb(ends[0]), arb(ends[1]))) if usable else (-np.inf, np.inf, False)
            lower[i], upper[i], defined[i] = seen[ends]
    return Interval(lower, upper), defined


def turns(a: Interval, b: Interval) -> Interval:
    """floor(a/b)."""
    ratio = a * b.reciprocal()
    return Interval(np.floor(ratio.lower), np.floor(ratio.upper))
