"""Few points run without the modules: the same sums, the weights of that moment, and nothing hidden from a hook."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from softwright.attention import AttentionNetwork, Head, evaluate
from softwright.attention.few_points import MOST_SCORES, few_points
from softwright.domain import Box
from tests.attention.random_heads import heads, rounding_slack, scattered_head, unit_points


def a_network(tokens: int = 12, dtype: torch.dtype = torch.float64) -> AttentionNetwork:
    rng = np.random.default_rng(3)
    return AttentionNetwork(
        [scattered_head(rng, 2, 1, tokens, affine=True, sharpness=3.0)], Box(x=(-1, 1), y=(0, 4)), dtype
    )


@given(st.data())
def test_it_is_the_network(data: st.DataObject) -> None:
    dim, outputs = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    parts = [data.draw(heads(dim=dim, outputs=outputs)) for _ in range(data.draw(st.integers(1, 3)))]
    network = AttentionNetwork(parts, Box.from_bounds(-np.ones(dim), np.ones(dim)))
    t = unit_points(dim)[:3]
    found = few_points(network, t)
    assert found is not None
    wanted = evaluate([Head(h.keys, h.biases, h.values, h.slopes) for h in network.heads()], t)
    assert np.abs(found - wanted).max() <= 4 * sum(rounding_slack(head) for head in parts)
    assert np.array_equal(network.evaluate(t), found)
    for shape in ((dim,), (1, 1, dim)):
        one = few_points(network, t[:1].reshape(shape))
        assert one is not None and one.shape == (*shape[:-1], outputs)


@pytest.mark.parametrize(("dim", "outputs"), [(1, 1), (2, 3), (3, 2)])
def test_many_points_of_few_tokens(dim: int, outputs: int) -> None:
    rng = np.random.default_rng(dim)
    parts = [scattered_head(rng, dim, outputs, 3, affine=bool(i), sharpness=30.0) for i in range(2)]
    network = AttentionNetwork(parts, Box.from_bounds(-np.ones(dim), np.ones(dim)))
    t = rng.uniform(-1, 1, (2, 4100, dim))
    found = few_points(network, t)
    assert found is not None and found.shape == (2, 4100, outputs)
    wanted = evaluate([Head(h.keys, h.biases, h.values, h.slopes) for h in network.heads()], t.reshape(-1, dim))
    assert np.abs(found.reshape(-1, outputs) - wanted).max() <= 4 * sum(rounding_slack(head) for head in parts)


def test_it_follows_every_change_of_a_weight() -> None:
    network = a_network()
    point = np.array([0.3, 1.0])
    first = network.evaluate(point)
    head = next(iter(network.layer))
    head.values.data.mul_(2.0)  # leaves no trace that a cache could see
    assert network.evaluate(point) != first
    head.values.data = head.values.data / 2.0
    assert np.allclose(network.evaluate(point), first, rtol=1e-14)
    head.values.requires_grad_(True)
    assert np.allclose(copy.deepcopy(network).evaluate(point), first, rtol=1e-14)


@pytest.mark.parametrize("path", ["", "layer", "layer.heads.0"])
def test_hooks_see_the_call(path: str) -> None:
    network = a_network()
    seen: list[object] = []
    network.get_submodule(path).register_forward_hook(lambda module, given, out: seen.append(out))
    network.evaluate(np.array([0.3, 1.0]))
    assert len(seen) == 1


def test_where_the_module_should_run() -> None:
    point = np.array([[0.3, 1.0]])
    assert few_points(a_network(dtype=torch.float32), point) is None
    assert few_points(a_network(MOST_SCORES + 1), point) is None
    assert few_points(a_network(), point[:, :1]) is None


def test_autocast_changes_nothing() -> None:
    network, point = a_network(), np.array([0.3, 1.0])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = network.evaluate(point)
    assert np.array_equal(inside, network.evaluate(point))
