"""Small networks that exporters are tried on: name -> what makes one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import nn

import softwright as sw
from tests.contracts.kinds_made import MADE

_CAUSAL = "theorem-C6"
_PLANE, _SPACE = sw.Box(x=(-1, 1), y=(0, 2)), sw.Box(x=(-1, 1), y=(0, 2), z=(0, 1))


def _mlp(layout: str, dtype: str) -> sw.Built[Any]:
    torch.manual_seed(0)
    source = nn.Sequential(nn.Linear(2, 5), nn.GELU(), nn.Linear(5, 3)).to(getattr(torch, dtype)).eval()
    return sw.transpile(source, box=(-1, 1), layout=layout)


class _Gated(nn.Module):
    """silu(W x) (V x), as in the feed-forward blocks of many transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = nn.Linear(2, 4), nn.Linear(2, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


def _gated(layout: str) -> sw.Built[Any]:
    torch.manual_seed(0)
    return sw.transpile(_Gated().double().eval(), box=(-1, 1), layout=layout)


NETWORKS: dict[str, Callable[[], sw.Built[Any]]] = {
    name: cache(make)
    for name, make in {
        "line": lambda: sw.approximate("tanh(3*x)", sw.Box(x=(-1, 2)), tol=1e-4, strategy="affine"),
        "kink": lambda: sw.approximate("abs(x - 0.2)", sw.Box(x=(-1, 2)), tol=1e-4),
        "plane": lambda: sw.approximate("sin(2*x)*cos(y), x*y", _PLANE, tol=1e-3, strategy="affine"),
        "sum": lambda: sw.approximate("sin(2*x) + exp(-y) + cos(3*z)", _SPACE, tol=1e-4, strategy="layer"),
        "plane-float32": lambda: sw.approximate("sin(2*x)*cos(y)", _PLANE, tol=1e-3, dtype="float32", strategy="layer"),
        "plane-sdpa32": lambda: sw.approximate(
            "x*y", _PLANE, tol=1e-3, dtype="float32", engine="sdpa", strategy="layer"
        ),
        "stack": MADE["composition"],
        "softmax": lambda: _mlp("softmax", "float64"),
        "sdpa-float32": lambda: _mlp("sdpa", "float32"),
        "double-float32": lambda: _mlp("double", "float32"),
        "multihead": lambda: _mlp("multihead", "float64"),
        "sequence": lambda: _mlp("sequence", "float64"),
        "gated": lambda: _gated("softmax"),
        "gated-sdpa": lambda: _gated("sdpa"),
        "gated-multihead": lambda: _gated("multihead"),
        "A1": MADE["theorem"],
        "hard": lambda: sw.zoo.load("theorem-C3"),
        "hard-float32": lambda: sw.theorem("C3").build(dtype="float32"),
        "causal": lambda: sw.zoo.load(_CAUSAL),
        "memory": MADE["memory"],
        "memory-words": lambda: sw.memorize(["a new taxi", "new a taxi", "the bus"], ["yellow", "odd", "red"]),
        "memory-vectors": lambda: sw.memorize([[[0.5], [1.0]], [[1.0], [0.5]]], [1.0, 2.0], readout="feedforward"),
        "memory-tokens": lambda: sw.memorize(
            [[1, 2], [2, 1], [3, 3]], [[0.0, 1.0], [1.0, 2.0], [0.0, 0.5]], mode="token", causal=True, dtype="float32"
        ),
        "ridge": lambda: sw.in_context("ridge", features=2, penalty=0.1, solver="gradient", steps=1, sample=False),
        "program": MADE["program"],
    }.items()
}
