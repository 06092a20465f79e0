"""Figures of a stack that fits a model in context: the error by layer, and the answers beside the exact ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from softwright.methods.network import InContextStack
from softwright.methods.reference import exact_predictions, random_design
from softwright.report.style import BLUE, CYCLE, GREY, ORANGE, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from softwright.result.built import Built

_ROWS, _QUERIES, _SEED = 200, 40, 7


def error_by_layer(
    stack: InContextStack, x: np.ndarray, y: np.ndarray, queries: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Layers passed, and the largest distance of the predictions to those of the exact solution after each."""
    exact = exact_predictions(x, y, queries, stack.constants)
    with torch.no_grad():
        states = stack.trace(torch.as_tensor(x), torch.as_tensor(y), torch.as_tensor(queries))
    errors = np.array([float(np.abs(state.double().numpy() - exact).max()) for state in states])
    return np.arange(len(errors)) + stack.head, errors


def plot_in_context(built: Built, path: str | Path | None = None) -> Figure:
    """Error by layer on a random design, and predictions against the exact solution; written to `path` if given."""
    stack = built.network
    x, y = random_design(stack.constants.method, stack.features, _ROWS + _QUERIES, _SEED)
    layers, errors = error_by_layer(stack, x[:_ROWS], y[:_ROWS], x[_ROWS:])
    given = stack.evaluate(x=x[:_ROWS], y=y[:_ROWS], queries=x[_ROWS:], check=False)
    exact = exact_predictions(x[:_ROWS], y[:_ROWS], x[_ROWS:], stack.constants)
    title = f"{stack.constants.method} by {stack.constants.solver}, {stack.depth} layers of softmax attention"
    with figure(path, (8.0, 3.4), title) as drawn:
        left, right = drawn.subplots(1, 2, width_ratios=(1.6, 1))
        left.semilogy(
            layers, np.maximum(errors, 1e-17), color=BLUE, lw=1.3, marker="o" if len(layers) < 80 else "", ms=3
        )
        left.axvspan(
            0,
            stack.head,
            color=GREY,
            alpha=0.12,
            lw=0,
            label="centring, scaling, first inverse" if stack.head > 1 else "centring",
        )
        left.set_xlabel("layers passed")
        left.set_ylabel("largest error of a prediction")
        left.set_title("distance to the exact solution")
        left.legend(loc="upper right")
        right.plot(exact, given, ".", color=ORANGE)
        span = [float(exact.min()), float(exact.max())]
        right.plot(span, span, color=GREY, lw=0.8)
        right.set_xlabel("exact solution")
        right.set_ylabel("stack")
        right.set_title(f"{_QUERIES} queries, {_ROWS} observations")
    return drawn


def plot_methods(stacks: Sequence[tuple[str, InContextStack]], path: str | Path) -> None:
    """Error by layer of several stacks on their random designs, in one picture."""
    with figure(path, (7.2, 3.8)) as drawn:
        axis = drawn.subplots()
        for (name, stack), colour in zip(stacks, CYCLE, strict=False):
            x, y = random_design(stack.constants.method, stack.features, _ROWS + _QUERIES, _SEED)
            layers, errors = error_by_layer(stack, x[:_ROWS], y[:_ROWS], x[_ROWS:])
            axis.semilogy(layers, np.maximum(errors, 1e-16), color=colour, lw=1.3, label=name)
        axis.set_xlabel("layers passed")
        axis.set_ylabel("largest error of a prediction")
        axis.set_title(f"distance to the exact solution, {_ROWS} observations")
        axis.legend()
