"""Compiled networks: what runs, what was proved of it, and that a run never contradicts a proof."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.approximation.composed import described_heads
from softwright.compiler.adjoints import box_grid
from softwright.compiler.build import Compiled, compile_formula
from softwright.compiler.layout import network_of
from softwright.compiler.look import contradiction, gate_points
from softwright.compiler.nodes import Expression
from softwright.compiler.tables import frame_of
from softwright.errors import ContradictedProof
from softwright.precision import precision_of

SQUARE = {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}
ROWS = [
    ("abs(x**2 + y**2 - 0.5)", SQUARE, 1e-8, "float64"),
    ("max(sin(3*x), cos(2*y))*exp(x)", SQUARE, 1e-6, "float64"),
    ("x/(2 + y)*sqrt(3 + x*y)", SQUARE, 1e-7, "float64"),
    ("-log(3 - abs(x - y)), x*y*(x + y)", SQUARE, 1e-6, "float64"),
    ("max(x*y, 0.1)", SQUARE, 1e-3, "float32"),
    ("sin(2*x)*y + cos(y)", SQUARE, 2e-3, "float32"),
]


def _compiled(text: str, sides: dict[str, tuple[float, float]], tol: float, dtype: str) -> tuple[Compiled, Expression]:
    box = sw.Box(sides)
    expression = Expression(text, box)
    return compile_formula(expression, box, tol, precision_of(dtype)), expression


@pytest.fixture(scope="module", params=ROWS, ids=[f"{row[0]} ({row[3]})" for row in ROWS])
def row(request: pytest.FixtureRequest) -> tuple[Compiled, Expression]:
    return _compiled(*request.param)


def test_the_bound_is_met_and_no_run_exceeds_it(row: tuple[Compiled, Expression]) -> None:
    compiled, expression = row
    assert compiled.proved
    network, box = network_of(compiled), compiled.box
    points = np.concatenate([box.sample(20_000, seed=8), box.corners(), gate_points(compiled, 200, seed=17)])
    cast = points.astype(compiled.precision.name).astype(float)
    cast = cast[box.contains(cast)]
    error = np.abs(network.evaluate(cast) - expression(cast)).max()
    assert error <= compiled.proof.bound
    assert compiled.proof.rounding <= compiled.proof.bound


def test_three_ways_of_running_it_agree(row: tuple[Compiled, Expression]) -> None:
    compiled, _ = row
    network = network_of(compiled)
    x = torch.tensor(compiled.box.sample(64, seed=4)).to(network.dtype)
    ways = [network(x), network.whole_sequence(x), network.multihead(x)]
    scale = compiled.tolerance
    assert all(float((way - ways[0]).abs().max()) <= 0.3 * scale for way in ways)


def test_a_gate_is_attacked_at_its_own_scale() -> None:
    compiled, expression = _compiled("abs(x**2 + y**2 - 0.5)", SQUARE, 1e-6, "float64")
    network = network_of(compiled)
    at_gates = gate_points(compiled, 100)
    assert len(at_gates) > 100
    worst = np.abs(network.evaluate(at_gates) - expression(at_gates)).max()
    random = compiled.box.sample(len(at_gates), seed=2)
    assert worst > 100 * np.abs(network.evaluate(random) - expression(random)).max()  # where random points miss it
    assert 0.5 * compiled.proof.bound <= worst <= compiled.proof.bound


def test_a_false_bound_is_contradicted() -> None:
    compiled, expression = _compiled("abs(x**2 + y**2 - 0.5)", SQUARE, 1e-6, "float64")
    network = network_of(compiled)
    points = gate_points(compiled, 100)
    worst = points[np.abs(network.evaluate(points) - expression(points)).max(axis=1).argmax()]
    contradiction(compiled, expression, worst, network.evaluate(worst[None])[0])
    lied = replace(compiled, proof=replace(compiled.proof, bound=0.4 * compiled.proof.bound))
    with pytest.raises(ContradictedProof):
        contradiction(lied, expression, worst, network.evaluate(worst[None])[0])


def test_layers_are_read_by_name() -> None:
    compiled, _ = _compiled("abs(x**2 + y**2 - 0.5)", SQUARE, 1e-6, "float64")
    network = network_of(compiled)
    columns = network.columns(np.array([[0.5, -0.25]]))
    assert [text for text in columns if text.startswith("u")] == list(network.features[3:])
    assert any("x**2" in text for text in columns)
    view = network.attention(x=0.5, y=-0.25)
    assert len(view.heads) == network.heads
    assert network.tokens == compiled.heads.tokens


def test_memory_is_bounded_by_chunks_and_shapes_are_kept() -> None:
    compiled, _ = _compiled("x*y*(x + y)", SQUARE, 1e-6, "float64")
    network = network_of(compiled)
    x = torch.tensor(compiled.box.sample(12, seed=1)).reshape(3, 4, 2)
    assert network(x).shape == (3, 4, 1)
    assert torch.equal(network(x).reshape(-1, 1), network(x.reshape(-1, 2)))
    assert network(x[:0]).shape == (0, 4, 1)
    for wrong in (x[..., :1], x.float()):
        with pytest.raises(sw.InvalidInput):
            network(wrong)


def test_more_variables_cost_no_more_than_their_terms() -> None:
    names = [f"x{i}" for i in range(1, 13)]
    text = "+".join(f"sin({a}*{b})" for a, b in pairwise(names))
    compiled, expression = _compiled(text, dict.fromkeys(names, (-1.0, 1.0)), 1e-5, "float64")
    assert compiled.proved
    assert compiled.heads.tokens < 11 * 14
    points = compiled.box.sample(4000, seed=6)
    assert np.abs(network_of(compiled).evaluate(points) - expression(points)).max() <= compiled.proof.bound


def test_boxes_cover_the_domain() -> None:
    box = sw.Box(x=(0.1, 40.0), y=(-1.0, 2.0), z=(-3.0, -1.0))
    lower, upper = box_grid(box, 300)
    assert len(lower) <= 300
    points = box.sample(500, seed=2)
    assert all(bool(((lower <= p) & (p <= upper)).all(axis=1).any()) for p in points)
    assert np.isclose((upper - lower).prod(axis=1).sum(), (box.upper - box.lower).prod())


@pytest.mark.parametrize(("low", "high"), [(1.0, 3.0), (-1e-3, 1e-3), (100.0, 5e4), (-7.25, -7.0), (1e-6, 2e-6)])
def test_frames_cover_their_range_with_short_numbers(low: float, high: float) -> None:
    slack = 0.01 * (high - low)
    frame = frame_of(low, high, low - slack, high + slack)
    assert low - slack <= frame.low < low and high < frame.high <= high + slack
    assert 0 < frame.slack(low, high) <= slack


@pytest.mark.parametrize("text", ["x**y/(2**y + x**y)", "1/(exp(3*x*y) - 1)"])
def test_sums_that_span_decades_are_proved_and_verified(text: str, tmp_path: Path) -> None:
    built = sw.approximate(text, {"x": (0.01, 10.0), "y": (1.0, 4.0)}, tol=1e-3, relative=True, strategy="compose")
    assert built.certificate is not None
    built.save(tmp_path / "wide.safetensors")
    assert sw.verify(tmp_path / "wide.safetensors").verified


@pytest.mark.parametrize("text, tol", [("log(x)*y", 1e-6), ("y*sqrt(x)/(3*x)", 1.0)])
def test_an_input_over_many_decades_keeps_its_digits(text: str, tol: float, tmp_path: Path) -> None:
    box = sw.Box(x=(1e-6, 1e4), y=(0.0, 1.0))
    built = sw.approximate(text, box, tol=tol, strategy="compose", progress=False)
    points = np.stack([np.geomspace(1e-6, 1e4, 20_001).clip(1e-6, 1e4), np.resize([1.0, 0.9, 0.01], 20_001)], axis=1)
    assert built.certificate is not None
    assert np.abs(built(points) - Expression(text, box)(points)).max() <= built.certificate.bound <= tol
    built.save(path := tmp_path / "decades.safetensors")
    assert sw.verify(path).status == "VERIFIED"


def test_heads_of_a_stack_without_a_proof_have_no_share(row: tuple[Compiled, Expression]) -> None:
    compiled, _ = row
    lost = replace(compiled.proof, shares=dict.fromkeys(compiled.proof.shares, np.inf))
    shares = [head["share"] for head in described_heads(replace(compiled, proof=lost))]
    assert shares and set(shares) == {None}  # infinity is no number that a file can hold
