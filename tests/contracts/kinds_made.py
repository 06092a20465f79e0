"""One small `Built` of every kind, made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

import softwright as sw


def _mlp() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)).double().eval()


def _module() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).double().eval()


MADE: dict[str, Callable[[], sw.Built[Any]]] = {
    name: cache(make)
    for name, make in {
        "approximation": lambda: sw.approximate("sin(x)", sw.Box(x=(-1, 1)), tol=1e-4),
        "composition": lambda: sw.approximate(
            "max(x*y, 0.1)", sw.Box(x=(-1, 1), y=(-1, 1)), tol=1e-4, strategy="compose"
        ),
        "memory": lambda: sw.memorize([[1, 2], [2, 1], [3]], [0.5, -1.0, 2.0]),
        "transpiled": lambda: sw.transpile(_mlp(), box=(-1, 1)),
        "transpiled_module": lambda: sw.transpile(_module()),
        "in_context": lambda: sw.in_context("ridge", features=2, penalty=0.1),
        "program": lambda: sw.compile(
            "count(s[j] == s[i]), sum(x[j] for j <= i)", sw.Sequence(length=(1, 4), s=sw.Symbols("ab"), x=(-1, 1))
        ),
        "theorem": lambda: sw.theorem("A1").build(points=12, tokens=3, dim=2),
    }.items()
}
