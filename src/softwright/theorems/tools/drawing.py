"""What the right halves of several theorems' figures share. Each takes axes and draws into them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softwright.report.style import BLUE, GREY, ORANGE, RED
from softwright.theorems.tools.construction import Construction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FLOAT64_DIGITS = 15.95


@dataclass(frozen=True)
class Line:
    """The scalar function inside a network: `values(s)` is (what comes out, what was asked), shown on [low, high]."""

    values: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    low: float
    high: float
    margin: float = 0.0  # how far beyond both ends it is shown

    def draw(self, axes: Axes) -> None:
        """What was asked, what comes out, and the error in a small picture."""
        s = np.linspace(self.low - self.margin, self.high + self.margin, 3001)
        got, asked = self.values(s)
        draw_curves(axes, s, asked, got)
        axes.set_xlabel("s")
        axes.legend(loc="upper left")
        inner = axes.inset_axes((0.6, 0.12, 0.38, 0.32))
        inner.plot(s, got - asked, color=RED, lw=0.6)
        inner.axhline(0, color=GREY, lw=0.5)
        inner.set_title("error", fontsize=7.5)
        inner.tick_params(labelsize=6.5)


@dataclass(frozen=True, kw_only=True)
class LineConstruction(Construction):
    """A construction whose network holds a scalar function that a figure can show."""

    line: Line | None = None


def draw_line(axes: Axes, made: LineConstruction) -> None:
    """The scalar function, or the errors of single inputs where there is none."""
    if made.line is None:
        draw_errors(axes, made)
    else:
        made.line.draw(axes)


def draw_curves(axes: Axes, x: np.ndarray, asked: np.ndarray, got: np.ndarray) -> None:
    """Target and network over one variable; where the target is nan it is left out."""
    axes.plot(x, asked, color=BLUE, alpha=0.3, lw=5, label="asked")
    axes.plot(x, got, color="black", lw=0.9, label="network")
    axes.legend()


def draw_errors(axes: Axes, made: Construction) -> None:
    """The errors of single inputs in order, below the bound; where a norm is measured instead, what went into it."""
    if made.measure is not None:
        axes.set_axis_off()
        facts = "\n".join(f"{name} = {value:.4g}" for name, value in made.quantities.items())
        axes.text(0.02, 0.95, facts, va="top", family="monospace", fontsize=8.5)
        return
    errors = np.sort(made.errors(made.sample(np.random.default_rng(0), 400)))
    axes.plot(np.arange(1, len(errors) + 1), np.maximum(errors, 1e-17), color=ORANGE, lw=1.4, label="inputs, in order")
    axes.axhline(made.bound, color=GREY, ls="--", lw=1, label="theorem's bound")
    axes.set_yscale("log")
    axes.set_xlabel("input")
    axes.set_ylabel("error")
    axes.legend()


def draw_digits(axes: Axes, shared: list[float], bound: float, what: str, order: str) -> None:
    """Shared decimal digits of pairs in order, against the theorem's bound and what float64 can tell apart."""
    axes.plot(np.arange(1, len(shared) + 1), np.sort(shared), color=BLUE, marker=".", lw=1.2, label=what)
    axes.axhline(bound, color=GREY, ls="--", lw=1, label="theorem's bound")
    axes.axhline(FLOAT64_DIGITS, color=RED, ls=":", lw=1, label="float64")
    axes.set_xlabel(order)
    axes.set_ylabel("shared digits, -log10 of the distance")
    axes.legend()


def draw_labels(axes: Axes, made: Construction, sequences: np.ndarray) -> None:
    """Labels of all tokens in order, and what the network answers."""
    axes.plot(np.sort(made.target(sequences).ravel()), color=BLUE, alpha=0.3, lw=5, label="labels, in order")
    out = np.sort(made.network.evaluate(sequences).ravel())
    axes.plot(out, color="black", lw=0, marker=".", ms=4, label="network")
    axes.set_xlabel("(sequence, position)")
    axes.legend()
