"""Intervals, balls and Taylor models of every function of formulas hold all its values, and are of use."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from flint import arb
from mpmath import mp, mpf

from softwright.proof.arithmetic.series import basis
from softwright.proof.arithmetic.taylor_model import TaylorModel, variables
from softwright.proof.models.formula import ExpressionModels
from softwright.targets.formula import Expression, Number, Operation, Variable, evaluate
from tests.contracts.function_references import (
    EXAMPLES,
    NAMES,
    ONE_ARGUMENT,
    SEVERAL_ARGUMENTS,
    Real,
    Reference,
    arguments_of,
    call,
    exact_enough,
    generator_of,
    inside_of,
    one_argument,
    points_of,
    several_arguments,
)


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    with exact_enough():
        yield


# Intervals and balls --------------------------------------------------------------------------------------------------


def _samples(reference: Reference, low: float, high: float, generator: np.random.Generator) -> list[float]:
    special = [x for x in (*reference.places, *reference.parts, 0.0) if low <= x <= high]
    inner = low + generator.uniform(0, 1, 4) * (high - low)
    return [low, high, *special, *np.clip(inner, low, high).tolist()]


def _intervals(name: str) -> np.ndarray:
    """Intervals (n, 2): round everything that happens, of all widths, and points of the whole domain."""
    reference, generator = ONE_ARGUMENT[name], generator_of(name)
    centers = np.repeat(inside_of(reference, generator, 14), 4)
    radii = np.exp(generator.uniform(math.log(1e-12), math.log(6.0), len(centers)))
    points = points_of(reference, generator, 15)
    pairs = np.sort(generator.choice(points, (25, 2)), axis=1)
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
    assert finite > 12


def _as_ball(value: Real) -> arb:
    return arb(mpmath.nstr(value, 60)) + arb(0, float(abs(value)) * 1e-40 + 1e-300)


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
    centers = np.repeat(inside_of(reference, generator, 8), 3)
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


# Derivatives --------------------------------------------------------------------------------------------------------


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
        assert np.isclose(float(second.torch(torch.tensor([[x]]))[0, 0]), float(second(np.array([[x]]))[0, 0]))
        ball = evaluate(second.nodes[0], {"x": arb(float(x))})
        assert abs(float(ball.mid()) - float(theirs)) < 1e-6 * (1 + abs(theirs))
    model = ExpressionModels(second)(variables(basis(1, 6), np.array([[0.5 * (low + high)]]), np.array([[1e-3]])))
    assert np.isfinite(model[0].remainder).all()


FAMILIES: dict[str, tuple[Any, float]] = {  # of derivatives: reference, and the lower end of the domain
    "bessel_j": (mpmath.besselj, -8.0),
    "spherical_j": (lambda n, x: mpmath.sqrt(mp.pi / (2 * x)) * mpmath.besselj(n + mpf(1) / 2, x), 0.001),
    "polygamma": (mpmath.psi, 0.001),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("order", range(5))
def test_families_of_derivatives(name: str, order: int) -> None:
    (reference, low), generator = FAMILIES[name], generator_of(f"{name}{order}")
    node = Operation(name, (Number(float(order), str(order)), Variable("x")))
    expression = Expression.from_nodes([node])
    centers = generator.uniform(low, 8.0, 12)
    radii = np.minimum(np.exp(generator.uniform(math.log(1e-6), 1.0, 12)), 0.999 * (centers - min(low, 0.0)))
    boxes = np.nextafter(centers - radii, -np.inf)[:, None], np.nextafter(centers + radii, np.inf)[:, None]
    below, above, defined = expression.enclose(*boxes)
    (model,) = ExpressionModels(expression)(variables(basis(1, 5), centers[:, None], radii[:, None]))
    assert defined.all()
    assert np.isfinite(model.remainder).sum() > 6
    for box, (center, radius) in enumerate(zip(centers.tolist(), radii.tolist(), strict=True)):
        assert np.isclose(float(expression([[center]])[0, 0]), float(reference(order, mpf(center))), rtol=1e-11)  # type: ignore[arg-type]
        ball = evaluate(node, {"x": arb(center) + arb(0, 1) * arb(radius)})
        for s in (-1.0, 1.0, *generator.uniform(-1, 1, 4).tolist()):
            value = mpmath.re(reference(order, mpf(center) + mpf(radius) * mpf(s)))
            assert below[box, 0] <= value <= above[box, 0]
            assert not ball.is_finite() or ball.overlaps(_as_ball(value))
            if np.isfinite(model.remainder[box]):
                assert _distance(model, box, [s], value) <= mpf(float(model.remainder[box]))
