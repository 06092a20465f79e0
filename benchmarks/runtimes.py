"""Does a bound hold however torch is set? Networks in both dtypes, 10^5 points for each setting.

    python benchmarks/runtimes.py                 autocast, products, default dtype, 1, 2, 4 threads, torch.compile
    python benchmarks/runtimes.py --points 1000

For each network the largest error, against the formula or source in float64, over its proved bound: above 1 is a
violation. A memory is asked for what it holds. Of a stack in context one certified step is run, on prompts drawn and
judged as in `judging/in_context.py`; the points of a theorem are drawn by `judging/tasks.py`, and where the theorem
speaks of real arithmetic the run is held against it all the same. `compiled` is no run that certificates cover; it is
tried all the same, and the table says where torch cannot compile a network, and where the points go another way.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from judging.in_context import Gradient, NewtonSchulz, long_double
from judging.tasks import TASKS

import softwright as sw

TOGETHER = 5000  # prompts, or inputs of a theorem, judged at a time


@dataclass
class Case:
    """A network with its bound, and the largest error it makes at so many points."""

    name: str
    built: sw.Built[Any]
    error: Callable[[sw.Built[Any], int], float]


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def _medium() -> Iterator[None]:
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision("highest")


@contextlib.contextmanager
def _half() -> Iterator[None]:
    torch.set_default_dtype(torch.float16)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


SETTINGS: dict[str, Callable[[], Any]] = {
    "plain": contextlib.nullcontext,
    "bfloat16": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "float16": lambda: torch.autocast("cpu", dtype=torch.float16),
    "medium": _medium,
    "default half": _half,
    "1 thread": lambda: _threads(1),
    "2 threads": lambda: _threads(2),
    "4 threads": lambda: _threads(4),
}


def _points(count: int, dim: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(5).uniform(-1, 1, (count, dim)).astype(dtype).astype(np.float64)


def _formula(text: str, values: Callable[[np.ndarray], np.ndarray], tol: float, dtype: str, engine: str) -> Case:
    built = sw.approximate(text, sw.Box(x=(-1, 1), y=(-1, 1)), tol=tol, dtype=dtype, strategy="layer")
    if engine != "sdpa":
        built = replace(built, certificate=sw.certify(built.network, text, bound=tol, engine=engine).certificate)

    def error(built: sw.Built[Any], count: int) -> float:
        x = _points(count, 2, dtype)
        return float(np.abs(built.network.evaluate(x, engine=engine)[:, 0] - values(x)).max())

    return Case(f"approximate {engine}", built, error)


def _transpiled(dtype: str, layout: str) -> Case:
    torch.manual_seed(0)
    layers = torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)
    source = torch.nn.Sequential(*layers).to(getattr(torch, dtype)).eval()
    built = sw.transpile(source, box=(-1, 1), dtype=dtype, layout=layout)
    first, second = ([p.detach().double().numpy() for p in layer.parameters()] for layer in (layers[0], layers[2]))

    def error(built: sw.Built[Any], count: int) -> float:
        x = _points(count, 2, dtype)
        exact = np.maximum(x @ first[0].T + first[1], 0) @ second[0].T + second[1]
        return float(np.abs(built(x) - exact).max())

    return Case(f"transpile {layout}", built, error)


def _memory(dtype: str, engine: str) -> Case:
    rows = np.unique(np.random.default_rng(0).integers(0, 50, (2000, 4)), axis=0)
    labels = np.arange(len(rows)) % 7
    built = sw.memorize(rows, labels, dtype=dtype)

    def error(built: sw.Built[Any], count: int) -> float:
        asked = np.random.default_rng(5).integers(0, len(rows), count)
        found = built.network.recall(rows[asked], engine=engine)
        return 0.0 if bool(found.known.all()) and list(found.labels) == labels[asked].tolist() else float("inf")

    return Case(f"memorize {engine}", built, error)


def _stack(text: str, values: Callable[[np.ndarray], np.ndarray], tol: float, dtype: str) -> Case:
    built = sw.approximate(text, sw.Box(x=(-1, 1), y=(-1, 1)), tol=tol, dtype=dtype, strategy="compose")

    def error(built: sw.Built[Any], count: int) -> float:
        x = _points(count, 2, dtype)
        return float(np.abs(built(x)[:, 0] - values(x)).max())

    return Case("approximate compose", built, error)


def _in_context(method: str, solver: str, dtype: str) -> Case:
    built = sw.in_context(method, 2, solver=solver, dtype=dtype, sample=False)
    step = (NewtonSchulz if solver == "newton_schulz" else Gradient)(
        built.network, built.sections()["model"]["settings"]
    )
    batches: list[dict[str, np.ndarray]] = []
    seen: dict[bytes, float] = {}  # equal bits err alike

    def error(built: sw.Built[Any], count: int) -> float:
        """Of one step, in units of its bound, as the bounds of a step are several."""
        quantities, rng, worst = built.certificate.quantities, np.random.default_rng(5), 0.0
        bounds = np.array([built.certificate.bound, *(quantities[name] for name in step.further)])
        for at in range(len(batches) * TOGETHER, count, TOGETHER):
            batches.append(step.draw(rng, min(TOGETHER, count - at), 1 + at // TOGETHER % 6))
        for number, batch in enumerate(batches):
            ran = step.ran(batch)
            key = b"".join([number.to_bytes(4), *(array.tobytes() for array in ran)])
            if key not in seen:
                seen[key] = float((step.judged(batch, ran, long_double) / bounds).max())
            worst = max(worst, seen[key])
        return worst * built.certificate.bound

    return Case(f"in context {method} by {solver}", built, error)


def _theorem(label: str, dtype: str, **sizes: Any) -> Case:
    built = sw.theorem(label).build(dtype=dtype, **sizes)

    def error(built: sw.Built[Any], count: int) -> float:
        task = TASKS[label](built.target["sizes"], built.target.get("drawn", {}))
        rng, worst = np.random.default_rng(5), 0.0
        for at in range(0, count, TOGETHER):
            X = task.draw(rng, min(TOGETHER, count - at))
            worst = max(worst, float(np.abs(built.network.evaluate(X) - task.wanted(X)).max(initial=0.0)))
        return worst

    return Case(f"theorem {label}", built, error)


def cases(dtype: str) -> Iterator[Case]:
    tol = 1e-6 if dtype == "float64" else 1e-3
    for engine in ("sdpa", "factorised"):
        smooth = "sin(3*x)*exp(-y**2)"
        yield _formula(smooth, lambda x: np.sin(3 * x[:, 0]) * np.exp(-(x[:, 1] ** 2)), tol, dtype, engine)
    kinked = "abs(x - 0.3) + y**2"
    yield _formula(kinked, lambda x: np.abs(x[:, 0] - 0.3) + x[:, 1] ** 2, 1e-3, dtype, "sdpa")
    for layout in ("softmax", "sdpa", "multihead", "sequence"):
        yield _transpiled(dtype, layout)
    for engine in ("pruned", "dense"):
        yield _memory(dtype, engine)
    yield _stack("max(x*y, 0.1) + sin(x)", lambda x: np.maximum(x[:, 0] * x[:, 1], 0.1) + np.sin(x[:, 0]), tol, dtype)
    for method, solver in (("ridge", "newton_schulz"), ("ridge", "gradient"), ("logistic", "gradient")):
        yield _in_context(method, solver, dtype)
    yield _theorem("A1", dtype, tokens=4, dim=2, points=20)
    yield _theorem("A6", dtype, points=50, width=4)
    yield _theorem("B2", dtype, cells=6)


def _compiled(case: Case, count: int) -> str:
    built, reached = case.built, False
    compiled = torch.compile(built.network.forward)

    def forward(*given: Any, **named: Any) -> Any:
        nonlocal reached
        reached = True
        return compiled(*given, **named)

    try:
        torch.compiler.reset()
        object.__setattr__(built.network, "forward", forward)
        share = case.error(built, count) / max(built.certificate.bound, 1e-300)
        return f"{share:.3g}" if reached else "not reached"
    except Exception as error:  # whatever a compiler may raise: the table says so
        return f"fails: {type(error).__name__}"
    finally:
        del built.network.__dict__["forward"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), help="these alone")
    options = parser.parse_args()
    broken = 0
    for dtype in ("float32", "float64"):
        for case in cases(dtype):
            certificate = case.built.certificate
            if certificate is None:
                print(f"{case.name} {dtype}: no certificate ({case.built.unproved})")
                continue
            bound = max(certificate.bound, 1e-300)
            shown = []
            for setting in options.settings:
                with SETTINGS[setting]():
                    share = case.error(case.built, options.points) / bound
                broken += share > 1
                shown.append(f"{setting} {share:.3g}")
            if not options.no_compile:
                shown.append(f"compiled {_compiled(case, options.points)}")
            print(f"{case.name} {dtype}, bound {bound:.3g}: {', '.join(shown)}", flush=True)
    print(f"{broken} violations")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
