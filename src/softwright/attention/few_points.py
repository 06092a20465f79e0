"""Few points of a small float64 network: the same sums in as few calls as there are.

For one point of 30 tokens the arithmetic takes a microsecond; what takes time are the calls around it. So a handful of
points runs without the module's machinery, in the order

    t = (x - center) * scale,   s = b + K t,   w = softmax(s),   g = w V + (w G) t,

with the parameters as they are at that moment: nothing is kept from one call to the next that a change of a weight
could make stale. Products and sums are NumPy's, which cost a third of torch's for so few numbers; the softmax, the only
step whose accuracy is an assumption about torch's kernels, is torch's.

*Rounding.* Every step is one that the bound of `proof/arithmetic/rounding.py` counts, or fewer of them. The score is a
dot product of d + 1 terms in some order. The softmax subtracts the maximum, takes one exp for each token (no blocks,
so no rescaling), sums N of them in some order and divides each, where the fused kernel divides the sum: one rounding
for each weight instead of two for each output. The weighted sums and the contraction with t are those of the layer. So
a certificate for the engine "sdpa" covers this path.

*Few tokens.* For many points of up to `FEW_TOKENS` tokens the same steps run with tokens as rows, some thousand points
at a time: sums over tokens are then sums of whole rows, and the fused kernel, made for many tokens, is half as fast.
As in that kernel, the reciprocal of the sum of the weights multiplies every column.

Float64 only: autocast and the precision of float32 products touch no float64 number, so nothing has to be switched off.
Whoever watches modules by hooks sees every call of theirs: with hooks the modules run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.modules import module as _modules

if TYPE_CHECKING:
    from softwright.attention.network import AttentionNetwork

MOST_SCORES = 4096  # beyond so many, calls no longer dominate and the fused kernel wins
FEW_TOKENS, _ROWS = 8, 4000  # tokens of all heads up to which it does not, and points at a time


def few_points(network: AttentionNetwork, points: np.ndarray) -> np.ndarray | None:
    """The values (..., m) at points (..., d), or None where the module itself should run."""
    buffers = network._buffers
    center, scale = buffers["center"], buffers["scale"]
    if center is None or scale is None or center.dtype is not torch.float64 or not center.is_cpu:
        return None
    middle, factor = center.numpy(), scale.numpy()
    if points.shape[-1] != middle.shape[0] or _modules._global_forward_hooks or _modules._global_forward_pre_hooks:
        return None
    modules: Any = network._modules
    layer = modules["layer"]
    heads = layer._modules["heads"]._modules.values()
    if network._forward_hooks or network._forward_pre_hooks or layer._forward_hooks or layer._forward_pre_hooks:
        return None
    parameters, tokens = [], 0
    for head in heads:
        if head._forward_hooks or head._forward_pre_hooks:
            return None
        held = head._parameters
        parameters.append(held)
        tokens += held["biases"].shape[0]
    if tokens * points.size > MOST_SCORES * middle.shape[0]:
        return _in_columns(parameters, points, middle, factor) if tokens <= FEW_TOKENS and points.ndim > 1 else None
    with np.errstate(all="ignore"):  # torch says nothing of overflow either
        t = (points - middle) * factor  # (..., d)
        y = _head(parameters[0], t)
        for held in parameters[1:]:
            y = y + _head(held, t)
    return y


def _arrays(parameters: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Keys, biases, values and slopes as they are now: views, no copies."""
    keys, biases, values = parameters["keys"], parameters["biases"], parameters["values"]
    slopes = parameters.get("slopes")
    if (
        keys.requires_grad
        or biases.requires_grad
        or values.requires_grad
        or (slopes is not None and slopes.requires_grad)
    ):
        keys, biases, values = keys.detach(), biases.detach(), values.detach()
        slopes = None if slopes is None else slopes.detach()
    return keys.numpy(), biases.numpy(), values.numpy(), None if slopes is None else slopes.numpy()


def _head(parameters: Mapping[str, Any], t: np.ndarray) -> np.ndarray:
    keys, biases, values, G = _arrays(parameters)
    scores = keys.dot(t) if t.ndim == 1 else t.dot(keys.T)
    scores += biases
    w = torch.from_numpy(scores).softmax(-1).numpy()  # (..., N)
    y = w.dot(values)  # (..., m)
    if G is None:
        return y
    moments = w.dot(G.reshape(len(G), -1)).reshape(*y.shape, G.shape[2])  # (..., m, d)
    if t.ndim == 1:
        y += moments.dot(t)
        return y
    return y + (moments * t[..., None, :]).sum(-1)


def _in_columns(
    parameters: Sequence[Mapping[str, Any]], points: np.ndarray, middle: np.ndarray, factor: np.ndarray
) -> np.ndarray:
    """The values (..., m) at many points (..., d), with tokens as rows."""
    flat = points.reshape(-1, len(middle))
    y = np.empty((len(flat), parameters[0]["values"].shape[1]))
    with np.errstate(all="ignore"):
        for start in range(0, len(flat), _ROWS):
            t = ((flat[start : start + _ROWS] - middle) * factor).T  # (d, n)
            part = _head_in_columns(parameters[0], t)
            for held in parameters[1:]:
                part = part + _head_in_columns(held, t)
            y[start : start + _ROWS] = part.T
    return y.reshape(*points.shape[:-1], y.shape[1])


def _head_in_columns(parameters: Mapping[str, Any], t: np.ndarray) -> np.ndarray:
    """Values (m, n) at t (d, n)."""
    keys, biases, values, G = _arrays(parameters)  # G (N, m, d)
    w = keys.dot(t)  # (N, n)
    w += biases[:, None]
    w -= w.max(axis=0)
    torch.from_numpy(w).exp_()
    share = 1.0 / w.sum(axis=0)
    y = values.T.dot(w)  # (m, n)
    y *= share
    if G is not None:
        for i in range(len(t)):
            moment = G[:, :, i].T.dot(w)
            moment *= share
            moment *= t[i]
            y += moment
    return y
