"""`TokenStack`: a network as tokens and layers of plain self-attention that updates every token, as tools expect it.

    X = base + embed(x);     X <- X + sum_h softmax((X Wq_h)(X Wk_h)^T) (X Wv_h) Wo_h  for each layer;     y = X_0 read

An approximation is one layer: a fixed token for each key, with columns for key, biases, value, t, one and output (paper
A's matrix R); its heads look at their own tokens because all others have a bias so low that their weight is 0 exactly.

A composition has its data token first and its fixed tokens behind. Those must not change, although every token asks
here. So each of them, and no data token, carries a mark, and one more token, the sink, has value 0 in every head: a
mark asks for the sink with a score beyond all others, and what comes back is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from softwright.attention.token_names import token_names
from softwright.errors import InvalidInput

if TYPE_CHECKING:
    from softwright.attention.composition import ComposedNetwork
    from softwright.attention.network import AttentionNetwork
    from softwright.result.built import Built

_FAR = 4096.0  # exp(-4096) is 0 in both types


@dataclass(frozen=True)
class Layer:
    """Wq, Wk (H, D, k), Wv (H, D, v), Wo (H, v, D)"""

    Wq: Tensor
    Wk: Tensor
    Wv: Tensor
    Wo: Tensor


@dataclass(frozen=True)
class TokenStack:
    """base (S, D), `embed` of points (q, d) -> (q, S, D), layers, read (D, m); the answer stands at token 0, or at the
    tokens `answers`, of a network over sequences."""

    base: Tensor
    embed: Callable[..., Tensor]
    layers: list[Layer]
    read: Tensor
    columns: list[str]
    tokens: list[str]
    owners: list[tuple[int, int]]  # of an approximation: where each head's tokens begin and end; else empty
    answers: list[int] | None = None
    flat: bool = False  # one number a token, without an axis of its own

    def answer(self, outputs: Tensor) -> Tensor:
        """What stands at the tokens that answer, of values (q, S, m)."""
        found = outputs[:, 0] if self.answers is None else outputs[:, self.answers]
        return found[..., 0] if self.flat else found


def token_stack(built: Built[Any], **sizes: int) -> TokenStack:
    """What was built, as tokens and layers; networks over sequences are told how long these are."""
    from softwright.export.masked_stack import of_program, of_transpiled, sizes_of
    from softwright.export.prompt_stack import of_prompt

    network, told = built.network, sizes_of(built.kind, sizes)
    match built.kind:
        case "approximation":
            return _of_heads(network)
        case "composition":
            return _of_stack(network)
        case "program":
            return of_program(network, **told)
        case "transpiled":
            return of_transpiled(network)
        case "in_context":
            return of_prompt(network, **told)
    fault = f"a network of kind {built.kind!r} is not written as a stack of tokens"
    kinds = "approximations, compositions, programs, transpiled ones and stacks in context"
    raise InvalidInput("export", [f"{fault}; {kinds} are"])


def _of_heads(network: AttentionNetwork) -> TokenStack:
    if network.engine == "double":  # its certificate is about float64 inside
        fault = "the network runs by the engine 'double', stock attention would compute in float32 throughout"
        raise InvalidInput("export", [f"{fault}; build it with engine='sdpa', or in float64"])
    heads = list(network.layer)
    like: dict[str, Any] = {"dtype": network.dtype}
    H, d, m, S = len(heads), len(network.names), network.outputs, network.tokens
    key, bias, value, t, one, out = 0, d, d + H, d + H + m, d + H + m + d, d + H + m + d + 1
    D = out + m
    # Twice the largest score, and more: else a hard gate elsewhere would see tokens that are not its own.
    far = _FAR + 2.0 * max(float(h.keys.abs().sum(dim=1).max() + h.biases.abs().max()) for h in heads)
    base, slopes = torch.zeros(S, D, **like), torch.zeros(S, m, d, **like)
    base[:, bias : bias + H] = -far
    base[:, one] = 1.0
    Wq, Wk, Wv = (torch.zeros(H, D, size, **like) for size in (d + 1, d + 1, m))
    Wo = torch.zeros(H, m, D, **like)
    owners, names, first = [], [], 0
    center, scale = (tensor.double().numpy() for tensor in (network.center, network.scale))
    for i, head in enumerate(heads):
        own = slice(first, first + head.tokens)
        owners.append((own.start, own.stop))
        names += [f"head {i + 1}: {name}" for name in token_names(head.to_head(), network.box, center, scale)]
        first = own.stop
        base[own, key : key + d] = head.keys.detach()
        base[own, bias + i] = head.biases.detach()
        base[own, value : value + m] = head.values.detach()
        if head.slopes is not None:
            slopes[own] = head.slopes.detach()
        Wq[i, t : t + d, :d] = torch.eye(d, **like)
        Wq[i, one, d] = 1.0
        Wk[i, key : key + d, :d] = torch.eye(d, **like)
        Wk[i, bias + i, d] = 1.0
        Wv[i, value : value + m] = torch.eye(m, **like)
        Wo[i, :, out : out + m] = torch.eye(m, **like)
    read = torch.zeros(D, m, **like)
    read[out : out + m] = torch.eye(m, **like)

    def embed(x: Tensor) -> Tensor:
        unit = (x - network.center) * network.scale  # (q, d)
        made = x.new_zeros(x.shape[0], S, D)
        made[:, :, t : t + d] = unit[:, None]
        made[:, :, value : value + m] = torch.einsum("smd,qd->qsm", slopes, unit)
        return made

    columns = [f"key {n}" for n in network.names] + [f"bias of head {i + 1}" for i in range(H)]
    columns += [f"value {o}" for o in range(m)] + [f"unit {n}" for n in network.names] + ["one"]
    columns += [f"output {o}" for o in range(m)]
    return TokenStack(base, embed, [Layer(Wq, Wk, Wv, Wo)], read, columns, names, owners)


def _of_stack(network: ComposedNetwork) -> TokenStack:
    data, bank = network.get_buffer("base_data"), network.get_buffer("base_bank")
    entry, D, T = network.get_buffer("embed_data"), network.width, bank.shape[0]
    like: dict[str, Any] = {"dtype": network.dtype}
    mark, drain = D, D + 1
    base = torch.zeros(T + 2, D + 2, **like)
    base[:1, :D], base[1:-1, :D] = data, bank
    base[1:, mark] = 1.0
    base[-1, drain] = 1.0

    def embed(x: Tensor) -> Tensor:
        made = x.new_zeros(x.shape[0], T + 2, D + 2)
        made[:, 0, :D] = x @ entry
        return made

    layers = []
    for place in network.program:
        layer = network.distinct[place]
        H, _, k = layer.Wq.shape
        v = layer.Wv.shape[2]
        far = _FAR + 2.0 * float(layer.Wk.abs().amax())
        Wq, Wk, Wv = (torch.zeros(H, D + 2, size, **like) for size in (k + 1, k + 1, v))
        Wo = torch.zeros(H, v, D + 2, **like)
        Wq[:, :D, :k], Wk[:, :D, :k], Wv[:, :D], Wo[:, :, :D] = layer.Wq, layer.Wk, layer.Wv, layer.Wo
        Wq[:, mark, k], Wk[:, drain, k] = far, 1.0  # marked tokens ask for the sink
        Wk[:, drain, k - 1] = -far  # the data token, whose last query entry is its constant 1, does not see it
        layers.append(Layer(Wq, Wk, Wv, Wo))
    read = torch.zeros(D + 2, network.outputs, **like)
    read[:D] = network.read
    columns = [*network.features, *(f"code {j}" for j in range(D - len(network.features))), "mark", "sink"]
    tokens = ["data", *(f"fixed {j}" for j in range(T)), "sink"]
    return TokenStack(base, embed, layers, read, columns, tokens, [])
