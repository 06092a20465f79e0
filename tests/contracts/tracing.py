"""What a recorder of graphs, a compiler and torch.func make of a network: calls that contract and sweep share."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

import softwright as sw

Run = Callable[..., Tensor]
BATCHES = (1, 7, 50)


class Call(nn.Module):
    """A network with its options fixed: tensors with a leading batch in, a tensor out."""

    def __init__(self, network: nn.Module, **options: Any) -> None:
        super().__init__()
        self.network, self.options = network, options

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.network(*inputs, **self.options)


def inputs_of(built: sw.Built[Any], batch: int, seed: int = 0) -> tuple[Tensor, ...]:
    """A batch of inputs for any kind of network."""
    network, rng = built.network, np.random.default_rng(seed)
    if built.kind in ("approximation", "composition"):
        return (torch.tensor(network.box.sample(batch, seed=seed)).to(network.dtype),)
    if built.kind == "memory":
        head = network.head
        shape = (batch, max(1, min(3, head.longest)))
        if head.takes_vectors:
            return (torch.tensor(rng.uniform(-1, 1, size=(*shape, head.code_size))).to(network.dtype),)
        known = head.vocabulary.numpy() if len(head.vocabulary) else np.arange(len(head.codes))
        return (torch.tensor(rng.choice(known, size=shape)),)
    if built.kind == "transpiled":
        return (torch.tensor(rng.uniform(-1, 1, size=(batch, network.inputs))).to(network.dtype),)
    if built.kind == "in_context":
        d = network.features
        x, y = rng.normal(size=(batch, 12, d)), rng.integers(0, 2, size=(batch, 12)).astype(float)
        return tuple(torch.tensor(a).to(network.dtype) for a in (x, y, rng.normal(size=(batch, 3, d))))
    if built.kind == "program":
        x = rng.uniform(-1, 1, size=(batch, 4, len(network.fields)))
        for k, field in enumerate(network.fields):
            if field["kind"] != "real":
                x[..., k] = rng.integers(0, 2, size=(batch, 4))
        return (torch.tensor(x).to(network.dtype),)
    if built.kind == "theorem":
        return (torch.tensor(rng.uniform(0, 1, size=(batch, *network.inputs))).to(network.dtype),)
    if built.kind == "transpiled_module":
        return (torch.tensor(rng.normal(size=(batch, 4, 8))).to(network.dtype),)
    raise KeyError(built.kind)


def close(found: Tensor, wanted: Tensor) -> bool:
    """Equal up to another order of operations; nan where nan is."""
    size = max(1.0, float(wanted.detach().abs().nan_to_num().amax())) if wanted.numel() else 1.0
    allowed = (2.0**-29 if wanted.dtype == torch.float64 else 2.0**-10) * size
    return found.shape == wanted.shape and torch.allclose(found, wanted, rtol=0.0, atol=allowed, equal_nan=True)


class Jittered(TorchDispatchMode):
    """Every result of an operation on floats is moved by up to one unit in the last place, at random (stochastic
    arithmetic): results differ as much from what they were as roundings can make them."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = np.random.default_rng(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        shared = any(one.alias_info is not None for one in func._schema.returns)  # views, and what is written in place
        return out if shared else tree_map_only(Tensor, self._moved, out)

    def _moved(self, one: Tensor) -> Tensor:
        if not one.is_floating_point():
            return one
        by = torch.from_numpy(self.rng.random(tuple(one.shape), dtype=np.float32)).to(one.dtype) * 2 - 1
        return one * (1 + torch.finfo(one.dtype).eps * by)


def of_rounding(call: Callable[[Tensor], Tensor], x: Tensor, usual: Tensor) -> float:
    """How far roundings move a result that was `usual`, as a few runs show. Second derivatives of softmax are sums of
    squares of slopes of scores, which cancel: of heads that select, with slopes of 1e5 and more, few digits are left,
    and two orders of differentiation differ in the others."""
    moved = []
    for seed in range(3):
        with Jittered(seed):
            moved.append(call(x))
    return max(float((one - usual).abs().nan_to_num().amax()) for one in moved)


def exported(call: nn.Module, built: sw.Built[Any]) -> None:
    """`torch.export` with a free batch answers batches of every size."""
    given = inputs_of(built, 5)
    batch = torch.export.Dim("batch", min=1, max=1 << 20)
    run = torch.export.export(call, given, dynamic_shapes=(tuple({0: batch} for _ in given),)).module()
    for size in BATCHES:
        inputs = inputs_of(built, size, seed=size)
        assert close(run(*inputs), call(*inputs)), f"torch.export at {size}"


def compiled(call: nn.Module, built: sw.Built[Any]) -> None:
    """`torch.compile` takes the whole forward as one graph."""
    run = torch.compile(call, fullgraph=True, dynamic=True, backend="eager")
    with torch.no_grad():
        for size in BATCHES[1:]:
            inputs = inputs_of(built, size, seed=size)
            assert close(run(*inputs), call(*inputs)), f"torch.compile at {size}"
    torch.compiler.reset()


def transformed(call: nn.Module, built: sw.Built[Any]) -> None:
    """vmap agrees with the batch; jacrev and hessian with each other and with plain autograd."""
    given = inputs_of(built, 3)
    single = tuple(part[0] for part in given)

    def alone(*inputs: Tensor) -> Tensor:
        return call(*(part[None] for part in inputs))[0]

    assert close(torch.func.vmap(alone)(*given), call(*given)), "vmap"
    if not single[0].is_floating_point():
        return
    slopes = torch.func.jacrev(alone)(*single)
    points = single[0].clone().requires_grad_()
    total = call(points[None], *(part[None] for part in single[1:]))[0].sum()
    by_hand = torch.zeros_like(points)
    if total.requires_grad:  # what reads symbols alone has no slopes
        (by_hand,) = torch.autograd.grad(total, points)
    assert close(slopes.flatten(0, -1 - points.dim()).sum(dim=0), by_hand), "jacrev"

    def added(x: Tensor) -> Tensor:
        return alone(x, *single[1:]).sum()

    backwards = torch.func.jacrev(torch.func.jacrev(added))
    curves, again = torch.func.hessian(added)(single[0]), backwards(single[0])
    assert curves.shape == (*points.shape, *points.shape)
    with sdpa_kernel(SDPBackend.MATH):  # torch's fused attention has no second derivatives
        assert close(again, torch.autograd.functional.hessian(added, single[0])), "hessian, twice backwards"
    apart = float((curves - again).abs().nan_to_num().amax())
    if not close(curves, again):
        allowed = 4.0 * of_rounding(backwards, single[0], again)
        assert apart <= allowed, f"hessian: {apart:.2g} apart, roundings allow for {allowed:.2g}"


def copied(call: nn.Module, built: sw.Built[Any]) -> None:
    """A deep copy, and a copy that is given the state, answer alike."""
    given = inputs_of(built, 4)
    wanted, other = call(*given), copy.deepcopy(call)
    assert torch.equal(other(*given).nan_to_num(), wanted.nan_to_num())
    state = other.state_dict()
    assert list(state) == list(call.state_dict())
    for tensor in other.state_dict().values():
        tensor.zero_()
    other.load_state_dict(call.state_dict())
    assert torch.equal(other(*given).nan_to_num(), wanted.nan_to_num())
