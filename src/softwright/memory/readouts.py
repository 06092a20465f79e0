"""Layer 2 of a memory: from the id of a context to its label.

`SoftmaxLookup` is a second softmax head over N memory tokens (z_j, -|z_j|^2/2, y_j), an associative memory:

    y(z) = sum_j y_j softmax_j( beta (z.z_j - |z_j|^2/2) ),

the same as softmax_j(-beta |z - z_j|^2 / 2). beta is a power of four: queries and keys are scaled by its square root
each, and powers of two scale without rounding. It is so large that for a stored id all other weights underflow to 0.

`ReluReadout` is the feed-forward readout of paper C (corollary 1) for ids on a line, t_1 < t_2 < ..., in three layers:

    ramp_j = relu(a_j t + b_j)   below 0 at t_j and above 1 at t_{j+1},     step_j = relu(1 - ramp_j),
    cell_j = relu(step_j - step_{j-1}),     y = sum_j y_j cell_j.

The usual two relus per key differ by numbers of size 1/gap and lose as many digits; here steps are exactly 0 or 1 at
stored ids, so the sum has one term and no rounding at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad, scaled_dot_product_attention

from softwright.chunks import in_chunks, rows_within
from softwright.memory.nearest_keys import NearestKeys

_NEIGHBOURS = 8


class SoftmaxLookup(nn.Module):
    """N memory tokens read by one softmax head."""

    name = "attention"
    TENSORS = ("keys", "halves", "values", "beta")
    keys: Tensor  # (N, r)
    halves: Tensor  # (N,) |z_j|^2 / 2
    values: Tensor  # (N, m)
    beta: Tensor  # ()

    def __init__(self, **tensors: Tensor) -> None:
        super().__init__()
        _register(self, tensors)
        if not len(self.keys) == len(self.halves) == len(self.values) or self.keys.dim() != 2 or self.values.dim() != 2:
            raise ValueError("keys, halves and values of a memory differ in length")

    @property
    def parameter_count(self) -> int:
        return self.keys.numel() + self.halves.numel() + self.values.numel() + 1

    def forward(self, ids: Tensor) -> Tensor:
        """(Q, r) -> (Q, m), attention over all N tokens."""
        root = self.beta.sqrt()  # a power of two
        keys = root * torch.cat([self.keys, -self.halves[:, None]], dim=1)[None]  # (1, N, r + 1)

        def attend(part: Tensor) -> Tensor:
            queries = root * pad(part, (0, 1), value=1.0)[None]  # (1, q, r + 1)
            return scaled_dot_product_attention(queries, keys, self.values[None], scale=1.0)[0]

        with sdpa_kernel(SDPBackend.MATH):
            return in_chunks(attend, ids, _step(self.keys))

    def winners(self, ids: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """The key with the largest weight (Q,) and that weight (Q,), from all N scores."""
        index, weight = np.empty(len(ids), dtype=np.int64), np.empty(len(ids))
        step = _step(self.keys)
        for at in range(0, len(ids), step):
            scores = float(self.beta) * (ids[at : at + step] @ self.keys.T - self.halves)  # (q, N)
            top = scores.max(dim=1)
            index[at : at + step] = top.indices.numpy()
            weight[at : at + step] = (1 / torch.exp(scores - top.values[:, None]).sum(dim=1)).numpy()
        return index, weight

    def pruned(self, ids: np.ndarray, index: NearestKeys) -> dict[str, Any]:
        """What the softmax gives at any ids (Q, r), from the nearest keys, and a bound of the mass left out.

        The N - k keys beyond the k-th nearest, at distance d_k, carry at most (N - k) exp(-beta (d_k^2 - d_1^2) / 2).
        """
        beta, count = float(self.beta), len(self.keys)
        distance, near = index.nearest(ids, _NEIGHBOURS)  # (Q, k)
        weights = np.exp(-0.5 * beta * (distance**2 - distance[:, :1] ** 2))
        left_out = (count - near.shape[1]) * weights[:, -1]
        weights /= weights.sum(axis=1, keepdims=True)
        values = np.einsum("qk,qkm->qm", weights, self.values.double().numpy()[near])
        return {
            "index": near[:, 0],
            "distance": distance[:, 0],
            "weight": weights[:, 0],
            "values": values,
            "mass": np.minimum(left_out, 1.0),
        }


class ReluReadout(nn.Module):
    """N keys on a line, in ascending order, read by three relu layers."""

    name = "feedforward"
    TENSORS = ("keys", "slopes", "offsets", "values")
    keys: Tensor  # (N, 1), ascending
    slopes: Tensor  # (N - 1,)
    offsets: Tensor  # (N - 1,)
    values: Tensor  # (N, m)

    def __init__(self, **tensors: Tensor) -> None:
        super().__init__()
        _register(self, tensors)
        units = max(len(self.keys) - 1, 0)
        if (
            self.keys.shape != (len(self.values), 1)
            or self.slopes.shape != (units,)
            or self.offsets.shape != (units,)
            or self.values.dim() != 2
        ):
            raise ValueError("keys, ramps and values of a readout do not fit")

    @property
    def parameter_count(self) -> int:
        return 2 * len(self.slopes) + self.values.numel()

    def _cells(self, line: Tensor) -> Tensor:
        """(Q,) -> (Q, N): which cell an id lies in; on a ramp, shared between two."""
        steps = torch.relu(1 - torch.relu(line[:, None] * self.slopes + self.offsets))  # (Q, N - 1)
        return torch.relu(pad(steps, (0, 1), value=1.0) - pad(steps, (1, 0)))

    def forward(self, ids: Tensor) -> Tensor:
        """(Q, 1) -> (Q, m)."""
        return in_chunks(lambda part: self._cells(part[:, 0]) @ self.values, ids, _step(self.keys))

    def winners(self, ids: Tensor) -> tuple[np.ndarray, np.ndarray]:
        index, weight = np.empty(len(ids), dtype=np.int64), np.empty(len(ids))
        step = _step(self.keys)
        for at in range(0, len(ids), step):
            top = self._cells(ids[at : at + step, 0]).max(dim=1)
            index[at : at + step], weight[at : at + step] = top.indices.numpy(), top.values.numpy()
        return index, weight

    def pruned(self, ids: np.ndarray, index: NearestKeys) -> dict[str, Any]:
        """The same from the one ramp that an id can lie on: nothing is left out."""
        line, keys = ids[:, 0], self.keys.double().numpy()[:, 0]
        values = self.values.double().numpy()
        distance, near = index.nearest(ids, 1)
        weight = np.ones(len(line))
        found = values[near[:, 0]]
        if len(keys) > 1:
            j = np.clip(np.searchsorted(keys, line, side="right") - 1, 0, len(keys) - 2)
            slopes, offsets = self.slopes.double().numpy()[j], self.offsets.double().numpy()[j]
            ramp = np.clip(line * slopes + offsets, 0.0, 1.0)
            found = (1 - ramp)[:, None] * values[j] + ramp[:, None] * values[j + 1]
            weight = np.maximum(ramp, 1 - ramp)
        return {
            "index": near[:, 0],
            "distance": distance[:, 0],
            "weight": weight,
            "values": found,
            "mass": np.zeros(len(line)),
        }


Readout = SoftmaxLookup | ReluReadout
READOUTS: dict[str, type[SoftmaxLookup] | type[ReluReadout]] = {
    "attention": SoftmaxLookup,
    "feedforward": ReluReadout,
}


def _step(keys: Tensor) -> int:
    """How many ids are compared with all keys at a time; four tables of scores exist at once."""
    return rows_within(4 * len(keys) * keys.element_size())


def _register(module: nn.Module, tensors: dict[str, Tensor]) -> None:
    for name in type(module).TENSORS:  # pyright: ignore[reportAttributeAccessIssue]
        module.register_buffer(name, tensors[name])
