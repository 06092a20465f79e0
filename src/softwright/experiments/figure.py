"""The figures of `softwright reproduce`: constructed and, where there is one, trained, in one picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.report.style import BLUE, GREY, ORANGE, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = list[dict[str, Any]]
_AXES = {
    "points": ("points", "interpolation tokens p", "A1: one head"),
    "heads": ("heads", "heads H", "A2: no extra tokens"),
    "range": ("range", "|b - a|", "A1: 60 points"),
    "sequence": ("heads", "heads of the first layer", "A3: a random relu network, two attention layers"),
    "sequence-points": ("points", "tokens p of the trained model", "A3: a random relu network, 8 heads"),
}


def draw(name: str, rows: Rows, path: Path) -> Figure:
    """The figure of an experiment, written to `path`."""
    with figure(path, (7.2, 3.4)) as drawn:
        if name == "heatmap":
            _maps(drawn, rows)
        elif name == "memory":
            _memory(drawn, rows)
        else:
            _errors(drawn, rows, *_AXES[name])
    return drawn


def _errors(figure: Figure, rows: Rows, column: str, label: str, title: str) -> None:
    figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    x = [row[column] for row in rows]
    for axes, key, name in zip(
        figure.subplots(1, 2), ("largest", "mean_square"), ("largest error seen", "mean square error"), strict=True
    ):
        if key == "largest":
            axes.plot(x, [row["bound"] for row in rows], color=GREY, marker="s", ms=4, lw=1.2, label="theorem's bound")
        axes.plot(x, [row[key] for row in rows], color=BLUE, marker="o", ms=4.5, lw=1.2, label="constructed")
        learned = [(row[column], row[f"trained_{key}"]) for row in rows if f"trained_{key}" in row]
        if learned:
            axes.plot(*zip(*learned, strict=True), color=ORANGE, marker="D", ms=4.5, lw=1.2, label="trained (Adam)")
            band = [(row[f"trained_{key}"], row[f"trained_{key}_sd"]) for row in rows if f"trained_{key}" in row]
            low, high = [max(m - sd, 0.1 * m) for m, sd in band], [m + sd for m, sd in band]
            axes.fill_between([place for place, _ in learned], low, high, color=ORANGE, alpha=0.25, lw=0)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(x, [f"{value:g}" for value in x])
        axes.minorticks_off()
        axes.set_xlabel(label)
        axes.set_ylabel(name)
        axes.legend()


def _maps(figure: Figure, rows: Rows) -> None:
    ranges = list(dict.fromkeys(row["range"] for row in rows))
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    figure.set_size_inches(7.2, 2.9 * len(kinds))
    grid = figure.subplots(len(kinds), len(ranges), squeeze=False)
    for i, kind in enumerate(kinds):
        for j, width in enumerate(ranges):
            own = [row for row in rows if row["range"] == width and row["kind"] == kind]
            size = max(row["key"] for row in own) + 1, max(row["query"] for row in own) + 1
            weights = np.zeros(size)
            for row in own:
                weights[row["key"], row["query"]] = row["weight"]
            grid[i, j].imshow(weights, origin="lower", cmap="cividis", vmin=0, vmax=1, aspect="auto")
            grid[i, j].set_title(f"{kind}, |b-a| = {width:g}")
            grid[i, j].set_xlabel("query token")
            grid[i, j].set_ylabel("key token")
    figure.colorbar(grid[0, 0].images[0], ax=grid, label="attention weight", shrink=0.8)


def _memory(figure: Figure, rows: Rows) -> None:
    figure.suptitle(
        "token sequences of the standard library's source, one rank-1 attention layer", x=0.01, ha="left", fontsize=10
    )
    left, right = figure.subplots(1, 2)
    x = [row["sequences"] for row in rows]
    left.plot(x, [row["accuracy"] for row in rows], color=BLUE, marker="o", ms=4.5)
    left.set_ylim(0, 1.05)
    left.set_ylabel("sequences recalled (share)")
    right.plot(x, [row["parameters"] for row in rows], color=BLUE, marker="o", ms=4.5, label="softwright memorize")
    right.plot(
        x, [row["theorem_C4_parameters"] for row in rows], color=GREY, marker="s", ms=4, label="theorem C4 (s = d = 1)"
    )
    right.set_yscale("log")
    right.set_ylabel("parameters")
    right.legend()
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xticks(x, [f"{value:g}" for value in x])
        axes.minorticks_off()
        axes.set_xlabel("sequences stored")
