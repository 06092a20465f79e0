"""Networks of every kind that are sent through every exporter, in both dtypes, and what they are asked.

Points are answers: a sequence has several tokens, a token matrix several numbers and a prompt several queries, so that
fewer of them make as many answers, but never fewer than 5,000. Stacks in context have few layers here: what is asked of
a format does not grow with them, and each is asked about 5,000 different prompts of 20 queries. Ridge regression has a
penalty for which seven steps suffice in either dtype: fewer leave prompts that the stack refuses. Where every token
asks in every layer, as many answers are those of fewer prompts of 60 queries, and transpiled networks are narrow:
there a token of a neuron is a head.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

import softwright as sw
from softwright.export.selftest import answered, given_to
from softwright.precision import name_of

LARGEST = 5000  # inputs of the largest batch
SEVERAL = ("program", "theorem")  # kinds whose one input has several answers
ROWS, QUERIES, MANY = 12, 20, 60  # of a prompt
LENGTH, WIDTH = 24, 3  # of sequences of vectors that a memory holds


def _mlp(layout: str, dtype: str) -> sw.Built[Any]:
    torch.manual_seed(0)
    source = nn.Sequential(nn.Linear(4, 3), nn.GELU(), nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    return sw.transpile(source.to(getattr(torch, dtype)).eval(), box=(-1, 1), layout=layout, tol=1e-4)


def _formula(text: str, tol: dict[str, float], **sides: tuple[float, float]) -> Callable[[str], sw.Built[Any]]:
    return lambda dtype: sw.approximate(text, sw.Box(sides), tol=tol[dtype], dtype=dtype)


class _Gated(nn.Module):
    """silu(W x) (V x), as in the feed-forward blocks of many transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


def _gated(dtype: str) -> sw.Built[Any]:
    torch.manual_seed(0)
    return sw.transpile(_Gated().to(getattr(torch, dtype)).eval(), box=(-1, 1))


def _memory(dtype: str, **options: Any) -> sw.Built[Any]:
    return sw.memorize([[1, 2], [2, 1], [3, 3], [1, 3]], [0.5, -1.0, 2.0, 1.0], dtype=dtype, **options)


def _rows() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(LENGTH, 2, WIDTH))


def _vectors(dtype: str) -> sw.Built[Any]:
    return sw.memorize(_rows(), list(range(LENGTH)), dtype=dtype)


def inputs(name: str, built: sw.Built[Any], points: int, queries: int = QUERIES) -> tuple[np.ndarray, ...]:
    """Of the set that the claim speaks of: of a memory of vectors what it holds, of a stack prompts of many queries."""
    if name == "memory, vectors":
        drawn = np.random.default_rng(11).integers(0, LENGTH, size=points)
        return (_rows()[drawn].astype(name_of(built.network.dtype)),)
    if built.kind == "in_context":
        return _prompts(built, -(-points // queries), queries)
    answers = answered(built, given_to(built, 1))[0].size if built.kind in SEVERAL else 1
    return given_to(built, max(min(points, LARGEST), -(-points // answers)), seed=11)


def _prompts(built: sw.Built[Any], count: int, queries: int) -> tuple[np.ndarray, ...]:
    """Rows, labels 0 and 1, which every method here takes, and queries."""
    rng, d = np.random.default_rng(11), built.network.features
    x, labels, asked = rng.normal(size=(count, ROWS, d)), rng.integers(0, 2, (count, ROWS)), (count, queries, d)
    labels[:, 0], labels[:, 1] = 0, 1  # logistic regression refuses prompts of one class
    return tuple(array.astype(name_of(built.network.dtype)) for array in (x, labels, rng.normal(size=asked)))


def _wave(a: Any, b: Any, c: Any, d: Any, f: Any, g: Any) -> Any:
    """A callable of six variables, which becomes a tensor train."""
    return np.sin(a) * np.exp(-b * c) + d * np.cos(f) / (2 + g)


def _train(dtype: str) -> sw.Built[Any]:
    sides = dict.fromkeys("abcdfg", (0.0, 1.0))
    return sw.approximate(_wave, sw.Box(sides), tol={"float64": 1e-4, "float32": 1e-2}[dtype], dtype=dtype)


def _theorem(label: str, dtype: str) -> sw.Built[Any]:
    return sw.theorem(label).build(dtype=dtype)


THEOREMS = ("B1", "B4", "C3", "C6")
_FINE, _COARSE = {"float64": 1e-6, "float32": 1e-4}, {"float64": 1e-4, "float32": 1e-3}
NETWORKS: dict[str, Callable[[str], sw.Built[Any]]] = {
    "approximation, line": _formula("sin(3*x)", _FINE, x=(-1, 1)),
    "approximation, kink": _formula("abs(x - 0.2) + sin(x)", _FINE, x=(-1, 2)),
    "approximation, plane": _formula("sin(2*x)*cos(y)", _FINE, x=(-1, 1), y=(0, 2)),
    "approximation, gates": _formula("max(x, y, z)", _COARSE, x=(-1, 1), y=(-1, 1), z=(-1, 1)),
    "composition": lambda dtype: sw.approximate(
        "exp(abs(x - y))*cos(z)",
        sw.Box(x=(-1, 1), y=(-1, 1), z=(-1, 1)),
        tol={"float64": 1e-6, "float32": 1e-2}[dtype],
        dtype=dtype,
        strategy="compose",
    ),
    "transpiled, softmax": lambda dtype: _mlp("softmax", dtype),
    "transpiled, sdpa": lambda dtype: _mlp("sdpa", dtype),
    "transpiled, multihead": lambda dtype: _mlp("multihead", dtype),
    "transpiled, sequence": lambda dtype: _mlp("sequence", dtype),
    "transpiled, gated": _gated,
    "tensor train": _train,
    "memory": _memory,
    "memory, feedforward": lambda dtype: _memory(dtype, readout="feedforward"),
    "memory, vectors": _vectors,
    "memory, tokens": lambda dtype: sw.memorize(
        [[1, 2], [2, 1], [3, 3]], [[0.0, 1.0], [1.0, 2.0], [0.0, 0.5]], mode="token", causal=True, dtype=dtype
    ),
    "in context, ridge": lambda dtype: sw.in_context(
        "ridge", features=2, penalty=1.0, scaling=False, condition=2, largest_eigenvalue=4, steps=7, dtype=dtype
    ),
    "in context, gradient": lambda dtype: sw.in_context(
        "ridge", features=2, penalty=0.1, solver="gradient", steps=4, dtype=dtype
    ),
    "in context, logistic": lambda dtype: sw.in_context(
        "logistic", features=2, penalty=0.1, solver="gradient", steps=2, dtype=dtype
    ),
    "in context, kernel": lambda dtype: sw.in_context("nadaraya_watson", features=2, dtype=dtype),
    "program, counts": lambda dtype: sw.compile(
        "count(s[j] == s[i]), sum(x[j] for j <= i)",
        sw.Sequence(length=(1, 6), s=sw.Symbols("ab"), x=(-1, 1)),
        dtype=dtype,
        tol={"float64": 1e-9, "float32": 1e-3}[dtype],
    ),
    "program, symbols": lambda dtype: sw.compile(
        "s[n - 1 - i]", sw.Sequence(length=(1, 8), s=sw.Symbols("abcd")), dtype=dtype
    ),
    "program, reals": lambda dtype: sw.compile(
        "x - mean(x), max(x[j] for j <= i)", sw.Sequence(length=4, x=(-1, 1)), tol=1e-2, dtype=dtype
    ),
    "theorem A1": lambda dtype: sw.theorem("A1").build(points=24, tokens=3, dim=2, dtype=dtype),
    "theorem A5": lambda dtype: sw.theorem("A5").build(points=40, tokens=6, dim=2, dtype=dtype),
    **{f"theorem {label}": partial(_theorem, label) for label in THEOREMS},
}
