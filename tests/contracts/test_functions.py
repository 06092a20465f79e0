"""The contract of every function of formulas: all its meanings agree with mpmath, and nothing is missing.

A function is a row of `targets/formula/functions.py` (or a definition), and a row of `checker/functions.py`; the names
of the failing tests say which row lacks what. mpmath's meaning of each name is in `function_references.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mpmath import mp, mpf

import softwright as sw
from softwright.checker.functions import FUNCTIONS as CHECKED
from softwright.errors import ToleranceNotReached
from softwright.targets.formula import ROWS, Expression
from softwright.targets.formula.definitions import DEFINED
from softwright.targets.formula.parser import FUNCTIONS
from tests.contracts.function_references import (
    CHOICES,
    EXAMPLES,
    JUMPS,
    NAMES,
    ONE_ARGUMENT,
    SEVERAL_ARGUMENTS,
    UNIT,
    Real,
    arguments_of,
    call,
    exact_enough,
    generator_of,
    inside_of,
    one_argument,
    points_of,
    several_arguments,
    tolerated,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"
SMALLEST = 2.0**-1022


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    with exact_enough():
        yield


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


@pytest.mark.parametrize("row", [row for row in ROWS if row.name in ONE_ARGUMENT], ids=lambda row: row.name)
def test_rows_state_domain_and_monotony(row: Any) -> None:
    reference = ONE_ARGUMENT[row.name]
    assert row.domain == reference.domain
    points = np.sort(inside_of(reference, generator_of(row.name), 200))
    values = [value for value in map(reference, points.tolist()) if value is not None]
    rises = [b >= a for a, b in pairwise(values)]
    falls = [b <= a for a, b in pairwise(values)]
    assert row.monotone == (all(rises) or all(falls))


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
    built = sw.approximate(text, box, tol=1e-4)  # `benchmarks/brought.py --list functions`: 1e-6
    assert built.certificate is not None
    assert built.certificate.bound <= 1e-4
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
