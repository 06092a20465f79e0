"""Sequence programs and transpiled networks as a `TokenStack`, programs over sequences of one length.

There every token asks, every head sees all tokens, and the stream is kept as it is; these networks update some tokens,
look at some, may look back alone, and some of their layers map the stream linearly. All of that is written into the
scores. Each token has its place among the columns, so that with M_h(i, j) = 0 where token i of head h may look at j and
-Omega elsewhere

    score = q_i.k_j + M_h(i, j),

which adds 0 exactly where it may. A token that is not updated looks at one more token, the sink, which holds nothing. A
linear map R is one more head: each token looks at itself, and what it adds is x (R - 1).

Of a transpiled network token c stands for the c-th token of all its neurons and carries the numbers of each layer in
columns of its own. The head (h, c) is neuron h as token c asks: scores s_h key_j + bias_j, values slope_j s_h +
offset_j, linear in what token j carries, written to the columns of token c; all others look at the sink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from softwright.errors import InvalidInput
from softwright.export.token_stack import Layer, TokenStack

if TYPE_CHECKING:
    from softwright.attention.program import ProgramNetwork
    from softwright.attention.stack import AttentionStack, StackLayer

_OMEGA = {torch.float64: 1e30, torch.float32: 1e15}  # beyond all scores
_SINK = "sink"
MOST_TOKENS = 256


def of_program(network: ProgramNetwork, length: int) -> TokenStack:
    """Tokens (q, length, fields) in, outputs (q, length, m) out."""
    bank = network.get_buffer("base_bank")
    names = [f"fixed {j}" for j in range(len(bank))] + [f"token {i}" for i in range(length)]
    rows = range(len(bank), len(names))
    later = torch.ones(length, len(names), dtype=torch.bool).tril(len(bank))

    def content(x: Tensor) -> Tensor:
        stream = next(iter(network.states_of(x)))
        return torch.cat([bank.expand(len(x), -1, -1), stream], dim=1)

    layers = []
    for place, causal in zip(network.program, network.causal, strict=True):
        masks = []
        for back in causal:
            seen = torch.zeros(len(names), len(names), dtype=torch.bool)
            seen[rows.start :] = later if back else True
            masks.append(seen)
        layers.append((network.distinct[place], masks))
    return _stack(network, layers, content, network.get_buffer("read"), names, rows)


def _stack(
    network: AttentionStack,
    layers: Sequence[tuple[StackLayer, Sequence[Tensor]]],
    content: Callable[..., Tensor],
    read: Tensor,
    names: Sequence[str],
    answers: Sequence[int],
) -> TokenStack:
    D, S = network.width, len(names) + 1
    if S > MOST_TOKENS:
        fault = f"{S} tokens, each with a column for its place, are more than {MOST_TOKENS}"
        raise InvalidInput("export", [f"{fault}; use a shorter length=, or .onnx"])
    base = _placed(D, S, network.dtype)

    def embed(*given: Tensor) -> Tensor:
        return pad(content(*given), (0, S, 0, 1))

    built = []
    for layer, masks in layers:
        updated = torch.stack(list(masks)).any(dim=0).any(dim=1)
        heads = [_Head(layer.Wq[h], layer.Wk[h], layer.Wv[h], layer.Wo[h], mask) for h, mask in enumerate(masks)]
        if layer.R is not None:
            change, nothing = layer.R - torch.eye(D, dtype=read.dtype), read.new_zeros(D, 1)
            heads.append(_Head(nothing, nothing, change, torch.eye(D, dtype=read.dtype), torch.diag(updated)))
        built.append(_masked(heads, D, S, network.dtype))
    columns = [name if b - a == 1 else f"{name} {i}" for name, (a, b) in network.slots.items() for i in range(b - a)]
    columns += [f"place {i}" for i in range(S)]
    return TokenStack(base, embed, built, pad(read, (0, 0, 0, S)), columns, [*names, _SINK], [], list(answers))


class _Head:
    """Wq, Wk (D, k), Wv (D, v), Wo (v, D) and what its tokens may look at (S - 1, S - 1)."""

    def __init__(self, Wq: Tensor, Wk: Tensor, Wv: Tensor, Wo: Tensor, mask: Tensor) -> None:
        self.Wq, self.Wk, self.Wv, self.Wo, self.mask = Wq, Wk, Wv, Wo, mask


def _placed(D: int, S: int, dtype: torch.dtype) -> Tensor:
    """Empty tokens that know their places. (S, D + S)"""
    return pad(torch.eye(S, dtype=dtype), (D, 0))


def _masked(heads: Sequence[_Head], D: int, S: int, dtype: torch.dtype) -> Layer:
    k, v = (max(getattr(head, name).shape[1] for head in heads) for name in ("Wq", "Wv"))
    Wq, Wk, Wv, Wo = (
        torch.zeros(len(heads), *size, dtype=dtype) for size in ((D + S, k + S), (D + S, k + S), (D + S, v), (v, D + S))
    )
    for h, head in enumerate(heads):
        own, size, rows = head.Wq.shape[1], head.Wv.shape[1], len(head.Wv)
        Wq[h, : len(head.Wq), :own], Wk[h, : len(head.Wk), :own] = head.Wq, head.Wk
        Wv[h, :rows, :size], Wo[h, :size, :D] = head.Wv, head.Wo
        Wq[h, D:, k:] = -_OMEGA[dtype] * (~_with_sink(head.mask)).to(dtype)
        Wk[h, D:, k:] = torch.eye(S, dtype=dtype)
    return Layer(Wq, Wk, Wv, Wo)


def _with_sink(mask: Tensor) -> Tensor:
    """The mask with one more token, at which those look that may look at nothing else."""
    seen = pad(mask, (0, 1, 0, 1))
    seen[:, -1] = ~seen.any(dim=1)
    return seen


def of_transpiled(network: Any) -> TokenStack:
    """x (q, d) in, outputs (q, m) out."""
    model = network.describe()
    tensors = {name: tensor.detach() for name, tensor in network.state_dict().items()}
    if any(step["step"] == "gated" for step in model["steps"]):
        raise InvalidInput("export", ["gated units are not written as a stack of tokens; export it as .onnx"])
    dtype = network.dtype
    counts = [tensors[f"steps.{i}.tokens"].shape[1] for i, s in enumerate(model["steps"]) if s["step"] == "heads"]
    p = max(counts, default=1)
    widths = [model["steps"][0]["inputs"]] + [s["heads"] for s in model["steps"] if s["step"] == "heads"]
    starts = np.cumsum([0, *(p * width for width in widths)])
    D, S = int(starts[-1]), p + 1
    affine = torch.eye(widths[0], dtype=dtype), torch.zeros(widths[0], dtype=dtype)
    layers, level = [], 0

    def block(level: int, c: int) -> slice:
        return slice(int(starts[level]) + c * widths[level], int(starts[level]) + (c + 1) * widths[level])

    for i, step in enumerate(model["steps"]):
        weight, bias = tensors[f"steps.{i}.weight"], tensors[f"steps.{i}.bias"]
        affine = weight @ affine[0], weight @ affine[1] + bias
        if step["step"] == "linear":
            continue
        keys, biases, slopes, offsets = tensors[f"steps.{i}.tokens"]
        heads = []
        for h in range(step["heads"]):
            w, b = affine[0][h], affine[1][h]
            Wk, Wv = torch.zeros(D + S, 2, dtype=dtype), torch.zeros(D + S, 1, dtype=dtype)
            for j in range(len(keys)):
                Wk[D + j] = torch.stack([keys[j], biases[j]])
                Wv[block(level, j), 0] = slopes[j] * w
                Wv[D + j, 0] = slopes[j] * b + offsets[j]
            for c in range(p):
                Wq, Wo = torch.zeros(D + S, 2, dtype=dtype), torch.zeros(1, D, dtype=dtype)
                Wq[block(level, c), 0] = w
                Wq[D + c] = torch.stack([b, torch.ones((), dtype=dtype)])
                Wo[0, block(level + 1, c).start + h] = 1.0
                mask = torch.zeros(p, p, dtype=torch.bool)
                mask[c, : len(keys)] = True
                heads.append(_Head(Wq, Wk, Wv, Wo, mask))
        layers.append(_masked(heads, D, S, dtype))
        affine = torch.eye(step["heads"], dtype=dtype), torch.zeros(step["heads"], dtype=dtype)
        level += 1
    read = torch.zeros(D + S, len(affine[1]), dtype=dtype)
    read[block(level, 0)] = affine[0].T
    read[D] = affine[1]
    first = torch.zeros(p, widths[0], D, dtype=dtype)
    for c in range(p):
        first[c, :, block(0, c)] = torch.eye(widths[0], dtype=dtype)

    def embed(x: Tensor) -> Tensor:
        return pad(torch.einsum("qd,pdw->qpw", x, first), (0, S, 0, 1))

    columns = [
        f"{'input' if n == 0 else f'neuron of layer {n}'} {i}, token {c}"
        for n, width in enumerate(widths)
        for c in range(p)
        for i in range(width)
    ]
    columns += [f"place {i}" for i in range(S)]
    return TokenStack(
        _placed(D, S, dtype), embed, layers, read, columns, [f"token {c}" for c in range(p)] + [_SINK], []
    )


def sizes_of(kind: str, options: Mapping[str, Any]) -> dict[str, int]:
    """The sizes that a kind of sequences needs, checked."""
    wanted = {"program": ("length",), "in_context": ("rows", "queries")}.get(kind, ())
    missing = [name for name in wanted if not isinstance(options.get(name), int) or options[name] < 1]
    unknown = sorted(set(options) - set(wanted))
    faults = [f"{name}= must say how many, a whole number of at least 1" for name in missing]
    faults += [f"{name}= means nothing for a network of kind {kind!r}; leave it out" for name in unknown]
    if faults:
        raise InvalidInput("export", faults)
    return {name: options[name] for name in wanted}
