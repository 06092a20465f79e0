"""A stack is softmax attention and linear maps: other implementations give the same numbers, files give it back."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.attention.stack import StackLayer
from softwright.methods.methods import METHODS
from softwright.methods.network import InContextStack
from softwright.methods.reference import random_design

SMALL = {
    "fista": {"steps": 60},
    "admm": {"steps": 40},
    "projected_gradient": {"steps": 60},
    "gradient": {"steps": 5},
    "chebyshev": {"condition": 10.0},
    "irls": {"steps": 6},
    "newton": {"steps": 2, "condition": 10.0},
    "majorised": {"steps": 30, "condition": 30.0},
    "purification": {"steps": 20},
    "richardson": {"steps": 40},
    "lloyd": {"steps": 5},
    "em": {"steps": 3},
    "scan": {"x_bound": 63.0},
    "td": {"steps": 50},
}
JOBS = [(method, solver) for method, row in METHODS.items() for solver in row.solvers]


def _features(method: str) -> int:
    return METHODS[method].takes or 3


def _built(method: str, solver: str, **extra: object) -> sw.Built:
    given: Any = {**SMALL.get(solver, {}), **extra}
    return sw.in_context(method, _features(method), solver=solver, sample=False, certify=False, **given)


def _by_hand(stack: InContextStack, x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The formula of the module's docstring in NumPy, head by head."""
    from softwright.methods.prompts import read_prompt

    if stack.alone and len(queries) > 1:
        return np.concatenate([_by_hand(stack, x, y, query[None]) for query in queries])
    prompt = read_prompt(x, y, queries, None, stack.constants, stack.dtype, True)
    stream = {name: tokens[0].numpy() for name, tokens in stack.embed(prompt).items()}
    for position in range(stack.depth):
        layer = stack.layer_at(position)
        rows = np.concatenate([stream[name] for name in layer.rows])
        keys = np.concatenate([stream[name] for name in layer.keys])
        new = rows if layer.R is None else rows @ layer.R.numpy()
        for Wq, Wk, Wv, Wo in zip(layer.Wq.numpy(), layer.Wk.numpy(), layer.Wv.numpy(), layer.Wo.numpy(), strict=True):
            scores = (rows @ Wq) @ (keys @ Wk).T
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            new = new + (weights / weights.sum(axis=1, keepdims=True)) @ (keys @ Wv) @ Wo
        lengths = np.cumsum([len(stream[name]) for name in layer.rows])[:-1]
        stream |= dict(zip(layer.rows, np.split(new, lengths), strict=True))
    return stack.answered(prompt, torch.tensor(stream["query"])[None])[0].numpy()


def _constant_tokens_are_read_only(stack: InContextStack) -> None:
    moved = {name for layer in stack.distinct for name in layer.rows}
    fixed = {name for name, source in stack.sources.items() if source == "fixed"}
    moved, fixed = ({re.sub(r"^part\d+_", "", name) for name in names} for names in (moved, fixed))  # of averaging
    # units, centres of clusters and votes of averaged methods begin as constants and are moved: that is the method
    assert moved & fixed <= {"unit", "hidden", "basis", "centres", "votes"}
    assert "null" not in moved and "count" not in moved


@pytest.mark.parametrize(("method", "solver"), JOBS)
def test_the_formula_by_hand_sdpa_stock_multihead_attention_and_the_file_agree(
    method: str, solver: str, tmp_path: Path
) -> None:
    built = _built(method, solver)
    x, y = random_design(method, _features(method), 46, 11)
    given = built(x=x[:40], y=y[:40], queries=x[40:], check=False)
    scale = 1.0 + np.abs(given).max()
    assert np.abs(_by_hand(built.network, x[:40], y[:40], x[40:]) - given).max() <= 1e-8 * scale
    with torch.no_grad():
        stock = built.network.multihead()(torch.tensor(x[:40]), torch.tensor(y[:40]), torch.tensor(x[40:])).numpy()
    assert np.abs(stock - given).max() <= 1e-8 * scale
    built.save(tmp_path / "stack.safetensors")
    again = sw.load(tmp_path / "stack.safetensors")
    assert np.array_equal(again(x=x[:40], y=y[:40], queries=x[40:], check=False), given)
    assert again.network.describe() == built.network.describe()
    _constant_tokens_are_read_only(built.network)


def test_there_is_nothing_but_attention_and_linear_maps() -> None:
    stack = _built("lasso", "fista").network
    kinds = {type(module).__name__ for module in stack.modules()}
    assert kinds == {"InContextStack", "ModuleList", "StackLayer"}


def test_prompts_are_batched_and_do_not_see_each_other() -> None:
    built = _built("ridge", "newton_schulz")
    designs = [random_design("ridge", 3, 36, seed) for seed in (1, 2, 3)]
    x, y = np.stack([d[0] for d in designs]), np.stack([d[1] for d in designs])
    together = built(x=x[:, :30], y=y[:, :30], queries=x[:, 30:])
    assert together.shape == (3, 6)
    for k in range(3):
        alone = built(x=x[k, :30], y=y[k, :30], queries=x[k, 30:])
        assert np.allclose(together[k], alone, rtol=0, atol=1e-11)


def test_a_changed_weight_changes_the_answer() -> None:
    """The coordinates that a layer uses are remembered between runs, but not beyond a change, which is no solution."""
    built = _built("least_squares", "newton_schulz")
    x, y = random_design("least_squares", 3, 36, 4)
    before = built(x=x[:30], y=y[:30], queries=x[30:])
    last = built.network.layer_at(built.network.depth - 1)
    assert isinstance(last, StackLayer)
    last.Wo[:, :, built.network.slots["offset"][0]] += 1.0
    after = built(x=x[:30], y=y[:30], queries=x[30:], check=False)
    assert np.abs(after - before).max() > 1e-6
    with pytest.raises(sw.InvalidInput, match="have lost digits"):
        built(x=x[:30], y=y[:30], queries=x[30:], adapt=False)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_autocast_changes_nothing(dtype: str) -> None:
    for method, solver in (("ridge", "newton_schulz"), ("logistic", "gradient"), ("lasso", "fista")):
        built = _built(method, solver, dtype=dtype)
        x, y = random_design(method, 3, 46, 13)
        given = [torch.tensor(part, dtype=built.network.dtype) for part in (x[:40], y[:40], x[40:])]
        plain, fitted = built.network(*given, check=False), built.network.coefficients(*given[:2], check=False)
        stock = built.network.multihead()(*given)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(built.network(*given, check=False), plain)
            assert torch.equal(built.network.coefficients(*given[:2], check=False)[0], fitted[0])
            assert torch.equal(built.network.multihead()(*given), stock)
