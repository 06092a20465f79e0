"""Networks of every kind, engine, layout, method, solver and theorem through torch.export, torch.compile, torch.func.

    python benchmarks/tracing.py [--only WORD ...]

The calls are those of the contract (tests/contracts/tracing.py), which has a few small rows of each kind; here are all.
One line per row: seconds, and what failed. Stacks in context are built with few steps: a graph grows with them, what is
asked of it does not. Networks of theorems with thousands of inputs have no Hessian that fits: such rows say so.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import softwright as sw
from softwright.methods.methods import METHODS
from softwright.methods.reference import prompts
from softwright.theorems import LABELS

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.contracts import tracing
from tests.contracts.tracing import Call, compiled, copied, exported, transformed

Made = Callable[[], sw.Built[Any]]
CHECKS = (exported, compiled, transformed, copied)
DTYPES = ("float64", "float32")
MOST = 400  # numbers of one input, and at most as many of its output, for a Hessian
STEPS: dict[str, Any] = {"steps": 1, "condition": 2.0, "accuracy": 0.3}
_usual = tracing.inputs_of


class _Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = nn.Linear(2, 3), nn.Linear(2, 3), nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


def _mlp(activation: nn.Module, dtype: str) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), activation, nn.Linear(4, 2)).to(getattr(torch, dtype)).eval()


def _of_four(a: Any, b: Any, c: Any, d: Any) -> Any:
    """A callable that becomes a tensor train."""
    return np.sin(a + b) * np.cos(c * d)


def _approximations() -> Iterator[tuple[str, Made, dict[str, Any]]]:
    line, plane = sw.Box(x=(-1, 1)), sw.Box(x=(-1, 1), y=(0, 2))
    sides = sw.Box(dict.fromkeys("abcd", (0.0, 1.0)))
    for dtype in DTYPES:
        for engine in ("sdpa", "double", "window", "tree", "factorised"):
            if (engine, dtype) != ("double", "float64"):
                yield (
                    f"approximation, {engine}, {dtype}",
                    lambda d=dtype: sw.approximate("sin(2*x)*cos(y)", plane, tol=1e-2, strategy="affine", dtype=d),
                    {"engine": engine},
                )
        yield f"approximation, usual, {dtype}", lambda d=dtype: sw.approximate("abs(x)+x", line, tol=1e-2, dtype=d), {}
        yield (
            f"composition, {dtype}",
            lambda d=dtype: sw.approximate("max(x*y, exp(x))", plane, tol=1e-2, strategy="compose", dtype=d),
            {},
        )
        yield f"tensor train, {dtype}", lambda d=dtype: sw.approximate(_of_four, sides, tol=1e-2, dtype=d), {}
    table = np.stack([np.linspace(0, 1, 40), np.linspace(0, 1, 40) ** 2], axis=1)
    yield "table", lambda: sw.approximate((table[:, :1], table[:, 1]), sw.Box(x=(0, 1)), tol=1e-2), {}


def _memories() -> Iterator[tuple[str, Made, dict[str, Any]]]:
    keys, numbers, both = [[1, 2], [2, 1], [3, 3]], [0.5, -1.0, 2.0], [[0.5, 1.0], [2.0, 1.0], [3.0, 0.0]]
    for dtype in DTYPES:
        for readout in ("attention", "feedforward"):
            make = lambda r=readout, d=dtype: sw.memorize(keys, numbers, readout=r, dtype=d)  # noqa: E731
            yield f"memory, {readout}, {dtype}", make, {}
        yield f"memory, classes, {dtype}", lambda d=dtype: sw.memorize(keys, ["a", "b", "a"], dtype=d), {}
        make = lambda d=dtype: sw.memorize(keys, both, mode="token", causal=True, dtype=d)  # noqa: E731
        yield f"memory, tokens, {dtype}", make, {}
        vectors = np.random.default_rng(0).normal(size=(5, 2, 3))
        yield f"memory, vectors, {dtype}", lambda d=dtype, v=vectors: sw.memorize(v, [1.0, 2, 3, 4, 5], dtype=d), {}


def _transpiled() -> Iterator[tuple[str, Made, dict[str, Any]]]:
    for dtype in DTYPES:
        for layout in ("softmax", "sdpa", "multihead", "sequence"):
            for name, unit in {"relu": nn.ReLU(), "gelu": nn.GELU(), "tanh": nn.Tanh()}.items():
                make = lambda u=unit, x=layout, d=dtype: sw.transpile(_mlp(u, d), box=(-1, 1), layout=x)  # noqa: E731
                yield f"transpiled, {layout}, {name}, {dtype}", make, {}
        for layout in ("softmax", "multihead"):
            block = _Gated().to(getattr(torch, dtype)).eval()
            make = lambda x=layout, b=block: sw.transpile(b, box=(-1, 1), layout=x)  # noqa: E731
            yield f"transpiled, {layout}, gated, {dtype}", make, {}
    encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).double().eval()
    yield "transformer", lambda: sw.transpile(encoder), {}


def _programs() -> Iterator[tuple[str, Made, dict[str, Any]]]:
    texts = {
        "count(s[j] == s[i]), sum(x[j] for j <= i)": sw.Sequence(length=(1, 6), s=sw.Symbols("ab"), x=(-1, 1)),
        "s[n - 1 - i]": sw.Sequence(length=(1, 8), s=sw.Symbols("abcd")),
        "x - mean(x), max(x[j] for j <= i)": sw.Sequence(length=4, x=(-1, 1)),
    }
    for text, sequence in texts.items():
        yield f"program, {text}", lambda t=text, s=sequence: sw.compile(t, s, tol=1e-2), {}


def _others() -> Iterator[tuple[str, Made, dict[str, Any]]]:
    for method, row in METHODS.items():
        for solver in row.solvers:
            make = lambda m=method, s=solver, d=row.takes or 2: sw.in_context(  # noqa: E731
                m, d, solver=s, sample=False, certify=False, **STEPS
            )
            yield f"in context, {method}, {solver}", make, {"check": False}  # few steps answer few prompts
    for label in LABELS:
        yield f"theorem {label}", lambda one=label: sw.theorem(one).build(), {}


def inputs_of(built: sw.Built[Any], batch: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """As the contract has them; of a method such prompts as it takes."""
    if built.kind != "in_context":
        return _usual(built, batch, seed)
    return tuple(torch.tensor(a) for a in prompts(built.network, batch, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="a word of the names of the rows to try")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    tracing.inputs_of = inputs_of
    torch.set_num_threads(1)
    rows = [*_approximations(), *_memories(), *_transpiled(), *_programs(), *_others()]
    tried, failed = 0, 0
    for name, make, given in rows:
        if options.only and not any(word in name for word in options.only):
            continue
        started, faults = time.perf_counter(), []
        try:
            built = make()
        except sw.SoftwrightError as error:
            print(f"{name}: not built: {str(error)[:160]}", flush=True)
            continue
        large = built.kind == "theorem" and int(np.prod(built.network.inputs)) > MOST
        for check in CHECKS:
            if large and check is transformed:
                continue
            try:
                check(Call(built.network, **given), built)
            except Exception as error:
                faults.append(f"{check.__name__}: {type(error).__name__} {str(error)[:200]!r}")
        tried, failed = tried + 1, failed + bool(faults)
        said = "; ".join(faults) or ("works (no Hessian asked)" if large else "works")
        print(f"{name}: {said} ({time.perf_counter() - started:.1f} s)", flush=True)
    print(f"{tried} rows, {failed} with a fault")


if __name__ == "__main__":
    main()
