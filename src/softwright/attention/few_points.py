"""Few points of a small network: the same sums in as few calls as there are.

For one point of 30 tokens the arithmetic takes a microsecond; what takes time are the calls around it. So a handful of
points runs without the module's machinery, in the order

    t = (x - center) * scale,   s = b + K t,   w = softmax(s),   g = w V + (w G) t,

with the parameters as they are at that moment: nothing is kept from one call to the next that a change of a weight
could make stale. Products and sums are NumPy's, which cost a third of torch's for so few numbers; the softmax, the only
step whose accuracy is an assumption about torch's kernels, is torch's.

*Rounding.* Every step is one that the bound of `proof/arithmetic/rounding.py` counts, or fewer of them. The score is a
dot product of d + 1 terms in some order. The softmax subtracts the maximum, takes one exp for each token (no blocks,
so no rescaling), sums N of them in some order and divides each, where the fused kernel multiplies by a reciprocal: one
for each weight instead of two for each output. The weighted sums and the contraction with t are those of the layer. So
a certificate for the engine "sdpa" covers this path.

*float32.* One point of a float32 network runs in float64, on its float32 numbers and the point as float32 numbers, and
is rounded once at the end. That is what engine "double" does, and the certificate of "sdpa" covers it too: wherever a
step is charged a unit of float32 it errs by one of float64, 2^-29 of it, and of the A + 3 units of |g| that step 4
charges to every head the rounding at the end needs one (and one tau of the 32 that underflow is charged). Several
points are left to the modules, so that a network that overflows in float32 is seen to.

All of it computes in float64: autocast and the precision of float32 products touch no float64 number, so nothing has to
be switched off. Whoever watches modules by hooks sees every call of theirs, and whoever put another module, another
forward or a computed weight into the network gets it: the modules run then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules import module as _modules

from softwright.attention.layer import AttentionLayer, SoftmaxHead
from softwright.errors import InvalidInput
from softwright.settings import derivatives_taken

if TYPE_CHECKING:
    from softwright.attention.network import AttentionNetwork

MOST_SCORES = 4096  # beyond so many, calls no longer dominate and the fused kernel wins
_TYPES = (torch.float64, torch.float32)
RUN_AS = ("sdpa", "double")  # the engines that these sums are
_Parameters: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor | None]  # of a head: keys, biases, values, slopes
_Arrays: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]


def module_at_one_point(network: AttentionNetwork, x: Tensor) -> Tensor | None:
    """What the module gives for one point of its own type, of shape (..., d), or None where the formula itself should
    run: a derivative is taken, operations are recorded or watched, or the point is no plain tensor of the CPU."""
    center, scale = network._buffers["center"], network._buffers["scale"]
    if center is None or scale is None or x.shape[-1:] != center.shape or x.numel() != len(center):
        return None
    if not plain_point(x, center):
        return None
    learning = torch.is_grad_enabled()
    read = None if learning and x.requires_grad else _parameters(network, x.dtype, learning)
    if read is None or read[1] > MOST_SCORES:
        return None
    with np.errstate(all="ignore"):  # torch says nothing of overflow either
        t = _framed(_array(x), center, scale)
        y = _one_point(read[0], t if x.ndim == 1 else t.ravel())
        if x.dtype is torch.float32:
            y = y.astype(np.float32)
    return torch.from_numpy(y if x.ndim == 1 else y.reshape(*x.shape[:-1], len(y)))


def plain_point(x: Tensor, parameter: Tensor) -> bool:
    """Whether a point is a plain tensor of the CPU and of the parameter's type, and nobody takes derivatives of what
    runs or records operations."""
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack() or torch._C._get_tracing_state():
        return False
    if type(x) is not Tensor or x.dtype is not parameter.dtype or x.dtype not in _TYPES or derivatives_taken():
        return False
    return x.is_cpu and x.layout is torch.strided and not x.is_neg()


def points_by_name(names: Sequence[str], named: Mapping[str, Any], place: str) -> np.ndarray:
    """Points (..., d) from one number or array per variable."""
    if named.keys() != set(names):
        wanted = f"give every one of {', '.join(names)}"
        raise InvalidInput(place, [f"{wanted}, got {', '.join(named) or 'nothing'}"])
    columns = [named[name] for name in names]
    if all(type(column) is float or type(column) is int for column in columns):  # one point, the usual question
        return np.array(columns, dtype=float)
    return np.stack(np.broadcast_arrays(*[np.asarray(column, dtype=float) for column in columns]), axis=-1)


def few_points(network: AttentionNetwork, points: np.ndarray) -> np.ndarray | None:
    """The values (..., m) at points (..., d), or None where the module itself should run."""
    center, scale = network._buffers["center"], network._buffers["scale"]
    if center is None or scale is None:
        return None
    dtype, d = center.dtype, center.shape[0]
    single = dtype is torch.float32
    if points.shape[-1] != d or dtype not in _TYPES:
        return None
    read = _parameters(network, dtype, False)
    if read is None:
        return None
    heads, tokens = read
    if single and points.size != d:
        return None
    if tokens * points.size > MOST_SCORES * d:
        return None
    with np.errstate(all="ignore"):
        if single:
            points = points.astype(np.float32)
        t = _framed(points, center, scale)  # (..., d)
        if points.ndim == 1:
            y = _one_point(heads, t)
        elif points.size == d:
            y = _one_point(heads, t.ravel())
            y = y.reshape(*points.shape[:-1], len(y))
        else:
            y = _head(_arrays(heads[0]), t)
            for head in heads[1:]:
                y = y + _head(_arrays(head), t)
        return y.astype(np.float32).astype(np.float64) if single else y


def _parameters(network: AttentionNetwork, dtype: torch.dtype, learning: bool) -> tuple[list[_Parameters], int] | None:
    """The parameters of every head, and how many tokens they have; None if somebody watches or has changed what runs,
    if they are not of this type or lie elsewhere, or if `learning` and one of them wants a gradient."""
    if _modules._global_forward_hooks or _modules._global_forward_pre_hooks:
        return None
    layer = network._modules["layer"]
    if type(layer) is not AttentionLayer or layer._forward_hooks or layer._forward_pre_hooks:
        return None
    if network._forward_hooks or network._forward_pre_hooks or "forward" in network.__dict__:
        return None
    heads: Any = layer._modules["heads"]
    found: list[_Parameters] = []
    tokens = 0
    for head in heads._modules.values():
        own = head.__dict__
        if type(head) is not SoftmaxHead or own["_forward_hooks"] or own["_forward_pre_hooks"] or "forward" in own:
            return None
        held: dict[str, Any] = own["_parameters"]
        try:
            keys, biases, values = held["keys"], held["biases"], held["values"]
            slopes = None if len(held) == 3 and own["slopes"] is None else held["slopes"]
        except KeyError:  # somebody computes them
            return None
        for one in (keys, biases, values) if len(held) == 3 else (keys, biases, values, slopes):
            if one is None or one.dtype is not dtype or (learning and one.requires_grad):
                return None
        if not keys.is_cpu or len(held) > 4 or "forward" in layer.__dict__:
            return None
        found.append((keys, biases, values, slopes))
        tokens += biases.shape[0]
    return found, tokens


def _array(tensor: Tensor) -> np.ndarray:
    """The numbers as they are now: a view, no copy."""
    return tensor.detach().numpy() if tensor.requires_grad else tensor.numpy()


def _arrays(head: _Parameters) -> _Arrays:
    keys, biases, values, slopes = head
    if keys.requires_grad or biases.requires_grad or values.requires_grad:
        keys, biases, values = keys.detach(), biases.detach(), values.detach()
    return keys.numpy(), biases.numpy(), values.numpy(), None if slopes is None else _array(slopes)


def _framed(points: np.ndarray, center: Tensor, scale: Tensor) -> np.ndarray:
    """t (..., d) in float64; every float32 number is a float64 number."""
    if points.dtype == np.float64:
        return (points - center.numpy()) * scale.numpy()
    return np.subtract(points, center.numpy(), dtype=np.float64) * scale.numpy()


def _one_point(heads: Sequence[_Parameters], t: np.ndarray) -> np.ndarray:
    """(m,) at one t (d,)."""
    y = _head_at_one_point(heads[0], t)
    for head in heads[1:]:
        y = y + _head_at_one_point(head, t)
    return y


def _head_at_one_point(head: _Parameters, t: np.ndarray) -> np.ndarray:
    keys, biases, values, G = _arrays(head)
    scores = keys.dot(t)
    scores += biases
    w = torch.softmax(torch.from_numpy(scores), 0).numpy()  # (N,)
    y = w.dot(values)  # (m,)
    if G is not None:
        y += w.dot(G.reshape(len(G), -1)).reshape(len(y), len(t)).dot(t)
    return y


def _head(head: _Arrays, t: np.ndarray) -> np.ndarray:
    """(..., m) at t (..., d)"""
    keys, biases, values, G = head
    scores = t.dot(keys.T)
    scores += biases
    w = torch.softmax(torch.from_numpy(scores), -1).numpy()  # (..., N)
    y = w.dot(values)  # (..., m)
    if G is None:
        return y
    moments = w.dot(G.reshape(len(G), -1)).reshape(*y.shape, G.shape[2])  # (..., m, d)
    return y + (moments * t[..., None, :]).sum(-1)
