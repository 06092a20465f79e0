"""A stack in context as a `TokenStack`, for prompts of so many rows and queries.

Every token of such a network belongs to a segment, and a layer says which segments it updates and which it looks at.
So there is one column for every segment, 1 for its own tokens, and with M(a, b) = 0 where tokens of segment a may look
at those of b and -Omega elsewhere

    score = q_i.k_j + M(a_i, b_j),

which adds 0 exactly where a token may look. One more token, the sink, is a segment of its own and holds nothing: what
is not updated looks there. A linear map R of the stream is one more head, of which every token looks at itself and
adds x (R - 1): token i has a code c_i of +-1 in a few columns, and Omega c_i.c_j is largest for itself. Hundreds of
fixed tokens need ten such columns.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from softwright.errors import Faults
from softwright.export.token_stack import Layer, TokenStack

_OMEGA = {torch.float64: 2.0**100, torch.float32: 2.0**50}  # beyond all scores, and whole multiples of it are exact
_SINK = "sink"
MOST_TOKENS = 4096


def of_prompt(network: Any, rows: int, queries: int) -> TokenStack:
    """x (q, rows, d), y (q, rows) and queries (q, queries, d) in, predictions (q, queries) out."""
    lengths = {"data": rows, "query": queries}  # all other sources are fixed tokens
    counts = {
        name: lengths.get(source, len(network.get_buffer(f"base_{name}"))) for name, source in network.sources.items()
    }
    read = network.get_buffer("read")
    S = sum(counts.values()) + 1
    faults = Faults("export")
    several = "answers several numbers a query, which a stack of tokens does not; use the network itself"
    faults.check(read.dim() == 1, f"this method {several}")
    own = "asks every query in a prompt of its own; ask one query, and use the network itself for several"
    faults.check(not getattr(network, "alone", False), f"this method {own}")
    faults.check(S <= MOST_TOKENS, f"{S} tokens are more than {MOST_TOKENS}; use fewer rows= or queries=")
    faults.raise_if_any()
    D, dtype, names = network.width, network.dtype, [*counts, _SINK]
    bits = max(1, (S - 1).bit_length())
    segments, codes = range(D, D + len(names)), range(D + len(names), D + len(names) + bits)
    base = torch.zeros(S, codes.stop, dtype=dtype)
    tokens, first = list[str](), 0
    for at, name in zip(segments, names, strict=True):
        count = counts.get(name, 1)
        base[first : first + count, at] = 1.0
        tokens += [f"{name} {i}" if count > 1 else name for i in range(count)]
        first += count
    numbers = torch.arange(S - 1)[:, None] >> torch.arange(bits)
    base[:-1, codes.start :] = 2.0 * (numbers % 2).to(dtype) - 1.0

    def embed(x: Tensor, y: Tensor, asked: Tensor) -> Tensor:
        data = pad(torch.cat([x, y[..., None]], dim=-1), (0, 1))  # every row has weight 1, whose logarithm is 0
        stream = network.sequence({"data": data, "query": pad(asked, (0, 2))})
        return pad(torch.cat([stream[name] for name in counts], dim=1), (0, base.shape[1] - D, 0, 1))

    layers = [_layer(network.distinct[place], D, segments, codes, names, dtype) for place in network.program]
    answers = [i for i, token in enumerate(tokens) if token.partition(" ")[0] == "query"]
    columns = [name if b - a == 1 else f"{name} {i}" for name, (a, b) in network.slots.items() for i in range(b - a)]
    columns += [f"of {name}" for name in names] + [f"code {i}" for i in range(bits)]
    whole = pad(read[:, None], (0, 0, 0, base.shape[1] - D))
    return TokenStack(base, embed, layers, whole, columns, tokens, [], answers, flat=True)


def _layer(layer: Any, D: int, segments: range, codes: range, names: list[str], dtype: torch.dtype) -> Layer:
    """Its heads with the mask of its segments, and its linear map as one more."""
    H, _, k = layer.Wq.shape
    v, n, bits = layer.Wv.shape[2], len(segments), len(codes)
    linear = layer.R is not None
    W, omega = codes.stop, _OMEGA[dtype]
    heads, size = H + linear, max(k, bits if linear else 0)
    values = max(v, D if linear else 0)
    Wq, Wk = (torch.zeros(heads, W, size + n, dtype=dtype) for _ in range(2))
    Wv, Wo = torch.zeros(heads, W, values, dtype=dtype), torch.zeros(heads, values, W, dtype=dtype)
    Wq[:H, :D, :k], Wk[:H, :D, :k] = layer.Wq, layer.Wk
    Wv[:H, :D, :v], Wo[:H, :v, :D] = layer.Wv, layer.Wo
    Wk[:, segments.start : segments.stop, size:] = torch.eye(n, dtype=dtype)
    every = [name for name in names if name != _SINK]
    for h in range(heads):
        far = 4.0 * omega * bits if h == H else omega  # scores of codes are as large as their number
        for a, asks in zip(segments, names, strict=True):
            seen = (every if h == H else layer.keys) if asks in layer.rows else [_SINK]
            Wq[h, a, size:] = torch.tensor([0.0 if name in seen else -far for name in names], dtype=dtype)
    if layer.R is not None:
        Wq[H, codes.start :, :bits] = omega * torch.eye(bits, dtype=dtype)
        Wk[H, codes.start :, :bits] = torch.eye(bits, dtype=dtype)
        Wv[H, :D, :D] = layer.R - torch.eye(D, dtype=dtype)
        Wo[H, :D, :D] = torch.eye(D, dtype=dtype)
    return Layer(Wq, Wk, Wv, Wo)
