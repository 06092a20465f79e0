"""The checker's own intervals: everything that lies in the operands gives something that lies in the result."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from flint import arb, ctx, fmpq

from softwright.checker.composition import curves
from softwright.checker.composition.intervals import Interval, above, below
from softwright.checker.functions import CURVES

ENDS = np.array(
    [-np.inf, -1e308, -3.0, -1.0, -1e-9, -5e-324, 0.0, 5e-324, 1e-200, 0.1, 1.0, 1.5707963, 7.25, 1e17, 1e300, np.inf]
)
SHARES = (0.0, 0.25, 0.5, 0.9, 1.0)


def boxes(scale: float, seed: int, count: int = 60) -> Interval:
    ends = np.random.default_rng(seed).normal(size=(2, count)) * scale
    return Interval(ends.min(axis=0), ends.max(axis=0))


def odd_boxes() -> Interval:
    pairs = [(a, b) for a in ENDS for b in ENDS if a <= b and not (a == b and np.isinf(a))]
    return Interval(*np.array(pairs).T)


def points(x: Interval) -> list[np.ndarray]:
    """Finite numbers of the intervals, their ends among them."""
    low, high = np.clip(x.lower, -1.7e308, 1.7e308), np.clip(x.upper, -1.7e308, 1.7e308)
    return [np.clip(low * (1 - share) + high * share, low, high) for share in SHARES]


def assert_inside(result: Interval, values: list[arb]) -> None:
    for low, high, value in zip(result.lower.tolist(), result.upper.tolist(), values, strict=True):
        if value.is_finite():
            assert not value < low and not value > high, (low, high, value)


def test_ends_of_balls_are_floats_around_them() -> None:
    with ctx.workprec(160):
        for ball in (
            arb.pi(),
            -arb.pi(),
            arb(1),
            arb(0),
            arb(10) ** 400,
            -(arb(10) ** 400),
            arb(10) ** -400,
            arb(1, 2),
        ):
            assert ball >= below(ball) and ball <= above(ball)
        assert below(arb(1)) == above(arb(1)) == 1.0
        assert (below(arb.nan()), above(arb.nan())) == (-np.inf, np.inf)


@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul], ids=["sum", "difference", "product"])
def test_arithmetic_holds_what_it_should(operation) -> None:
    with ctx.workprec(4500):  # exact for all floats
        for one, other in [(boxes(1.0, 0), boxes(1e-3, 1)), (boxes(1e200, 2), boxes(1e200, 3))]:
            for p in points(one):
                for q in points(other):
                    assert_inside(operation(one, other), [operation(arb(a), arb(b)) for a, b in zip(p, q, strict=True)])
        odd = odd_boxes()
        for turn in (0, 1, 5, 17, 40):
            other = Interval(np.roll(odd.lower, turn), np.roll(odd.upper, turn))
            result = operation(odd, other)
            assert not (np.isnan(result.lower) | np.isnan(result.upper)).any() and (result.lower <= result.upper).all()
            for p, q in zip(points(odd), points(other), strict=True):
                assert_inside(result, [operation(arb(a), arb(b)) for a, b in zip(p, q, strict=True)])


def test_signs_and_zeros_survive_rounding() -> None:
    tiny, unit = Interval.of([0.0], [1e-200]), Interval.of([0.0], [1.0])
    assert (tiny * tiny).lower[0] == 0.0 and (-tiny * tiny).upper[0] == 0.0
    assert (unit + unit).lower[0] == 0.0 and (unit + unit).upper[0] == 2.0
    assert (Interval.whole(1) * Interval.point([0.0])).size[0] == 0.0
    assert unit.square().lower[0] == 0.0 and Interval.of([-2.0], [1.0]).square().lower[0] == 0.0
    assert unit.reciprocal().upper[0] == np.inf and unit.reciprocal().lower[0] > 0.9
    assert Interval.of([-1.0], [1.0]).reciprocal().lower[0] == -np.inf
    assert unit.log().upper[0] == 0.0 and unit.exp().lower[0] == 1.0
    assert Interval.of([1.0], [2.0]).log().lower[0] == 0.0


def test_overflow_and_unknown_numbers_are_unbounded() -> None:
    huge = Interval.point([1e308])
    assert (huge + huge).upper[0] == np.inf and (huge * huge).upper[0] == np.inf
    assert np.isfinite((huge + huge).lower[0])
    assert (Interval.whole(1) - Interval.whole(1)).upper[0] == np.inf
    unknown = Interval.of([np.nan], [1.0])
    assert (unknown.lower[0], unknown.upper[0]) == (-np.inf, np.inf)
    assert huge.exp().upper[0] == np.inf and Interval.of([-1e308], [-800.0]).exp().lower[0] == 0.0


@pytest.mark.parametrize("n", range(7))
def test_whole_powers(n: int) -> None:
    with ctx.workprec(300):
        for x in (boxes(1.0, n), boxes(1e60, n), boxes(1e-60, n)):
            for p in points(x):
                assert_inside(x.power(n), [arb(a) ** n for a in p])


@pytest.mark.parametrize("exponent", [fmpq(1, 2), fmpq(-1, 2), fmpq(3, 2), fmpq(1, 3), fmpq(-3), fmpq(7, 5)], ids=str)
def test_powers_and_their_slopes(exponent: fmpq) -> None:
    with ctx.workprec(300):
        for scale in (1e-3, 1.0, 1e9):
            x = boxes(scale, 5).absolute().shifted(scale * 1e-3)
            result, defined = curves.power(x, exponent)
            slope = curves.power_slope(x, exponent)
            assert defined.all()
            for p in points(x):
                assert_inside(result, [arb(a) ** arb(exponent) for a in p])
                assert_inside(slope, [arb(exponent) * arb(a) ** (arb(exponent) - 1) for a in p])
    around = Interval.of([-1.0, 0.0], [1.0, 1.0])
    assert curves.power(around, exponent)[1].tolist() == [False, exponent > 0]


ABOVE = {"log": 0.0, "log2": 0.0, "log10": 0.0, "sqrt": 0.0, "gamma": 0.0, "lgamma": 0.0, "log1p": -1.0, "acosh": 1.0}
INSIDE = ("asin", "acos", "atanh")


@pytest.mark.parametrize("name", CURVES)
def test_curves_hold_values_and_slopes(name: str) -> None:
    curve = CURVES[name]
    for scale in (1e-9, 1.0, 30.0, 1e5):
        x = boxes(scale, 7, 25)
        if name in ABOVE:
            x = Interval(
                *(ABOVE[name] + np.abs(end) + scale * 1e-3 for end in (x.absolute().lower, x.absolute().upper))
            )
        elif name in INSIDE:
            x = Interval(np.clip(x.lower, -1, 1), np.clip(x.upper, -1, 1))
        result, defined = curves.values(name, x)
        slope = curves.slopes(name, x)
        assert not (np.isnan(result.lower) | np.isnan(slope.lower)).any()
        assert (result.finite >= defined).all() or scale > 100
        with ctx.workprec(200):
            for p in points(x):
                assert_inside(result, [curve.at(arb(a)) for a in p])
                assert_inside(slope, [curve.taylor(arb(a), 2)[1] for a in p])


@pytest.mark.parametrize("name", [*ABOVE, *INSIDE, "coth"])
def test_outside_the_domain_nothing_is_claimed(name: str) -> None:
    outside = Interval.of([-3.0], [2.0])
    result, defined = curves.values(name, outside)
    assert not defined[0] and result.lower[0] == -np.inf and result.upper[0] == np.inf
    assert curves.slopes(name, outside).upper[0] == np.inf


def test_waves_are_sharp() -> None:
    x = Interval.of([0.0, 1.0, 1.6, 4.0, -0.1], [0.5, 1.6, 4.6, 5.0, 0.1])
    assert (x.sin().lower[:3] > [-1e-9, 0.84, -0.994]).all() and x.sin().upper[1] == 1.0 and x.sin().upper[2] < 1.0
    assert x.cos().upper[0] == 1.0 and x.cos().lower[2] == -1.0 and x.sin().lower[3] == -1.0


def test_a_product_that_underflows_is_not_zero() -> None:
    """x 2^-600 2^-600 2^600 2^600 is x: products with powers of two are exact, but only within the range of floats."""
    tiny, large = (Interval(np.array([p]), np.array([p])) for p in (2.0**-600, 2.0**600))
    for low, high in ((0.5, 1.0), (-1.0, -0.5), (-1.0, 1.0), (0.0, 1.0)):
        small = Interval(np.array([low]), np.array([high])) * tiny * tiny
        assert (small.lower[0] < 0) == (low < 0) and (small.upper[0] > 0) == (high > 0)
        again = small * large * large
        assert again.lower[0] <= low and high <= again.upper[0]
