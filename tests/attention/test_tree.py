"""Engine "tree": within its proved bound of the exact head, on any keys, compiled or not."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softwright.attention import AttentionNetwork, Head, tree
from softwright.attention.tree import tree_bound, tree_of
from softwright.attention.window_numba import available
from softwright.domain import Box
from tests.attention.test_window import exactly, points, unit_network


def places(tokens: int, dim: int, width: float, affine: bool = False, seed: int = 0) -> Head:
    """Tokens at places of the box, each with the same width."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-1.1, 1.1, (tokens, dim))
    beta = width**-2
    slopes = rng.normal(size=(tokens, 2, dim)) if affine else None
    return Head(beta * centres, -0.5 * beta * (centres**2).sum(axis=1), rng.normal(size=(tokens, 2)), slopes).centred()


def off(network: AttentionNetwork, t: np.ndarray) -> float:
    return float(np.abs(network.evaluate(t, engine="tree") - exactly(network.heads()[0], t)).max())


@pytest.fixture(params=[False, True], ids=["plain", "compiled"], autouse=True)
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param and not available():
        pytest.skip("numba is not installed")
    monkeypatch.setattr(tree, "available", lambda: request.param)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("tokens, dim, width", [(1, 1, 1.0), (70, 2, 0.1), (9000, 2, 0.02), (5000, 3, 0.05)], ids=str)
def test_within_the_proved_bound(tokens: int, dim: int, width: float, affine: bool) -> None:
    network = unit_network(places(tokens, dim, width, affine))
    assert off(network, points(dim)) <= network.tree_error() < 1e-7


@settings(max_examples=20)
@given(st.data())
def test_any_keys(data: st.DataObject) -> None:
    """Scores that are no paraboloid, hard or soft, and as high as they come: blocks prune little and never wrongly."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    tokens, dim = data.draw(st.integers(1, 700)), data.draw(st.integers(1, 4))
    sharpness = data.draw(st.sampled_from([0.0, 0.3, 30.0, 3000.0, 1e6]))
    keys = sharpness * rng.normal(size=(tokens, dim))
    biases = data.draw(st.sampled_from([-1.0, 0.0, 1.0, 3.0])) * (keys**2).sum(axis=1) / max(sharpness, 1.0)
    network = unit_network(Head(keys, biases + rng.normal(size=tokens), rng.normal(size=(tokens, 1))))
    assert off(network, points(dim, 20)) <= network.tree_error()


def test_blocks_are_left_out_and_bounds_hold() -> None:
    """No token of a block scores above its bound at any point, and few blocks are within reach of the largest."""
    head = places(20_000, 2, 0.01)
    made = tree_of(next(iter(unit_network(head).layer)))
    t = points(2, 40)
    scores = np.einsum("qd,bdn->qbn", t, made.keys) + made.biases
    tau = ((t + made.origin) / (2 * made.gamma))[:, None, :, None]
    bounds = tree._bounds(made, tau, made.low, made.high, made.level).reshape(len(t), -1)
    assert (scores.max(axis=2) <= bounds + 1e-6).all()
    assert (bounds >= scores.max(axis=(1, 2))[:, None] - made.depth).mean() < 0.05


def test_a_changed_weight_is_seen_and_copies_are_apart() -> None:
    network = unit_network(places(300, 2, 0.1))
    t = points(2)
    off(network, t)
    other = copy.deepcopy(network)
    next(iter(other.layer)).values.data += 1.0  # which torch's counters of versions do not notice
    assert off(other, t) <= other.tree_error()
    assert off(network, t) <= network.tree_error()


def test_outside_the_box_gradients_and_float32_take_the_plain_path() -> None:
    network = unit_network(places(500, 2, 0.1))
    far = np.array([[1.5, 0.0], [0.2, 0.3], [np.nan, 0.0]])
    assert np.allclose(network.evaluate(far, engine="tree"), network.evaluate(far), atol=1e-9, equal_nan=True)
    x = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
    network(x, engine="tree").sum().backward()
    assert x.grad is not None
    single = unit_network(places(500, 2, 0.1), torch.float32)
    t = points(2).astype(np.float32).astype(float)
    assert off(single, t) <= single.tree_error() < 1e-5


def test_truncation_and_rounding_are_told_apart_and_useless_bounds_are_infinite() -> None:
    head = next(iter(unit_network(places(2000, 2, 0.05)).layer))
    bound = tree_bound(head, 2.0**-53)
    assert 0 < bound.truncation < bound.rounding < 1e-8
    sharp = AttentionNetwork([places(50, 1, 1e-9)], Box(x=(-1, 1)))
    assert sharp.tree_error() == np.inf
