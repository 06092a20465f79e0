"""Every row of the checker's table of functions: values, hulls and Taylor models hold what mpmath computes."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator

import mpmath as mp
import numpy as np
import pytest
from flint import arb, ctx

from softwright.checker.functions import CURVES, FUNCTIONS, XLOGX, Curve, real_power
from softwright.checker.parser import Parser
from softwright.checker.refusal import UndefinedError
from softwright.checker.taylor import ZERO, Model, Space, evaluate
from tests.checker.reference import DIGITS, ONE_ARGUMENT, SEVERAL, Undefined, ball, value_of

# Where something happens: ends of domains, poles, extrema, kinks, jumps, cancellation.
PI = math.pi
PLACES: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(["tan", "sec"], (PI / 2, -PI / 2, 3 * PI / 2)),
    **dict.fromkeys(["csc", "cot"], (PI, -PI, 2 * PI)),
    **dict.fromkeys(["sin", "cos"], (PI / 2, PI, -PI / 2)),
    **dict.fromkeys(["asin", "acos", "atanh"], (1.0, -1.0)),
    "acosh": (1.0,),
    "log1p": (-1.0,),
    **dict.fromkeys(["gamma", "lgamma"], (1.4616321449683623, 1.0, 2.0)),
    "silu": (-1.2784645427610738,),
    "gelu": (-0.7517915246935645,),
    "sinc": (PI, 4.493409457909064, 1.0, -1.0),
    "j0": (2.404825557695773, 3.8317059702075125),
    "j1": (1.841183781340659, 3.8317059702075125),
    **dict.fromkeys(["floor", "ceil", "mod"], (1.0, -1.0, 3.0)),
    "round": (0.5, 1.5, -0.5, -2.5),
}
LARGEST = {"exp": 1e4, "exp2": 1e4, "expm1": 1e4, "sinh": 1e4, "cosh": 1e4, "gamma": 1e4}
CURVE_NAMES = sorted(CURVES)
SMOOTH_PARTS = sorted(set(ONE_ARGUMENT) & set(FUNCTIONS))


@pytest.fixture(autouse=True)
def precision() -> Iterator[None]:
    before = ctx.prec, ctx.cap
    ctx.prec, ctx.cap = 128, 64
    with mp.workdps(DIGITS):
        yield
    ctx.prec, ctx.cap = before


def magnitudes(name: str) -> list[float]:
    """Numbers of both signs from 1e-30 up, and numbers near every place where something happens."""
    largest = LARGEST.get(name, 1e12)
    sizes = [0.0, *(10.0**k for k in range(-30, int(math.log10(largest)) + 1)), 0.3, 0.9, 1.1, 1.7, 2.6, 7.3, 25.0]
    near = [p + d for p in PLACES.get(name, ()) for d in (0.0, 1e-15, -1e-15, 1e-9, -1e-9, 1e-3, -1e-3, 0.2, -0.2)]
    return sorted({s * x for x in sizes for s in (-1.0, 1.0)} | set(near))


def reference(name: str, x: float | arb) -> arb | None:
    """The value in a ball, None if there is none."""
    try:
        return ball(ONE_ARGUMENT[name](mp.mpf(x)))
    except Undefined:
        return None


def test_the_reference_knows_every_function() -> None:
    """A function without an independent value is not tested; a row that is taken away is missed."""
    assert set(ONE_ARGUMENT) | set(SEVERAL) | {"where"} == set(FUNCTIONS)


# ----------------------------------------------------------------------------------------------------- values and hulls


@pytest.mark.parametrize("name", CURVE_NAMES)
def test_values_hold_and_are_sharp(name: str) -> None:
    for x in magnitudes(name):
        found, true = CURVES[name].at(arb(x)), reference(name, x)
        if true is None:
            assert not found.is_finite(), f"{name}({x!r}) has no value, the checker finds {found}"
            continue
        assert found.is_finite(), f"{name}({x!r})"
        assert found.overlaps(true), f"{name}({x!r}) is {true}, the checker finds {found}"
        assert found.rad() <= 1e-20 * (1 + abs(true)), f"{name}({x!r}) is known only to {found.rad()}"


def intervals(name: str, rng: np.random.Generator, count: int) -> Iterator[tuple[float, float]]:
    """Intervals of all widths, at all magnitudes, and about every special place."""
    points = magnitudes(name)
    for _ in range(count):
        middle, width = float(rng.choice(points)), 10 ** rng.uniform(-8, 1.5)
        share = rng.choice([0.0, rng.random(), 1.0])
        yield middle - share * width, middle + (1 - share) * width


@pytest.mark.parametrize("name", CURVE_NAMES)
def test_hulls_hold(name: str) -> None:
    rng, finite = np.random.default_rng(1), 0
    for low, high in intervals(name, rng, 80):
        found = CURVES[name].over(arb(low), arb(high))
        inside = [low, high, *rng.uniform(low, high, 4), *(p for p in PLACES.get(name, ()) if low <= p <= high)]
        values = [reference(name, float(x)) for x in inside]
        if any(value is None for value in values):
            assert not found.is_finite(), f"{name} on [{low!r}, {high!r}]: {found}"
            continue
        if found.is_finite():
            finite += 1
            for x, value in zip(inside, values, strict=True):
                assert value is not None
                assert found.overlaps(value), f"{name}({x!r}) = {value} is not in {found}"
    assert finite >= 12


TURNING = sorted(name for name, curve in CURVES.items() if curve.turns)
MONOTONE = sorted(name for name, curve in CURVES.items() if curve.turns == ())


@pytest.mark.parametrize("name", TURNING)
def test_hulls_about_extrema_hold_them_and_are_sharp(name: str) -> None:
    curve = CURVES[name]
    assert curve.turns is not None
    for turn in curve.turns:
        place = turn()
        # The derivative changes its sign within the ball that is said to hold the extremum.
        left, right = (curve.taylor(end, 2)[1] for end in ((place - 1e-30).lower(), (place + 1e-30).upper()))
        assert left * right < 0
        for below, above in [(1e-9, 1e-9), (0.2, 1e-3), (1e-3, 0.3), (0.0, 0.1), (1e-6, 0.0)]:
            found = curve.over((place - below).lower(), (place + above).upper())
            assert found.contains(curve.point(place))
            middle = mp.ldexp(*map(int, place.mid().man_exp()))
            dense = [ONE_ARGUMENT[name](middle + t) for t in (0.0, *np.linspace(-below, above, 9))]
            assert all(found.overlaps(ball(x)) for x in dense)
            assert 2 * found.rad() <= float(max(dense) - min(dense)) * 1.01 + 1e-25


@pytest.mark.parametrize("name", MONOTONE)
def test_what_is_called_monotone_is(name: str) -> None:
    points = [x for x in magnitudes(name) if (v := reference(name, x)) is not None and v.is_finite()]
    values = [ONE_ARGUMENT[name](mp.mpf(x)) for x in points]
    if name == "coth":  # on each side of its pole
        values = values[: sum(x < 0 for x in points)]
    steps = [b - a for a, b in itertools.pairwise(values)]
    assert all(step >= 0 for step in steps) or all(step <= 0 for step in steps)


# -------------------------------------------------------------------------------------------------- Taylor coefficients


@pytest.mark.parametrize("name", CURVE_NAMES)
def test_taylor_coefficients_over_balls(name: str) -> None:
    """At random points of random balls, mpmath's numerical derivatives lie in the coefficients."""
    rng, finite = np.random.default_rng(2), 0
    points = [x for x in magnitudes(name) if 1e-6 <= abs(x) <= 50] + [0.0]
    balls = [(float(rng.choice(points)), float(rng.choice([0.0, 10 ** rng.uniform(-6, 0)]))) for _ in range(8)]
    balls += [(place, radius) for place in (0.0, *PLACES.get(name, ())) for radius in (1e-3, 0.3)]
    for middle, radius in balls:
        found = CURVES[name].taylor(arb(middle, radius), 5)
        at = middle + radius * float(rng.choice([0.0, rng.uniform(-1, 1)]))
        if not all(c.is_finite() for c in found):
            continue
        finite += 1
        true = mp.taylor(ONE_ARGUMENT[name], mp.mpf(at), 4)
        for k, (c, t) in enumerate(zip(found, true, strict=True)):
            slack = arb(0, 1) * 1e-15 * (abs(arb(str(mp.nstr(t, 30)))) + 1e-10)
            assert (c + slack).overlaps(ball(t)), f"{name}, coefficient {k} at {at!r} in {middle!r} +- {radius!r}"
    assert finite >= 3


@functools.cache
def space_of(dim: int, degree: int, _bits: int) -> Space:
    """Made once for each precision: its tables take as long as a model."""
    return Space(dim, degree)


def holds(
    text: str, names: list[str], centre: np.ndarray, radius: np.ndarray, degree: int, rng: np.random.Generator
) -> bool:
    """Whether a model was found; asserts that it holds the formula at random points, corners and the centre."""
    space = space_of(len(names), degree, ctx.prec)
    axes = [[arb(r) if i == k else ZERO for k in range(len(names))] for i, r in enumerate(radius)]
    variables = [Model(space, space.linear(arb(float(c)), axis)) for c, axis in zip(centre, axes, strict=True)]
    try:
        model = evaluate(Parser(text, names).outputs()[0], variables)
    except UndefinedError:
        return False
    low, high = model.bounds()
    coefficients = space.coefficients(model.parts)
    shares = [np.zeros(len(names)), *rng.uniform(-1, 1, (3, len(names))), *rng.choice([-1.0, 1.0], (2, len(names)))]

    def place(share: np.ndarray) -> str:
        return f"{text} at {share} of {centre} +- {radius}, degree {degree}"

    for share in shares:
        at = [
            mp.mpf(float(c)) + mp.mpf(float(r)) * mp.mpf(float(s))
            for c, r, s in zip(centre, radius, share, strict=True)
        ]
        try:
            value = ball(value_of(text, dict(zip(names, at, strict=True))))
        except Undefined:
            pytest.fail(f"{place(share)}: there is no value, but a model was found")
        powers = space.powers([arb(float(s)) for s in share])
        polynomial = sum((a * b for a, b in zip(coefficients, powers, strict=True)), ZERO)
        assert (polynomial + arb(0, 1) * model.error).overlaps(value), place(share)
        assert hull(low, high).overlaps(value), place(share)
    return True


def hull(low: arb, high: arb) -> arb:
    return low.union(high)


@pytest.mark.parametrize("name", SMOOTH_PARTS)
def test_models_of_one_argument(name: str) -> None:
    rng, found = np.random.default_rng(4), 0
    points = [x for x in magnitudes(name) if abs(x) <= 1e3 and reference(name, x) is not None]
    for degree in (2, 5, 12, 24):
        for _ in range(5):
            centre = float(rng.choice(points))
            radius = float(rng.choice([10 ** rng.uniform(-6, 0.5), abs(centre) * rng.uniform(0.01, 0.9) or 1e-3]))
            found += holds(f"{name}(x)", ["x"], np.array([centre]), np.array([radius]), degree, rng)
    assert found >= 6


@pytest.mark.parametrize("name", SMOOTH_PARTS)
def test_models_of_functions_of_functions(name: str) -> None:
    """The argument is itself curved, in two variables, and its model has an error."""
    rng, found = np.random.default_rng(5), 0
    places = [*PLACES.get(name, ()), 0.0, 1.5]
    for _ in range(5):
        offset = float(rng.choice(places))
        text = f"{name}({offset!r} + x*y/2 + sin(y)/3 - 0.2*x**2) - {name}({offset!r} + x)/3"
        centre, radius = rng.uniform(-1, 1, 2), 10 ** rng.uniform(-4, -0.3, 2)
        found += holds(text, ["x", "y"], centre, radius, int(rng.choice([2, 4, 8])), rng)
    assert found >= 2


TWO_ARGUMENTS = {
    "atan2(y, x)": [(0, 0), (-1, 0), (1, 0), (0, 1), (0, -1), (-1, 1e-3)],
    "atan2(x*y, x - y)": [(0, 0), (1, 1), (-1, 0), (0, 1)],
    "hypot(x, y)": [(0, 0), (1, 0), (1e-8, 0), (1e150, 1e150)],
    "sqrt(x**2 + y*y)": [(0, 0), (1, 0), (1e-8, 0)],
    "hypot(x - y, 1e-3)": [(0, 0), (1, 1)],
    "xlogy(x, y)": [(0, 1), (1, 1), (0, 0), (1, 0)],
    "xlogy(x, x)": [(0, 1), (0.1, 1), (0.367879, 1), (1, 1)],
    "xlogy(1 - x, 1 - x)": [(1, 1), (0.9, 1), (0, 0)],
    "xlogy(x - x, y)": [(1, 1)],
    "xlogy(0, y)": [(1, -1), (1, 0)],
    "mod(x, y)": [(0, 1), (1, 1), (-3.5, 2), (2, -1), (1, 0), (0.5, -0.3)],
    "mod(x, 0.7)": [(0.7, 0), (-1.4, 0), (0.2, 0)],
    "pow(x, y)": [(1, 1), (0, 1), (2, -3), (1e-3, 0.5)],
    "x**0.3": [(0, 0), (1, 0), (1e-6, 0)],
    "x**pi": [(0, 0), (1, 0)],
    "x**-1.5": [(0, 0), (1, 0)],
    "(x*x)**0.75": [(0, 0), (1, 0)],
    "x**2**2": [(-1, 0), (0, 0)],
    "x**-3": [(-1, 0), (0, 0)],
    "min(x, y, x*y, 0.3)": [(0, 0), (1, 1), (0.3, 0.3)],
    "max(x, y, x*y, 0.3)": [(0, 0), (1, 1), (0.3, 0.3)],
    "clip(x, -0.5, y)": [(0, 0), (-0.5, 0), (1, 1), (0, -0.5)],
    "clip(2*x, -1, 1)*y": [(0.5, 1), (-0.5, 1), (0, 0)],
    "where(x > y, x*x, -y)": [(0, 0), (1, 1), (1, -1)],
    "where(0 < x <= 1 and not y < 0, sin(x), y)": [(0, 0), (1, 0), (0.5, 0.5), (-1, -1)],
    "x if x < 0 or y >= 0.5 else y if 0 < y < 0.25 else -1": [(0, 0.5), (0, 0.25), (1, 0)],
    "sqrt(y) if y >= 0 else x": [(0, 0), (0, 0.5)],
    "1/(x*y - 0.1)": [(0.1, 1), (1, 1), (-1, 1)],
}


@pytest.mark.parametrize("text", TWO_ARGUMENTS)
def test_models_of_several_arguments(text: str) -> None:
    """About branch cuts, origins, kinks, jumps and ends of domains."""
    rng, found = np.random.default_rng(6), 0
    for x, y in TWO_ARGUMENTS[text]:
        for _ in range(9):
            radius = 10 ** rng.uniform(-5, 0, 2)
            centre = np.array([x, y]) + radius * rng.choice([-2.0, -1.0, 0.0, 0.4, 1.0, 2.0], 2)
            found += holds(text, ["x", "y"], centre, radius, int(rng.choice([2, 5, 10])), rng)
    assert found >= 8


# ----------------------------------------------------------------------------------------------- decided and undecided


def on_box(text: str, **sides: tuple[float, float]) -> Model:
    space = Space(len(sides), 6)
    variables = []
    for i, (low, high) in enumerate(sides.values()):
        axis = [arb((high - low) / 2) if i == k else ZERO for k in range(len(sides))]
        variables.append(Model(space, space.linear(arb((low + high) / 2), axis)))
    return evaluate(Parser(text, list(sides)).outputs()[0], variables)


@pytest.mark.parametrize(
    ("text", "decided", "undecided"),
    [
        ("floor(x)", (1.25, 1.75), (0.75, 1.25)),
        ("ceil(x)", (1.25, 1.75), (0.75, 1.25)),
        ("round(x)", (0.75, 1.25), (1.25, 1.75)),
        ("step(x)", (0.0, 0.5), (-0.25, 0.25)),
        ("sign(x)", (0.25, 0.5), (-0.25, 0.25)),
        ("mod(x, 1)", (0.25, 0.75), (0.75, 1.25)),
        ("relu(x)", (0.0, 0.5), (-0.25, 0.25)),
        ("abs(x)", (-0.5, 0.0), (-0.25, 0.25)),
        ("clip(x, 0, 1)", (0.25, 0.75), (0.75, 1.25)),
        ("where(x < 0 or x > 1, x, 0)", (0.25, 0.75), (0.75, 1.25)),
        ("atan2(0*x, x)", (0.25, 0.5), None),
        ("atan2(0*x, x)", (-0.5, -0.25), None),
    ],
)
def test_decided_boxes_use_the_piece(
    text: str, decided: tuple[float, float], undecided: tuple[float, float] | None
) -> None:
    assert on_box(text, x=decided).error <= 1e-30
    if undecided is not None:
        low, high = on_box(text, x=undecided).bounds()
        for x in np.linspace(*undecided, 11):
            assert hull(low, high).overlaps(ball(value_of(text, {"x": float(x)})))


def test_round_goes_to_even() -> None:
    for x in (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4999999, 2.5000001, -3.7, 1e15 + 0.5):
        model = on_box("round(x + 0)", x=(x, x))
        assert model.parts[0][0] == arb(round(x))
        assert model.error == 0


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("atan2(x, y)", {"x": (-0.5, 0.5), "y": (-0.5, 0.5)}),
        ("atan2(x, y)", {"x": (0.0, 0.5), "y": (-0.5, 0.0)}),
        ("atan2(0, 0*x)", {"x": (1.0, 2.0)}),
        ("mod(x, y)", {"x": (1.0, 2.0), "y": (-0.1, 0.1)}),
        ("mod(x, 0)", {"x": (1.0, 2.0)}),
        ("xlogy(x, y)", {"x": (0.0, 1.0), "y": (0.0, 1.0)}),
        ("xlogy(x, x)", {"x": (-0.1, 1.0)}),
        ("gamma(x)", {"x": (-0.75, -0.25)}),
        ("lgamma(x)", {"x": (-0.75, -0.25)}),
        ("gamma(x)", {"x": (0.0, 1.0)}),
        ("acosh(x)", {"x": (0.9, 1.5)}),
        ("atanh(x)", {"x": (1.5, 2.0)}),
        ("atanh(x)", {"x": (0.0, 1.0)}),
        ("log1p(x)", {"x": (-1.0, 0.0)}),
        ("log10(x)", {"x": (0.0, 1.0)}),
        ("log2(-1)", {"x": (0.0, 1.0)}),
        ("coth(x)", {"x": (-1.0, 2.0)}),
        ("cot(x)", {"x": (3.0, 3.5)}),
        ("sec(x)", {"x": (1.5, 1.6)}),
        ("csc(x)", {"x": (-0.1, 0.2)}),
        ("tan(x)", {"x": (1.0, 5.0)}),
        ("x**0.5", {"x": (-0.1, 0.2)}),
        ("x**y", {"x": (-0.1, 0.2), "y": (1.0, 2.0)}),
        ("j0(1/x)", {"x": (-0.1, 0.2)}),
        ("sign(1/x)", {"x": (-0.1, 0.2)}),
        ("floor(1/x)", {"x": (-0.1, 0.2)}),
        ("where(log(x) < 0, 1, 2)", {"x": (-0.1, 0.2)}),
    ],
)
def test_where_there_may_be_no_value_there_is_no_model(text: str, box: dict[str, tuple[float, float]]) -> None:
    with pytest.raises(UndefinedError):
        on_box(text, **box)


@pytest.mark.parametrize(
    "curve", [XLOGX, real_power(arb("0.3")), real_power(arb("-1.5"))], ids=["xlogx", "root", "inverse"]
)
def test_the_curves_inside_other_rows(curve: Curve) -> None:
    rng = np.random.default_rng(8)
    true = {0: lambda x: x * mp.log(x), 1: lambda x: x ** mp.mpf("0.3"), 2: lambda x: x ** mp.mpf("-1.5")}
    which = 0 if curve is XLOGX else 1 if curve.domain.holds(ZERO, ZERO) else 2
    for _ in range(100):
        low = float(10 ** rng.uniform(-5, 1))
        high = low * (1 + 10 ** rng.uniform(-5, 1))
        found = curve.over(arb(low), arb(high))
        for x in (low, high, *rng.uniform(low, high, 3)):
            assert found.overlaps(ball(true[which](mp.mpf(float(x)))))


def test_sinc_is_small_far_out() -> None:
    """Also over a ball that holds many of its waves: its coefficients there are at most about 1/(k! x)."""
    curve = FUNCTIONS["sinc"].curve
    assert curve is not None
    found = curve.taylor(arb(1e30, 3e29), 6)
    assert all(abs(c) < arb(2e-30) for c in found)
