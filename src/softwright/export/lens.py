"""A network in TransformerLens 4: hooks, caches and ablations work, names of tokens and features travel along.

    model = to_lens(built);   y = model(x);   y, cache = model.run_with_cache(x)
    cache["blocks.0.attn.hook_pattern"]           (q, heads, tokens, tokens); row 0 asks
    model.run_with_hooks(x, [("blocks.0.hook_resid_pre", hook)])

The network becomes a `TransformerBridge` by `boot_native`: attention alone, no normalisation, bidirectional. Fixed
tokens are the positional embedding, what depends on the point comes in by `inputs_embeds`. head_dim is a power of 4, so
that TransformerLens' division by its root costs no rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from softwright.errors import InvalidInput
from softwright.export.extras import needed
from softwright.export.stock import head_size
from softwright.export.token_stack import TokenStack, token_stack

if TYPE_CHECKING:
    from softwright.result.built import Built


class LensModel:
    """A bridge with what it is given: points in, values out. `columns` and `tokens` name what it computes on."""

    def __init__(self, bridge: Any, stack: TokenStack) -> None:
        self.bridge, self.stack = bridge, stack
        self.columns, self.tokens = stack.columns, stack.tokens

    def __call__(self, *given: Tensor) -> Tensor:
        """(q, d) -> (q, m), or whatever the network takes and gives."""
        return self.stack.answer(self.bridge(self.stack.embed(*given)))

    def run_with_cache(self, *given: Tensor) -> tuple[Tensor, Any]:
        """Values, and every activation by name."""
        out, cache = self.bridge.run_with_cache(self.stack.embed(*given))
        return self.stack.answer(out), cache

    def run_with_hooks(
        self, given: Tensor | Sequence[Tensor], hooks: Sequence[tuple[str, Callable[..., Any]]]
    ) -> Tensor:
        """Values with functions that look at activations, or change them, on the way; several inputs are a tuple."""
        inputs = (given,) if isinstance(given, Tensor) else tuple(given)
        return self.stack.answer(self.bridge.run_with_hooks(self.stack.embed(*inputs), fwd_hooks=list(hooks)))

    def column(self, name: str) -> int:
        """The place of a feature in the residual stream."""
        return self.columns.index(name)


def to_lens(built: Built[Any], **sizes: int) -> LensModel:
    """The network as a model of TransformerLens. Needs softwright[lens].

    Networks over sequences are told how long these are: `length=` of a program.
    """
    lens = needed("transformer_lens", "lens")
    needed("transformer_lens.model_bridge.sources.native", "lens")  # attaches boot_native
    stack = token_stack(built, **sizes)
    if not stack.layers:
        fault = "the network has no attention, so there is nothing for hooks to look at"
        raise InvalidInput("export", [f"{fault}; use .onnx, .c, .py or stock_attention, which is one product then"])
    H = max(layer.Wq.shape[0] for layer in stack.layers)
    size = head_size(*(n for layer in stack.layers for n in (layer.Wq.shape[2], layer.Wv.shape[2])))
    S, D = stack.base.shape
    config = lens.TransformerBridgeConfig(
        d_model=D,
        d_head=size,
        n_heads=H,
        n_layers=len(stack.layers),
        n_ctx=S,
        d_vocab=1,
        d_vocab_out=stack.read.shape[1],
        attn_only=True,
        normalization_type=None,
        attention_dir="bidirectional",
        positional_embedding_type="standard",
        init_weights=False,
        dtype=stack.base.dtype,
        model_name="softwright",
    )
    bridge = lens.TransformerBridge.boot_native(config, dtype=stack.base.dtype)
    state = {name: torch.zeros_like(tensor) for name, tensor in bridge.state_dict().items()}
    state["pos_embed.weight"].copy_(stack.base)
    state["unembed.weight"].copy_(stack.read.T)
    for i, layer in enumerate(stack.layers):
        heads, _, k = layer.Wq.shape
        v = layer.Wv.shape[2]
        q, key, value, out = (state[f"blocks.{i}.attn.{name}.weight"] for name in "qkvo")
        for h in range(heads):
            at = h * size
            q[at : at + k] = math.sqrt(size) * layer.Wq[h].T
            key[at : at + k] = layer.Wk[h].T
            value[at : at + v] = layer.Wv[h].T
            out[:, at : at + v] = layer.Wo[h].T
    bridge.load_state_dict(state)
    bridge.requires_grad_(False)
    return LensModel(bridge, stack)
