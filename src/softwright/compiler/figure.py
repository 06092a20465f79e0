"""The figure of a compiled formula: its stack, features as boxes and layers as columns, and the error by feature."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from softwright.report.style import BLUE, GREY, RED, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from softwright.result.built import Built

_LONGEST = 34


def plot_composed(built: Built, path: str | Path | None = None) -> Figure:
    """Written to `path` if given."""
    target = str(built.target.get("text", "formula"))
    network = built.network
    title = target if len(target) <= 70 else f"{target[:67]}..."
    layers: dict[int, list[dict]] = {}
    for head in built.plan.heads:
        layers.setdefault(int(head["layer"]), []).append(head)
    tallest = max(len(heads) for heads in layers.values())
    with figure(path, (max(7.2, 2.6 * (len(layers) + 1)), max(4.0, 0.42 * tallest + 2.4)), title) as drawn:
        stack, errors = drawn.subplots(2, 1, height_ratios=[max(2.0, 0.3 * tallest), 1.2])
        columns = [[f"{name} in [{low:g}, {high:g}]" for name, low, high in network.box]]
        columns += [[_short(head) for head in layers[number]] for number in sorted(layers)]
        for x, texts in enumerate(columns):
            for y, text in enumerate(texts):
                place = (x, -(y + 0.5) * tallest / len(texts))
                colour = GREY if x == 0 else BLUE
                box = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": colour}
                stack.annotate(text, place, ha="center", va="center", fontsize=6.5, bbox=box)
            name = "inputs" if x == 0 else f"layer {x}"
            stack.annotate(name, (x, 0.35), ha="center", va="bottom", fontsize=8)
        stack.set_xlim(-0.6, len(columns) - 0.4)
        stack.set_ylim(-tallest - 0.2, 1.2)
        stack.axis("off")
        shares = np.array([head["share"] or 0.0 for head in built.plan.heads])  # of heads without a proof there is none
        errors.bar(np.arange(len(shares)), np.maximum(shares, 1e-300), color=BLUE)
        errors.axhline(built.plan.tolerance, color=RED, linewidth=1.0)
        errors.set_yscale("log")
        errors.set_ylim(max(float(shares.max()) * 1e-9, 1e-300), 4.0 * built.plan.tolerance)
        errors.set_xlabel("heads, layer by layer")
        errors.set_ylabel("share of the bound")
    return drawn


def _short(head: dict) -> str:
    text = str(head["computes"])
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    share = "unproved" if head["share"] is None else f"{head['share']:.1e}"
    return f"{text}\n{head['tokens']} tokens, {share}"
