"""The figure of a memory: context ids on a line, the gaps between them, and the softmax weights around a few of them.

Ids of more than one dimension are shown along the direction in which they spread most; gaps and weights are those of
the ids themselves.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.memory.readouts import SoftmaxLookup
from softwright.report.style import BLUE, CYCLE, GREEN, GREY, RED, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from softwright.result.built import Built

_SHOWN = 4000


def plot_memory(built: Built, path: str | Path | None = None) -> Figure:
    """Ids on a line, gaps against rounding, weights of neighbouring keys; written to `path` if given."""
    with figure(path, (7.2, 6.2), _title(built)) as drawn:
        top, middle, bottom = drawn.subplots(3, 1, height_ratios=[1.0, 1.3, 1.5])
        keys = built.network.readout.keys.double().numpy()
        line, values = _projected(keys), built.network.readout.values.double().numpy()[:, 0]
        _draw_ids(top, built, line, values)
        _draw_gaps(middle, built, keys)
        _draw_weights(bottom, built, keys, line)
    return drawn


def _title(built: Built) -> str:
    proved = (
        "not proved" if built.certificate is None else f"margin {built.certificate.quantities['margin']:.2g}, proved"
    )
    name = str(built.target.get("name", "memory"))
    return f"{name}\none softmax head of rank {built.network.rank}, {built.network.stored} ids; {proved}"


def _projected(keys: np.ndarray) -> np.ndarray:
    """Keys along their first principal direction."""
    if keys.shape[1] == 1 or len(keys) < 2:
        return keys[:, 0]
    centred = keys - keys.mean(axis=0)
    return centred @ np.linalg.svd(centred.T @ centred)[0][:, 0]


def _sample(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(count, _SHOWN)).astype(np.int64))


def _draw_ids(axes: Axes, built: Built, line: np.ndarray, values: np.ndarray) -> None:
    some = _sample(len(line))
    lift = np.random.default_rng(0).uniform(-1, 1, len(some)) if len(some) > 60 else np.zeros(len(some))
    if built.network.classes is not None:
        colour: Any = [CYCLE[int(v) % len(CYCLE)] for v in values[some]]
        axes.scatter(line[some], lift, s=10 if len(some) > 200 else 26, c=colour, lw=0)
    else:
        axes.scatter(line[some], lift, s=10 if len(some) > 200 else 26, c=values[some], cmap="viridis", lw=0)
    direction = "id" if built.network.readout.keys.shape[1] == 1 else "id, along its widest direction"
    axes.set(yticks=[], ylim=(-2, 2), xlabel=direction)
    axes.spines["left"].set_visible(False)
    spread = ", spread upwards to be seen" if len(some) > 60 else ""
    axes.set_title(f"context ids, coloured by label{spread}")


def _draw_gaps(axes: Axes, built: Built, keys: np.ndarray) -> None:
    """How far each id is from its nearest neighbour, against what rounding can move."""
    network = built.network
    radius = float(network.radii.max())
    if len(keys) > 1:
        distance, _ = network.index.nearest(keys[_sample(len(keys))], 2)
        gaps = np.sort(distance[:, 1])
        axes.semilogy(
            np.linspace(0, 1, len(gaps)), np.maximum(gaps, 1e-300), color=BLUE, lw=1.6, label="nearest other id"
        )
        axes.axhline(float(network.gap), color=GREEN, lw=1, ls="--", label=f"smallest gap {float(network.gap):.2g}")
    axes.axhline(2 * radius, color=RED, lw=1.2, label=f"what rounding could close {2 * radius:.2g}, proved")
    axes.set(xlabel="share of the ids", ylabel="distance", xlim=(0, 1))
    axes.legend(loc="center left", bbox_to_anchor=(0.02, 0.45))
    axes.set_title("how far apart ids are, and how far rounding can move them")


def _draw_weights(axes: Axes, built: Built, keys: np.ndarray, line: np.ndarray) -> None:
    """Weights of the readout on the way through a few neighbouring keys."""
    order = np.argsort(line, kind="stable")
    middle = len(order) // 2
    chosen = order[max(0, middle - 2) : middle + 3]
    if len(chosen) < 2:
        axes.set_visible(False)
        return
    share = np.linspace(0, 1, 241)[:-1]
    stops = keys[chosen]
    path = np.concatenate([stops[i] + share[:, None] * (stops[i + 1] - stops[i]) for i in range(len(stops) - 1)])
    where = np.concatenate([i + share for i in range(len(stops) - 1)])
    readout = built.network.readout
    if isinstance(readout, SoftmaxLookup):
        squares = ((path[:, None] - stops) ** 2).sum(axis=2)  # (points, few)
        scores = -0.5 * float(readout.beta) * (squares - squares.min(axis=1, keepdims=True))
        weights = np.exp(np.maximum(scores, -745.0))
        weights /= weights.sum(axis=1, keepdims=True)
    else:
        weights = _relu_weights(readout, path[:, 0], chosen)
    for j in range(len(chosen)):
        axes.plot(where, weights[:, j], color=CYCLE[j % len(CYCLE)], lw=1.4)
    axes.set_xticks(range(len(chosen)), [f"id {int(i)}" for i in chosen])
    axes.set_ylabel("weight")
    axes.tick_params(axis="x", colors=GREY)
    axes.set_title("what the readout gives five neighbouring ids, on the way from one to the next")


def _relu_weights(readout: Any, line: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    slopes, offsets = readout.slopes.double().numpy(), readout.offsets.double().numpy()
    steps = np.clip(1.0 - np.clip(line[:, None] * slopes + offsets, 0, None), 0, None)
    ones, zeros = np.ones((len(line), 1)), np.zeros((len(line), 1))
    return (np.hstack([steps, ones]) - np.hstack([zeros, steps]))[:, chosen]
