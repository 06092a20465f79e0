"""Blocks that nobody named: found, ranged by the normalisation beside them, replaced, and the whole model compared."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import softwright as sw
from softwright.errors import InvalidInput

WIDTH = 8


class Gated(nn.Module):
    """A gated block that asks for a dtype, as T5's does."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(WIDTH, 12), nn.Linear(WIDTH, 12), nn.Linear(12, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = functional.silu(self.gate(x)) * self.up(x)
        if h.dtype != self.down.weight.dtype:
            h = h.to(self.down.weight.dtype)
        return self.down(h)


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 12), nn.GELU(), nn.Linear(12, WIDTH))


class Layer(nn.Module):
    """Attention and a feed-forward block, each behind a normalisation."""

    def __init__(self, norm: Callable[[int], nn.Module], block: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.norm1, self.norm2 = norm(WIDTH), norm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.mlp = block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    """Two layers that share nothing, and a head; it brings example inputs, as models of transformers do."""

    def __init__(self, norm: Callable[[int], nn.Module], block: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(norm, block) for _ in range(2)])
        self.head = nn.Linear(WIDTH, 3)

    @property
    def dummy_inputs(self) -> dict[str, torch.Tensor]:
        return {"x": torch.ones(1, 5, WIDTH)}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
@pytest.mark.parametrize("block", [plain, Gated])
def test_every_block_is_found_ranged_and_replaced(
    norm: Callable[[int], nn.Module], block: Callable[[], nn.Module]
) -> None:
    torch.manual_seed(1)
    model = Model(norm, block).double().eval()
    built = sw.transpile(model)
    assert built.network.blocks == ("layers.0.mlp", "layers.1.mlp")
    assert built.certificate is not None and built.certificate.bound < 1e-6
    assert all(part.certificate is not None for part in built.parts.values())
    said = " | ".join(built.plan.reasons)
    assert "layers.1.mlp: " in said and "5 Linear" not in said and "a sample, not a bound" in said
    x = torch.randn(3, 7, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        apart = float((built.network(x) - model(x)).abs().max())
    assert 0 < apart < 1e-6


def test_a_model_without_blocks_is_refused_with_its_own_faults() -> None:
    class Nothing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.rfft(self.line(x)).real

    with pytest.raises(InvalidInput, match="Nothing"):
        sw.transpile(Nothing().eval())


_USUAL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
_GROUPED = {**_USUAL, "num_key_value_heads": 2, "head_dim": 8}
_PICTURES = {**_USUAL, "image_size": 32, "patch_size": 8}
_SIDES = {f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")}
SMALL: dict[str, tuple[str, dict[str, Any], int]] = {
    "Bert": ("BertModel", _USUAL, 2),
    "DistilBert": ("DistilBertModel", {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}, 2),
    "GPT2": ("GPT2Model", {"n_embd": 16, "n_layer": 2, "n_head": 2}, 2),
    "GPTNeoX": ("GPTNeoXModel", _USUAL, 2),
    "Llama": ("LlamaModel", _USUAL, 2),
    "Mistral": ("MistralModel", _GROUPED, 2),
    "Qwen2": ("Qwen2Model", _GROUPED, 2),
    "T5": ("T5Model", {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}, 4),
    "ViT": ("ViTModel", _PICTURES, 2),
    "Gemma": ("GemmaModel", _GROUPED, 2),  # norms that multiply by 1 + weight
    "Gemma2": ("Gemma2Model", _GROUPED, 2),  # and four norms in a layer
    "Olmo": ("OlmoModel", _USUAL, 2),  # norms without weights
    "Phi3": ("Phi3Model", {**_USUAL, "pad_token_id": 0}, 2),
    "Bloom": ("BloomModel", {"hidden_size": 16, "n_layer": 2, "n_head": 2}, 2),
    "Albert": ("AlbertModel", {**_USUAL, "embedding_size": 8}, 1),  # one layer that runs twice, without a module
    "OPT": ("OPTModel", {**_USUAL, "ffn_dim": 24, "word_embed_proj_dim": 16}, 2),
    "Bart": ("BartModel", {"d_model": 16, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, **_SIDES}, 4),
    "ConvNext": ("ConvNextModel", {"depths": [1, 1, 1, 1], "hidden_sizes": [4, 8, 8, 8], "image_size": 32}, 4),
}


@pytest.mark.parametrize("family", SMALL)
def test_the_families_of_transformers(family: str) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed: pip install 'softwright[hf]'")
    transformers = importlib.import_module("transformers")
    name, sizes, blocks = SMALL[family]
    seeing = family in ("ViT", "ConvNext")
    vocabulary = {} if seeing else {"vocab_size": 40, "bos_token_id": 0, "eos_token_id": 1}
    model = getattr(transformers, name)(getattr(transformers, f"{family}Config")(**vocabulary, **sizes)).eval()
    built = sw.transpile(model)
    assert len(built.parts) == blocks and built.certificate is not None
    assert all(part.target["box"] is not None for part in built.parts.values())  # every block was seen behind a norm
    tokens = torch.arange(7)[None]
    given: dict[str, torch.Tensor] = {"input_ids": tokens}
    if seeing:
        given = {"pixel_values": torch.linspace(-1, 1, 3 * 32 * 32).reshape(1, 3, 32, 32)}
    elif family in ("T5", "Bart"):
        given["decoder_input_ids"] = tokens[:, :3]
    with torch.no_grad():
        apart = float((built.network(**given)[0] - model(**given)[0]).abs().max())
    assert apart < 1e-3
