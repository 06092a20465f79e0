"""The soundness benchmark in small: the code that `benchmarks/soundness.py` runs in full, and its ability to fail."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from flint import arb

from softwright.attention.head import Head
from softwright.attention.network import AttentionNetwork
from softwright.domain import Box
from softwright.proof.arithmetic.balls import precision
from softwright.proof.models.exact_heads import exact_heads
from softwright.targets.formula.expression import Expression

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"


@pytest.fixture
def soundness(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("soundness")


@pytest.fixture
def ascent(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("ball_ascent")


def test_random_networks_and_false_claims(soundness: ModuleType) -> None:
    networks, claims = soundness.random_networks(6, 3, 400, seed=3)
    assert networks.cases == 6 and "**0 violations**" in networks.finding
    assert claims.cases == 3 and "**0 proved**" in claims.finding


def test_mutated_certificates(soundness: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soundness, "FILES", [soundness.FILES[i] for i in (0, 2, 6, 8, 9)])
    (row,) = soundness.mutations(len(soundness.MUTATIONS), seed=1)
    assert row.cases == len(soundness.MUTATIONS) and "**0 accepted**" in row.finding


def test_float32_runs(soundness: ModuleType) -> None:
    (row,) = soundness.float32_runs(2000)
    assert "**0 violations**" in row.finding


def test_a_bound_that_is_a_little_too_small_is_seen(
    soundness: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A prover that claims 5 % too little must be caught: else the count of violations means nothing."""
    honest = soundness.certify

    class Lie:
        def __init__(self, found: Any) -> None:
            self.certificate, self.proved_bound = None, 0.95 * found.lower
            self.lower, self.witness, self.status, self.proved, self.bound = 0.0, (), "proved", True, found.bound

    monkeypatch.setattr(soundness, "certify", lambda *given, **options: Lie(honest(*given, **options)))
    (networks, claims) = soundness.random_networks(3, 3, 400, seed=3)
    assert "**3 violations**" in networks.finding and "**3 proved**" in claims.finding
    assert capsys.readouterr().out.count("VIOLATION in trial") == 3


def test_the_gradient_in_balls_is_that_of_the_error(soundness: ModuleType, ascent: ModuleType) -> None:
    for trial in range(6):
        rng = np.random.default_rng([9, trial])
        dim = 1 + trial % 3
        network, text = soundness.random_network(rng, dim), soundness.TARGETS[dim][0]
        error = ascent.BallError(exact_heads(network, "sdpa"), Expression(text, network.names))
        with precision(ascent.BITS):
            point, step = [arb(float(x)) for x in network.box.sample(1, trial)[0]], arb(2) ** -50
            value, gradient = error.at(point)
            for i in range(dim):
                there = [x + step if k == i else x for k, x in enumerate(point)]
                back = [x - step if k == i else x for k, x in enumerate(point)]
                slope = (error.at(there)[0] - error.at(back)[0]) / (2 * step)
                assert abs(slope - gradient[i]) <= abs(gradient[i]) * arb(2) ** -20 + arb(2) ** -60
        reference = soundness.exact_error(exact_heads(network, "sdpa"), Expression(text, network.names), _floats(point))
        assert math.isclose(float(abs(value)), reference, rel_tol=1e-14)


def _floats(point: list[Any]) -> np.ndarray:
    return np.array([float(x) for x in point])


def test_the_ascent_reaches_peaks_beyond_float64(ascent: ModuleType) -> None:
    """|0 - sin(3x)| peaks at pi/6 with the value 1, and its flat top has a width of 1e-8 in float64."""
    box = Box(x=(0, 1))
    nothing = AttentionNetwork([Head(np.zeros((1, 1)), np.zeros(1), np.zeros((1, 1)))], box)
    error = ascent.BallError(exact_heads(nothing, "sdpa"), Expression("sin(3*x)", box))
    peak = error.climb(np.array([0.4]), box.lower, box.upper)
    assert peak.error == 1.0 or math.isclose(peak.error, 1.0, rel_tol=1e-15)
    assert abs(peak.point[0] - math.pi / 6) < 1e-15 and 0 < peak.steps < ascent.STEPS


def test_the_ascent_stays_in_the_box_and_never_falls(soundness: ModuleType, ascent: ModuleType) -> None:
    for trial in range(8):
        rng = np.random.default_rng([4, trial])
        dim = 1 + trial % 3
        network = soundness.random_network(rng, dim)
        target = Expression(soundness.TARGETS[dim][-1], network.names)
        heads = exact_heads(network, "sdpa")
        start = network.box.sample(1, trial)[0]
        peak = ascent.BallError(heads, target).climb(start, network.box.lower, network.box.upper, 10)
        assert peak.error >= soundness.exact_error(heads, target, start) * (1 - 1e-15)
        assert network.box.contains(peak.point[None]).all()
