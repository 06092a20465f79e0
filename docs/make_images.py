"""Draw the pictures of the README and the documentation: python docs/make_images.py"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from PIL import Image

import softwright as sw
from softwright.approximation.problem import Problem
from softwright.approximation.strategies.cells import cell_head
from softwright.approximation.strategies.pieces import gate_head
from softwright.attention import Axis, Head
from softwright.compiler.figure import plot_composed
from softwright.fileformat import write_atomically
from softwright.methods.figure import plot_methods
from softwright.report.style import BLUE, CYCLE, ORANGE, RED, STYLE
from softwright.targets.mlp.activation import Activation
from softwright.transpiler.figure import draw_head
from softwright.transpiler.tokens import table_for

IMAGES = Path(__file__).resolve().parent / "images"


def write(figure: Figure, name: str, *, shaded: bool = False, dpi: int = 0) -> None:
    """Save pictures of lines with a palette of 256 colours, a third of the size, shaded ones with all their colours."""
    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi or (90 if shaded else 110))
    with Image.open(drawn) as image:
        colours = image.convert("RGB")
    (colours if shaded else colours.quantize(256)).save(small, format="PNG", optimize=True)
    write_atomically(IMAGES / name, small.getvalue())


def sequences() -> None:
    """What the heads of a program attend to, layer by layer."""
    tokens = sw.Sequence(length=(1, 12), s=sw.Symbols("abcdefgh"))
    write(sw.compile("sorted(s)[i]", tokens, progress=False).plot(), "sequences.png")


def regimes() -> None:
    """The three regimes of one formula, with eight tokens each, for the same target."""

    def target(t: np.ndarray) -> np.ndarray:
        return np.sin(3 * t)

    t = np.linspace(-1, 1, 2001)[:, None]
    cells = cell_head(Problem(target, 1, 1, 1e-3), 8)
    knots = np.linspace(-1, 1, 9)
    slopes = np.diff(target(knots)) / np.diff(knots)
    intercepts = target(knots[:-1]) - slopes * knots[:-1]
    gates = gate_head(knots[1:-1], intercepts[:, None], slopes[:, None], np.full(7, 400.0))
    soft = _soft_cells(target, 8)
    columns = (
        ("hard cells, constant values", cells),
        ("hard gates, affine values", gates),
        ("soft cells, values solved for", soft),
    )
    figure = Figure(figsize=(9.2, 4.4), layout="constrained")
    axes = figure.subplots(2, 3, sharex=True)
    for column, (name, head) in enumerate(columns):
        top, bottom = axes[0, column], axes[1, column]
        error = np.abs(head(t) - target(t)).max()
        top.plot(t, target(t), color=BLUE, alpha=0.3, lw=5, label="sin(3x)")
        top.plot(t, head(t), color="black", lw=1.2, label="8 tokens")
        top.set_title(f"{name}\nlargest error {error:.1e}", loc="left", fontsize=9.5)
        for j, weight in enumerate(head.weights(t).T):
            bottom.plot(t, weight, color=CYCLE[j % 7], lw=1.2)
            bottom.fill_between(t[:, 0], weight, color=CYCLE[j % 7], alpha=0.12, lw=0)
        bottom.set_ylim(0, 1.05)
        bottom.set_xlabel("x")
        for axis in (top, bottom):
            axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].legend(frameon=False, fontsize=8.5)
    axes[0, 0].set_ylabel("value")
    axes[1, 0].set_ylabel("softmax weight")
    write(figure, "regimes.png")


def _soft_cells(target: Any, tokens: int) -> Head:
    """A uniform grid at the width that fits best, values by least squares."""
    t = np.linspace(-1, 1, 801)[:, None]
    best: tuple[float, Head] | None = None
    for width in np.geomspace(0.2, 0.5, 20):
        centres = np.linspace(-1.3, 1.3, tokens)
        axis = Axis(centres / width**2, -(centres**2) / (2 * width**2))
        weights = axis.weights(t[:, 0])
        values = np.linalg.lstsq(weights, target(t), rcond=1e-9)[0]
        error = float(np.abs(weights @ values - target(t)).max())
        if best is None or error < best[0]:
            best = (error, Head.on_grid([axis], values))
    if best is None:
        raise RuntimeError("at least one width was tried")
    return best[1]


def convergence() -> None:
    """Largest error against tokens for 1/(1+25x^2): the papers' cells, Chebyshev series, and the strategies."""
    box = sw.Box(x=(-1, 1))
    target = sw.Expression("1/(1 + 25*x**2)")
    x = np.linspace(-1, 1, 20_001)[:, None]
    exact = target(x)
    figure = Figure(figsize=(6.4, 3.9), layout="constrained")
    axis = figure.subplots()

    def draw(name: str, points: list[tuple[int, float]], colour: str, marker: str) -> None:
        least = {tokens: min(error for n, error in points if n == tokens) for tokens, _ in points}
        axis.loglog(*zip(*sorted(least.items()), strict=True), color=colour, marker=marker, ms=4.5, lw=1.2, label=name)

    problem = Problem(target, 1, 1, 1e-3)
    cells = [
        (n, float(np.abs(cell_head(problem, n)(x) - exact).max())) for n in (4, 8, 16, 32, 64, 128, 256, 512, 1024)
    ]
    draw("nearest cells (strategy cells)", cells, RED, "s")
    chebyshev = []
    for n in (4, 8, 16, 24, 32, 48, 64, 80, 96, 112):
        series = np.polynomial.chebyshev.Chebyshev.interpolate(lambda s: target(s[:, None])[:, 0], n - 1)
        chebyshev.append((n, float(np.abs(series(x) - exact).max())))
    draw("Chebyshev series (coefficients)", chebyshev, "#6B6B6B", "x")
    for strategy, colour, marker in (("spectral", ORANGE, "o"), ("affine", BLUE, "D")):
        found = []
        for digits in range(1, 11):
            built = sw.approximate(target, box, tol=10.0**-digits, strategy=strategy, certify=False)
            found.append((built.network.tokens, built.observed_error))
        draw(f"strategy {strategy}", found, colour, marker)
    axis.set_xlabel("tokens (or coefficients)")
    axis.set_ylabel("largest error seen")
    axis.set_title("1/(1 + 25x²) on [-1, 1]", loc="left", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8.5)
    write(figure, "convergence.png")


def results() -> None:
    """Figures of whole results, as `Built.plot` draws them."""
    wanted = {
        "wave.png": ("sin(3*x)", sw.Box(x=(-1, 1)), 1e-6),
        "kinks.png": ("abs(sin(5*x))", sw.Box(x=(-1, 1)), 1e-6),
        "product.png": ("sin(3*x)*exp(-y**2)", sw.Box(x=(-1, 1), y=(-2, 2)), 1e-6),
        "polyhedral.png": ("max(abs(x - y), 0.2) + max(x, 0)", sw.Box(x=(-1, 1), y=(-1, 1)), 1e-6),
    }
    for name, (formula, box, tolerance) in wanted.items():
        write(sw.approximate(formula, box, tol=tolerance, strategy="layer").plot(), name, shaded=box.dim == 2)


def neurons() -> None:
    """Three neurons as heads: a gate, an exact softmax, and fitted tokens."""
    with rc_context(STYLE):
        figure = Figure(figsize=(9.2, 4.6), layout="constrained")
        axes = figure.subplots(2, 3, sharex=True)
        for column, name in enumerate(("relu", "tanh", "gelu")):
            draw_head(axes[:, column], name, table_for(Activation(name), "float64"))
        write(figure, "transpile.png")


def memory() -> None:
    """Sixty short sequences as context ids on a line."""
    rows = np.random.default_rng(3).integers(0, 9, (60, 5))
    write(sw.memorize(rows, (rows[:, 0] % 3).tolist()).plot(), "memorize.png")


def in_context() -> None:
    """Error by layer of six stacks that fit models in context."""
    jobs: list[tuple[str, str, dict[str, Any]]] = [
        ("least squares, Newton-Schulz", "least_squares", {"condition": 100.0}),
        ("least squares, Chebyshev", "least_squares", {"solver": "chebyshev", "condition": 12.0}),
        ("least squares, gradient descent", "least_squares", {"solver": "gradient", "steps": 130, "step_size": 0.35}),
        ("logistic, IRLS", "logistic", {}),
        ("Poisson, IRLS", "poisson", {}),
        ("robust, IRLS", "robust", {}),
    ]
    stacks = [(name, sw.in_context(method, 6, sample=False, **options).network) for name, method, options in jobs]
    plot_methods(stacks, IMAGES / "in_context.png")


def stack() -> None:
    """A formula as a stack: features as boxes, layers as columns."""
    box = sw.Box(x=(0.5, 2), y=(-1, 1), z=(-1, 1))
    built = sw.approximate("abs(x*y - 0.3)*exp(-z**2)/sqrt(x)", box, tol=1e-6, strategy="compose")
    write(plot_composed(built), "compile-stack.png")


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    memory()
    neurons()
    regimes()
    convergence()
    results()
    in_context()
    stack()
    sequences()
