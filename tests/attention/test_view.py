"""Views of attention: the same numbers as the network's, in the user's coordinates, and names that say what is so."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import softwright as sw
from softwright.attention import AttentionNetwork, Axis, Head
from softwright.attention.head import softmax_rows
from softwright.attention.token_names import affine_text, leading_intervals
from softwright.attention.view import MOST_WEIGHTS
from tests.contracts.kinds_made import MADE

_RNG = np.random.default_rng(0)
_PROMPT = {"x": _RNG.normal(size=(6, 2)), "y": _RNG.normal(size=6), "queries": _RNG.normal(size=(2, 2))}
_ASKED: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "approximation": ((), {"x": np.linspace(-1, 1, 5)}),
    "memory": (([[1, 2], [3]],), {}),
    "transpiled": ((_RNG.normal(size=(4, 2)),), {}),
    "in_context": ((), _PROMPT),
}


@pytest.mark.parametrize("kind", _ASKED)
def test_weights_are_the_softmax_of_keys_and_inputs(kind: str) -> None:
    given, named = _ASKED[kind]
    view = MADE[kind]().attention(*given, **named)
    assert view.heads
    for head in view.heads:
        assert head.weights.shape == (len(view.asked), len(head.tokens))
        assert len(head.keys) == len(head.biases) == len(head.values) == len(head.tokens)
        assert np.allclose(head.weights.sum(axis=1), 1.0)
        assert np.allclose(softmax_rows(head.inputs @ head.keys.T + head.biases), head.weights, atol=1e-9)
    assert repr(view).startswith("Attention at ")


@pytest.mark.parametrize("kind", ["theorem", "transpiled_module"])
def test_kinds_without_a_view_say_what_to_call(kind: str) -> None:
    with pytest.raises(sw.InvalidInput, match=r"built\.network"):
        MADE[kind]().attention(np.zeros((1, 2)))


def test_a_feed_forward_readout_attends_to_nothing() -> None:
    built = sw.memorize([[1, 2], [2, 1]], ["a", "b"], readout="feedforward")
    with pytest.raises(sw.InvalidInput, match="recall"):
        built.attention([[1, 2]])


def _head(rng: np.random.Generator, tokens: int, dim: int, affine: bool) -> Head:
    slopes = rng.normal(size=(tokens, 2, dim)) if affine else None
    return Head(rng.normal(size=(tokens, dim)) * 4, rng.normal(size=tokens), rng.normal(size=(tokens, 2)), slopes)


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 3), st.booleans())
def test_weights_times_values_are_the_network(seed: int, tokens: int, dim: int, affine: bool) -> None:
    rng = np.random.default_rng(seed)
    box = sw.Box.from_bounds(rng.uniform(-30, 0, dim), rng.uniform(1, 40, dim))
    network = AttentionNetwork([_head(rng, tokens, dim, affine), _head(rng, 3, dim, False)], box)
    points = box.sample(7)
    view = network.attention(points)
    total = np.zeros((7, 2))
    for head in view.heads:
        total += np.stack([head.weights[i] @ head.values_at(i) for i in range(7)])
        assert np.allclose(softmax_rows(points @ head.keys.T + head.biases), head.weights, atol=1e-9)
        assert len(head.tokens) == len(head.keys)
    assert np.abs(total - network.evaluate(points)).max() < 1e-9


@given(arrays(float, 5, elements=st.integers(-4, 4)), arrays(float, 5, elements=st.integers(-9, 9)))
def test_leading_intervals_are_the_upper_envelope(slopes: np.ndarray, offsets: np.ndarray) -> None:
    intervals = leading_intervals(slopes, offsets, -10.0, 10.0)
    for s in np.linspace(-9.97, 9.93, 41):
        heights = slopes * s + offsets
        inside = [j for j, part in enumerate(intervals) if part is not None and part[0] < s < part[1]]
        assert len(inside) <= 1
        for j in inside:
            assert heights[j] >= heights.max() - 1e-9
    covered = sum(part[1] - part[0] for part in intervals if part is not None)
    assert covered == pytest.approx(20.0)


def test_pieces_are_called_after_their_parts_of_the_domain() -> None:
    built = sw.approximate("where(h < 11, 2*h, where(h < 20, 22, 42 - h))", sw.Box(h=(0, 30)), tol=1e-2)
    (head,) = built.attention(h=14.5).heads
    assert sorted(head.tokens) == ["piece 1: 0 <= h <= 11", "piece 2: 11 <= h <= 20", "piece 3: 20 <= h <= 30"]
    name, weight = head.strongest()[0]
    assert name == "piece 2: 11 <= h <= 20"
    assert weight > 0.999
    assert np.allclose(head.values_at()[head.tokens.index(name)], 22.0)


def test_pieces_along_a_direction_and_pieces_of_a_polyhedron() -> None:
    box = sw.Box(x=(-1, 2), y=(0, 1))
    (ridge,) = sw.approximate("abs(x + 2*y)", box, tol=1e-3).attention(x=0.0, y=0.5).heads
    assert sorted(ridge.tokens) == ["piece 1: -1 <= x + 2*y <= 0", "piece 2: 0 <= x + 2*y <= 4"]
    (facets,) = sw.approximate("max(x, y, 0.5)", box, tol=1e-3).attention(x=0.0, y=0.9).heads
    assert {name.split(": ")[1] for name in facets.tokens} == {"x", "y", "0.5"}
    assert facets.strongest()[0][0].endswith(": y")


def test_keys_that_are_places_are_called_after_them() -> None:
    places = np.array([[-0.9, 0.2], [0.1, 0.3], [0.5, -0.7], [0.8, 0.9], [-0.3, -0.4], [0.0, 0.6]])
    widths = np.array([0.3, 0.2])
    box = sw.Box(x=(9, 11), y=(-3, -1))
    head = Head(places / widths, -(places**2 / widths / 2).sum(axis=1), np.zeros((6, 1))).centred()
    (view,) = AttentionNetwork([head], box).attention(x=10.0, y=-2.0).heads
    assert view.tokens[1] == "(x, y) = (10.1, -1.7)"
    found = [tuple(map(float, re.findall(r"-?[\d.]+", name))) for name in view.tokens]
    assert np.allclose(found, box.from_unit(places), atol=6e-3)


@pytest.mark.parametrize("grid", [True, False])
def test_other_keys_are_called_after_their_greatest_weight(grid: bool) -> None:
    axis = Axis(np.array([-6.0, -1.0, 1.5, 7.0]), np.array([-3.0, 0.0, 0.4, -4.0]))
    head = Head.on_grid([axis], np.zeros((4, 1))) if grid else Head(axis.keys[:, None], axis.biases, np.zeros((4, 1)))
    (view,) = AttentionNetwork([head], sw.Box(x=(0, 4))).attention(x=1.0).heads
    t = np.linspace(-1, 1, 100_001)
    wanted = 2 + 2 * t[axis.weights(t).argmax(axis=0)]
    found = [float(name.removeprefix("near x = ")) for name in view.tokens]
    assert np.allclose(found, wanted, atol=2e-3)


def test_what_is_said_of_idle_heads() -> None:
    one = Head(np.zeros((1, 2)), np.zeros(1), np.ones((1, 1)))
    same = Head(np.zeros((2, 2)), np.zeros(2), np.ones((2, 1)))
    first, second = AttentionNetwork([one, same], sw.Box(x=(0, 1), y=(0, 1))).attention(x=0.5, y=0.5).heads
    assert list(first.tokens) == ["always"]
    assert all("everywhere" in name for name in second.tokens)


def test_float32_networks_have_the_same_names() -> None:
    names = [
        list(sw.approximate("abs(x - 3)", sw.Box(x=(0, 10)), tol=1e-3, dtype=dtype).attention(x=1.0).heads[0].tokens)
        for dtype in ("float64", "float32")
    ]
    assert names[0] == names[1] == ["piece 1: 0 <= x <= 3", "piece 2: 3 <= x <= 10"]


def test_affine_functions_in_words() -> None:
    box = sw.Box(x=(-1, 1), y=(0, 2))
    assert affine_text(0.0, np.array([2.0, -1.0]), box.names, box) == "2*x - y"
    assert affine_text(-3.0, np.array([1e-13, 0.5]), box.names, box) == "-3 + 0.5*y"
    assert affine_text(0.0, np.zeros(2), box.names, box) == "0"


def test_wrong_questions_name_the_remedy() -> None:
    built = MADE["approximation"]()
    with pytest.raises(sw.InvalidInput, match="give every one of x"):
        built.attention(z=1.0)
    with pytest.raises(sw.InvalidInput, match="got shape"):
        built.attention(np.zeros((3, 2)))
    with pytest.raises(sw.InvalidInput, match="or fewer"):
        built.attention(np.zeros((MOST_WEIGHTS // 2 + 1, 1)))
    assert "no point" in repr(built.attention(np.zeros((0, 1))))


def test_a_variable_called_engine_is_a_variable() -> None:
    network = AttentionNetwork([Head(np.zeros((1, 1)), np.zeros(1), np.ones((1, 1)))], sw.Box(engine=(0, 1)))
    assert network.evaluate(engine=0.5) == 1.0
    assert network.dtype == torch.float64
