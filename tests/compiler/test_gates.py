"""The lemmas of gates, held against what gates really do, in high precision and in the types that run."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flint import arb, ctx

from softwright.compiler.gates import (
    LAMBERT,
    MaximumGate,
    chosen_product,
    exponential_gate,
    gate_rounding,
    product_gate,
    remainder,
    richardson,
)
from softwright.precision import PRECISIONS


def _sigma(x: arb) -> arb:
    return 1 / (1 + (-x).exp())


@pytest.fixture(autouse=True)
def many_digits():
    before = ctx.prec
    ctx.prec = 300
    yield
    ctx.prec = before


@pytest.mark.parametrize("heads", [1, 2, 3, 4])
@pytest.mark.parametrize("exponent", [1, 3, 6])
def test_the_truncation_of_a_product_is_below_its_bound_and_near_it(heads: int, exponent: int) -> None:
    angle = 2.0**-exponent
    if heads * angle > 1.5:
        pytest.skip("no such gate is made")
    worst = arb(0)
    for i in range(1, 101):
        x = arb(i) / 100
        total = sum(
            (
                c * 4 / (arb(angle) * q) * (_sigma(arb(angle) * q * x) - arb(1) / 2)
                for q, c in enumerate(richardson(heads), 1)
            ),
            arb(0),
        )
        worst = max(worst, abs(total - x).mid())
    bound = remainder(heads, angle)
    assert worst <= bound
    assert bound <= 3 * worst


def test_richardson_weights_cancel_even_powers() -> None:
    for heads in range(1, 5):
        weights = richardson(heads)
        assert abs(sum(weights, arb(0)) - 1) < 1e-60
        for k in range(1, heads):
            assert abs(sum((c * (q + 1) ** (2 * k) for q, c in enumerate(weights)), arb(0))) < 1e-50


def test_a_maximum_is_off_by_lamberts_constant_and_no_more() -> None:
    steps = np.linspace(0.5, 2.0, 20001)
    worst = np.max(steps / (1 + np.exp(steps)))  # relu(d) - sigma(d) d for d > 0, in units of 1/B
    assert worst <= LAMBERT <= worst * (1 + 1e-7)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("heads", [1, 3])
def test_rounded_products_stay_within_their_error(dtype: str, heads: int) -> None:
    precision = PRECISIONS[dtype]
    kind = precision.torch_dtype
    gate = product_gate(precision, heads, 4, 0.25, 1.5)
    rng = np.random.default_rng(3)
    u = torch.tensor(rng.uniform(-1.25, 1.75, 4000)).to(kind)
    z = torch.tensor(rng.uniform(-2, 2, 4000)).to(kind)
    total = torch.zeros(4000, dtype=torch.float64)
    for q, g in enumerate(gate.factors):
        score = ((u.double() - 0.25) * (gate.angle * (q + 1) / 1.5)).to(kind)
        weight = torch.softmax(torch.stack([score, torch.zeros_like(score)]), dim=0)[0]
        out = (weight * z * torch.tensor(g, dtype=kind)).double()
        # what the score was rounded by is charged elsewhere
        total += out - 0.5 * g * z.double()
        moved = score.double() - (u.double() - 0.25) * (gate.angle * (q + 1) / 1.5)
        total -= g * moved * 0.25 * z.double()
    error = (total - (u.double() - 0.25) * z.double()).abs()
    assert bool((error <= gate.error * z.double().abs() * 1.2 + 1e-15).all())


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_rounded_exponentials_stay_within_their_relative_error(dtype: str) -> None:
    precision = PRECISIONS[dtype]
    kind = precision.torch_dtype
    gate = exponential_gate(precision, -3.0, 2.0)
    assert gate is not None
    scores = (torch.linspace(-3.0, 2.0, 3001, dtype=torch.float64) - gate.shift).to(kind)
    weights = torch.softmax(torch.stack([scores, torch.zeros_like(scores)]), dim=0)[0]
    found = (weights * torch.tensor(gate.factor, dtype=kind)).double()
    wanted = torch.exp(scores.double() + gate.shift)
    assert float(((found - wanted) / wanted).abs().max()) <= gate.relative


def test_an_exponential_beyond_the_type_has_no_gate() -> None:
    assert exponential_gate(PRECISIONS["float64"], 0.0, 700.0) is None
    assert exponential_gate(PRECISIONS["float32"], -90.0, 0.0) is None


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_rounded_maxima_stay_within_their_error(dtype: str) -> None:
    precision = PRECISIONS[dtype]
    gate = MaximumGate(1024.0)
    d = torch.cat([torch.linspace(-0.02, 0.02, 5001), torch.linspace(-2, 2, 501)]).to(precision.torch_dtype)
    weight = torch.softmax(torch.stack([d * 1024.0, torch.zeros_like(d)]), dim=0)[0]
    error = ((weight * d).double() - d.double().clamp(min=0)).abs().max()
    assert float(error) <= gate.error(precision, 2.0, 0.0, 0.0)
    assert gate.error(precision, 2.0, 0.0, 0.0) <= 1.1 * LAMBERT / 1024 + 100 * precision.exp_error


def test_fewer_heads_are_taken_where_they_suffice() -> None:
    precision = PRECISIONS["float64"]
    heads = [chosen_product(precision, 0.0, 1.0, wanted, 0.0).heads for wanted in (1e-3, 1e-9, 1e-11, 1e-30)]
    assert heads == sorted(heads) and heads[0] == 1 and heads[-1] > 1
    assert gate_rounding(precision, 1, 0.5) < gate_rounding(precision, 4, 0.0)
