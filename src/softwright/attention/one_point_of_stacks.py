"""One point of a small stack: the same sums in as few calls as there are.

For one point the arithmetic of a stack takes a few microseconds and the calls of its modules some hundred. So one point
runs through the layers with NumPy's products: with X the data token above the fixed tokens, every head of a layer takes

    s = (X Wk)(x Wq),   w = softmax(s over the tokens that it looks at),   x <- x + (w (X Wv)) Wo,

scores of tokens that it does not look at being -inf, so that their weight is exactly 0, as without them. The parameters
are read at every call.

*Rounding.* These are the steps of the module in its own type, float32 or float64: forms, scores, values and the sums of
heads are dot products in some order. The softmax is torch's: the largest score is subtracted, every token takes one
exp, the weights are summed in some order and divided, one by one, where the kernel takes a reciprocal and a product.
Of two tokens, as gates have them, both differences are exact as there.

As in `few_points.py`, whoever watches the module by hooks, put another forward into it, takes derivatives or records
what runs gets the module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules import module as _modules

from softwright.attention.few_points import plain_point

if TYPE_CHECKING:
    from softwright.attention.composition import ComposedNetwork

MOST_PRODUCTS = 1 << 17  # of all layers: beyond so many, calls no longer dominate


def stack_at_one_point(network: ComposedNetwork, x: Tensor) -> Tensor | None:
    """What the module gives for one point of its own type, of shape (..., d), or None where the module should run."""
    embed = network._buffers.get("embed_data")
    if embed is None or x.shape[-1:] != embed.shape[:1] or x.numel() != embed.shape[0] or not plain_point(x, embed):
        return None
    learning = torch.is_grad_enabled()
    if learning and x.requires_grad:
        return None
    found = _value(network, x.detach().numpy().ravel(), learning)
    return None if found is None else torch.from_numpy(found.reshape(*x.shape[:-1], len(found)))


def stack_of_array(network: ComposedNetwork, points: np.ndarray) -> np.ndarray | None:
    """Values (..., m) in float64 at one point (..., d), or None where the module should run."""
    embed = network._buffers.get("embed_data")
    if embed is None or not points.ndim or points.shape[-1] != embed.shape[0] or points.size != embed.shape[0]:
        return None
    if embed.dtype is not torch.float64:
        points = points.astype(np.float32 if embed.dtype is torch.float32 else np.float64)
    found = _value(network, points.ravel(), False)
    return None if found is None else found.astype(np.float64).reshape(*points.shape[:-1], len(found))


def _value(network: ComposedNetwork, x: np.ndarray, learning: bool) -> np.ndarray | None:
    """(m,) at one point (d,) of the network's type."""
    if _modules._global_forward_hooks or _modules._global_forward_pre_hooks:
        return None
    if network._forward_hooks or network._forward_pre_hooks or "forward" in network.__dict__:
        return None
    dtype = torch.float32 if x.dtype == np.float32 else torch.float64
    own, layers = network._buffers, network._modules["layers"]
    held = [own.get("embed_data"), own.get("base_data"), own.get("base_bank"), own.get("read")]
    for layer in layers._modules.values() if layers is not None else ():
        of_layer: dict[str, Any] = layer.__dict__["_buffers"]
        held += [of_layer.get("Wq"), of_layer.get("Wk"), of_layer.get("Wv"), of_layer.get("Wo")]
    arrays = []
    for tensor in held:
        if tensor is None or tensor.dtype is not dtype or not tensor.is_cpu:
            return None
        if learning and tensor.requires_grad:
            return None
        arrays.append(tensor.detach().numpy() if tensor.requires_grad else tensor.numpy())
    embed, base, bank, read = arrays[:4]
    T, D = bank.shape
    work = 0
    for place in network.program:
        work += len(arrays[4 + 4 * place]) * D * (T + 2)
    if work > MOST_PRODUCTS:
        return None
    X = np.empty((T + 1, D), x.dtype)
    X[1:] = bank
    with np.errstate(all="ignore"):  # torch says nothing of overflow either
        token = X[0] = x.dot(embed) + base[0]
        for place, tables in zip(network.program, network.tables, strict=True):
            token = X[0] = token + _heads(X, tables, *arrays[4 + 4 * place : 8 + 4 * place])
        return token.dot(read)


def _heads(X: np.ndarray, tables: int, Wq: np.ndarray, Wk: np.ndarray, Wv: np.ndarray, Wo: np.ndarray) -> np.ndarray:
    """What all heads of a layer add to the data token X[0]: the first `tables` look at the fixed tokens X[1:], the
    others at X[0] and X[1]."""
    H = len(Wq)
    if not tables:
        X = X[:2]
    query = X[0].dot(Wq)  # (H, k)
    scores = np.matmul(np.matmul(X, Wk), query[:, :, None])[:, :, 0]  # (H, T + 1)
    values = np.matmul(X, Wv)  # (H, T + 1, v)
    if tables:
        scores[:tables, 0] = -np.inf
        values[:tables, 0] = 0.0
        scores[tables:, 2:] = -np.inf
    weights = torch.softmax(torch.from_numpy(scores), 1).numpy()
    mixed = np.matmul(weights[:, None], values)  # (H, 1, v)
    return mixed.reshape(-1).dot(Wo.reshape(H * Wo.shape[1], -1))
