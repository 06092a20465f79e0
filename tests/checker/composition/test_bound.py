"""Bounds hold what they bound: gates against their lemmas, features against their ranges, sums against what runs."""

from __future__ import annotations

import functools
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, ctx, fmpq

import softwright as sw
from softwright.checker.claims import read_claim
from softwright.checker.composition.adjoints import Forward, Network
from softwright.checker.composition.bound import Claimed, grid, prove_bound
from softwright.checker.composition.kinds.gates import Run, sigma
from softwright.checker.composition.kinds.product import Product, simplest
from softwright.checker.composition.program import Feature, Program, read_form, read_program
from softwright.checker.composition.rows import Columns, Row
from softwright.checker.composition.statement import bound_network, read_tables
from softwright.checker.composition.weights import Gate, read_weights
from softwright.checker.precision import precision_of
from softwright.checker.refusal import NotProvedError
from softwright.fileformat import read_model

CASES = {
    "max(x*y, 0.1) + exp(x)*y": sw.Box(x=(-1, 1), y=(-0.5, 1)),
    "sin(3*x)*cos(y - x)/(2 + x*y)": sw.Box(x=(-1, 1), y=(-1, 1)),
    "abs(x**2 + y**2 - 0.5) + z": sw.Box(x=(-1, 1), y=(-1, 1), z=(1, 9)),
}


@functools.cache
def bound(text: str, dtype: str) -> tuple[sw.Built[Any], Network]:
    """A built network, and the checker's view of it."""
    with TemporaryDirectory() as folder:
        built = sw.approximate(text, CASES[text], tol=3e-3, strategy="compose", dtype=dtype)
        built.save(path := Path(folder) / "m.safetensors")
        file = read_claim(read_model(path)).file
    said, precision = file.sections["certificate"], precision_of(dtype)
    program = read_program(said["parts"], said["variables"])
    groups, frames = read_tables(said["parts"]["tables"], program)
    weights = read_weights(file.tensors, program, groups, dtype)
    return built, bound_network(program, weights, frames, precision)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("text", CASES)
def test_ranges_columns_and_sums_hold_what_runs(text: str, dtype: str) -> None:
    built, network = bound(text, dtype)
    box, program = CASES[text], network.program
    lower, upper = grid(box.lower, box.upper, 60)
    flow = Forward(network, lower, upper)
    flow.run()
    sums = network.sums(lower, upper)
    assert not sums.trouble.any()
    share = np.random.default_rng(0).random((200, box.dim))
    for at in range(len(lower)):
        x = lower[at] + share * (upper[at] - lower[at])
        x = np.clip(x.astype(dtype).astype(float), lower[at], upper[at])
        columns = np.stack(list(built.network.columns(x).values()), axis=1)
        assert (np.abs(columns) <= flow.sizes[at] * (1 + 1e-12)).all()
        exact = built.source(x)
        assert (np.abs(built.network.evaluate(x) - exact) <= sums.all[at]).all()
        assert sums.real[at] <= sums.all[at]
    assert program.inputs == box.dim


def test_a_sum_below_what_is_seen_is_never_proved() -> None:
    text = "max(x*y, 0.1) + exp(x)*y"
    built, network = bound(text, "float64")
    box = CASES[text]
    seen = built.observed_error
    with pytest.raises(NotProvedError):
        prove_bound(network, box.lower, box.upper, Claimed(0.9 * seen, seen), lambda _: False, lambda _: None)


@pytest.mark.parametrize(("lower", "upper"), [((0.5, -1.0), (80.0, 1.0)), ((-9.0, 1e-9), (-1.0, 1.0))])
def test_boxes_cover_the_box(lower: tuple[float, ...], upper: tuple[float, ...]) -> None:
    a, b = grid(np.array(lower), np.array(upper), 300)
    assert 100 < len(a) <= 300
    assert (a < b).all()
    x = np.random.default_rng(0).random((2000, 2)) * (np.array(upper) - lower) + lower
    x[:4] = [(lower[0], lower[1]), (upper[0], upper[1]), (lower[0], upper[1]), (upper[0], lower[1])]
    inside = ((x[:, None] >= a) & (x[:, None] <= b)).all(axis=2)
    assert np.asarray(inside.sum(axis=1) > 0).all()


def product(score: str, value: str) -> dict[str, Any]:
    forms = {"score": score, "value": value, "base": "0", "function": ""}
    return {"name": "u1", "kind": "product", "layer": 1, **forms}


def gates_of(center: float, slopes: list[float], factors: list[float]) -> tuple[Product, list[Gate]]:
    """z (u - c) with u = x and z = y."""
    program = read_program(
        {
            "features": [product("x", "y")],
            "outputs": ["u1"],
            "tables": [],
        },
        ["x", "y"],
    )
    gates = [
        Gate(np.array([-a * center, a, 0.0, 0.0]), np.array([0.0, 0.0, 1.0, 0.0]), g)
        for a, g in zip(slopes, factors, strict=True)
    ]
    feature = program.features[0]
    return Product(feature, gates, Columns(2, 1), Run(precision_of("float64"), 4)), gates


@pytest.mark.parametrize("slopes", [[0.5], [0.25, 0.5], [0.1, 0.2, 0.3], [0.7, 0.2]])
def test_the_lemma_of_products_bounds_the_truth(slopes: list[float]) -> None:
    """Against balls, for the Richardson weights and for others, whatever they are good for."""
    rng = np.random.default_rng(len(slopes))
    for factors in ([4 / sum(slopes)] * len(slopes), list(rng.normal(size=len(slopes)) * 3)):
        kind, _ = gates_of(0.25, slopes, [float(g) for g in factors])
        assert kind.center == 0.25
        for reach in (0.1, 1.0, 2.0):
            bounded = float(kind.truncation(np.array([reach]))[0])
            worst = 0.0
            with ctx.workprec(200):
                for v in np.linspace(-reach, reach, 41):
                    got = sum(
                        (arb(g) * (sigma(arb(a) * float(v)) - 0.5) for a, g in zip(slopes, factors, strict=True)),
                        arb(0),
                    )
                    worst = max(worst, float(abs(arb(float(v)) - got).lower()))
            assert worst <= bounded
            assert bounded <= 1.5 * worst + 1e-12 or len(slopes) > 1


def test_the_lemma_of_products_holds_at_any_scale() -> None:
    """Scores in units a million times larger have the same error in these units."""
    for scale in (1e-6, 1.0, 1e6):
        kind, _ = gates_of(0.0, [0.25 / scale, 0.5 / scale], [16 / 0.75 * scale, -8 / 3 / 0.75 * scale])
        at = kind.truncation(np.array([scale]))[0] / scale
        assert at == pytest.approx(gates_of(0.0, [0.25, 0.5], [16 / 0.75, -8 / 3 / 0.75])[0].truncation(np.ones(1))[0])


def test_the_simplest_number_between_two() -> None:
    assert simplest(arb(-1), arb(2)) == 0
    assert simplest(arb("0.3"), arb("0.6")) == fmpq(1, 2)
    assert simplest(arb("-5.1"), arb("-4.9")) == -5
    assert simplest(arb("1e20"), arb("2e20")) > 0


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_gates_round_as_little_as_is_said(dtype: str) -> None:
    """torch's own attention over two tokens against balls."""
    precision = precision_of(dtype)
    base, slope = Run(precision, 1).error(1)
    a = torch.linspace(-30, 30, 4001, dtype=getattr(torch, dtype))
    z = torch.full_like(a, 1.37)
    keys = torch.stack([torch.ones_like(a), torch.zeros_like(a)], dim=1)[:, :, None]
    values = torch.stack([z, torch.zeros_like(z)], dim=1)[:, :, None]
    out = torch.nn.functional.scaled_dot_product_attention(a[:, None, None], keys, values, scale=1.0)[:, 0, 0]
    with ctx.workprec(200):
        for got, x, y in zip(*(part.double().tolist()[::50] for part in (out, a, z)), strict=True):
            weight = sigma(arb(x))
            allowed = (base + slope * (1 - weight)) * weight * arb(y)
            assert abs(arb(got) - weight * arb(y)) <= allowed


def test_squares_are_enclosed_as_squares() -> None:
    """x**2 - x over [0, 1] from its features: at least -1/4, at most 0."""
    parts = {
        "features": [product("x", "x")],
        "outputs": ["u1 - x"],
        "tables": [],
    }
    program: Program = read_program(parts, ["x"])
    feature: Feature = program.features[0]
    assert feature.is_square
    gate = Gate(np.array([0.0, 1.0, 0.0]), np.array([0.0, 1.0, 0.0]), 4.0)
    kind = Product(feature, [gate], Columns(1, 1), Run(precision_of("float64"), 1))
    network = Network(program, [kind], [], precision_of("float64").largest)
    flow = Forward(network, np.array([[0.0]]), np.array([[1.0]]))
    flow.run()
    found = flow.range(read_form("u1 - x", ["x", "u1"]))
    assert -0.2500001 < found.lower[0] <= -0.25
    assert 0.0 <= found.upper[0] < 1e-9


def test_rows_that_may_overflow_are_not_bounded() -> None:
    """A gate's score may be too large for its type though its column is not."""
    precision = precision_of("float32")
    row = Row.of({1: arb(2) ** 90}, np.array([0.0, 2.0**90]), precision)
    small, large = np.array([[1.0, 2.0**20]]), np.array([[1.0, 2.0**30]])
    assert np.isfinite(row.rounded(small)).all()
    assert np.isinf(row.rounded(large)).all()
    assert row.lost(large)[0] < 1e-200
