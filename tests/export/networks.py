"""Small networks that exporters are tried on: name -> what makes one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import nn

import softwright as sw
from tests.contracts.kinds_made import MADE

_PLANE = sw.Box(x=(-1, 1), y=(0, 2))


def _mlp(layout: str, dtype: str) -> sw.Built[Any]:
    torch.manual_seed(0)
    source = nn.Sequential(nn.Linear(2, 5), nn.GELU(), nn.Linear(5, 3)).to(getattr(torch, dtype)).eval()
    return sw.transpile(source, box=(-1, 1), layout=layout)


NETWORKS: dict[str, Callable[[], sw.Built[Any]]] = {
    name: cache(make)
    for name, make in {
        "line": lambda: sw.approximate("tanh(3*x)", sw.Box(x=(-1, 2)), tol=1e-4, strategy="affine"),
        "kink": lambda: sw.approximate("abs(x - 0.2)", sw.Box(x=(-1, 2)), tol=1e-4),
        "plane": lambda: sw.approximate("sin(2*x)*cos(y), x*y", _PLANE, tol=1e-3, strategy="affine"),
        "sum": lambda: sw.approximate("sin(2*x) + exp(-y)", _PLANE, tol=1e-4),
        "plane-float32": lambda: sw.approximate("sin(2*x)*cos(y)", _PLANE, tol=1e-3, dtype="float32"),
        "stack": MADE["composition"],
        "softmax": lambda: _mlp("softmax", "float64"),
        "sdpa-float32": lambda: _mlp("sdpa", "float32"),
        "A1": MADE["theorem"],
    }.items()
}
