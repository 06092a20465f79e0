"""Kinds x exporters: the largest deviation from torch beside the claim's rounding part, in both dtypes.

    python benchmarks/exports.py [--points 100000] [--write docs/exports.md]

Every exported file answers batches of 1, 7 and 5,000, and all points together. A cell is the largest deviation over the
points; two runs that a claim covers differ by at most twice its rounding part, which stands in the first column. Cells
of runtimes that are not installed stay empty. C is compiled at -O0, -O2 and -O3 by every compiler found; its CPU time
at a point is compared with torch's in one batch of all points.
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
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

import softwright as sw
from softwright.export.selftest import inputs_of
from softwright.precision import precision_of

BATCHES = (1, 7, 5000)
Run = Callable[[np.ndarray], np.ndarray]


def _mlp(layout: str, dtype: str) -> sw.Built[Any]:
    torch.manual_seed(0)
    source = nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    return sw.transpile(source.to(getattr(torch, dtype)).eval(), box=(-1, 1), layout=layout)


def _formula(text: str, tol: dict[str, float], **sides: tuple[float, float]) -> Callable[[str], sw.Built[Any]]:
    return lambda dtype: sw.approximate(text, sw.Box(sides), tol=tol[dtype], dtype=dtype)


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
    "theorem A1": lambda dtype: sw.theorem("A1").build(points=24, tokens=3, dim=2, dtype=dtype),
}


def by_onnxruntime(built: sw.Built[Any], folder: Path) -> Run | None:
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    onnxruntime = importlib.import_module("onnxruntime")
    built.export(folder / "f.onnx")
    session = onnxruntime.InferenceSession(str(folder / "f.onnx"), providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {session.get_inputs()[0].name: x})[0]


def by_reference(built: sw.Built[Any], folder: Path) -> Run | None:
    if importlib.util.find_spec("onnx") is None:
        return None
    import onnx
    from onnx.reference import ReferenceEvaluator

    built.export(folder / "f.onnx")
    model = onnx.load(folder / "f.onnx")
    evaluator = ReferenceEvaluator(model)
    return lambda x: np.asarray(next(iter(evaluator.run(None, {model.graph.input[0].name: x}))))


def by_numpy(built: sw.Built[Any], folder: Path) -> Run | None:
    built.export(folder / "f.py")
    return _module(folder / "f.py").f


def by_jax(built: sw.Built[Any], folder: Path) -> Run | None:
    if importlib.util.find_spec("jax") is None:
        return None
    jax = importlib.import_module("jax")
    built.export(folder / "f.jax.py")
    run = jax.jit(_module(folder / "f.jax.py").f)
    return lambda x: np.asarray(run(x))


def by_torch_export(built: sw.Built[Any], folder: Path) -> Run | None:
    batch = torch.export.Dim("batch", min=1, max=1 << 20)
    program = torch.export.export(
        built.network, (torch.from_numpy(inputs_of(built, 5)),), dynamic_shapes=({0: batch},), strict=False
    ).module()
    return lambda x: program(torch.from_numpy(x)).detach().numpy()


def c_runs(built: sw.Built[Any], folder: Path) -> dict[str, Run]:
    """One function per compiler and level that is found."""
    built.export(folder / "f.c")
    real = "double" if built.network.dtype == torch.float64 else "float"
    found: dict[str, Run] = {}
    for compiler in ("gcc", "clang"):
        for level in ("-O0", "-O2", "-O3") if shutil.which(compiler) else ():
            found[f"{compiler} {level}"] = _linked(folder, compiler, level, real, built)
    return found


def _linked(folder: Path, compiler: str, level: str, real: str, built: sw.Built[Any]) -> Run:
    with torch.no_grad():
        one = inputs_of(built, 1)
        shape = built.network(torch.from_numpy(one)).shape[1:]
    size, count = one[0].size, int(np.prod(shape))
    loop = f"void network(const {real} *x, {real} *y);\nvoid many(const {real} *x, {real} *y, long n);\n"
    loop += f"void many(const {real} *x, {real} *y, long n)\n{{ for (long i = 0; i < n; i++) "
    loop += f"network(x + {size} * i, y + {count} * i); }}\n"
    (folder / "loop.c").write_text(loop)
    place = folder / f"{compiler}{level}.so"
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fPIC", "-shared"]
    files = [str(folder / "f.c"), str(folder / "loop.c")]
    subprocess.run([compiler, *strict, level, *files, "-o", str(place), "-lm"], check=True)
    many = ctypes.CDLL(str(place)).many
    many.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]

    def run(x: np.ndarray) -> np.ndarray:
        x = np.ascontiguousarray(x)
        out = np.empty((len(x), *shape), dtype=x.dtype)
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


def deviation(run: Run, built: sw.Built[Any], x: np.ndarray, y: np.ndarray) -> float:
    """The largest difference to torch, over all points and over batches of every size."""
    worst = 0.0
    for size in (*BATCHES, len(x)):
        found = np.asarray(run(x[:size]))
        assert found.shape == y[:size].shape and found.dtype == y.dtype
        worst = max(worst, float(np.abs(found.astype(float) - y[:size]).max()))
    return worst


def row(name: str, dtype: str, points: int) -> tuple[list[str], list[str]]:
    """The cells of one network, and what went beyond its claim."""
    built = NETWORKS[name](dtype)
    rounding = built.certificate.rounding_part
    x = inputs_of(built, points, seed=11)
    torch.set_num_threads(1)
    with torch.no_grad():
        inputs = torch.from_numpy(x)
        built.network(inputs[:100])
        started = time.process_time()
        y = built.network(inputs).numpy()
        by_torch = (time.process_time() - started) / points
    said, beyond = "real" if rounding == 0 else f"{rounding:.1e}", []
    allowed = 2 * rounding if rounding > 0 else 2**14 * precision_of(dtype).unit * max(1.0, float(np.abs(y).max()))
    cells = [name, dtype, said]
    with TemporaryDirectory() as folder:
        for label, make in EXPORTERS.items():
            run = make(built, Path(folder))
            off = None if run is None else deviation(run, built, x, y)
            cells.append("" if off is None else f"{off:.1e}")
            beyond += (
                [f"{name} {dtype} {label}: {off:.3g} > {allowed:.3g}"] if off is not None and off > allowed else []
            )
        runs = c_runs(built, Path(folder))
        worst = max((deviation(run, built, x, y) for run in runs.values()), default=None)
        cells.append("" if worst is None else f"{worst:.1e}")
        beyond += [f"{name} {dtype} C: {worst:.3g} > {allowed:.3g}"] if worst is not None and worst > allowed else []
        if "gcc -O2" in runs:
            started = time.process_time()
            runs["gcc -O2"](x)
            cells.append(f"{by_torch / ((time.process_time() - started) / points):.1f}")
        else:
            cells.append("")
    return cells, beyond


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--write", type=Path, help="put the table into this page, between its two marks")
    options = parser.parse_args()
    compilers = [name for name in ("gcc", "clang") if shutil.which(name)]
    head = ["network", "dtype", "rounding part", *EXPORTERS, f"C ({', '.join(compilers)})", "torch CPU / C CPU"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    beyond: list[str] = []
    print("\n".join(lines), flush=True)
    for name in NETWORKS:
        for dtype in ("float64", "float32"):
            try:
                cells, over = row(name, dtype, options.points)
            except sw.SoftwrightError as error:
                cells, over = [name, dtype, f"none: {str(error)[:120]}", *[""] * (len(head) - 3)], []
            lines.append(f"| {' | '.join(cells)} |")
            beyond += over
            print(lines[-1], flush=True)
    print("\n".join(beyond) or "no cell beyond its claim")
    if options.write:
        before, mark, rest = options.write.read_text("utf-8").partition("<!-- exports -->\n")
        _, end, after = rest.partition("<!-- end -->\n")
        if not mark or not end:
            raise SystemExit(f"{options.write} has no marks <!-- exports --> and <!-- end -->")
        options.write.write_text(f"{before}{mark}{chr(10).join(lines)}\n{end}{after}", "utf-8")


if __name__ == "__main__":
    main()
