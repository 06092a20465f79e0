"""Speed beside peers, as ratios of CPU time in one run, on one thread: evaluation, start, large grids, builds.

    python benchmarks/fast.py                evaluation beside stock attention and a Chebyshev tensor, one point, start,
                                             a grid of 10^6 tokens, violations in 10^6 evaluations by every engine
    python benchmarks/fast.py --short        the same with fewer points, in half a minute
    python benchmarks/fast.py --full         10^7 points in chunks, and the growth of time and memory beside it
    python benchmarks/fast.py --growth 1000  the growth alone, up to so many thousand points; --figure FILE draws it
    python benchmarks/fast.py --builds OLD   builds and proofs beside those of a work tree of an older commit

Times are the least of several runs. The peer of affine tokens is `scaled_dot_product_attention` in float64 with as many
keys, keys and values d + 1 wide, its query ready; that of Franke's function is a tensor of Chebyshev polynomials in
NumPy that meets the same tolerance. A row says MISSED where what is asked is not met.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.polynomial import chebyshev

import softwright as sw
from softwright.approximation.fitting.families import uniform_axis
from softwright.attention import AttentionNetwork, Head
from softwright.attention.window_numba import available

HERE = Path(__file__).resolve().parent
FRANKE = (
    "0.75*exp(-((9*x-2)**2 + (9*y-2)**2)/4) + 0.75*exp(-(9*x+1)**2/49 - (9*y+1)/10)"
    " + 0.5*exp(-((9*x-7)**2 + (9*y-3)**2)/4) - 0.2*exp(-(9*x-4)**2 - (9*y-7)**2)"
)
# Rows of the README's table: name, formula, sides, tolerance, relative.
BUILDS: list[tuple[str, str, dict[str, tuple[float, float]], float, bool]] = [
    ("sin(3x) 1e-6", "sin(3*x)", {"x": (-1, 1)}, 1e-6, False),
    ("sin(3x) 1e-10", "sin(3*x)", {"x": (-1, 1)}, 1e-10, False),
    ("exp(x) 1e-6", "exp(x)", {"x": (-1, 1)}, 1e-6, False),
    ("exp(x) 1e-10", "exp(x)", {"x": (-1, 1)}, 1e-10, False),
    ("1/(1+25x^2) 1e-4", "1/(1 + 25*x**2)", {"x": (-1, 1)}, 1e-4, False),
    ("1/(1+25x^2) 1e-8", "1/(1 + 25*x**2)", {"x": (-1, 1)}, 1e-8, False),
    ("sin(20x)", "sin(20*x)", {"x": (-1, 1)}, 1e-6, False),
    ("abs(x)", "abs(x)", {"x": (-1, 1)}, 1e-9, False),
    ("abs(sin(5x))", "abs(sin(5*x))", {"x": (-1, 1)}, 1e-6, False),
    ("Franke 1e-3", FRANKE, {"x": (0, 1), "y": (0, 1)}, 1e-3, False),
    ("Franke 1e-6", FRANKE, {"x": (0, 1), "y": (0, 1)}, 1e-6, False),
    ("Franke 1e-9", FRANKE, {"x": (0, 1), "y": (0, 1)}, 1e-9, False),
    ("sin(3x)exp(-y^2)", "sin(3*x)*exp(-y**2)", {"x": (-1, 1), "y": (-2, 2)}, 1e-6, False),
    ("1/(1+r^2)", "1/(1 + x**2 + y**2 + z**2)", dict.fromkeys("xyz", (-1, 1)), 1e-6, False),
    ("max(abs(x-y),0.2)", "max(abs(x - y), 0.2)", dict.fromkeys("xy", (-1, 1)), 1e-6, False),
    (
        "Friedman-1",
        "10*sin(pi*x1*x2) + 20*(x3 - 0.5)**2 + 10*x4 + 5*x5",
        {f"x{i}": (0, 1) for i in range(1, 6)},
        1e-4,
        True,
    ),
    (
        "Ishigami",
        "sin(x1) + 7*sin(x2)**2 + 0.1*x3**4*sin(x1)",
        {f"x{i}": (-math.pi, math.pi) for i in range(1, 4)},
        1e-4,
        True,
    ),
]


def cpu(run: Callable[[], Any], repeats: int = 3) -> float:
    """The least CPU seconds of several runs."""
    best = math.inf
    for _ in range(repeats):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


def say(name: str, found: float, wanted: float, unit: str, less: bool = True) -> None:
    met = found <= wanted if less else found >= wanted
    print(
        f"{name:<58} {found:>10.3g} {unit} ({'at most' if less else 'at least'} {wanted:g}){'' if met else '  MISSED'}",
        flush=True,
    )


def affine_network(tokens: int, dim: int) -> AttentionNetwork:
    rng = np.random.default_rng(tokens)
    head = Head(
        3 * rng.normal(size=(tokens, dim)),
        rng.normal(size=tokens),
        rng.normal(size=(tokens, 1)),
        rng.normal(size=(tokens, 1, dim)),
    )
    return AttentionNetwork([head], sw.Box({f"x{i}": (-1, 1) for i in range(dim)}))


def attention_of(points: np.ndarray, tokens: int) -> Callable[[], torch.Tensor]:
    width = points.shape[1] + 1
    query = torch.ones(1, 1, len(points), width, dtype=torch.float64)
    query[..., :-1] = torch.from_numpy(points)
    keys, values = (torch.randn(1, 1, tokens, width, dtype=torch.float64) for _ in range(2))
    return lambda: torch.nn.functional.scaled_dot_product_attention(query, keys, values, scale=1.0)


def evaluation(count: int) -> None:
    for tokens, dim in ((4, 1), (30, 2), (196, 3), (1000, 3)):
        points = np.random.default_rng(0).uniform(-1, 1, (count, dim))
        network, stock = affine_network(tokens, dim), attention_of(points, tokens)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        mine = cpu(lambda network=network, points=points: network.evaluate(points))
        taken = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
        say(f"{count:g} points, {tokens} affine tokens, d = {dim} / stock attention", mine / cpu(stock), 1.3, "x CPU")
        say("  peak memory above what was there", taken, 0.5, "GB")


def one_point() -> None:
    network = affine_network(30, 2)

    def many() -> None:
        for _ in range(500):
            network.evaluate(x0=0.3, x1=0.1)

    many()
    say("one point of 30 affine tokens in two variables", cpu(many, 5) / 500 * 1e6, 50, "us")


_START = """
import time, torch
start = time.process_time()
import softwright as sw
sw.approximate("sin(3*x)", sw.Box(x=(-1, 1)), tol=1e-4)
print(time.process_time() - start)
"""


def start_up() -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = folder
        found = [
            float(
                subprocess.run([sys.executable, "-c", _START], env=environment, capture_output=True, check=True).stdout
            )
            for _ in range(4)
        ]
    say("first sw.approximate after import torch", min(found[1:]), 0.4, "s")


def large_grid(count: int) -> None:
    """A plane of 1000 x 1000 tokens whose width is the grid's step."""
    rng = np.random.default_rng(1)
    axes = [uniform_axis(1000, 1.0, 3.0) for _ in range(2)]
    network = AttentionNetwork([Head.on_grid(axes, rng.normal(size=(10**6, 1)))], sw.Box(x=(-1, 1), y=(-1, 1)))
    points = rng.uniform(-1, 1, (count, 2))
    network.evaluate(points[:10], engine="window")
    window = cpu(lambda: network.evaluate(points, engine="window"), 2) / count
    stock = cpu(attention_of(points[:16], 10**6), 1) / 16
    how = "numba" if available() else "torch alone"
    say(f"10^6 tokens of a plane, engine window ({how}): SDPA / window", stock / window, 1e4, "x", less=False)
    some = points[:8]
    off = np.abs(network.evaluate(some, engine="window") - network.evaluate(some, engine="sdpa")).max()
    print(
        f"  {1e6 * window:.2f} us a point; {off:.1e} from SDPA; proved within {network.window_error():.1e} of the head"
    )


def chebyshev_tensor() -> None:
    """The smallest square tensor, by interpolation, that meets 1e-6 on 200 x 200 points."""
    target = sw.approximate(FRANKE, sw.Box(x=(0, 1), y=(0, 1)), tol=1e-6, strategy="layer", certify=False)
    rng = np.random.default_rng(2)
    points = rng.uniform(0, 1, (10**6, 2))
    wanted = np.asarray(target.source(points[:40_000])).ravel()
    for n in range(16, 80):
        nodes = np.cos(np.pi * (np.arange(n) + 0.5) / n)
        grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
        values = np.asarray(target.source(0.5 * (grid + 1))).reshape(n, n)
        inverse = np.linalg.inv(chebyshev.chebvander(nodes, n - 1))
        table = inverse @ values @ inverse.T

        def tensor(x: np.ndarray, n: int = n, table: np.ndarray = table) -> np.ndarray:
            out = np.empty(len(x))
            for start in range(0, len(x), 20_000):  # what fits the caches is the fastest
                a, b = (chebyshev.chebvander(2 * x[start : start + 20_000, i] - 1, n - 1) for i in range(2))
                out[start : start + 20_000] = np.einsum("qi,qi->q", a @ table, b)
            return out

        if np.abs(tensor(points[:40_000]) - wanted).max() <= 1e-6:
            peer = cpu(lambda tensor=tensor: tensor(points))
            usual = sw.approximate(FRANKE, sw.Box(x=(0, 1), y=(0, 1)), tol=1e-6)  # what nobody asked another of
            name = f"Franke 1e-6, 10^6 points, as built by default / Chebyshev tensor {n} x {n}"
            say(name, cpu(lambda usual=usual: usual(points)) / peer, 1.0, "x CPU")
            off = np.abs(usual(points)[:40_000].ravel() - wanted).max()
            print(f"  {usual.network.tokens} tokens, {off:.1e} off, proved {usual.certificate.bound:.1e}")
            for engine in ("sdpa", "factorised", "window"):
                mine = cpu(lambda engine=engine: target.network.evaluate(points, engine=engine))
                name = f"Franke 1e-6, 10^6 points, {engine} / Chebyshev tensor {n} x {n}"
                say(name, mine / peer, 1.0, "x CPU")
            return


def roofline(count: int) -> None:
    """Scores, exponentials and sums of a dense head in float64, at the speed of a product and an exp measured now."""
    size = 1200
    a = torch.randn(size, size, dtype=torch.float64)
    flops = 2 * size**3 / cpu(lambda: a @ a)
    x = -torch.rand(2**17, dtype=torch.float64)
    exps = len(x) * 8 / cpu(lambda: [torch.exp(x) for _ in range(8)])
    for tokens, dim, outputs in ((1000, 3, 1), (1000, 16, 16)):
        rng = np.random.default_rng(7)
        head = Head(rng.normal(size=(tokens, dim)), rng.normal(size=tokens), rng.normal(size=(tokens, outputs)))
        network = AttentionNetwork([head], sw.Box({f"x{i}": (-1, 1) for i in range(dim)}))
        points = rng.uniform(-1, 1, (count, dim))
        least = count * tokens * (2 * (dim + 1 + outputs) / flops + 1 / exps)
        share = least / cpu(lambda network=network, points=points: network.evaluate(points))
        say(
            f"dense float64, {tokens} tokens, d = {dim}, {outputs} output(s): of the roofline",
            share,
            0.5,
            "",
            less=False,
        )
    print(f"  {flops / 1e9:.0f} Gflop/s, {exps / 1e9:.2f} Gexp/s")


def sound(count: int) -> None:
    """Violations of what is proved, by every engine; the sine of NumPy is exact to 1e-15."""
    formula, box = "sin(3*x)*exp(-y**2)", sw.Box(x=(-1, 1), y=(-2, 2))
    points = box.sample(count, 5)
    wanted = np.sin(3 * points[:, :1]) * np.exp(-(points[:, 1:] ** 2))
    built = sw.approximate(formula, box, tol=1e-6, strategy="layer")
    bounds = {"sdpa": built.certificate.bound}
    bounds["factorised"] = sw.certify(built.network, formula, bound=1e-6, engine="factorised").bound
    bounds["window"] = built.certificate.exact_part + built.network.window_error()
    bounds["tree"] = built.certificate.exact_part + built.network.tree_error()
    runs: list[tuple[str, float, Any]] = [(engine, bound, built.network) for engine, bound in bounds.items()]
    single = sw.approximate(formula, box, tol=1e-3, strategy="layer", dtype="float32", engine="double")
    if single.certificate is not None:
        runs.append(("double", single.certificate.bound, single.network))
    for engine, bound, network in runs:
        at = points.astype(np.float32).astype(float) if engine == "double" else points
        there = np.sin(3 * at[:, :1]) * np.exp(-(at[:, 1:] ** 2)) if engine == "double" else wanted
        worst = np.abs(network.evaluate(at, engine=engine) - there)
        name = f"violations in {count:g} evaluations, {engine} (bound {bound:.4g})"
        say(name, float((worst > bound + 1e-14).sum()), 0, f"worst {worst.max():.4g}")
    gates = sw.approximate("x*y - exp(-x*y)", box, tol=1e-6, strategy="compose")
    product = points[:, :1] * points[:, 1:]
    worst = np.abs(gates(points) - (product - np.exp(-product)))
    name = f"violations in {count:g} evaluations, stack of gates (bound {gates.certificate.bound:.4g})"
    say(name, float((worst > gates.certificate.bound + 1e-14).sum()), 0, f"worst {worst.max():.4g}")
    few = points[: max(count // 50, 1)]
    parts = [slice(i, i + 40) for i in range(0, len(few), 40)]
    worst = max(float(np.abs(built.network.evaluate(few[part]) - wanted[: len(few)][part]).max()) for part in parts)
    say(f"  the same 40 at a time, {len(few)} points: largest error / bound", worst / bounds["sdpa"], 1.0, "")


def growth(most: int, figure: Path | None = None) -> None:
    """Seconds and memory of windows and of factorised grids, over decades of points and of tokens."""
    rng = np.random.default_rng(3)
    found: dict[tuple[str, int], list[tuple[int, float, float]]] = {}
    for engine, sides in (("window", (32, 100, 316, 1000)), ("factorised", (8, 26, 81, 253))):
        for side in sides:
            axes = [uniform_axis(side, 1.0, 3.0) for _ in range(2)]
            network = AttentionNetwork(
                [Head.on_grid(axes, rng.normal(size=(side**2, 1)))], sw.Box(x=(-1, 1), y=(-1, 1))
            )
            network.evaluate(np.zeros((2, 2)), engine=engine)
            count = 10**3
            while count <= most:
                points = rng.uniform(-1, 1, (count, 2))
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                seconds = cpu(lambda network=network, points=points: network.evaluate(points, engine=engine), 1)  # noqa: B023
                more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
                found.setdefault((engine, side**2), []).append((count, seconds, more))
                told = f"{seconds:8.3f} CPU s, {1e6 * seconds / count:6.2f} us a point, peak {more:.2f} GB more"
                print(f"{engine:<10} {side**2:>8} tokens {count:>9} points: {told}", flush=True)
                count *= 10
    if figure is not None:
        _drawn(found, figure)


def _drawn(found: dict[tuple[str, int], list[tuple[int, float, float]]], figure: Path) -> None:
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for (engine, tokens), rows in found.items():
        style = "-o" if engine == "window" else "--s"
        left.loglog([r[0] for r in rows], [r[1] for r in rows], style, ms=3, label=f"{engine}, {tokens:,} tokens")
    for engine, style in (("window", "-o"), ("factorised", "--s")):
        last = [(tokens, rows[-1][1] / rows[-1][0]) for (name, tokens), rows in found.items() if name == engine]
        right.loglog([a for a, _ in last], [1e6 * b for _, b in last], style, ms=3, label=engine)
    left.set(xlabel="points", ylabel="CPU seconds")
    right.set(xlabel="tokens of a plane", ylabel="microseconds a point")
    for axes in (left, right):
        axes.legend(fontsize=7)
        axes.grid(alpha=0.3)
    fig.savefig(figure, dpi=130)


_BUILD = """
import json, sys, time
import softwright as sw, torch
torch.set_num_threads(1)
try:
    from softwright.proof.prover import certify
except ImportError:
    from softwright.certify.prover import certify
sw.approximate("cos(x) + y", {"x": (0, 1), "y": (0, 1)}, tol=1e-3)
for line in sys.stdin:
    text, sides, tol, relative, options = json.loads(line)
    start = time.process_time()
    built = sw.approximate(text, sides, tol=tol, relative=relative, certify=False, **options)
    found = certify(built.network, text, bound=built.plan.tolerance)
    print(json.dumps([time.process_time() - start, built.network.tokens, found.proved]), flush=True)
"""


class _Builder:
    """A process that builds with the code of a work tree, one row at a time."""

    def __init__(self, tree: Path, options: dict[str, str]) -> None:
        environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([sys.executable, "-c", _BUILD], env=environment, **pipes)
        self.options = options

    def __call__(self, *row: Any) -> tuple[float, int, bool]:
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("the process has no pipes")
        self.process.stdin.write(json.dumps([*row, self.options]) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("["):
                seconds, tokens, proved = json.loads(line)
                return seconds, tokens, proved
        raise RuntimeError("the process has ended")


def builds(old: Path) -> None:
    """Build and proof of the tolerance, one layer, here and in the older tree, in turn; tokens must not be more."""
    here, there = _Builder(HERE.parent, {"strategy": "layer"}), _Builder(old, {})
    ratios = []
    for name, *row in BUILDS:
        pairs = [(here(*row), there(*row)) for _ in range(2)]
        (now, tokens, proved), (before, had, _) = (min(pair[i] for pair in pairs) for i in range(2))
        ratios.append(before / now)
        said = ("  MORE TOKENS" if tokens > had else "") + ("" if proved else "  NOT PROVED")
        print(
            f"{name:<20} {now:7.3f} s, was {before:7.3f} s: {ratios[-1]:5.2f} x; tokens {tokens}, was {had}{said}",
            flush=True,
        )
    for builder in (here, there):
        builder.process.terminate()
    say(
        "build and proof of the tolerance, geometric mean",
        math.exp(np.mean(np.log(ratios))),
        3.0,
        "x faster",
        less=False,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed beside peers")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--growth", type=int, metavar="THOUSANDS", help="the growth alone, up to so many points")
    parser.add_argument("--figure", type=Path, help="where the growth is drawn")
    parser.add_argument("--builds", type=Path, metavar="OLD", help="a work tree of an older commit")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.builds:
        builds(given.builds.resolve())
        return
    if given.growth:
        growth(1000 * given.growth, given.figure)
        return
    count = 10**5 if given.short else 10**6
    evaluation(count)
    one_point()
    start_up()
    large_grid(3 * 10**6 if given.full else count)
    chebyshev_tensor()
    roofline(count // 10)
    sound(count)
    if given.full:
        growth(10**7, given.figure)


if __name__ == "__main__":
    main()
