"""Whatever torch is told outside, a network of any kind computes what was proved: the same bits, by full products."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import softwright as sw
from softwright.settings import SETTING, as_proved

POINTS = np.random.default_rng(0).uniform(-1, 1, (300, 2))
STORED = [f"a{i} b{i % 7} c" for i in range(40)]
PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "linear", "matmul", "scaled_dot_product")


def _mlp() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = torch.nn.Linear(2, 9), torch.nn.GELU(), torch.nn.Linear(9, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)
    return torch.nn.Sequential(*layers).float().eval()


def _transpiled(layout: str) -> sw.Built[Any]:
    return sw.transpile(_mlp(), box=(-1, 1), tol=1e-2, dtype="float32", layout=layout, certify=False)


def _approximation() -> sw.Built[Any]:
    box = sw.Box(x=(-1, 1), y=(-1, 1))
    return sw.approximate("sin(3*x)*exp(-y**2)", box, tol=1e-3, dtype="float32", strategy="layer", certify=False)


def _prompt(built: sw.Built[Any]) -> np.ndarray:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(12, 2))
    return built(x=x, y=x @ [1.0, -2.0], queries=rng.normal(size=(5, 2)))


def _weights(engine: str) -> Callable[[sw.Built[Any]], np.ndarray]:
    return lambda built: built.network.recall(STORED, engine=engine).weight


RUNS: dict[str, tuple[Callable[[], sw.Built[Any]], Callable[[sw.Built[Any]], np.ndarray]]] = {
    "sdpa": (_approximation, lambda built: built(POINTS)),
    "factorised": (_approximation, lambda built: built(POINTS, engine="factorised")),
    **{
        f"transpiled {layout}": (lambda layout=layout: _transpiled(layout), lambda built: built(POINTS))
        for layout in ("softmax", "sdpa", "multihead", "sequence")
    },
    **{
        f"memory {engine} {readout}": (
            lambda readout=readout: sw.memorize(STORED, list(range(40)), dtype="float32", readout=readout),
            _weights(engine),
        )
        for engine in ("pruned", "dense")
        for readout in ("attention", "feedforward")
    },
    "in context": (lambda: sw.in_context("ridge", features=2, penalty=0.1, dtype="float32"), _prompt),
    "theorem": (
        lambda: sw.theorem("B2").build(cells=4, dtype="float32"),
        lambda built: built(POINTS[:50].reshape(50, 2, 1)),
    ),
}
_made = cache(lambda name: RUNS[name][0]())


@contextmanager
def _precision(value: str) -> Iterator[None]:
    torch.set_float32_matmul_precision(value)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision("highest")


@contextmanager
def _default(dtype: torch.dtype) -> Iterator[None]:
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def _nested() -> Iterator[None]:
    with torch.autocast("cpu", dtype=torch.float16), torch.autocast("cpu", dtype=torch.bfloat16):
        yield


OUTSIDE: dict[str, Callable[[], Any]] = {
    "bfloat16": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "float16": lambda: torch.autocast("cpu", dtype=torch.float16),
    "nested": _nested,
    "medium": lambda: _precision("medium"),
    "default half": lambda: _default(torch.float16),
    "default double": lambda: _default(torch.float64),
}


@pytest.mark.parametrize("outside", OUTSIDE)
@pytest.mark.parametrize("name", RUNS)
def test_settings_outside_change_no_bit(name: str, outside: str) -> None:
    built, ask = _made(name), RUNS[name][1]
    plain = ask(built)
    with OUTSIDE[outside]():
        told = ask(built)
    assert np.array_equal(plain, told)


class _Watch(TorchDispatchMode):
    """Notes how float32 matrices would be multiplied, at every product."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(part in str(func) for part in PRODUCTS):
            self.seen.append(SETTING.read())
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("value", ["high", "medium"])
@pytest.mark.parametrize("name", [name for name in RUNS if "pruned" not in name])
def test_float32_matrices_are_multiplied_in_full(name: str, value: str) -> None:
    built, ask = _made(name), RUNS[name][1]
    with _precision(value):
        before = SETTING.read()
        with _Watch() as watch:
            ask(built)
        assert SETTING.read() == before != "ieee"
        assert torch.get_float32_matmul_precision() == value
    assert watch.seen
    assert set(watch.seen) == {"ieee"}


def test_the_setting_stays_while_any_thread_is_inside() -> None:
    entered, leave, seen = threading.Event(), threading.Event(), []

    def stay() -> None:
        with as_proved(torch.zeros(1)):
            entered.set()
            leave.wait(10)
            seen.append(SETTING.read())

    with _precision("medium"):
        thread = threading.Thread(target=stay)
        thread.start()
        entered.wait(10)
        with as_proved(torch.zeros(1)):
            pass  # comes later, leaves first
        leave.set()
        thread.join()
        assert seen == ["ieee"]
        assert SETTING.read() == "bf16"


def test_a_setting_that_was_inherited_is_inherited_again() -> None:
    backends: Any = torch.backends
    backends.mkldnn.matmul.fp32_precision = "none"
    backends.fp32_precision = "tf32"
    try:
        with as_proved(torch.zeros(1)):
            assert SETTING.read() == "ieee"
        assert SETTING.read() == "tf32"
    finally:
        backends.fp32_precision = "none"
    assert SETTING.read() in ("none", "ieee")
