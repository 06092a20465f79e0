"""One point of a stack runs without the module: the same function, within the bound, and nothing hidden from a hook."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import softwright as sw
from softwright.attention.composition import ComposedNetwork
from softwright.attention.one_point_of_stacks import stack_at_one_point, stack_of_array

BOX = sw.Box(x=(-1, 1), y=(-2, 1))
TEXTS = ("x*y - exp(-x*y)", "sin(x*y)", "exp(x)*sin(y) + abs(x - y)/(2 + x)", "x*y, sin(x + y)*x", "max(x, y**2)")


def built_of(text: str, dtype: str = "float64") -> Any:
    return sw.approximate(text, BOX, tol=1e-2 if dtype == "float32" else 1e-5, strategy="compose", dtype=dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("text", TEXTS)
def test_it_is_the_module_within_the_bound(text: str, dtype: str) -> None:
    built = built_of(text, dtype)
    assert isinstance(built.network, ComposedNetwork) and built.certificate is not None
    points = BOX.sample(200, 4).astype(dtype).astype(float)
    module, wanted = built(points), np.asarray(built.source(points)).reshape(200, -1)
    each = np.array([stack_of_array(built.network, point) for point in points])
    assert np.abs(each - module).max() <= 2 * built.certificate.rounding_part
    assert np.abs(each - wanted).max() <= built.certificate.bound
    x, y = points[0]
    assert np.array_equal(built(x=float(x), y=float(y)), each[0]) and np.array_equal(built(points[:1]), each[:1])
    tensor = torch.tensor(points[0], dtype=built.network.dtype)
    for shape in ((2,), (1, 2), (1, 1, 2)):
        found = built.network(tensor.reshape(shape))
        assert found.dtype == built.network.dtype and found.shape == (*shape[:-1], each.shape[1])
        assert np.array_equal(found.double().numpy().ravel(), each[0])


def test_it_follows_every_change_of_a_weight() -> None:
    network, point = built_of("sin(x*y)").network, np.array([0.3, 0.5])
    first = network.evaluate(point)
    network.read.data.mul_(2.0)
    assert np.allclose(network.evaluate(point), 2 * first, rtol=1e-14)
    network.read = network.read / 2.0
    assert np.allclose(network.evaluate(point), first, rtol=1e-14)
    assert network.to(torch.bfloat16).evaluate(point).shape == first.shape
    assert stack_of_array(network, point) is None


def test_hooks_other_forwards_and_derivatives_get_the_module() -> None:
    network = built_of("sin(x*y)").network
    x = torch.tensor([0.3, 0.5], dtype=torch.float64)
    seen: list[object] = []
    handle = network.register_forward_hook(lambda module, given, out: seen.append(out))
    assert stack_at_one_point(network, x) is None
    network.evaluate(x.numpy())
    network(x)
    assert len(seen) == 2
    handle.remove()
    assert stack_at_one_point(network, x) is not None
    other = copy.deepcopy(network)
    other.forward = lambda x: torch.zeros(*x.shape[:-1], 1, dtype=x.dtype)  # pyright: ignore[reportAttributeAccessIssue]
    assert other.evaluate(x.numpy()) == 0
    asked = x.clone().requires_grad_(True)
    slope = torch.autograd.grad(network(asked), asked)[0]
    assert torch.allclose(torch.func.jacrev(network)(x)[0], slope) and slope.abs().min() > 0.1
    assert torch.allclose(torch.func.vmap(network)(x[None]), network(x[None]), rtol=1e-12)
    with forward_ad.dual_level():
        assert stack_at_one_point(network, x) is None
    at = torch.tensor([-0.5, 0.9], dtype=torch.float64)
    assert torch.allclose(make_fx(network)(x)(at), network(at), rtol=1e-12)
    learning = copy.deepcopy(network)
    learning.read.requires_grad_(True)
    assert learning(x).requires_grad and np.array_equal(learning.evaluate(x.numpy()), network.evaluate(x.numpy()))


def test_strange_points() -> None:
    network = built_of("exp(x)*sin(y) + abs(x - y)/(2 + x)").network
    for point in ([np.inf, 0.0], [np.nan, 0.0], [0.0, -np.inf]):
        assert not np.isfinite(network.evaluate(np.array(point))).any()
        assert not np.isfinite(network.evaluate(np.array([point, point]))).any()
    for shape in ((), (1,), (3,), (2, 3)):
        with pytest.raises(sw.InvalidInput, match="last axis"):
            network.evaluate(np.zeros(shape))
    assert network.evaluate(np.zeros((0, 2))).shape == (0, 1)
    with pytest.raises(sw.InvalidInput, match="give every one of x, y"):
        network.evaluate(x=1.0)
    x = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        assert not network(x).requires_grad
    ones = torch.ones(2, dtype=torch.float64)
    negative = torch.complex(ones, ones).conj().imag  # whose minus is a mark that no array has
    assert negative.is_neg() and torch.allclose(network(negative), network(-ones), rtol=1e-12)
