"""The figure of a program: what its heads attend to on one sequence, layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.report.style import figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from softwright.result.built import Built

_LENGTH = 12  # tokens of the sequence that is shown
_MOST = 6  # heads of a layer that are shown


def plot_program(built: Built, path: str | Path | None = None) -> Figure:
    """Written to `path` if given."""
    network = built.network
    text = str(built.target.get("text", "program")).replace("\n", "; ")
    title = text if len(text) <= 90 else f"{text[:87]}..."
    length = min(max(_LENGTH, network.tokens["length"][0]), network.longest)
    sequence = _sequence(network, length)
    layers = [network.attention_of(layer, **sequence) for layer in range(network.depth)]
    across = max((min(len(weights), _MOST) for weights in layers), default=1)
    texts: dict[int, list[str]] = {}
    for head in built.plan.heads:
        texts.setdefault(int(head["layer"]), []).append(str(head["computes"]))
    with figure(path, (2.2 * across + 1.2, 2.2 * max(1, len(layers)) + 0.8), title) as drawn:
        grid = drawn.subplots(max(1, len(layers)), across, squeeze=False)
        for row in grid:
            for axis in row:
                axis.axis("off")
        for number, weights in enumerate(layers):
            for h in range(min(len(weights), _MOST)):
                axis = grid[number][h]
                axis.axis("on")
                bank = weights.shape[2] - length
                shown = np.concatenate([weights[h][:, :bank].sum(axis=1, keepdims=True), weights[h][:, bank:]], axis=1)
                axis.imshow(shown, cmap="Blues", vmin=0.0, aspect="auto")
                axis.set_xticks([0], ["bank"], fontsize=6)
                axis.set_yticks([])
                named = texts.get(number + 1, [])
                label = named[h] if h < len(named) else ""
                axis.set_title(label if len(label) <= 26 else f"{label[:23]}...", fontsize=6.5)
            grid[number][0].set_ylabel(f"layer {number + 1}", fontsize=8)
    return drawn


def _sequence(network: Any, length: int) -> dict[str, Any]:
    generator, found = np.random.default_rng(4), {}
    for field in network.fields:
        if field["kind"] == "symbol":
            found[field["name"]] = generator.choice(field["symbols"], length).tolist()
        elif field["kind"] == "real":
            found[field["name"]] = generator.uniform(field["low"], field["high"], length).astype(np.float32)
        else:
            low, high = field.get("low", 0), field.get("high", 1)
            found[field["name"]] = generator.integers(low, high + 1, length)
    return found
