"""Transformers from configuration, with random weights: nine families in two sizes, torch's layers, an MLP-Mixer."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from sources.case import Case

_HIDDEN = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
NAMES: dict[str, tuple[str, ...]] = {  # how a configuration calls width, depth, heads and the width of its blocks
    "Bert": _HIDDEN,
    "DistilBert": ("dim", "n_layers", "n_heads", "hidden_dim"),
    "GPT2": ("n_embd", "n_layer", "n_head", "n_inner"),
    "GPTNeoX": _HIDDEN,
    "Llama": _HIDDEN,
    "Mistral": _HIDDEN,
    "Qwen2": _HIDDEN,
    "T5": ("d_model", "num_layers", "num_heads", "d_ff"),
    "ViT": _HIDDEN,
}
SIZES = ((32, 2, 2, 48), (64, 3, 4, 160))
_WORDS = 50


def _model(family: str, sizes: tuple[int, ...]) -> nn.Module:
    transformers = importlib.import_module("transformers")
    named: dict[str, Any] = dict(zip(NAMES[family], sizes, strict=True))
    if family in ("Mistral", "Qwen2"):
        named["num_key_value_heads"] = sizes[2]
    if family == "T5":
        named["d_kv"] = sizes[0] // sizes[2]
    if family == "T5" and sizes == SIZES[1]:
        named["feed_forward_proj"] = "gated-gelu"
    if family == "ViT":
        named |= {"image_size": 32, "patch_size": 8}
    else:
        named |= {"vocab_size": _WORDS, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    torch.manual_seed(len(family) + sizes[0])
    return getattr(transformers, f"{family}Model")(getattr(transformers, f"{family}Config")(**named)).eval()


def _inputs(family: str) -> Mapping[str, Any]:
    torch.manual_seed(5)
    if family == "ViT":
        return {"pixel_values": torch.randn(2, 3, 32, 32)}
    words = torch.randint(3, _WORDS, (2, 9))
    return {"input_ids": words, "decoder_input_ids": words[:, :4]} if family == "T5" else {"input_ids": words}


def families() -> list[Case]:
    return [
        Case(
            f"{family} {'-'.join(map(str, sizes))}",
            lambda family=family, sizes=sizes: _model(family, sizes),
            None,
            inputs=lambda family=family: _inputs(family),
        )
        for family in NAMES
        for sizes in SIZES
    ]


class _Mixing(nn.Module):
    """Mixing of patches, then of channels: two MLPs, each behind a LayerNorm, the first along the other axis."""

    def __init__(self, patches: int, channels: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.tokens = nn.Sequential(nn.Linear(patches, 2 * patches), nn.GELU(), nn.Linear(2 * patches, patches))
        self.channels = nn.Sequential(nn.Linear(channels, 3 * channels), nn.GELU(), nn.Linear(3 * channels, channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    """MLP-Mixer as torchvision-like code has it: a convolution cuts patches, layers mix, the mean is classified."""

    def __init__(self, size: int = 16, patch: int = 4, channels: int = 24, depth: int = 2) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, channels, patch, stride=patch)
        self.layers = nn.Sequential(*(_Mixing((size // patch) ** 2, channels) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(channels), nn.Linear(channels, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patch(images).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.layers(x)).mean(1))


def mixers() -> list[Case]:
    def make(channels: int) -> nn.Module:
        torch.manual_seed(channels)
        return Mixer(channels=channels).eval()

    return [
        Case(
            f"MLP-Mixer {channels}",
            lambda channels=channels: make(channels),
            (-4.0, 4.0),
            inputs=lambda: {"images": torch.randn(2, 3, 16, 16)},
        )
        for channels in (24, 40)
    ]


def _stack(name: str) -> nn.Module:
    torch.manual_seed(len(name))
    common: dict[str, Any] = {"dim_feedforward": 48, "batch_first": True}
    if "encoder" in name:
        layer = nn.TransformerEncoderLayer(24, 3, activation="gelu", norm_first="pre-norm" in name, **common)
        whole = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False) if "stack" in name else layer
    elif "decoder" in name:
        layer = nn.TransformerDecoderLayer(24, 3, activation="relu", norm_first="pre-norm" in name, **common)
        whole = nn.TransformerDecoder(layer, 2) if "stack" in name else layer
    else:
        whole = nn.Transformer(24, 3, 1, 1, activation=nn.functional.silu, **common)
    return whole.eval()


def stacks() -> list[Case]:
    def inputs(name: str) -> Mapping[str, Any]:
        torch.manual_seed(3)
        x, memory = torch.randn(2, 6, 24), torch.randn(2, 5, 24)
        if "encoder" in name:
            return {"src": x}
        return {"tgt": x, "memory": memory} if "decoder" in name else {"src": x, "tgt": memory}

    names = ("encoder layer", "encoder layer, pre-norm", "encoder stack", "decoder layer", "decoder stack, pre-norm")
    return [
        Case(f"torch {name}", lambda name=name: _stack(name), None, inputs=lambda name=name: inputs(name))
        for name in (*names, "Transformer")
    ]
