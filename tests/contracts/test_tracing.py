"""What every kind of network must let others do: record it with a free batch, compile it, differentiate and batch it by
torch.func, copy it. Small networks; `tests/contracts/tracing.py` has the calls. Recording takes a second, so that rows
of one kind take turns: each is exported or compiled, each kind is both; `benchmarks/tracing.py` does all with all."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import softwright as sw
from softwright.result.kinds import KINDS
from tests.contracts.kinds_made import MADE
from tests.contracts.tracing import Call, close, compiled, copied, exported, inputs_of, transformed

_PLANE = sw.Box(x=(-1, 1), y=(0, 2))
_SEQUENCES, _CLASSES = [[1, 2], [2, 1], [3, 3]], ["a", "b", "a"]


def _mlp(activation: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), activation, nn.Linear(4, 2)).double().eval()


def _transpiled(layout: str, activation: nn.Module) -> Callable[[], sw.Built[Any]]:
    return lambda: sw.transpile(_mlp(activation), box=(-1, 1), layout=layout)


class _GatedBlock(nn.Module):
    """down(silu(gate(x)) * up(x)), spelt as the transformers that have such blocks spell it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = nn.Linear(2, 3), nn.Linear(2, 3), nn.Linear(3, 2)
        self.act_fn = nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


def _gated(layout: str) -> Callable[[], sw.Built[Any]]:
    def make() -> sw.Built[Any]:
        torch.manual_seed(0)
        return sw.transpile(_GatedBlock().double().eval(), box=(-1, 1), layout=layout)

    return make


# kind -> name -> what makes a network and the options of its forward
VARIANTS: dict[str, dict[str, tuple[Callable[[], sw.Built[Any]], dict[str, Any]]]] = {
    "approximation": {
        "dense": (MADE["approximation"], {}),
        "grid": (lambda: sw.approximate("sin(2*x)*cos(y)", _PLANE, tol=1e-2, strategy="affine"), {}),
        "factorised": (
            lambda: sw.approximate("sin(2*x)*cos(y)", _PLANE, tol=1e-2, strategy="affine"),
            {"engine": "factorised"},
        ),
        "window": (MADE["approximation"], {"engine": "window"}),
        "tree": (MADE["approximation"], {"engine": "tree"}),
        "double": (
            lambda: sw.approximate("sin(x)", sw.Box(x=(-1, 1)), tol=1e-2, dtype="float32"),
            {"engine": "double"},
        ),
    },
    "composition": {"stack": (MADE["composition"], {})},
    "memory": {
        "attention": (MADE["memory"], {}),
        "feedforward": (lambda: sw.memorize(_SEQUENCES, _CLASSES, readout="feedforward"), {}),
        "causal": (
            lambda: sw.memorize(_SEQUENCES, [[0.5, 1.0], [2.0, 1.0], [3.0, 0.0]], mode="token", causal=True),
            {},
        ),
        "vectors": (lambda: sw.memorize(np.eye(3)[:, None] * np.ones((1, 2, 1)), [1.0, 2.0, 3.0]), {}),
    },
    "transpiled": {
        **{f"{layout}-relu": (_transpiled(layout, nn.ReLU()), {}) for layout in ("softmax", "sdpa", "multihead")},
        **{f"{layout}-gelu": (_transpiled(layout, nn.GELU()), {}) for layout in ("softmax", "multihead", "sequence")},
        **{f"{layout}-gated": (_gated(layout), {}) for layout in ("softmax", "multihead")},
    },
    "transpiled_module": {"encoder": (MADE["transpiled_module"], {})},
    "in_context": {"ridge": (lambda: sw.in_context("ridge", features=1, penalty=0.1, solver="gradient", steps=1), {})},
    "program": {
        "sums": (MADE["program"], {}),
        "reals": (
            lambda: sw.compile("x - mean(x), max(x[j] for j <= i)", sw.Sequence(length=4, x=(-1, 1)), tol=1e-2),
            {},
        ),
    },
    "theorem": {"A1": (MADE["theorem"], {})},
}


def _checks(kind: str, name: str) -> list[Callable[[nn.Module, sw.Built[Any]], None]]:
    recorded = [exported, compiled]
    if name in ("multihead-relu", "softmax-gelu", "softmax-gated"):  # each layout and each activation has its turn
        recorded = []
    elif len(rows := list(VARIANTS[kind])) > 1:
        recorded = [recorded[rows.index(name) % 2]]
    return [*recorded, transformed, copied]


CASES = [
    pytest.param(kind, name, check, id=f"{check.__name__}-{kind}-{name}")
    for kind, rows in VARIANTS.items()
    for name in rows
    for check in _checks(kind, name)
]


@cache
def _built(kind: str, name: str) -> sw.Built[Any]:
    return VARIANTS[kind][name][0]()


def test_every_kind_is_covered() -> None:
    assert set(VARIANTS) == set(KINDS)


@pytest.mark.filterwarnings("ignore")  # of torch's own tracers
@pytest.mark.parametrize(("kind", "name", "check"), CASES)
def test_contract(kind: str, name: str, check: Callable[[nn.Module, sw.Built[Any]], None]) -> None:
    built = _built(kind, name)
    assert built.kind == kind
    check(Call(built.network, **VARIANTS[kind][name][1]), built)


def test_what_is_looked_through_is_the_plain_formula_and_what_runs_is_unchanged() -> None:
    built = _built("approximation", "grid")
    (x,) = inputs_of(built, 6)
    before = built.network(x)
    inside = torch.func.vmap(lambda point: built.network(point[None])[0])(x)
    assert close(inside, before)
    assert torch.equal(built.network(x), before)


def test_a_prompt_that_is_no_prompt_is_still_refused_outside_of_graphs() -> None:
    built = _built("in_context", "ridge")
    x, y, queries = inputs_of(built, 2)
    with pytest.raises(sw.InvalidInput, match="nan or infinite"):
        built.network(x * torch.nan, y, queries)


def test_no_product_of_three_tensors_is_left_to_what_is_installed() -> None:
    """torch.einsum asks opt_einsum, if there is one, in which order: another graph, without a free batch."""
    calls = []
    for path in Path(sw.__file__).parent.rglob("*.py"):
        if "torch.einsum" not in (text := path.read_text("utf-8")):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.einsum":
                calls.append((path.name, node.lineno, len(node.args)))
    assert calls
    assert [call for call in calls if call[2] > 3] == []
