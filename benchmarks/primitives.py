"""Primitives of formulas: what our stacks need beside ReLU approximations carried over to attention.

    python benchmarks/primitives.py                 at 1e-3, 1e-6 and 1e-9
    python benchmarks/primitives.py --tol 1e-6

Ours: layers, heads, tokens over all heads and the proved error of `strategy="compose"`, each verified. Beside it, what
the recipe of arXiv 2604.24878 comes to: a ReLU network for the primitive, every ReLU of it one softmax head of two
tokens. The paper's constants are not used; the counts are ours, from the ReLU approximators below, and leave out what
turns a gate into a ReLU as exactly as asked, so they are on the low side of the recipe with these approximators. Deep
ReLU networks of O(log(1/tol)^2) units exist for smooth functions, too; their constants are not counted here:

    max, min       one ReLU: b + relu(a - b)
    product        (s(a + b) - s(a - b))/4 with s the square by sawtooths: m layers of 2 ReLUs each (4^-(m+1) off)
    comparison     relu(c/g + 1/2) - relu(c/g - 1/2), right outside of the gap: 2 ReLUs
    others         piecewise linear, one ReLU for each inner knot, in one layer: N pieces with equal shares of
                   int sqrt|f''|, the best of that kind, off by (int sqrt|f''|)^2/(16 N^2) on both sides
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import softwright as sw

Count = Callable[[float], tuple[int, int]]  # tolerance -> (layers, ReLUs)


@dataclass(frozen=True)
class Primitive:
    """A formula on a box, and what a ReLU network for it takes."""

    name: str
    text: str
    sides: dict[str, tuple[float, float]]
    relus: Count
    gap: float | None = None


def _pieces(curvature: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> Count:
    """Knots of the best piecewise linear approximation, by the integral of sqrt|f''| on a fine grid."""
    x = np.geomspace(low, high, 200_001) if low > 0 else np.linspace(low, high, 200_001)
    y = np.sqrt(np.abs(curvature(x)))
    whole = float(np.sum(0.5 * (y[1:] + y[:-1]) * np.diff(x)))
    return lambda tol: (1, max(1, math.ceil(whole / 4.0 / math.sqrt(tol)) - 1))


def _product(tol: float) -> tuple[int, int]:
    """Two squares on [-2, 2], each s(u) = 4 t(|u|/2) with t on [0, 1] off by 4^-(m + 1): together 2 4^-(m + 1)."""
    m = max(1, math.ceil(math.log(2.0 / tol, 4)) - 1)
    return m + 1, 2 * (2 * m + 2)


UNIT, WIDE = (-1.0, 1.0), (0.1, 10.0)
PRIMITIVES = (
    Primitive("product", "x*y", {"x": UNIT, "y": UNIT}, _product),
    Primitive("reciprocal", "1/x", {"x": WIDE}, _pieces(lambda x: 2 / x**3, *WIDE)),
    Primitive("maximum", "max(x, y)", {"x": UNIT, "y": UNIT}, lambda _: (1, 1)),
    Primitive("minimum", "min(x, y)", {"x": UNIT, "y": UNIT}, lambda _: (1, 1)),
    Primitive("square root", "sqrt(x)", {"x": WIDE}, _pieces(lambda x: 0.25 * x**-1.5, *WIDE)),
    Primitive("power", "x**1.7", {"x": WIDE}, _pieces(lambda x: 1.19 * x**-0.3, *WIDE)),
    Primitive("exponential", "exp(x)", {"x": UNIT}, _pieces(np.exp, *UNIT)),
    Primitive("logarithm", "log(x)", {"x": WIDE}, _pieces(lambda x: x**-2.0, *WIDE)),
    Primitive("comparison", "where(x < y, 1, 0)", {"x": UNIT, "y": UNIT}, lambda _: (1, 2), gap=1e-6),
)


def ours(primitive: Primitive, tol: float) -> str:
    try:
        built = sw.approximate(
            primitive.text, sw.Box(primitive.sides), tol=tol, strategy="compose", gap=primitive.gap, progress=False
        )
    except (sw.InvalidInput, sw.ToleranceNotReached) as error:
        return f"| - | - | - | not met: {str(error).splitlines()[0][:60]} | "
    if built.certificate is None:
        return f"| - | - | - | not proved: {built.unproved[:60]} | "
    with tempfile.TemporaryDirectory() as folder:
        built.save(path := Path(folder) / "primitive.safetensors")
        status = sw.verify(path).status
    layers, heads = getattr(built.network, "depth", 1), len(built.plan.heads)
    return f"| {layers} | {heads} | {built.plan.tokens} | {built.certificate.bound:.1e} | {status} "


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--tol", type=float, nargs="+", default=[1e-3, 1e-6, 1e-9])
    options = parser.parse_args()
    print("| primitive | tol | layers | heads | tokens | proved | verify | layers of ReLUs | heads | tokens |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for primitive in PRIMITIVES:
        for tol in options.tol:
            layers, heads = primitive.relus(tol)
            row = f"| {primitive.name} {primitive.text} | {tol:g} {ours(primitive, tol)}"
            print(f"{row}| {layers} | {heads} | {2 * heads} |", flush=True)


if __name__ == "__main__":
    main()
