"""The right half of the figures of labels B and C: what is particular to each construction."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from softwright.proof.arithmetic.balls import digits, precision
from softwright.report.style import BLUE, GREY, ORANGE, RED
from softwright.theorems.contextual_mapping import exact_ids
from softwright.theorems.tools.ball_network import exact_forward
from softwright.theorems.tools.construction import Construction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BITS = 60_000  # figures do not wait for more


def draw_partition(axes: Axes, made: Construction) -> None:
    """B1: the cells of the partition in the plane, darker where no piece leads clearly; or the indicator on a line."""
    slopes = made.extra["slopes"]
    if slopes.shape[1] == 1:
        x = np.linspace(-1, 1, 2001)
        out = made.network.evaluate(x[:, None, None])[:, :, 0]
        axes.plot(x, out, lw=1.0)
        axes.set_xlabel("x")
        axes.set_ylabel("softmax weights")
        return
    x = np.linspace(-1, 1, 160)
    grid = np.stack([a.ravel() for a in np.meshgrid(x, x, indexing="ij")], axis=1)
    points = np.zeros((len(grid), slopes.shape[1]))
    points[:, :2] = grid
    out = made.network.evaluate(points[:, :, None])[:, :, 0]
    shade = out.argmax(axis=1) % 20
    axes.imshow(
        shade.reshape(160, 160).T, origin="lower", extent=(-1, 1, -1, 1), cmap="tab20", alpha=0.55,
    )  # fmt: skip
    axes.contourf(x, x, (1.0 - out.max(axis=1)).reshape(160, 160).T, levels=[made.bound, 1.0], colors=["black"])
    axes.set_title("cells; black: the indicator is off by more than the bound", fontsize=8)
    axes.set_aspect("equal")


def draw_slice(axes: Axes, made: Construction) -> None:
    """B2, B3, B4: target and network along the first variable, the others in the middle of their sides."""
    source = made.extra.get("integrable")
    box = source.box if source is not None else made.extra["box"]
    columns = made.sizes["columns"]
    points = np.tile(box.center, (2001, 1))
    points[:, 0] = np.linspace(box.lower[0], box.upper[0], 2001)
    inputs = made.extra["cells"].shaped(points, columns)
    asked, got = made.target(inputs)[:, 0, 0], made.network.evaluate(inputs)[:, 0, 0]
    shown = np.abs(asked) <= 3.0 * np.abs(got).max() + 1e-300  # leave out the tip of a singularity
    axes.plot(points[shown, 0], asked[shown], color=BLUE, alpha=0.3, lw=5, label="asked")
    axes.plot(points[:, 0], got, color="black", lw=0.9, label="network")
    axes.set_xlabel(box.names[0])
    axes.set_title("along the first variable", fontsize=8)
    axes.legend()


def draw_gaps(axes: Axes, made: Construction) -> None:
    """C1: the distances between neighbouring values in order, in decimal digits, against the bound."""
    bits = made.extra["bits"]
    sets = made.extra["sets"][:400]
    with precision(bits):
        values = sorted(
            (exact_forward(made.network, row[None], bits)[0][0] for row in sets), key=lambda ball: ball.mid()
        )
        shared = [float(digits(b - a).mid()) for a, b in pairwise(values) if b > a]
    axes.plot(np.arange(1, len(shared) + 1), np.sort(shared), color=BLUE, lw=1.4, label="neighbouring boltz values")
    axes.axhline(made.bound, color=GREY, ls="--", lw=1, label="theorem's bound")
    axes.axhline(15.95, color=RED, ls=":", lw=1, label="float64")
    axes.set_xlabel("pair, in order")
    axes.set_ylabel("shared digits, -log10 of the distance")
    axes.legend()


def draw_ids(axes: Axes, made: Construction) -> None:
    """C2, C4, C6: how many digits the ids of one token in different contexts share."""
    head, sequences = made.extra["head"], made.extra["sequences"]
    bits = made.extra.get("bits", 0)
    places = made.extra.get("places")
    if places is None or bits > _MOST_BITS:
        out = made.network.evaluate(sequences)
        axes.plot(np.sort(made.target(sequences).ravel()), color=BLUE, alpha=0.3, lw=5, label="labels, in order")
        axes.plot(np.sort(out.ravel()), color="black", lw=0, marker=".", ms=4, label="network")
        axes.set_xlabel("(sequence, position)")
        axes.legend()
        return
    ids = exact_ids(made.network, sequences, places, bits)
    tokens = [int(head.vocabulary.index[i, k]) for i, k in places]
    shared = []
    with precision(bits):
        for a in range(len(ids)):
            for b in range(a):
                if tokens[a] == tokens[b]:
                    gap = max((abs(x - y) for x, y in zip(ids[a], ids[b], strict=True)), key=lambda ball: ball.mid())
                    shared.append(float(digits(gap).mid()) if gap > 0 else np.inf)
    axes.plot(np.arange(1, len(shared) + 1), np.sort(shared), color=BLUE, marker=".", lw=1.2, label="pairs of ids")
    axes.axhline(made.bound, color=GREY, ls="--", lw=1, label="theorem's bound")
    axes.axhline(15.95, color=RED, ls=":", lw=1, label="float64")
    axes.set_xlabel("pair of contexts of one token, in order")
    axes.set_ylabel("shared digits")
    axes.legend()


def draw_hardmax(axes: Axes, made: Construction) -> None:
    """C3: the id of the token 1 in both sequences, by hardmax and by softmax."""
    hard, soft = made.extra["hard_ids"][:, 0], made.extra["soft_ids"][:, 0]
    places = np.arange(2)
    axes.bar(places - 0.18, [hard[0], soft[0]], width=0.34, color=BLUE, label="in {1, 2, 5, 6}")
    axes.bar(places + 0.18, [hard[1], soft[1]], width=0.34, color=ORANGE, label="in {1, 3, 4, 6}")
    axes.set_xticks(places, ["hardmax", "softmax"])
    low, high = min(*hard, *soft), max(*hard, *soft)
    axes.set_ylim(low - 0.3 * (high - low) - 1e-6, high + 0.3 * (high - low) + 1e-6)
    axes.set_title("id of the token 1, first coordinate", fontsize=8)
    axes.legend()


def draw_equivariant(axes: Axes, made: Construction) -> None:
    """C5: the first output as the first token moves, the others fixed."""
    d, n = made.network.inputs
    x = np.round(np.linspace(0, 1, 1501) * 2.0**24) / 2.0**24
    inputs = np.tile(((np.arange(n) + 0.5) / n)[None, None, :], (len(x), d, 1))
    inputs[:, 0, 0] = x
    axes.plot(x, made.target(inputs)[:, 0, 0], color=BLUE, alpha=0.3, lw=5, label="asked")
    axes.plot(x, made.network.evaluate(inputs)[:, 0, 0], color="black", lw=0.9, label="network")
    axes.set_xlabel("first token, first coordinate")
    axes.legend()
