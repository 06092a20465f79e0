"""Tokens are columns here, as in the papers: a network is a chain of plain matrix formulas on a token matrix Z.

    SumOfLinear       Z = sum_i P_i X Q_i + R                                          (attention.SumOfLinear)
    Attention         sum_h W_O^h W_V^h Z softmax((W_K^h Z)^T W_Q^h Z) T^h  [+ Z]       softmax down each column
    CrossAttention    W_V Y softmax((W_K Y)^T W_Q Z)                                    Y another sequence
    Linear            M Z + c
    FeedForward       W_2 relu(W_1 Z + b_1) + b_2  [+ Z]
    Softmax           softmax down each column

Nothing else: what a theorem may use is what stands here. All numbers are buffers: they were computed, not trained.
`TheoremNetwork` stores its tensors and rebuilds from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from softwright.attention.self_attention import SumOfLinear
from softwright.chunks import arrays_in_chunks, in_chunks, rows_within
from softwright.errors import Faults, InvalidInput
from softwright.settings import looked_through, runs_as_proved


def _stored(array: Any) -> Tensor:
    """A copy in float64 (float32 stays float32)."""
    array = np.array(array)
    return torch.from_numpy(array if array.dtype == np.float32 else array.astype(np.float64))


class _Stage(nn.Module):
    """One formula. `flags` are what rebuilding it takes besides its tensors."""

    stage_type: ClassVar[str]
    heads: int = 0

    def store(self, **arrays: Any) -> None:
        """Keep arrays as buffers under their names; None stays None."""
        for name, array in arrays.items():
            self.register_buffer(name, None if array is None else _stored(array))

    @property
    def flags(self) -> dict[str, bool]:
        return {}


class Attention(_Stage):
    """Multi-head softmax attention sum_h W_O^h W_V^h Z softmax((W_K^h Z)^T W_Q^h Z) T^h, heads first in every tensor.

    W_K, W_Q (H, k, rows); W_V (H, m, rows); W_O (H, o, m) or None for the identity; T (H, N, columns) or None for the
    identity (the papers' output matrix on the right: it picks or sums columns). `residual` adds Z, `causal` lets token
    k see tokens 1..k only, `hard` replaces softmax by hardmax (shared evenly by ties).
    """

    stage_type: ClassVar[str] = "attention"
    W_K: Tensor
    W_Q: Tensor
    W_V: Tensor
    W_O: Tensor | None
    T: Tensor | None

    def __init__(
        self,
        W_K: Any,
        W_Q: Any,
        W_V: Any,
        W_O: Any = None,
        T: Any = None,
        *,
        residual: bool = False,
        causal: bool = False,
        hard: bool = False,
    ) -> None:
        super().__init__()
        self.store(W_K=W_K, W_Q=W_Q, W_V=W_V, W_O=W_O, T=T)
        self.heads = self.W_K.shape[0]
        self.residual, self.causal, self.hard = residual, causal, hard

    @property
    def flags(self) -> dict[str, bool]:
        return {"residual": self.residual, "causal": self.causal, "hard": self.hard}

    def scores(self, Z: Tensor, head: int, columns: Tensor | None = None) -> Tensor:
        """(..., rows, N) -> (..., N keys, queries)"""
        asked = Z if columns is None else Z[..., columns]
        scores = (self.W_K[head] @ Z).transpose(-1, -2) @ (self.W_Q[head] @ asked)
        if self.causal:
            N = Z.shape[-1]
            places = torch.arange(N, device=Z.device)
            queries = places if columns is None else columns
            scores = scores.masked_fill(places[:, None] > queries[None, :], -torch.inf)
        return scores

    def weights(self, Z: Tensor, head: int, columns: Tensor | None = None) -> Tensor:
        """Softmax weights (..., N keys, queries); every column sums to 1."""
        scores = self.scores(Z, head, columns)
        if self.hard:
            top = (scores == scores.amax(dim=-2, keepdim=True)).to(scores.dtype)
            return top / top.sum(dim=-2, keepdim=True)
        return scores.softmax(dim=-2)

    def forward(self, Z: Tensor) -> Tensor:
        """(..., rows, N) -> (..., o, columns)"""
        total: Tensor | None = None
        for h in range(self.heads):
            used = None  # which queries count: those to which T gives no weight are left out, unless nobody can look
            if self.T is not None and not looked_through():
                used = self.T[h].abs().sum(dim=1).nonzero()[:, 0]
            out = (self.W_V[h] @ Z) @ self.weights(Z, h, used)  # (..., m, queries)
            if self.W_O is not None:
                out = self.W_O[h] @ out
            if self.T is not None:
                out = out @ (self.T[h] if used is None else self.T[h][used])  # (..., o, columns)
            total = out if total is None else total + out
        if total is None:
            raise ValueError("an attention stage needs at least one head")
        return total + Z if self.residual else total


class CrossAttention(_Stage):
    """W_V Y softmax((W_K Y)^T W_Q Z): queries from Z, keys and values from another sequence Y (rows, N).

    Y is stored, and may be replaced in a call: the same three matrices compute whatever function Y holds.
    """

    stage_type: ClassVar[str] = "cross_attention"
    heads = 1
    W_K: Tensor
    W_Q: Tensor
    W_V: Tensor
    Y: Tensor

    def __init__(self, W_K: Any, W_Q: Any, W_V: Any, Y: Any) -> None:
        super().__init__()
        self.store(W_K=W_K, W_Q=W_Q, W_V=W_V, Y=Y)

    def forward(self, Z: Tensor, Y: Tensor | None = None) -> Tensor:
        """(..., rows of Z, queries) -> (..., o, queries)"""
        other = self.Y if Y is None else Y
        scores = (self.W_K @ other).transpose(-1, -2) @ (self.W_Q @ Z)  # (..., N, queries)
        return (self.W_V @ other) @ scores.softmax(dim=-2)


class Linear(_Stage):
    """M Z + c with M (o, rows) and c (o, 1), (o, N) or None."""

    stage_type: ClassVar[str] = "linear"
    M: Tensor
    c: Tensor | None

    def __init__(self, M: Any, c: Any = None) -> None:
        super().__init__()
        self.store(M=M, c=c)

    def forward(self, Z: Tensor) -> Tensor:
        out = self.M @ Z
        return out if self.c is None else out + self.c


class FeedForward(_Stage):
    """W_2 relu(W_1 Z + b_1) + b_2, token by token; `residual` adds Z."""

    stage_type: ClassVar[str] = "feed_forward"
    W_1: Tensor
    b_1: Tensor
    W_2: Tensor
    b_2: Tensor

    def __init__(self, W_1: Any, b_1: Any, W_2: Any, b_2: Any, *, residual: bool = False) -> None:
        super().__init__()
        self.store(W_1=W_1, b_1=np.reshape(b_1, (-1, 1)), W_2=W_2, b_2=np.reshape(b_2, (-1, 1)))
        self.residual = residual

    @property
    def flags(self) -> dict[str, bool]:
        return {"residual": self.residual}

    def forward(self, Z: Tensor) -> Tensor:
        out = self.W_2 @ (self.W_1 @ Z + self.b_1).clamp_min(0) + self.b_2
        return out + Z if self.residual else out


class Softmax(_Stage):
    """Softmax down each column."""

    stage_type: ClassVar[str] = "softmax"

    def forward(self, Z: Tensor) -> Tensor:
        return Z.softmax(dim=-2)


_CHEAPER = 8  # how much cheaper the other order must be to be taken


class Tokens(SumOfLinear):
    """`attention.SumOfLinear` as a stage: Z = sum_i P_i X Q_i + R."""

    stage_type: ClassVar[str] = "sum_of_linear"
    heads = 0

    def __init__(self, P: Any, Q: Any, R: Any) -> None:
        super().__init__(_stored(P), _stored(Q), _stored(R))
        (p, z, d), (n, N) = self.P.shape, self.Q.shape[1:]
        # For one entry a token, as the units of A3, X Q_i first takes a hundredth of the time and memory of P_i X.
        self.right_first = p * z * n * (d + N) > _CHEAPER * p * d * N * (n + z)

    @runs_as_proved
    def forward(self, X: Tensor) -> Tensor:
        """(..., d, n) -> (..., rows, N)"""
        if not self.right_first:
            return super().forward(X)
        right = torch.einsum("...dn,pnN->...pdN", X, self.Q)
        return torch.einsum("pzd,...pdN->...zN", self.P, right) + self.R

    @property
    def flags(self) -> dict[str, bool]:
        return {}


Stage = Attention | CrossAttention | Linear | FeedForward | Softmax | Tokens
_STAGES: dict[str, Any] = {
    stage.stage_type: stage for stage in (Attention, CrossAttention, Linear, FeedForward, Softmax, Tokens)
}


class TheoremNetwork(nn.Module):
    """A chain of stages on token matrices X (..., d, n) -> (..., o, n_out)."""

    kind: ClassVar[str] = "theorem"

    def __init__(self, label: str, stages: Sequence[Stage], inputs: Sequence[int]) -> None:
        super().__init__()
        self.label = label
        self.inputs = (int(inputs[0]), int(inputs[1]))  # d, n
        self.stages = nn.ModuleList(stages)

    @property
    def dtype(self) -> torch.dtype:
        return next(iter(self.state_dict().values())).dtype

    @property
    def parameter_count(self) -> int:
        return sum(tensor.numel() for tensor in self.state_dict().values())

    @property
    def layers(self) -> int:
        """How many of the stages attend."""
        return sum(isinstance(stage, (Attention, CrossAttention)) for stage in self.stages)

    @property
    def heads(self) -> int:
        return sum(int(getattr(stage, "heads", 0)) for stage in self.stages)

    @runs_as_proved
    def forward(self, X: Tensor) -> Tensor:
        """(..., d, n) -> (..., o, n_out), in chunks that bound the memory."""
        faults, (d, n), own = Faults("TheoremNetwork"), self.inputs, next(self.buffers()).dtype
        faults.check(X.dtype == own, f"input is {X.dtype}, the network {own}; use X.to({own})")
        faults.check(X.ndim >= 2 and X.shape[-2] == d, f"give matrices (..., {d}, {n}); got shape {tuple(X.shape)}")
        faults.raise_if_any()
        out = in_chunks(self._run, X.reshape(-1, *X.shape[-2:]), self._rows(X.shape[-1], X.element_size()))
        return out.reshape(*X.shape[:-2], *out.shape[1:])

    def _run(self, X: Tensor) -> Tensor:
        for stage in self.stages:
            X = stage(X)
        return X

    def describe(self) -> dict[str, Any]:
        stages = [{"type": stage.stage_type, **stage.flags} for stage in self.stages]  # type: ignore[union-attr]
        return {"label": self.label, "inputs": list(self.inputs), "stages": stages}

    @classmethod
    def rebuilt(cls, model: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Self:
        stages = []
        for i, entry in enumerate(model["stages"]):
            prefix = f"stages.{i}."
            own = {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}
            flags = {name: value for name, value in entry.items() if name != "type"}
            stages.append(_STAGES[entry["type"]](**own, **flags))
        network = cls(model["label"], stages, model["inputs"])
        if not tensors or network.state_dict().keys() != tensors.keys():
            raise ValueError("the stages of the network are not those that its tensors belong to")
        return network

    def facts(self) -> list[tuple[str, str]]:
        d, n = self.inputs
        shape = f"{self.layers} attention layer{'s' * (self.layers != 1)}, {self.heads} head{'s' * (self.heads != 1)}"
        chain = " -> ".join(str(stage.stage_type).replace("_", " ") for stage in self.stages)  # type: ignore[union-attr]
        return [("input", f"{d} x {n} (columns are tokens)"), ("network", f"{shape}: {chain}")]

    def _rows(self, tokens: int, size: int) -> int:
        """How many inputs of so many tokens are run at a time, numbers being of so many bytes."""
        largest = self.inputs[0] * tokens  # entries of the largest temporary that one input makes
        for stage in self.stages:
            if isinstance(stage, Tokens):
                tokens = stage.R.shape[-1]
                largest = max(largest, stage.R.numel())
            elif isinstance(stage, CrossAttention):
                largest = max(largest, stage.Y.shape[-1] * tokens)
            elif isinstance(stage, FeedForward):
                largest = max(largest, stage.W_1.shape[-2] * tokens)
            elif isinstance(stage, Attention):
                asked = tokens
                if stage.T is not None and not looked_through():
                    asked = int(stage.T.abs().sum(dim=2).bool().sum(dim=1).max())
                largest = max(largest, tokens * asked)
                tokens = tokens if stage.T is None else stage.T.shape[-1]
        return rows_within(3 * largest * size)

    def evaluate(self, inputs: Any) -> np.ndarray:
        """NumPy (..., d, n) -> (..., o, n_out), in the network's dtype, in chunks that bound the memory."""
        inputs = np.asarray(inputs)
        if inputs.ndim < 2 or inputs.shape[-2] != self.inputs[0]:
            d, n = self.inputs
            wanted = f"columns are tokens of {d} number(s): give (.., {d}, {n}), or another number of tokens"
            raise InvalidInput("evaluate", [f"inputs have shape {inputs.shape}; {wanted}"])

        def run(part: np.ndarray) -> np.ndarray:
            with torch.inference_mode():
                X = torch.from_numpy(np.ascontiguousarray(part, dtype=np.float64)).to(self.dtype)
                return self(X).double().numpy()

        batches = inputs.reshape(-1, *inputs.shape[-2:])
        out = arrays_in_chunks(run, batches, self._rows(inputs.shape[-1], 8))
        return out.reshape(*inputs.shape[:-2], *out.shape[1:])
