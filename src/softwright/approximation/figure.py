"""Figures of a result: what was asked, what the network gives, how the softmax shares it out, and the error.

    one variable     target and network; the softmax weights of the tokens; the error against the tolerance
    two variables    the network, with a dot where each token weighs most; the error; the softmax weights of four tokens
    noisy rows       residuals against what is predicted, and their histogram
    more             slices through the centre of the box; a histogram of the error

Colour maps are those that grow evenly in lightness, so that colour-blind readers lose nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.approximation.observe import crossing_points
from softwright.attention import Head
from softwright.report.style import BLUE, CYCLE, GREY, RED, figure
from softwright.targets import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from softwright.result.built import Built


_COVERED = 1.96  # standard deviations of a normal error that hold 95 %


def plot_built(built: Built, path: str | Path | None = None) -> Figure:
    """The figure that fits the number of variables; written to `path` if given."""
    if built.plan.noise is not None and isinstance(built.source, Table):
        return _plot_residuals(built, path)
    dim = built.network.box.dim
    draw = {1: _draw_line, 2: _draw_plane}.get(dim, _draw_slices)
    with figure(path, (7.2, 6.6 if dim == 1 else 6.4), _title(built)) as drawn:
        draw(drawn, built)
    return drawn


def _title(built: Built) -> str:
    text = str(built.target.get("text") or built.target.get("name") or built.target.get("kind") or "network")
    if len(text) > 70:
        text = text[:67] + "..."
    is_table = built.target.get("kind") == "table"
    if built.certificate is not None:
        error = f"proved error{' at its points' * is_table} ≤ {built.certificate.bound:.2g}"
    elif built.observed is not None:
        error = f"observed error {built.observed_error:.2g} ({'at its points' if is_table else 'sampled'})"
    else:
        error = "error not measured"
    heads = len(built.plan.heads)
    return f"{text}\n{heads} softmax head{'s' * (heads > 1)}, {built.network.tokens} tokens; {error}"


def _wanted(built: Built, points: np.ndarray) -> np.ndarray | None:
    """The target's values, where there is a target that can be asked between the points of a table."""
    if built.source is None or isinstance(built.source, Table):
        return None
    return built.source(points)


def _errors(built: Built, points: np.ndarray) -> np.ndarray | None:
    """Signed error (n, m) at the points, in the network's own dtype; None if there is nothing to compare with."""
    wanted = _wanted(built, points)
    return None if wanted is None else built(points) - wanted


def _error_at_table(built: Built, table: Table) -> np.ndarray:
    return built(table.points) - table.values


# ------------------------------------------------------------------------------------------------------ noisy rows


def _plot_residuals(built: Built[Any], path: str | Path | None = None) -> Figure:
    """Residuals against what was predicted, with the band of 1.96 rms, and their histogram."""
    table, noise = built.source, built.plan.noise or {}
    predicted = built(table.points)
    residuals = table.values - predicted
    title = f"a fit to {len(residuals)} noisy rows, {built.network.tokens} tokens: no bound"
    with figure(path, (7.2, 3.8), title) as drawn:
        left, right = drawn.subplots(1, 2, sharey=True, width_ratios=[2.4, 1])
        for output, rms in enumerate(noise.get("rms", [])):
            colour = CYCLE[output % len(CYCLE)]
            left.plot(predicted[:, output], residuals[:, output], ".", color=colour, ms=3, alpha=0.6)
            for side in (-_COVERED * rms, _COVERED * rms):
                left.axhline(side, color=colour, lw=0.9, ls="--")
            right.hist(residuals[:, output], bins=40, orientation="horizontal", color=colour, alpha=0.6)
        left.axhline(0.0, color=GREY, lw=0.8)
        left.set_xlabel("predicted")
        left.set_ylabel("row minus prediction")
        share = f"{100 * noise.get('coverage', 0.0):.1f} %"
        left.set_title(f"{share} of rows within ±{_COVERED} rms of what the other folds say", color=BLUE)
        right.set_xlabel("rows")
    return drawn


# ---------------------------------------------------------------------------------------------------- one variable


def _draw_line(figure: Figure, built: Built) -> None:
    box, heads = built.network.box, built.network.heads()
    shown = heads[:3]
    rows = 2 + len(shown)
    axes = figure.subplots(
        rows, 1, sharex=True, height_ratios=[2.2, *[1.4 if len(shown) == 1 else 1.0] * len(shown), 1.2]
    )
    # Gates are narrower than any even spacing: points beside every crossing of two scores show what happens there.
    gates = np.concatenate([crossing_points(head, 400, 0) for head in heads])
    t = np.unique(np.concatenate([np.linspace(-1, 1, 2001), gates[:, 0]]))[:, None]
    x = box.from_unit(t)
    _draw_values(axes[0], built, x)
    for number, (axis, head) in enumerate(zip(axes[1:-1], shown, strict=True), 1):
        weights = head.weights(t)  # (q, N)
        for j in range(min(head.tokens, 60)):
            colour = CYCLE[j % len(CYCLE)]
            axis.plot(x[:, 0], weights[:, j], color=colour, lw=1.2)
            axis.fill_between(x[:, 0], weights[:, j], color=colour, alpha=0.12, lw=0)
        name = f"head {number}: " if len(heads) > 1 else ""
        axis.set_title(f"{name}softmax weights of the {head.tokens} tokens")
        axis.set_ylim(0, min(1.05, 1.15 * float(weights.max())))
        axis.set_ylabel("weight")
    _draw_line_error(axes[-1], built, x)
    axes[-1].set_xlabel(box.names[0])
    axes[-1].set_xlim(float(box.lower[0]), float(box.upper[0]))


def _draw_values(axis: Axes, built: Built, x: np.ndarray) -> None:
    wanted, values = _wanted(built, x), built(x)
    for output in range(min(built.network.outputs, len(CYCLE))):
        suffix = f" {output + 1}" if built.network.outputs > 1 else ""
        colour = CYCLE[output]
        if wanted is not None:
            axis.plot(x[:, 0], wanted[:, output], color=colour, alpha=0.3, lw=5, label=f"target{suffix}")
        elif isinstance(built.source, Table):
            table = built.source
            axis.plot(
                table.points[:, 0],
                table.values[:, output],
                "o",
                ms=3.5,
                color=colour,
                alpha=0.5,
                label=f"table{suffix}",
            )
        axis.plot(
            x[:, 0],
            values[:, output],
            color=colour if built.network.outputs > 1 else "black",
            lw=1.2,
            label=f"network{suffix}",
        )
    axis.legend(loc="best")
    axis.set_ylabel("value")


def _draw_line_error(axis: Axes, built: Built, x: np.ndarray) -> None:
    tolerance = built.plan.tolerance
    errors = _errors(built, x)
    if isinstance(built.source, Table):
        table = built.source
        axis.plot(table.points[:, 0], _error_at_table(built, table), "o", ms=3, color=BLUE)
        axis.set_title("error at the points of the table, and the tolerance")
    elif errors is not None:
        for output in range(min(errors.shape[1], len(CYCLE))):
            axis.plot(x[:, 0], errors[:, output], color=CYCLE[output], lw=1)
        axis.set_title("network minus target, and the tolerance")
    else:
        axis.set_title("the target is not stored in the file, so there is no error to draw")
    for sign in (-1, 1):
        axis.axhline(sign * tolerance, color=RED, lw=1, ls="--")
    axis.axhline(0, color=GREY, lw=0.6)
    axis.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
    axis.set_ylabel("error")


# --------------------------------------------------------------------------------------------------- two variables


def _draw_plane(figure: Figure, built: Built) -> None:
    box, heads = built.network.box, built.network.heads()
    n = 161 if built.network.tokens <= 500 else 101
    t1 = np.linspace(-1, 1, n)
    t = np.stack(np.meshgrid(t1, t1, indexing="ij"), axis=-1).reshape(-1, 2)
    x = box.from_unit(t)
    halves: Any = figure.subfigures(2, 1, height_ratios=[1.75, 1.0])
    top, bottom = halves
    left, right = top.subplots(1, 2, sharex=True, sharey=True)
    image = _show(left, box, built(x)[:, 0].reshape(n, n), cmap="viridis")
    top.colorbar(image, ax=left, shrink=0.85)
    which = "" if built.network.outputs == 1 else f", output 1 of {built.network.outputs}"
    peaks = [_peaks(head, t) for head in heads]
    dots = sum(head.tokens for head in heads) <= 1500
    for peak, marker in zip(peaks if dots else [], "o^sDvP*" * len(heads), strict=False):
        spots = box.from_unit(peak)
        left.scatter(*spots.T, s=14, marker=marker, color="white", edgecolor="black", lw=0.6, clip_on=False, zorder=3)
    left.set_title(f"network{which}" + ("; dots: where each token peaks" if dots else ""))
    _draw_plane_error(right, top, built, x, n)
    for axis in (left, right):
        axis.set_xlabel(box.names[0])
    left.set_ylabel(box.names[1])
    _draw_plane_weights(bottom, built, peaks, t, n)


def _show(axis: Axes, box: Any, values: np.ndarray, **options: Any) -> Any:
    """An image of values[i, j] at (x_i, y_j)."""
    extent = (float(box.lower[0]), float(box.upper[0]), float(box.lower[1]), float(box.upper[1]))
    axis.spines[:].set_visible(False)
    return axis.imshow(values.T, origin="lower", extent=extent, aspect="auto", interpolation="bilinear", **options)


def _peaks(head: Head, t: np.ndarray) -> np.ndarray:
    """Where in [-1, 1]^2 each token's softmax weight is largest, (N, 2); of a plateau, as gates have, the middle."""
    if head.structure == "grid":
        fine = np.linspace(-1, 1, 401)
        along = [fine[axis.weights(fine).argmax(axis=0)] for axis in head.axes]
        return np.stack(np.meshgrid(*along, indexing="ij"), axis=-1).reshape(-1, 2)
    coarse = t[:: max(1, len(t) * head.tokens // 20_000_000)]
    weights = head.weights(coarse)  # (q, N)
    high = weights >= 0.98 * weights.max(axis=0)
    return (high.T @ coarse) / high.sum(axis=0)[:, None]


def _draw_plane_error(axis: Axes, figure: Any, built: Built, x: np.ndarray, n: int) -> None:
    tolerance = built.plan.tolerance
    errors = _errors(built, x)
    if isinstance(built.source, Table):
        table = built.source
        size = np.abs(_error_at_table(built, table)).max(axis=1)
        image = axis.scatter(*table.points.T, c=size, s=12, cmap="magma_r", vmin=0)
        axis.set_title(f"|error| at the table's points; tolerance {tolerance:.2g}")
    elif errors is not None:
        picture = _worst_output(errors)
        _mark_gates(picture, built, n)
        most = max(float(np.abs(picture).max()), 1e-3 * tolerance)
        image = _show(axis, built.network.box, picture.reshape(n, n), cmap="PuOr", vmin=-most, vmax=most)
        axis.set_title(f"network minus target; tolerance {tolerance:.2g}")
    else:
        axis.set_title("the target is not stored in the file")
        return
    figure.colorbar(image, ax=axis, shrink=0.85).formatter.set_powerlimits((-2, 3))


def _worst_output(errors: np.ndarray) -> np.ndarray:
    """Of each row (n, m) the entry of largest size, with its sign: (n,)."""
    return errors[np.arange(len(errors)), np.abs(errors).argmax(axis=1)]


def _mark_gates(picture: np.ndarray, built: Built, n: int) -> None:
    """Put the error beside the walls of gates into the n x n picture: walls are far thinner than a pixel."""
    for head in built.network.heads():
        if head.structure != "gates" or head.tokens < 2:
            continue
        t = crossing_points(head, 60_000, seed=3)
        errors = _errors(built, built.network.box.from_unit(t))
        if errors is None:
            return
        worst = _worst_output(errors)
        order = np.argsort(np.abs(worst))  # of several points in a pixel the last written is the worst
        pixel = np.rint((t[order] + 1) / 2 * (n - 1)).astype(int)
        place = pixel[:, 0] * n + pixel[:, 1]
        larger = np.abs(worst[order]) > np.abs(picture[place])
        picture[place[larger]] = worst[order][larger]


def _draw_plane_weights(figure: Any, built: Built, peaks: list[np.ndarray], t: np.ndarray, n: int) -> None:
    """The softmax weights of four tokens whose peaks lie far apart, taken from the heads in turn."""
    heads = built.network.heads()
    picked: list[tuple[int, int]] = []
    for turn in range(4):
        h = turn % len(heads)
        taken = [peaks[i][j] for i, j in picked if i == h]
        gaps = np.min([((peaks[h] - spot) ** 2).sum(axis=1) for spot in taken or [np.zeros(2)]], axis=0)
        picked.append((h, int(gaps.argmax() if taken else gaps.argmin())))
    picked = list(dict.fromkeys(picked))
    axes = np.atleast_1d(figure.subplots(1, len(picked), sharex=True, sharey=True))
    image = None
    weights = [_weight_of(heads[h], j, t) for h, j in picked]
    largest = float(np.max(weights))
    for axis, (h, j), weight in zip(axes, picked, weights, strict=True):
        image = _show(axis, built.network.box, weight.reshape(n, n), cmap="cividis", vmin=0, vmax=largest)
        axis.set_title((f"head {h + 1}, " if len(heads) > 1 else "") + f"token {j + 1}")
    figure.colorbar(image, ax=list(axes), shrink=0.8, label="softmax weight")


def _weight_of(head: Head, token: int, t: np.ndarray) -> np.ndarray:
    """The softmax weight (q,) of one token at t (q, d): over a grid a product of weights along the axes."""
    if head.structure == "grid":
        place = np.unravel_index(token, [axis.tokens for axis in head.axes])
        along = [axis.weights(t[:, i])[:, j] for i, (axis, j) in enumerate(zip(head.axes, place, strict=True))]
        return np.prod(along, axis=0)
    step = max(1, 4_000_000 // head.tokens)
    return np.concatenate([head.weights(t[start : start + step])[:, token] for start in range(0, len(t), step)])


# -------------------------------------------------------------------------------------------------- more variables


def _draw_slices(figure: Figure, built: Built) -> None:
    box = built.network.box
    names = box.names[:8]
    columns = 2 if len(names) <= 3 else 3
    rows = -(-(len(names) + 1) // columns)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    low, high = np.inf, -np.inf
    for i, (axis, name) in enumerate(zip(axes, names, strict=False)):
        x = np.repeat(box.center[None], 401, axis=0)
        x[:, i] = np.linspace(box.lower[i], box.upper[i], 401)
        wanted = _wanted(built, x)
        if wanted is not None:
            axis.plot(x[:, i], wanted[:, 0], color=BLUE, alpha=0.3, lw=5, label="target")
        values = built(x)[:, 0]
        low, high = min(low, float(values.min())), max(high, float(values.max()))
        axis.plot(x[:, i], values, color="black", lw=1.2, label="network")
        axis.set_xlabel(name)
        if i == 0:
            axis.set_title("slices through the centre of the box")
            axis.legend(loc="best")
    margin = 0.06 * (high - low) or 1.0
    for axis in axes[: len(names)]:  # one scale for all slices: a variable without influence is a flat line
        axis.set_ylim(low - margin, high + margin)
    _draw_histogram(axes[len(names)], built)
    for axis in axes[len(names) + 1 :]:
        axis.set_visible(False)


def _draw_histogram(axis: Axes, built: Built) -> None:
    if isinstance(built.source, Table):
        errors, where = _error_at_table(built, built.source), "the table's points"
    else:
        points = built.network.box.sample(4000, seed=5)
        found = _errors(built, points)
        if found is None:
            axis.set_title("the target is not stored in the file")
            return
        errors, where = found, "4000 random points"
    size = np.log10(np.maximum(np.abs(errors).max(axis=1), 1e-18))
    axis.hist(size, bins=40, color=BLUE, alpha=0.8)
    axis.axvline(np.log10(built.plan.tolerance), color=RED, ls="--", lw=1.2, label="tolerance")
    axis.set_title(f"|error| at {where}")
    axis.set_xlabel("log10 |error|")
    axis.set_ylabel("points")
    axis.legend(loc="upper left")
