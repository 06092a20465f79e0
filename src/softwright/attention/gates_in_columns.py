"""Many points of a stack whose heads are all gates: the same sums with points as columns, some thousand at a time.

A gate is a softmax over two tokens: the data token, with score a and value z, and a null token, with score 0 and value
0. A kernel made for long rows of scores spends its time on calls; here every step takes whole rows of points,

    m = max(a, 0),   w = e^(a - m),   w' = e^(-m),   output = (w z) (1 / (w + w')),

and the forms that all heads of a layer read come from one product with the stream.

*Rounding.* The steps are those that `compiler/gates.py` counts: exact differences, two exps, a sum, a weighted value, a
reciprocal and a product. Scores, values and the sums of heads are dot products, in some order, as they are there. The
exps are torch's, of which alone something is assumed.

The parameters are read at every call. Whoever watches modules by hooks sees every call of theirs: with hooks the module
itself runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules import module as _modules

if TYPE_CHECKING:
    from softwright.attention.composition import ComposedNetwork
    from softwright.attention.stack import StackLayer

MANY = 1 << 16  # points from which it is worth while; checks while building look at fewer, and see the module itself
_AT_ONCE = 4096  # points: all rows of a layer then stay in the processor's cache


def suits(network: ComposedNetwork, points: np.ndarray, null: Tensor) -> bool:
    """Whether many points (n, d) run through gates alone, in float64 on the processor, and nobody watches."""
    if points.ndim != 2 or len(points) < MANY or points.shape[1] != network.box.dim or any(network.tables):
        return False
    if network.dtype != torch.float64 or null.device.type != "cpu":
        return False
    watched = _modules._global_forward_hooks or _modules._global_forward_pre_hooks
    if watched or network._forward_hooks or network._forward_pre_hooks:
        return False
    return not any(bool((null @ layer.Wk).any() or (null @ layer.Wv).any()) for layer in network.distinct)


def gates_in_columns(
    layers: Sequence[StackLayer], embed: Tensor, base: Tensor, read: Tensor, points: np.ndarray
) -> np.ndarray:
    """Values (n, m) at points (n, d): `layers` in the order in which they run, on streams x `embed` + `base`."""
    prepared = [_prepared(layer) for layer in layers]
    y = np.empty((len(points), read.shape[1]))
    start, embedding, reading = base.reshape(-1, 1), embed.T.contiguous(), read.T.contiguous()
    for first in range(0, len(points), _AT_ONCE):
        x = torch.from_numpy(np.ascontiguousarray(points[first : first + _AT_ONCE].T, dtype=np.float64))  # (d, n)
        stream = torch.addmm(start, embedding, x)  # (D, n)
        for forms, H, k, out in prepared:
            read_off = forms @ stream  # (H k + H k + H v, n)
            score = (read_off[: H * k] * read_off[H * k : 2 * H * k]).reshape(H, k, -1).sum(dim=1)  # (H, n)
            top = score.clamp(min=0.0)
            weight, other = score.sub_(top).exp_(), top.neg_().exp_()
            share = other.add_(weight).reciprocal_()
            value = read_off[2 * H * k :].reshape(H, -1, x.shape[1])  # (H, v, n)
            value.mul_(weight[:, None]).mul_(share[:, None])
            stream.addmm_(out, value.flatten(0, 1))
        y[first : first + _AT_ONCE] = (reading @ stream).T.numpy()
    return y


def _prepared(layer: StackLayer) -> tuple[Tensor, int, int, Tensor]:
    """What the heads read (rows of W_Q, W_K and W_V), their number, the width of a key, and W_O (D, H v)."""
    H, D, k = layer.Wq.shape
    forms = torch.cat([each.transpose(1, 2).reshape(-1, D) for each in (layer.Wq, layer.Wk, layer.Wv)])
    return forms, H, k, layer.Wo.flatten(0, 1).T.contiguous()
