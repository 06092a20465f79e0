"""The contract of every function of formulas: all its meanings agree with mpmath, and nothing is missing.

A function is a row of `targets/formula/functions.py` (or a definition), and a row of `checker/functions.py`; the names
of the failing tests say which row lacks what. mpmath's meaning of each name is in `function_references.py`.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import mpmath
import numpy as np
import pytest
import torch
from flint import arb
from mpmath import mp, mpf

import softwright as sw
from softwright.checker.functions import FUNCTIONS as CHECKED
from softwright.errors import ToleranceNotReached
from softwright.proof.arithmetic.balls import precision
from softwright.proof.arithmetic.series import basis
from softwright.proof.arithmetic.taylor_model import TaylorModel, variables
from softwright.proof.models.formula import ExpressionModels
from softwright.targets.formula import ROWS, Expression, evaluate
from softwright.targets.formula.definitions import DEFINED
from softwright.targets.formula.parser import FUNCTIONS
from tests.contracts.function_references import CHOICES, JUMPS, ONE_ARGUMENT, SEVERAL_ARGUMENTS, Reference

DOCS = Path(__file__).resolve().parents[2] / "docs"
UNIT = 2.0**-53
SMALLEST = 2.0**-1022
BITS = 160
NAMES = ("x", "y", "z")
Real: TypeAlias = Any  # a number of mpmath, which has no types
EXAMPLES = {row.name: tuple(row.example.values()) for row in (*ROWS, *DEFINED.values())}
one_argument = pytest.mark.parametrize("name", ONE_ARGUMENT)
several_arguments = pytest.mark.parametrize("name", SEVERAL_ARGUMENTS)


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    with mp.workprec(BITS), precision(BITS), np.errstate(all="ignore"):  # boxes that reach beyond a domain are meant
        yield


def generator_of(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def call(name: str, count: int = 1) -> Expression:
    return Expression(f"{name}({', '.join(NAMES[:count])})", NAMES[:count])


def arguments_of(name: str) -> int:
    return {"pow": 2, "hypot": 2, "atan2": 2, "xlogy": 2, "mod": 2, "min": 2, "max": 2, "clip": 3}[name]


def points_of(reference: Reference, generator: np.random.Generator, count: int = 30) -> np.ndarray:
    """Floats of the whole domain: all sizes, both signs, the ends, and the neighbourhood of all special places."""
    top = math.log(reference.largest)
    sizes = np.exp(generator.uniform(math.log(1e-300), top, count))
    usual = np.exp(generator.uniform(math.log(1e-6), min(top, math.log(50.0)), 2 * count))
    special = np.array([0.0, 1.0, 0.5, 1.5, 2.5, *reference.places])
    near = (special[:, None] + generator.normal(0, 1, (len(special), 4)) * [1e-9, 1e-4, 1e-2, 0.1]).ravel()
    points = np.concatenate([sizes, usual, special, near])
    ends = [end for end in reference.domain if math.isfinite(end)]
    inner = [math.nextafter(end, other) for end in ends for other in (-math.inf, math.inf)]
    points = np.unique(np.concatenate([points, -points, ends, inner]))
    return np.array([x for x in points if reference(float(x)) is not None])


def inside_of(reference: Reference, generator: np.random.Generator, count: int) -> np.ndarray:
    """Places at which boxes are tried: moderate ones, and all where something happens."""
    low, high = max(reference.domain[0], -8.0), min(reference.domain[1], 8.0)
    special = [*reference.places, *reference.parts, 0.0, *(-x for x in reference.places)]
    ends = [end for end in reference.domain if math.isfinite(end)]
    middle = generator.uniform(low, high, count)
    return np.array([*middle, *(x for x in special if low <= x <= high), *ends])


def tolerated(name: str, x: float, value: Real, unit: float = UNIT) -> Real:
    """Eight units in the last place of the value, and what a last digit of the argument makes."""
    if name in JUMPS:
        return mpf(0)
    low, high = ONE_ARGUMENT[name].domain
    apart = [min(max(mpf(x) * (1 + s * mpf(unit)), low), high) for s in (-1, 1)]
    return 8 * (abs(value) * unit + max(abs(ONE_ARGUMENT[name].value(other) - value) for other in apart))


# Nothing is missing -------------------------------------------------------------------------------------------------


def test_builder_checker_and_reference_know_the_same_functions() -> None:
    assert set(FUNCTIONS) == set(CHECKED)
    assert set(FUNCTIONS) == {*ONE_ARGUMENT, *SEVERAL_ARGUMENTS, *CHOICES}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_every_row_has_an_example(name: str) -> None:
    assert EXAMPLES[name]
    assert len(EXAMPLES[name]) == (1 if name in ONE_ARGUMENT else arguments_of(name))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_says_what_it_means(row: Any) -> None:
    assert row.meaning


@pytest.mark.parametrize("row", DEFINED.values(), ids=lambda row: row.name)
def test_definitions_hold_each_parameter_once(row: Any) -> None:
    text = Expression(row.text, row.parameters).text
    assert [sum(part == p for part in _words(text)) for p in row.parameters] == [1] * len(row.parameters)


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()


def test_the_documentation_lists_every_function() -> None:
    page = (DOCS / "formulas.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\w+)\(", page, flags=re.MULTILINE)) == sorted(FUNCTIONS)
    for row in ROWS:
        assert f"| `{row.name}({', '.join(row.example)})` | {row.meaning} |" in page, "run docs/refresh_outputs.py"
    for row in DEFINED.values():
        assert f"| `{row.name}({', '.join(row.parameters)})` | `{row.text}` |" in page, "run docs/refresh_outputs.py"
    assert f"<!-- list function names -->{' '.join(FUNCTIONS)}<!-- end -->" in (DOCS / "cli.md").read_text("utf-8")


# Values -------------------------------------------------------------------------------------------------------------


@one_argument
def test_values_over_the_whole_domain(name: str) -> None:
    reference, expression = ONE_ARGUMENT[name], call(name)
    points = points_of(reference, generator_of(name))
    assert len(points) > 40
    by_numpy = expression(points[:, None])[:, 0]
    by_torch = expression.torch(torch.tensor(points)[:, None]).numpy()[:, 0]
    for x, *found in zip(points.tolist(), by_numpy.tolist(), by_torch.tolist(), strict=True):
        value = reference(x)
        assert value is not None
        for number in found:
            if abs(value) > 1.797e308:
                assert number == math.copysign(math.inf, value)
            else:
                assert abs(mpf(number) - value) <= tolerated(name, x, value) + SMALLEST, (x, number, value)


@one_argument
def test_float32_tensors_keep_their_digits(name: str) -> None:
    reference = ONE_ARGUMENT[name]
    points = points_of(reference, generator_of(name)).astype(np.float32)
    points = points[(np.abs(points) < min(1e6, reference.largest)) & (np.abs(points) > 1e-30)]
    values = call(name).torch(torch.tensor(points)[:, None])
    assert values.dtype == torch.float32
    for x, number in zip(points.tolist(), values[:, 0].tolist(), strict=True):
        value = reference(x)
        if value is not None and 1e-36 < abs(value) < 1e37:
            assert abs(mpf(number) - value) <= tolerated(name, x, value, 2.0**-24), (x, number, value)


@several_arguments
def test_values_of_several_arguments(name: str) -> None:
    count, reference = arguments_of(name), SEVERAL_ARGUMENTS[name]
    generator = generator_of(name)
    wide = np.exp(generator.uniform(-100, 100, (60, count))) * generator.choice([-1.0, 1.0], (60, count))
    usual = generator.normal(0, 2, (60, count))
    grid = generator.choice([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0], (60, count))
    points = np.concatenate([wide, usual, grid])
    by_numpy = call(name, count)(points)[:, 0]
    by_torch = call(name, count).torch(torch.tensor(points)).numpy()[:, 0]
    checked = 0
    for point, *found in zip(points.tolist(), by_numpy.tolist(), by_torch.tolist(), strict=True):
        value = reference(*map(mpf, point))
        if value is None or abs(value) > 1e300 or (abs(value) < 1e-300 and value):
            continue
        checked += 1
        moved = [[mpf(a) * (1 + (i == j) * mpf(UNIT)) for j, a in enumerate(point)] for i in range(count)]
        apart = [abs(other - value) for other in (reference(*place) for place in moved) if other is not None]
        allowed = 8 * (abs(value) * UNIT + (0 if name in JUMPS else max(apart, default=mpf(0))))
        for number in found:
            assert abs(mpf(number) - value) <= allowed, (point, number, value)
    assert checked > 60


# Derivatives --------------------------------------------------------------------------------------------------------


def _derivatives(name: str, count: int) -> Iterator[tuple[list[float], list[Expression], list[Real]]]:
    """Points with the derivatives of a function there: ours by tree, and mpmath's by differences."""
    reference: Callable[..., Any] = ONE_ARGUMENT[name].value if name in ONE_ARGUMENT else SEVERAL_ARGUMENTS[name]
    first = call(name, count)
    partials = [first.derivative(variable) for variable in NAMES[:count]]
    generator = generator_of(name)
    for _ in range(8):
        point = [float(generator.uniform(low, high)) if low < high else low for low, high in EXAMPLES[name]]
        orders = [tuple(int(i == j) for j in range(count)) for i in range(count)]
        step = mpf(2) ** -40
        theirs = [
            (
                reference(*(mpf(x) + step * o for x, o in zip(point, order, strict=True)))
                - reference(*(mpf(x) - step * o for x, o in zip(point, order, strict=True)))
            )
            / (2 * step)
            for order in orders
        ]
        yield point, partials, theirs


@pytest.mark.parametrize("name", [name for name in (*ONE_ARGUMENT, *SEVERAL_ARGUMENTS) if name not in ("min", "max")])
def test_derivatives(name: str) -> None:
    count = 1 if name in ONE_ARGUMENT else arguments_of(name)
    for point, partials, theirs in _derivatives(name, count):
        ours = [float(partial(np.array([point]))[0, 0]) for partial in partials]
        assert np.allclose(ours, [float(value) for value in theirs], rtol=1e-9, atol=1e-9), point
        x = torch.tensor([point], requires_grad=True, dtype=torch.float64)
        total = call(name, count).torch(x).sum()
        if not total.requires_grad:  # step is constant on either side
            assert not any(ours)
            continue
        (automatic,) = torch.autograd.grad(total, x)
        assert np.allclose(automatic[0].numpy(), ours, rtol=1e-9, atol=1e-9), point


@one_argument
def test_higher_derivatives_have_all_meanings(name: str) -> None:
    (low, high), reference = EXAMPLES[name][0], ONE_ARGUMENT[name].value
    second = call(name).derivative("x").derivative("x")
    for x in np.linspace(low, high, 7)[1:-1] + 0.01:
        theirs = mpmath.diff(reference, mpf(float(x)), 2, h=mpf(2) ** -30)
        assert abs(mpf(float(second(np.array([[x]]))[0, 0])) - theirs) < 1e-6 * (1 + abs(theirs))
        below, above, defined = second.enclose(np.array([[x - 1e-9]]), np.array([[x + 1e-9]]))
        assert defined[0]
        assert below[0, 0] - 1e-6 <= theirs <= above[0, 0] + 1e-6
        ball = evaluate(second.nodes[0], {"x": arb(float(x))})
        assert abs(float(ball.mid()) - float(theirs)) < 1e-6 * (1 + abs(theirs))
    model = ExpressionModels(second)(variables(basis(1, 6), np.array([[0.5 * (low + high)]]), np.array([[1e-3]])))
    assert np.isfinite(model[0].remainder).all()


# Intervals and balls --------------------------------------------------------------------------------------------------


def _samples(reference: Reference, low: float, high: float, generator: np.random.Generator) -> list[float]:
    special = [x for x in (*reference.places, *reference.parts, 0.0) if low <= x <= high]
    inner = low + generator.uniform(0, 1, 6) * (high - low)
    return [low, high, *special, *np.clip(inner, low, high).tolist()]


def _intervals(name: str) -> np.ndarray:
    """Intervals (n, 2): round everything that happens, of all widths, and points of the whole domain."""
    reference, generator = ONE_ARGUMENT[name], generator_of(name)
    centers = np.repeat(inside_of(reference, generator, 20), 4)
    radii = np.exp(generator.uniform(math.log(1e-12), math.log(6.0), len(centers)))
    points = points_of(reference, generator, 15)
    pairs = np.sort(generator.choice(points, (40, 2)), axis=1)
    low = np.concatenate([centers - radii, centers, points, pairs[:, 0]])
    high = np.concatenate([centers + radii, centers + radii, points, pairs[:, 1]])
    return np.stack([low, high], axis=1)


@one_argument
def test_intervals_hold_all_values(name: str) -> None:
    reference, generator, boxes = ONE_ARGUMENT[name], generator_of(name), _intervals(name)
    below, above, defined = call(name).enclose(boxes[:, :1], boxes[:, 1:])
    for (low, high), least, most, sure in zip(boxes.tolist(), below[:, 0], above[:, 0], defined, strict=True):
        for x in _samples(reference, low, high, generator):
            value = reference(x)
            assert value is not None or not sure, (low, high, x)
            if value is not None:
                assert least <= value <= most, (low, high, x, value)


@one_argument
def test_intervals_are_of_use(name: str) -> None:
    (low, high), _ = EXAMPLES[name][0], None
    centers = generator_of(name).uniform(low, high, 30)[:, None]
    below, above, defined = call(name).enclose(centers - 1e-9, centers + 1e-9)
    assert defined.all()
    assert np.max(above - below) < 1e-5


@one_argument
def test_balls_hold_all_values(name: str) -> None:
    reference, generator = ONE_ARGUMENT[name], generator_of(name)
    (node,) = call(name).nodes
    finite = 0
    for low, high in _intervals(name)[::2].tolist():
        if max(abs(low), abs(high)) > 1e6:
            continue
        ball = evaluate(node, {"x": arb(low).union(arb(high))})
        finite += ball.is_finite()
        for x in _samples(reference, low, high, generator):
            value = reference(x)
            if value is not None and ball.is_finite():
                assert ball.overlaps(_as_ball(value)), (low, high, x)
    assert finite > 20


def _as_ball(value: Real) -> arb:
    return arb(mpmath.nstr(value, 60)) + arb(0, float(abs(value)) * 1e-40 + 1e-300)


@pytest.mark.parametrize("row", [row for row in ROWS if row.name in ONE_ARGUMENT], ids=lambda row: row.name)
def test_rows_state_domain_and_monotony(row: Any) -> None:
    reference = ONE_ARGUMENT[row.name]
    assert row.domain == reference.domain
    points = np.sort(inside_of(reference, generator_of(row.name), 200))
    values = [value for value in map(reference, points.tolist()) if value is not None]
    rises = [b >= a for a, b in pairwise(values)]
    falls = [b <= a for a, b in pairwise(values)]
    assert row.monotone == (all(rises) or all(falls))


# Taylor models --------------------------------------------------------------------------------------------------------


def _distance(model: TaylorModel, box: int, s: list[float], value: Real) -> Real:
    total = mpf(0)
    for alpha, coefficient in zip(model.shape.exponents.tolist(), model.coefficients[:, box].tolist(), strict=True):
        term = mpf(coefficient)
        for power, place in zip(alpha, s, strict=True):
            term *= mpf(place) ** power
        total += term
    return abs(total - value)


@one_argument
def test_taylor_models_hold_all_values(name: str) -> None:
    reference, generator = ONE_ARGUMENT[name], generator_of(name)
    centers = np.repeat(inside_of(reference, generator, 12), 3)
    radii = np.exp(generator.uniform(math.log(1e-6), math.log(5.0), len(centers)))
    models = ExpressionModels(call(name))
    for order in (2, 7):
        (model,) = models(variables(basis(1, order), centers[:, None], radii[:, None]))
        for box, (center, radius) in enumerate(zip(centers.tolist(), radii.tolist(), strict=True)):
            if not np.isfinite(model.remainder[box]):
                continue
            marked = [(x - center) / radius for x in (*reference.places, *reference.parts, 0.0, *reference.domain)]
            inner = [s for s in marked if math.isfinite(s) and abs(s) <= 1.0]
            for s in (-1.0, 1.0, 0.0, *inner, *generator.uniform(-1, 1, 4).tolist()):
                place = mpf(center) + mpf(radius) * mpf(s)
                low, high = reference.domain
                if low <= place <= high and place not in reference.holes and (reference.reached or low < place < high):
                    value = reference.value(place)
                    assert _distance(model, box, [s], value) <= mpf(float(model.remainder[box])), (center, radius, s)


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - {"mod"}))
def test_taylor_models_are_of_use(name: str) -> None:
    example = EXAMPLES[name]
    generator = generator_of(name)
    centers = np.stack([generator.uniform(low, high, 20) for low, high in example], axis=1)
    kinks = [k.expression for k in call(name, len(example)).kinks()]
    smooth = np.all([np.abs(k(centers)[:, 0]) > 0.05 for k in kinks], axis=0) if kinks else np.ones(20, dtype=bool)
    (model,) = ExpressionModels(call(name, len(example)))(
        variables(basis(len(example), 6), centers, np.full_like(centers, 1e-3))
    )
    assert smooth.any()
    assert np.max(model.remainder[smooth]) < 1e-9


@pytest.mark.parametrize(
    "name", [name for name, r in ONE_ARGUMENT.items() if r.reached and np.isfinite(r.domain).any()]
)
def test_taylor_models_may_touch_the_ends_of_the_domain(name: str) -> None:
    end = next(end for end in ONE_ARGUMENT[name].domain if math.isfinite(end))
    (model,) = ExpressionModels(call(name))(variables(basis(1, 6), np.array([[end]]), np.array([[1e-3]])))
    assert np.isfinite(model.remainder).all()


@several_arguments
def test_intervals_balls_and_taylor_models_of_several_arguments(name: str) -> None:
    count, reference, generator = arguments_of(name), SEVERAL_ARGUMENTS[name], generator_of(name)
    centers = generator.choice([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 0.3], (60, count))
    radii = np.exp(generator.uniform(math.log(1e-4), math.log(1.5), (60, count)))
    expression = call(name, count)
    low, high = np.nextafter(centers - radii, -np.inf), np.nextafter(centers + radii, np.inf)
    below, above, defined = expression.enclose(low, high)
    (model,) = ExpressionModels(expression)(variables(basis(count, 4), centers, radii))
    finite = 0
    for box in range(60):
        sides = {
            n: arb(float(c)) + arb(0, 1) * arb(float(r))
            for n, c, r in zip(NAMES, centers[box], radii[box], strict=False)
        }
        ball = evaluate(expression.nodes[0], sides)
        finite += bool(np.isfinite(model.remainder[box]))
        for s in [*generator.uniform(-1, 1, (6, count)).tolist(), [-1.0] * count, [1.0] * count, [0.0] * count]:
            point = [
                mpf(float(c)) + mpf(float(r)) * mpf(a) for c, r, a in zip(centers[box], radii[box], s, strict=True)
            ]
            value = reference(*point)
            if value is None:
                assert not defined[box]
                continue
            assert below[box, 0] <= value <= above[box, 0], point
            assert not ball.is_finite() or ball.overlaps(_as_ball(value)), point
            if np.isfinite(model.remainder[box]):
                assert _distance(model, box, s, value) <= mpf(float(model.remainder[box])), point
    assert finite > 10


# Domains and kinks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if row.reason and row.name in ONE_ARGUMENT and row.name != "tan"],
    ids=lambda row: row.name,
)
def test_undefined_places_are_found_with_their_reason(row: Any) -> None:
    reference = ONE_ARGUMENT[row.name]
    end = next(end for end in (*reference.domain, *reference.holes) if math.isfinite(end))
    box = sw.Box(x=(end - 0.5, end + 0.5))
    (report,) = call(row.name).undefined(box)
    assert report.certain
    assert row.reason in report.text
    with mp.workprec(1_000):
        far = [
            abs(reference.value(mpf(end) + sign * mpf(10) ** -200))
            for sign in (-1, 1)
            if reference(end + sign * 0.1) is not None
        ]
    assert row.pole == any(value > 100 for value in far)


@pytest.mark.parametrize(("name", "pole"), [("tan", math.pi / 2), ("cot", math.pi)])
def test_poles_between_floats_are_certain(name: str, pole: float) -> None:
    (report,) = call(name).undefined(sw.Box(x=(pole - 0.5, pole + 0.6)))
    assert report.certain
    assert "pole of the" in report.text


@one_argument
def test_breaks_of_smoothness_are_known(name: str) -> None:
    reference = ONE_ARGUMENT[name]
    kinks = call(name).kinks()
    for place in reference.parts:
        there = [k for k in kinks if abs(float(k.expression(np.array([[place]]))[0, 0])) < 1e-15]
        assert there, place
        gap = abs(reference.value(mpf(place) + mpf(2) ** -90) - reference.value(mpf(place) - mpf(2) ** -90))
        assert any(k.jump for k in there) == (gap > 0.1) or name == "step"
    assert bool(kinks) == bool(reference.parts)


@pytest.mark.parametrize(
    ("text", "sides", "reason", "certain"),
    [
        ("atan2(y, x)", {"y": (-1, 1), "x": (-1, 1)}, "angle of the origin", True),
        ("xlogy(x, y)", {"x": (0.5, 1), "y": (-1, 1)}, "logarithm of a number that is not positive", True),
        ("xlogy(x, (y**2 - 2)**2)", {"x": (0.5, 1), "y": (1, 2)}, "logarithm of a number that is not positive", False),
        ("mod(x, y)", {"x": (0.5, 1), "y": (-1, 1)}, "remainder of a division by zero", True),
    ],
)
def test_undefined_places_in_several_arguments(
    text: str, sides: dict[str, tuple[float, float]], reason: str, certain: bool
) -> None:
    box = sw.Box(sides)
    (report,) = Expression(text, box).undefined(box)
    assert report.certain is certain
    assert reason in report.text


@pytest.mark.parametrize(
    ("text", "on", "off"),
    [
        ("atan2(x, y)", [(0.0, -1.0), (0.0, -0.1)], [(0.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (1.0, 0.0)]),
        ("mod(x, y)", [(0.0, 1.0), (3.0, 1.5), (-1.0, 0.5)], [(0.4, 1.0), (1.0, 0.7)]),
    ],
)
def test_jumps_in_several_arguments(text: str, on: list[Any], off: list[Any]) -> None:
    (kink,) = Expression(text, ["x", "y"]).kinks()
    assert kink.jump
    assert np.all(np.abs(kink.expression(np.array(on))) < 1e-14)
    assert np.all(np.abs(kink.expression(np.array(off))) > 0.1)


# Built, proved, verified ----------------------------------------------------------------------------------------------


def _example(name: str) -> tuple[str, sw.Box]:
    sides = dict(zip(NAMES, EXAMPLES[name], strict=False))
    written = [variable if low < high else repr(low) for variable, (low, high) in sides.items()]
    return f"{name}({', '.join(written)})", sw.Box({v: side for v, side in sides.items() if side[0] < side[1]})


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - JUMPS))
def test_every_continuous_function_is_built_proved_and_verified(name: str, tmp_path: Path) -> None:
    text, box = _example(name)
    built = sw.approximate(text, box, tol=1e-6)
    assert built.certificate is not None
    assert built.certificate.bound <= 1e-6
    built.save(tmp_path / "built.safetensors")
    assert sw.verify(tmp_path / "built.safetensors")


@pytest.mark.parametrize(
    ("text", "box"),
    [("xlogy(x, x)", {"x": (0, 1)}), ("sinc(x)", {"x": (-30, 30)}), ("1 if x <= 0 else cos(x)", {"x": (-1, 1)})],
)
def test_removable_singularities_are_met(text: str, box: dict[str, tuple[float, float]], tmp_path: Path) -> None:
    built = sw.approximate(text, sw.Box(box), tol=1e-6)
    assert built.certificate is not None
    built.save(tmp_path / "built.safetensors")
    assert sw.verify(tmp_path / "built.safetensors")


@pytest.mark.parametrize("name", sorted(JUMPS))
def test_jumps_are_refused_as_jumps(name: str) -> None:
    text, box = _example(name)
    with pytest.raises(ToleranceNotReached, match="no continuous network can meet a jump"):
        sw.approximate(text, box, tol=1e-6)
