"""Kinds x exporters: the largest deviation from torch beside the claim's rounding part, in both dtypes.

    python benchmarks/exports.py [--points 100000] [--rows theorem --rows program] [--write docs/exports.md]

Every exported file answers batches of 1, of 7, and of 5,000 until all points are answered. A cell is the largest
deviation over the points; two runs that a claim covers differ by at most twice its rounding part, which stands in the
first column. Points are answers: a sequence has several tokens and a token matrix several numbers, so that fewer of
them make as many answers, but never fewer than 5,000. Cells of runtimes that are not installed stay empty; "none" is
what a format does not hold. C is compiled at -O0, -O2 and -O3 by every compiler found; its CPU time at one point after
another is compared with torch's in a batch of 20,000. Prompts are slow in torch: where there are fewer different inputs
than 5,000, the row says how many, and batches repeat them.
With --rows, only networks whose names hold one of the words are measured, and the page keeps its other rows.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.util
import shutil
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

import softwright as sw
from softwright.export import exporter_named
from softwright.export.selftest import allowance, answered, given_to
from softwright.precision import name_of

BATCHES, DTYPES = (1, 7, 5000), ("float64", "float32")
SOME, TURNS, ENOUGH = 20_000, 12, 8.0  # points in a batch, turns and CPU seconds, for times
Run = Callable[..., np.ndarray]
DIFFERENT = {"in_context": 200}  # inputs of kinds that torch takes long over; batches of 5,000 repeat them
SEVERAL = ("program", "in_context", "theorem")  # kinds whose one input has several answers
LENGTH, WIDTH = 24, 3  # of sequences of vectors that a memory holds


def _mlp(layout: str, dtype: str) -> sw.Built[Any]:
    torch.manual_seed(0)
    source = nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    return sw.transpile(source.to(getattr(torch, dtype)).eval(), box=(-1, 1), layout=layout)


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


def inputs(name: str, built: sw.Built[Any], points: int) -> tuple[np.ndarray, ...]:
    """Of the set that the claim speaks of: of a memory of vectors what it holds."""
    if name == "memory, vectors":
        drawn = np.random.default_rng(11).integers(0, LENGTH, size=points)
        return (_rows()[drawn].astype(name_of(built.network.dtype)),)
    answers = answered(built, given_to(built, 1))[0].size if built.kind in SEVERAL else 1
    count = max(min(points, BATCHES[-1]), -(-points // answers))
    return given_to(built, min(count, DIFFERENT.get(built.kind, count)), seed=11)


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
    "in context, ridge": lambda dtype: sw.in_context("ridge", features=2, penalty=0.1, dtype=dtype),
    "in context, gradient": lambda dtype: sw.in_context(
        "ridge", features=2, penalty=0.1, solver="gradient", steps=4, dtype=dtype
    ),
    "in context, logistic": lambda dtype: sw.in_context("logistic", features=2, penalty=0.1, dtype=dtype),
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


def by_onnxruntime(built: sw.Built[Any], folder: Path) -> Run | None:
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    onnxruntime = importlib.import_module("onnxruntime")
    built.export(folder / "f.onnx")
    session = onnxruntime.InferenceSession(str(folder / "f.onnx"), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    return lambda *x: session.run(None, dict(zip(names, x, strict=True)))[0]


def by_reference(built: sw.Built[Any], folder: Path) -> Run | None:
    if importlib.util.find_spec("onnx") is None:
        return None
    import onnx
    from onnx.reference import ReferenceEvaluator

    built.export(folder / "f.onnx")
    model = onnx.load(folder / "f.onnx")
    evaluator = ReferenceEvaluator(model)
    names = [one.name for one in model.graph.input]
    return lambda *x: np.asarray(next(iter(evaluator.run(None, dict(zip(names, x, strict=True))))))


def by_numpy(built: sw.Built[Any], folder: Path) -> Run | None:
    built.export(folder / "f.py")
    return _module(folder / "f.py").f


def by_jax(built: sw.Built[Any], folder: Path) -> Run | None:
    if importlib.util.find_spec("jax") is None:
        return None
    jax = importlib.import_module("jax")
    built.export(folder / "f.jax.py")
    run = jax.jit(_module(folder / "f.jax.py").f)
    return lambda *x: np.asarray(run(*x))


def by_torch_export(built: sw.Built[Any], folder: Path) -> Run | None:
    batch = torch.export.Dim("batch", min=1, max=1 << 20)
    given = tuple(torch.from_numpy(array) for array in given_to(built, 5))
    shapes = tuple({0: batch} for _ in given)
    program = torch.export.export(built.network, given, dynamic_shapes=shapes, strict=False).module()
    return lambda *x: program(*(torch.from_numpy(array) for array in x)).detach().numpy()


def c_runs(built: sw.Built[Any], folder: Path, levels: tuple[str, ...] = ("-O0", "-O2", "-O3")) -> dict[str, Run]:
    """One function per level and compiler that is found."""
    if built.kind not in exporter_named("c").kinds:
        return {}
    built.export(folder / "f.c")
    real = "double" if built.network.dtype == torch.float64 else "float"
    found: dict[str, Run] = {}
    for compiler in ("gcc", "clang"):
        for level in levels if shutil.which(compiler) else ():
            found[f"{compiler} {level}"] = _linked(folder, compiler, level, real, built)
    return found


def _linked(folder: Path, compiler: str, level: str, real: str, built: sw.Built[Any]) -> Run:
    (one,) = given_to(built, 1)
    shape = answered(built, (one,)).shape[1:]
    size, count = one[0].size, int(np.prod(shape))
    kind = "long long" if one.dtype == np.int64 else real
    free = built.kind in ("memory", "program")  # such a function is told the length of the sequence
    loop = f"void network({'int n, ' * free}const {kind} *x, {real} *y);\n"
    loop += f"void many(const {kind} *x, {real} *y, long n);\n"
    loop += f"void many(const {kind} *x, {real} *y, long n)\n{{ for (long i = 0; i < n; i++) "
    loop += f"network({f'{one.shape[1]}, ' * free}x + {size} * i, y + {count} * i); }}\n"
    dtype = name_of(built.network.dtype)
    (folder / "loop.c").write_text(loop)
    place = folder / f"{compiler}{level}.so"
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fPIC", "-shared"]
    files = [str(folder / "f.c"), str(folder / "loop.c")]
    subprocess.run([compiler, *strict, level, *files, "-o", str(place), "-lm"], check=True)
    many = ctypes.CDLL(str(place)).many
    many.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]

    def run(x: np.ndarray) -> np.ndarray:
        x = np.ascontiguousarray(x)
        out = np.empty((len(x), *shape), dtype=dtype)
        many(x.ctypes.data, out.ctypes.data, len(x))
        return out

    return run


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("exported", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXPORTERS: dict[str, Callable[[sw.Built[Any], Path], Run | None]] = {
    "onnxruntime": by_onnxruntime,
    "onnx reference": by_reference,
    "NumPy": by_numpy,
    "JAX": by_jax,
    "torch.export": by_torch_export,
}


def deviation(run: Run, given: tuple[np.ndarray, ...], y: np.ndarray) -> float:
    """The largest difference to torch over batches of every size, the largest of them over all points."""
    worst, largest = 0.0, BATCHES[-1]
    parts = [slice(0, size) for size in BATCHES[:-1]]
    for part in (*parts, *(slice(at, at + largest) for at in range(0, len(y), largest))):
        found = np.asarray(run(*(array[part] for array in given)))
        assert found.shape == y[part].shape and found.dtype == y.dtype
        off = np.abs(found.astype(float) - y[part])
        if not np.isfinite(off).all():
            return np.inf
        worst = max(worst, float(off.max()))
    return worst


def faster(built: sw.Built[Any], run: Run, given: tuple[np.ndarray, ...]) -> float:
    """Torch's CPU time in one batch over that of C at one point after another, the least of several turns of each."""
    few, turns = tuple(array[:SOME] for array in given), []
    while len(turns) < TURNS and (len(turns) < 3 or sum(map(sum, turns)) < ENOUGH):
        turns.append((_seconds(lambda: answered(built, few)), _seconds(lambda: run(*few))))
    # A clock that goes by ticks may stand still: then the mean of all turns counts.
    by_torch, by_c = (min(turn[i] for turn in turns) or sum(turn[i] for turn in turns) / len(turns) for i in range(2))
    return by_torch / max(by_c, 1e-9)


def _seconds(call: Callable[[], Any]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def row(name: str, dtype: str, points: int) -> tuple[list[str], list[str]]:
    """The cells of one network, and what went beyond its claim."""
    torch.set_num_threads(1)
    built = NETWORKS[name](dtype)
    rounding = built.certificate.rounding_part if built.certificate is not None else 0.0
    x = inputs(name, built, points)
    y = answered(built, x)
    if len(y) < min(points, BATCHES[-1]):
        name, again = f"{name} ({len(y)} different)", -(-BATCHES[-1] // len(y))
        x, y = (tuple(np.concatenate([array] * again) for array in x), np.concatenate([y] * again))
    allowed, why = allowance(built, float(np.abs(y).max()))
    said, beyond = f"{rounding:.1e}" if "rounding part" in why else f"{allowed:.1e} allowed", []
    cells = [name, dtype, said]
    with TemporaryDirectory() as folder:
        for label, make in EXPORTERS.items():
            try:
                run = make(built, Path(folder))
            except (sw.InvalidInput, RuntimeError) as error:
                cells.append("none")
                print(f"{name} {dtype} {label}: {str(error)[:150]}", flush=True)
                continue
            off = None if run is None else deviation(run, x, y)
            cells.append("" if off is None else f"{off:.1e}")
            beyond += (
                [f"{name} {dtype} {label}: {off:.3g} > {allowed:.3g}"] if off is not None and off > allowed else []
            )
        try:
            runs = c_runs(built, Path(folder))
        except sw.InvalidInput as error:
            runs = {}
            print(f"{name} {dtype} C: {str(error)[:150]}", flush=True)
        worst = max((deviation(run, x, y) for run in runs.values()), default=None)
        cells.append("none" if worst is None else f"{worst:.1e}")
        beyond += [f"{name} {dtype} C: {worst:.3g} > {allowed:.3g}"] if worst is not None and worst > allowed else []
        ratios = [f"{faster(built, runs[label], x):.1f}" for label in ("gcc -O2", "clang -O2") if label in runs]
        cells.append(" / ".join(ratios) or "none")
    return cells, beyond


def times(name: str, dtype: str) -> str:
    """Both compilers' code beside torch, and nothing else."""
    torch.set_num_threads(1)
    built = NETWORKS[name](dtype)
    x = inputs(name, built, SOME)
    with TemporaryDirectory() as folder:
        runs = c_runs(built, Path(folder), ("-O2",))
        return f"{name}, {dtype}: " + ", ".join(f"{label} {faster(built, run, x):.2f}" for label, run in runs.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--write", type=Path, help="put the table into this page, between its two marks")
    parser.add_argument("--rows", action="append", default=[], help="a word of the names of the networks to measure")
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="both unless given")
    parser.add_argument("--times", action="store_true", help="measure the last column alone, and write no table")
    options = parser.parse_args()
    wanted = [name for name in NETWORKS if not options.rows or any(word in name for word in options.rows)]
    if options.times:
        for name, dtype in ((name, dtype) for name in wanted for dtype in options.dtype or DTYPES):
            print(times(name, dtype), flush=True)
        return
    compilers = [name for name in ("gcc", "clang") if shutil.which(name)]
    head = [
        "network",
        "dtype",
        "rounding part",
        *EXPORTERS,
        f"C ({', '.join(compilers)})",
        f"torch CPU / C CPU ({', '.join(compilers)})",
    ]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    beyond: list[str] = []
    print("\n".join(lines), flush=True)
    for name in wanted:
        for dtype in options.dtype or DTYPES:
            try:
                cells, over = row(name, dtype, options.points)
            except sw.SoftwrightError as error:
                cells, over = [name, dtype, f"none: {str(error)[:120]}", *[""] * (len(head) - 3)], []
            lines.append(f"| {' | '.join(cells)} |")
            beyond += over
            print("\n".join((lines[-1], *over)), flush=True)
    print("\n".join(beyond) or "no cell beyond its claim")
    if options.write:
        put(lines, options.write)


def put(lines: list[str], page: Path) -> None:
    """Write the table between the page's two marks; rows of the page that were not measured anew stay."""
    before, mark, rest = page.read_text("utf-8").partition("<!-- exports -->\n")
    table, end, after = rest.partition("<!-- end -->\n")
    if not mark or not end:
        raise SystemExit(f"{page} has no marks <!-- exports --> and <!-- end -->")
    rows = {tuple(line.split(" | ")[:2]): line for line in (*table.splitlines()[2:], *lines[2:])}
    order = {name: index for index, name in enumerate(NETWORKS)}
    kept = sorted(rows, key=lambda row: order.get(row[0].removeprefix("| ").partition(" (")[0], len(order)))
    page.write_text(f"{before}{mark}{chr(10).join([*lines[:2], *(rows[row] for row in kept)])}\n{end}{after}", "utf-8")


if __name__ == "__main__":
    main()
