"""Enclosures against 60-digit arithmetic: every Taylor model must contain the function it models."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb

from softwright.proof.arithmetic.balls import precision
from softwright.proof.arithmetic.bernstein import polynomial_range
from softwright.proof.arithmetic.directed import exp_near
from softwright.proof.arithmetic.series import basis
from softwright.proof.models.exact_heads import exact_heads
from softwright.proof.models.flint_models import network_models_in_balls
from softwright.proof.models.targets import FormulaModels
from softwright.proof.models.taylor_head import tokens_on_boxes
from softwright.targets.formula.expression import Expression
from tests.proof.prover_support import formula_value, head_value, model_gap, points_in, random_network


def test_exp_is_within_four_units_of_roundoff() -> None:
    rng = np.random.default_rng(0)
    with precision(160):
        for low, high in ((-1.0, 1.0), (-40.0, 0.0), (-699.0, 0.0), (0.0, 600.0), (-1e-3, 1e-3)):
            x = rng.uniform(low, high, 800)
            for a, b in zip(x, exp_near(x), strict=True):
                assert float(abs(arb(float(b)) / arb(float(a)).exp() - 1).upper()) <= 4 * 2.0**-53


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_bernstein_range_contains_values(dim: int) -> None:
    rng = np.random.default_rng(dim)
    shape = basis(dim, 6)
    coefficients = rng.normal(size=(shape.size, 5)) * 10.0 ** rng.uniform(-3, 3, 5)
    lower, upper = polynomial_range(shape, coefficients)
    s = np.concatenate([rng.uniform(-1, 1, (300, dim)), np.sign(rng.normal(size=(20, dim)))])
    values = np.prod(s[:, None, :] ** shape.exponents, axis=2) @ coefficients
    assert np.all(values >= lower - 1e-12 * np.abs(values)) and np.all(values <= upper + 1e-12 * np.abs(values))


@pytest.mark.parametrize("seed", range(24))
def test_head_models_contain_the_head(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dim, order = int(rng.integers(1, 4)), int(rng.integers(1, 9))
    network = random_network(
        rng, dim, int(rng.integers(2, 60)), outputs=int(rng.integers(1, 3)), affine=bool(rng.integers(2)),
        hardness=10.0 ** rng.uniform(-1, 3), size=10.0 ** rng.uniform(-2, 5),
    )  # fmt: skip
    head = exact_heads(network, "sdpa")[0]
    box = network.box
    shape = basis(dim, order)
    radius = box.halfwidth * 10.0 ** rng.uniform(-5, -0.5)
    first = box.from_unit(rng.uniform(-0.5, 0.5, dim))
    centers = first + radius * 2 * rng.integers(-2, 3, (5, dim))
    with np.errstate(all="ignore"):
        radii = np.broadcast_to(radius, centers.shape)
        found = tokens_on_boxes(head, shape, centers, radii, [np.arange(5)], accuracy=10.0 ** rng.uniform(-12, -2))
    checked = 0
    with precision(200):
        for b in range(len(centers)):
            for point in points_in(rng, centers[b], radius, 2):
                values = head_value(head, point)
                for model, value in zip(found.models, values, strict=True):
                    if np.isfinite(model.remainder[b]):
                        gap = model_gap(model, b, centers[b], radius, point, value=value)
                        assert not gap > arb(float(model.remainder[b])), (gap, model.remainder[b])
                        checked += 1
            balls = network_models_in_balls([head], shape, centers[b], radius, 1e-9)
            for (coefficients, remainder), model in zip(balls, found.models, strict=True):
                model.coefficients[:, b] = coefficients
                model.remainder[b] = remainder
            for point in points_in(rng, centers[b], radius, 1):
                for model, value in zip(found.models, head_value(head, point), strict=True):
                    if np.isfinite(model.remainder[b]):
                        assert not model_gap(model, b, centers[b], radius, point, value=value) > arb(
                            float(model.remainder[b])
                        )
                        checked += 1
    assert checked > 0 or order < 3 or radius.max() > 1e-3


FORMULAS = [
    ("sin(3*x)", (-2, 2)), ("cos(x)**3 - x**5/7", (-2, 2)), ("tan(x)", (-1.4, 1.4)), ("asin(x)", (-0.99, 0.99)),
    ("acos(x)", (-0.99, 0.99)), ("atan(4*x)", (-3, 3)), ("sinh(x)*cosh(2*x)", (-2, 2)), ("tanh(3*x)", (-3, 3)),
    ("exp(-x**2)", (-3, 3)), ("log(x)", (0.01, 4)), ("sqrt(x)", (0.01, 4)), ("sqrt(1 + x)", (-1, 1)),
    ("erf(2*x)", (-2, 2)),
    ("1/(1 + 25*x**2)", (-1, 1)), ("x**-3", (0.2, 2)), ("x**2.5", (0.0, 2)), ("x**0.3", (0.0, 2)), ("x**pi", (0.1, 2)),
    ("2**x", (-3, 3)), ("e**(0.1*x)", (-3, 3)), ("abs(x - 0.3)", (-1, 1)), ("min(x, x**2)", (-1, 2)),
    ("max(0, sin(5*x))", (-1, 1)),
    ("where(x < 0.25, x**2, 0.0625 + 0.5*(x - 0.25))", (-1, 1)), ("sign(x)*x", (-1, 1)), ("exp(-800 + 3*x)", (-1, 1)),
    ("pi*x + 0.1 - 1/3", (-1, 1)), ("asin(x)", (-1, 1)), ("acos(x)", (-1, 1)), ("sqrt(1 - x**2)", (-1, 1)),
    ("x/x", (0.5, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "side"), FORMULAS)
def test_formula_models_contain_the_formula(text: str, side: tuple[float, float]) -> None:
    rng = np.random.default_rng(len(text))
    expression = Expression(text, ["x"])
    models = FormulaModels(expression)
    finite = 0
    for order in (1, 4, 12):
        shape = basis(1, order)
        width = (side[1] - side[0]) * 10.0 ** rng.uniform(-6, -0.31, 10) / 2
        centers = side[0] + width + rng.uniform(0, 1, 10) * (side[1] - side[0] - 2 * width)
        centers[0] = side[0] + width[0]
        centers[1] = side[1] - width[1]
        with np.errstate(all="ignore"):
            model = models(shape, centers[:, None], width[:, None])[0]
        with precision(200):
            for b in range(10):
                for point in points_in(rng, centers[b : b + 1], width[b : b + 1], 3):
                    if not side[0] <= point[0] <= side[1] or not np.isfinite(model.remainder[b]):
                        continue
                    finite += 1
                    value = formula_value(expression, point)[0]
                    gap = model_gap(model, b, centers[b : b + 1], width[b : b + 1], point, value=value)
                    assert not gap > arb(float(model.remainder[b])), (text, order, point, gap, model.remainder[b])
    assert finite > 60, f"{text}: only {finite} finite enclosures"


def test_formula_models_in_several_variables() -> None:
    rng = np.random.default_rng(5)
    expression = Expression("exp(-x*y)*sin(x + 2*y - z) + sqrt(2 + x*z), max(x, y)*z", ["x", "y", "z"])
    models = FormulaModels(expression)
    shape = basis(3, 6)
    centers, radii = rng.uniform(-1, 1, (20, 3)), 10.0 ** rng.uniform(-4, -0.5, (20, 3))
    with np.errstate(all="ignore"):
        found = models(shape, centers, radii)
    with precision(200):
        for b in range(20):
            for point in points_in(rng, centers[b], radii[b], 3):
                for model, value in zip(found, formula_value(expression, point), strict=True):
                    if value.is_finite() and np.isfinite(model.remainder[b]):
                        assert not model_gap(model, b, centers[b], radii[b], point, value=value) > arb(
                            float(model.remainder[b])
                        )
