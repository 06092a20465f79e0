"""The picture of a transpiled network: what one neuron's head does, and how far off each layer is at most.

Top row, for the first kinds of heads in the network: the head against the activation, with the softmax weights of its
tokens below. Gates are drawn with a blunted score (beta = 4), because a sharp one cannot be seen; the figure says so.
Bottom: the proved error after every layer.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.report.style import BLUE, CYCLE, GREY, RED, figure
from softwright.transpiler.neuron_heads import NeuronHeads
from softwright.transpiler.token_table import TokenTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from softwright.result.built import Built

_BLUNT = 4.0


def plot_transpiled(built: Built, path: str | Path | None = None) -> Figure:
    """The figure of a network or module that `transpile` returned; written to `path` if given."""
    kinds = _kinds(built)[:3]
    with figure(path, (3.1 * max(len(kinds), 2), 6.4), _title(built)) as drawn:
        halves: Any = drawn.subfigures(2, 1, height_ratios=[2.4, 1.0])
        _draw_heads(halves[0], kinds)
        _draw_layers(halves[1].subplots(), built)
    return drawn


def _kinds(built: Built) -> list[tuple[str, TokenTable]]:
    """The distinct token tables of the network, each with a name."""
    names = iter([str(head["activation"]) for head in built.plan.heads])
    found: dict[bytes, tuple[str, TokenTable]] = {}
    for part in built.network.modules():
        if isinstance(part, NeuronHeads):
            table = part.table
            found.setdefault(table.stacked.tobytes(), (next(names, "neuron"), table))
    return list(found.values())


def _title(built: Built) -> str:
    bound = built.certificate
    error = f"proved error ≤ {bound.bound:.2g}" if bound is not None else f"observed error {built.observed_error:.2g}"
    text = str(built.target.get("text", "network"))
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"{text}\n{built.network.heads} heads, one per neuron; {error}"


def blunted(table: TokenTable) -> tuple[TokenTable, bool]:
    """The table with its sharpest key brought down to `_BLUNT`, and whether that changed it."""
    sharp = float(np.abs(table.keys).max())
    if sharp < 1e6:
        return table, False
    gates = np.abs(table.keys) > 1e6
    factor = _BLUNT / np.abs(table.keys[gates]).min()
    keys = np.where(gates, table.keys * factor, table.keys)
    return TokenTable(keys, np.where(gates, table.biases * factor, table.biases), table.slopes, table.offsets), True


def draw_head(axes: Any, name: str, table: TokenTable) -> None:
    """One head: `axes` is (value axis, weight axis)."""
    s = np.linspace(-6, 6, 801)
    shown, blunt = blunted(table)
    top, bottom = axes
    top.plot(s, table(s), color=GREY, alpha=0.35, lw=5, label=f"{name}, {table.tokens} tokens")
    label = f"drawn with beta = {_BLUNT:g}" if blunt else "the head"
    top.plot(s, shown(s), color="black", lw=1.2, label=label)
    top.set_title(f"{name}: value of the head")
    top.legend(loc="upper left")
    weights = shown.weights(s)  # (n, p)
    for j in range(table.tokens):
        colour = CYCLE[j % len(CYCLE)]
        bottom.plot(s, weights[:, j], color=colour, lw=1.2)
        bottom.fill_between(s, weights[:, j], color=colour, alpha=0.12, lw=0)
        if table.tokens <= 3:
            value = _text(table.slopes[j], table.offsets[j])
            peak = int(weights[:, j].argmax())
            place = float(np.clip(s[peak], -3.6, 3.6))
            bottom.text(place, 0.86, f"value {value}", color=colour, ha="center", fontsize=8)
    bottom.set_title("softmax weights of its tokens")
    bottom.set_xlabel("s = w.x + b")


def _text(slope: float, offset: float) -> str:
    parts = [] if slope == 0 else ["s" if slope == 1 else f"{slope:.3g} s"]
    if offset != 0 or not parts:
        parts.append(f"{offset:.3g}")
    return " + ".join(parts)


def _draw_heads(figure: Any, kinds: list[tuple[str, TokenTable]]) -> None:
    if not kinds:
        axis = figure.subplots()
        axis.text(0.5, 0.5, "gates that are softmax weights: no neuron of its own", ha="center")
        axis.set_axis_off()
        return
    axes = figure.subplots(2, len(kinds), squeeze=False, sharex=True)
    for column, (name, table) in enumerate(kinds):
        draw_head(axes[:, column], name, table)


def _draw_layers(axis: Any, built: Built) -> None:
    bound = built.certificate
    if bound is None:
        axis.text(0.5, 0.5, f"nothing is proved: {built.unproved}", ha="center", fontsize=8, wrap=True)
        axis.set_axis_off()
        return
    values = np.maximum(list(bound.quantities.values()), 1e-20)
    places = np.arange(1, len(values) + 1)
    axis.bar(places, values, width=0.5, color=BLUE, alpha=0.8, label="proved")
    if built.observed is not None:
        axis.axhline(max(built.observed_error, 1e-20), color=RED, lw=1, ls="--", label="observed at the output")
    axis.set_yscale("log")
    axis.set_xticks(places)
    axis.set_xlabel("layer" if built.kind == "transpiled" else "block")
    axis.set_title("largest error after each layer" if built.kind == "transpiled" else "largest error of each block")
    axis.legend(loc="upper left")
