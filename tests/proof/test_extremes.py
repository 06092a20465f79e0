"""Numbers at the ends of their range: overflow, underflow, infinite bounds. What was once proved falsely stays here."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.attention import AttentionNetwork
from softwright.attention.head import Axis, Head
from softwright.proof.models.exact_heads import exact_heads
from softwright.proof.models.overflow import largest_numbers, stays_finite
from softwright.proof.prover import certify
from softwright.result.outcome import Outcome

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"
HUGE = 3e38
LINE, PLANE = sw.Box(x=(-1, 1)), sw.Box(x=(-1, 1), y=(-1, 1))


def column(*values: float) -> np.ndarray:
    return np.array(values)[:, None]


def gates(size: float) -> Head:
    """abs(x - 1) = max(x - 1, 1 - x) on [-1, 1] behind gates of this steepness."""
    values, slopes = column(-1.0, 1.0), np.array([[[1.0]], [[-1.0]]])
    return Head(size * slopes[:, 0], size * values[:, 0], values, slopes, "gates")


def affine(value: float, slope: float) -> Head:
    return Head(np.zeros((1, 1)), np.zeros(1), column(value), np.full((1, 1, 1), slope))


def constants(*values: float) -> Head:
    return Head(np.zeros((len(values), 1)), np.zeros(len(values)), column(*values))


# name -> heads, box, target, a bound that was called proved
OVERFLOWING: dict[str, tuple[list[Head], sw.Box, str, float]] = {
    "gates": ([gates(HUGE)], LINE, "abs(x - 1)", 1e-3),
    "a slope and a value": ([affine(HUGE, HUGE)], LINE, f"{HUGE} + {HUGE}*x", 1e36),
    "values of two heads": ([constants(HUGE), constants(HUGE), constants(-HUGE)], LINE, f"{HUGE}", 1e33),
    "a sum of values": ([constants(*[HUGE] * 8)], LINE, f"{HUGE}", 1e33),
}


def run(network: AttentionNetwork, engine: str = "sdpa") -> np.ndarray:
    points = network.box.lower + (network.box.upper - network.box.lower) * np.linspace(0, 1, 201)[:, None]
    return network.evaluate(points, engine=engine)


@pytest.mark.parametrize("name", OVERFLOWING)
@pytest.mark.parametrize("engine", ["sdpa", "factorised"])
def test_a_run_that_overflows_is_never_proved(name: str, engine: str) -> None:
    heads, box, target, bound = OVERFLOWING[name]
    network = AttentionNetwork(heads, box, torch.float32)
    assert not np.isfinite(run(network)).all()
    questions: list[dict[str, Any]] = [{"bound": bound}, {"tightness": 0.1}, {"bound": bound, "norm": "L2"}]
    for question in questions:
        found = certify(network, target, engine=engine, **question)
        assert found.outcome is Outcome.OVERFLOW and found.status == "undecided" and found.certificate is None
        assert "overflow" in found.reason
    assert certify(AttentionNetwork(heads, box), target, bound=bound).proved  # float64 has room for it


def test_a_variable_that_no_head_looks_at_may_not_overflow() -> None:
    network = AttentionNetwork(
        [Head(np.zeros((1, 2)), np.zeros(1), np.ones((1, 1)))], sw.Box(x=(-1, 1), y=(-1e300, 1e300))
    )
    network.scale[1] = 1e99
    assert not np.abs(run(network) - 1).max() < 0.5
    assert certify(network, "1 + 0*x", bound=1e-3).outcome is Outcome.OVERFLOW
    network.scale[1] = 1e-300
    assert certify(network, "1 + 0*x", bound=1e-3).proved


def test_subnormal_inputs_are_charged_by_slopes() -> None:
    """On [-1e-42, 1e-42] t is subnormal; a slope of 3e38 makes its flushing visible, and its rounding too."""
    network = AttentionNetwork([affine(0.0, 1e37)], LINE, torch.float32)
    part = sw.Box(x=(-1e-42, 1e-42))
    x = np.arange(-700, 701)[:, None] * 2.0**-149
    torch.set_flush_denormal(True)
    try:
        flushed = np.abs(network.evaluate(x) - 1e37 * x).max()
    finally:
        torch.set_flush_denormal(False)
    assert flushed > 1e-7
    assert not certify(network, "1e37*x", bound=1e-9, domain=part).proved
    found = certify(network, "1e37*x", tightness=0.5, domain=part)
    assert found.proved and found.bound >= flushed


@pytest.mark.parametrize("steepness", [1e18, 1e20, 1e30, 1e37])
@pytest.mark.parametrize("question", [{"bound": 1e-3}, {"tightness": 0.1}, {"bound": 1e-3, "norm": "L2"}], ids=str)
@pytest.mark.parametrize("target", ["1", "max(x, 1)", "1 + 0*y"])
def test_infinite_bounds_leave_a_question_open(steepness: float, question: dict[str, Any], target: str) -> None:
    """Equal values behind keys so large that a score's rounding has no bound: an answer, never an OverflowError."""
    head = Head(np.array([[steepness, 0.0], [-steepness, steepness]]), np.zeros(2), np.ones((2, 1)))
    network = AttentionNetwork([head], PLANE, torch.float32)
    found = certify(network, target, max_seconds=5, max_boxes=500, **question)
    assert found.status in ("proved", "undecided")
    assert not found.proved or np.isfinite(run(network)).all()


def test_the_largest_number_of_a_run_is_not_underestimated() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        keys, biases, values, slopes = (rng.normal(0, 100, shape) for shape in ((5, 2), (5,), (5, 1), (5, 1, 2)))
        head = Head(keys, biases, values, slopes)
        box = sw.Box(x=(-3, 5), y=(100, 101))
        network = AttentionNetwork([head, head], box)
        heads = exact_heads(network, "sdpa")
        inputs, most = largest_numbers(heads, box)
        t = (box.sample(200) - network.center.numpy()) * network.scale.numpy()
        assert most >= np.abs(t @ keys.T + biases).max() and inputs >= 101
        assert most >= np.abs(values + np.einsum("nmd,qd->qnm", slopes, t)).sum(axis=1).max()
        assert stays_finite(heads, box)


def test_dropped_tokens_are_no_rounding() -> None:
    """What is left out of the model of far tokens follows the accuracy wanted; the rounding of the run does not."""
    step = 2.0 / 63
    centers = -1 + step * np.arange(64)
    axis = Axis(centers / (2 * step) ** 2, -(centers**2) / (2 * (2 * step) ** 2))
    network = AttentionNetwork([Head.on_grid([axis], np.sin(3 * centers)[:, None])], LINE)
    parts = [certify(network, "sin(3*x)", bound=bound).certificate for bound in (0.9, 0.6, 0.4)]
    assert all(part is not None and part.rounding_part < 1e-11 for part in parts)


def test_contrived_networks_are_not_proved_falsely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    answers, false = importlib.import_module("extremes").attack(40, 7, check=False)
    assert not false
    assert answers["proved"] >= 5 and answers["undecided"] + answers["refuted"] >= 5


# Once proved and not confirmed: exact parts of 0, weights that vanish, numbers beyond what proofs hold.
TINY: dict[str, tuple[str, tuple[float, float], dict[str, Any]]] = {
    "a constant behind a kink": ("relu(-18.8563/(x+5))/(-130.8259+2)", (0, 1), {}),
    "zero": ("0*x", (0, 1), {}),
    "zero in float32": ("min(x, 2) - x", (0, 1), {"dtype": "float32"}),
    "below a checker's resolution": ("1e-250*sin(3*x)", (0, 1), {}),
    "a number that is no normal one": ("1e-310*x", (0, 1), {}),
    "a factor that underflows": ("exp(-1000 - x)", (0, 1), {"strategy": "compose"}),
    "weights beyond proofs": ("x**2", (-1e-150, 1e-150), {"strategy": "compose"}),
    "the same in one layer": ("x**2", (-1e-150, 1e-150), {"strategy": "pieces"}),
}


@pytest.mark.parametrize("name", TINY)
def test_what_is_proved_of_tiny_numbers_is_verified(name: str, tmp_path: Path) -> None:
    text, side, options = TINY[name]
    try:
        built = sw.approximate(text, {"x": side}, progress=False, max_work=2, **options)
    except sw.InvalidInput as refused:
        assert "too much for float64" in str(refused)
        return
    if built.certificate is None:
        assert built.unproved
        return
    built.save(path := tmp_path / "tiny.safetensors")
    assert sw.verify(path).status == "VERIFIED"


def test_numbers_beyond_the_type_are_refused_before_any_work() -> None:
    for text, reach in (("x*1e150", 1.0), ("x/1e120", 1e120)):
        with pytest.raises(sw.InvalidInput, match="the end of float32; take dtype='float64' or other units"):
            sw.approximate(text, {"x": (0, reach)}, tol=1e-3, relative=True, dtype="float32", progress=False)
