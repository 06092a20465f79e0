"""Few points run without the modules: the same sums, the weights of that moment, and nothing hidden from a hook."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from softwright.attention import AttentionNetwork, Head, evaluate
from softwright.attention.few_points import MOST_SCORES, few_points, module_at_one_point
from softwright.attention.layer import SoftmaxHead
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
    assert few_points(network, t) is None  # the modules, with tokens as rows
    found = network.evaluate(t)
    assert found.shape == (2, 4100, outputs)
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
    network(torch.tensor([0.3, 1.0], dtype=torch.float64))
    assert len(seen) == 2


def test_where_the_module_should_run() -> None:
    point = np.array([[0.3, 1.0]])
    assert few_points(a_network().to(torch.bfloat16), point) is None
    assert few_points(a_network(5, torch.float32), np.zeros((MOST_SCORES, 2))) is None
    assert few_points(a_network(MOST_SCORES + 1), point) is None
    assert few_points(a_network(), point[:, :1]) is None


def test_autocast_changes_nothing() -> None:
    network, point = a_network(), np.array([0.3, 1.0])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = network.evaluate(point)
    assert np.array_equal(inside, network.evaluate(point))


POINT = (0.3, 1.0)


def at_once(network: AttentionNetwork, engine: str) -> torch.Tensor:
    """The same point by the modules: in the company of itself it is no single one."""
    return network(torch.tensor([POINT, POINT], dtype=network.dtype), engine=engine)[0]


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_module_at_one_point(dim: int, affine: bool) -> None:
    rng = np.random.default_rng(dim)
    parts = [scattered_head(rng, dim, 2, 9, affine=affine, sharpness=5.0) for _ in range(2)]
    double = AttentionNetwork(parts, Box.from_bounds(np.full(dim, -0.7), np.full(dim, 2.1)))
    single = copy.deepcopy(double).float()
    exact = copy.deepcopy(single).double()  # the float32 numbers
    point = torch.tensor(rng.uniform(-0.7, 2.1, dim), dtype=torch.float32)
    for shape in ((dim,), (1, dim), (1, 1, dim)):
        x = point.reshape(shape)
        found, wanted = single(x, engine="sdpa"), exact(x.double())
        assert found.dtype == torch.float32 and found.shape == wanted.shape == (*shape[:-1], 2)
        assert torch.equal(found, wanted.float()) and torch.equal(found, single(x, engine="double"))
        assert np.array_equal(single.evaluate(x.numpy()), found.double().numpy())
        assert np.array_equal(exact.evaluate(x.numpy()), wanted.numpy())
    two = exact(torch.stack([point, point]).double())
    assert torch.allclose(two[0], exact(point.double()), rtol=0, atol=4 * sum(rounding_slack(head) for head in parts))


def test_the_module_at_one_point_is_differentiated_traced_and_batched() -> None:
    network = a_network()
    x = torch.tensor(POINT, dtype=torch.float64)
    slope = torch.func.jacrev(network)(x)
    asked = x.clone().requires_grad_(True)
    assert torch.allclose(torch.autograd.grad(network(asked), asked)[0], slope[0])
    assert slope.abs().max() > 0
    assert torch.allclose(torch.func.vmap(network)(x[None]), network(x[None]))
    with forward_ad.dual_level():
        assert module_at_one_point(network, x) is None
    assert module_at_one_point(network, x) is not None
    other = torch.tensor([-0.5, 3.0], dtype=torch.float64)
    assert not torch.allclose(network(other), network(x))
    assert torch.allclose(make_fx(network)(x)(other), network(other))
    for name in ("values", "slopes"):
        learning = copy.deepcopy(network)
        getattr(next(iter(learning.layer)), name).requires_grad_(True)
        assert learning(x).requires_grad and np.array_equal(learning.evaluate(POINT), network.evaluate(POINT))
        with torch.no_grad():
            assert torch.equal(learning(x), network(x)) and not learning(x).requires_grad


def _replaced(network: AttentionNetwork) -> None:
    class Doubled(SoftmaxHead):
        def forward(self, t: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(t)

    network.layer.heads[0] = Doubled(network.heads()[0])


def _own_forward(network: AttentionNetwork) -> None:
    head = next(iter(network.layer))
    head.forward = lambda t: 2 * SoftmaxHead.forward(head, t)  # type: ignore[method-assign]


def _computed(network: AttentionNetwork) -> None:
    class Twice(torch.nn.Module):
        def forward(self, given: torch.Tensor) -> torch.Tensor:
            return 2 * given

    head = next(iter(network.layer))
    head.values.mul_(2.0)
    torch.nn.utils.parametrize.register_parametrization(head, "slopes", Twice())


def _written(network: AttentionNetwork) -> None:
    head = next(iter(network.layer))
    with torch.no_grad():
        head.values.mul_(2.0)
        head.slopes.mul_(2.0)  # pyright: ignore[reportOptionalMemberAccess]


def _plain(network: AttentionNetwork) -> None:
    head = next(iter(network.layer))
    for name in ("values", "slopes"):
        doubled = 2 * getattr(head, name).data
        delattr(head, name)
        setattr(head, name, doubled)


@pytest.mark.parametrize("change", [_replaced, _own_forward, _computed, _written, _plain])
@pytest.mark.parametrize("engine", ["sdpa", "double"])
def test_what_a_user_put_into_the_network_runs(change: Callable[[AttentionNetwork], None], engine: str) -> None:
    network = a_network()
    network.engine = engine
    x = torch.tensor(POINT, dtype=torch.float64)
    before = network(x).item()
    change(network)
    for found in (network(x).item(), network.evaluate(x=POINT[0], y=POINT[1]).item(), at_once(network, engine).item()):
        assert found == pytest.approx(2 * before, rel=1e-13)


def test_a_head_of_another_type_runs_as_its_module_does() -> None:
    network = a_network()
    next(iter(network.layer)).float()
    x = torch.tensor(POINT, dtype=torch.float64)
    assert few_points(network, x.numpy()) is None
    assert network(x).item() == pytest.approx(at_once(network, "sdpa").item(), rel=1e-13)
