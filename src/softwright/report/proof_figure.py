"""A figure of the proof itself: the boxes on which the bound was proved one by one, and the error that they enclose.

    one variable     the leaves as bars, one row per depth, coloured by how much of the bound they use; the error below
    two variables    the leaves as rectangles in the same colours; the error below
    parts            one panel for each summand of an additive proof, leaves coloured by depth

How much of the bound is used is sampled: the colour shows why a box had to be small, it is no part of the proof.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.errors import Faults, InvalidInput
from softwright.report.style import check_figure, figure
from softwright.result.certificate import Certificate, leaf_boxes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from softwright.result.built import Built

ERROR, LIMIT, EDGE = "#0072B2", "#D55E00", "#444444"
_PANELS = 4  # parts shown of an additive proof
_POINTS = {1: 24, 2: 7}  # samples per leaf and axis
_MOST_POINTS = 400_000
_PIXELS = 200  # of the picture of the error, a side
Residual = Callable[[np.ndarray], np.ndarray]  # points (n, d) -> largest |network - target| over the outputs (n,)


def proof_figure(subject: Built | Certificate, path: str | Path | None = None) -> Figure:
    """The proof behind a certificate; of a `Built`, with the error below. Written to `path` if given."""
    certificate, residual = _read(subject)
    _check(certificate, path)
    with figure(path, (7.2, 6.4), _title(certificate)) as drawn:
        if isinstance(certificate.tree, bytes):
            _draw_tree(drawn, certificate, certificate.tree, residual)
        else:
            _draw_parts(drawn, certificate)
    return drawn


def _read(subject: Any) -> tuple[Certificate, Residual | None]:
    if isinstance(subject, Certificate):
        return subject, None
    certificate = getattr(subject, "certificate", None)
    if not isinstance(certificate, Certificate):
        void = getattr(subject, "certificate_void", "")
        why = (
            f"the certificate is void: {void}" if void else "there is no certificate to draw; certify the network first"
        )
        raise InvalidInput("proof_figure", [why])
    network, target = subject.network, subject.source
    if target is None:
        return certificate, None

    def residual(points: np.ndarray) -> np.ndarray:
        return np.abs(network.evaluate(points, engine=_engine(certificate)) - target(points)).max(axis=1)

    return certificate, residual


def _engine(certificate: Certificate) -> str:
    return "sdpa" if certificate.engine == "any" else certificate.engine


def _check(certificate: Certificate, path: str | Path | None) -> None:
    faults = Faults("proof_figure")
    try:
        check_figure(path)
    except InvalidInput as error:
        faults.found += error.faults
    if certificate.tree is None:
        faults.add(f"the proof ({certificate.method}) has no boxes to draw")
    elif isinstance(certificate.tree, bytes) and len(certificate.domain) > 2:
        faults.add(f"boxes of {len(certificate.domain)} variables cannot be drawn; only one or two can")
    faults.raise_if_any()


def _title(certificate: Certificate) -> str:
    text = str(certificate.target.get("text") or certificate.target.get("name") or certificate.target["kind"])
    text = text if len(text) <= 70 else text[:67] + "..."
    norm = "sup" if certificate.p is None else f"L{certificate.p:g}"
    proved = f"{norm} error ≤ {certificate.bound:.3g} proved on {certificate.boxes} boxes, order {certificate.order}"
    return f"{text}\n{proved}"


def _draw_tree(figure: Figure, certificate: Certificate, tree: bytes, residual: Residual | None) -> None:
    sides = list(certificate.domain.values())
    low, high, depth = leaf_boxes(tree, [a for a, _ in sides], [b for _, b in sides])
    shade, label, cut = depth.astype(float), "depth of the box", (float(depth.min()), float(depth.max()))
    samples = None
    if residual is not None:
        points, owner = _sample(low, high)
        values = residual(points)
        largest = np.zeros(len(low))
        np.maximum.at(largest, owner, values)
        samples = (points, values)
        shade, label, cut = largest / certificate.bound, "largest error seen / proved bound", (0.0, 1.0)
    rows = 1 if samples is None else 2
    axes = figure.subplots(rows, 1, squeeze=False, sharex=len(sides) == 1)[:, 0]
    names = list(certificate.domain)
    if len(sides) == 1:
        _draw_bars(axes[0], low[:, 0], high[:, 0], depth, shade, cut, label)
        if samples is not None:
            _draw_error_line(axes[1], *samples, certificate)
        axes[-1].set_xlabel(names[0])
        return
    _draw_rectangles(axes[0], low, high, shade, cut, label)
    if residual is not None:
        lines = [np.linspace(a, b, _PIXELS) for a, b in sides]
        grid = np.stack([axis.ravel() for axis in np.meshgrid(*lines)], axis=1)  # rows along the second variable
        error = residual(grid).reshape(_PIXELS, _PIXELS)
        image = axes[1].pcolormesh(*lines, error, shading="gouraud", cmap="viridis", rasterized=True)
        figure.colorbar(image, ax=axes[1], label="|network − target|")
        axes[1].set_title("The error that they enclose, sampled")
    for ax in axes:
        ax.set_xlabel(names[0])
        ax.set_ylabel(names[1])


def _sample(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points of every leaf, its edges included, and the leaf each belongs to."""
    dim = low.shape[1]
    each = max(2, min(_POINTS[dim], int((_MOST_POINTS / len(low)) ** (1 / dim))))
    line = np.linspace(0.0, 1.0, each)
    unit = np.stack([axis.ravel() for axis in np.meshgrid(*[line] * dim, indexing="ij")], axis=1)  # (k, d)
    points = low[:, None] + unit * (high - low)[:, None]  # (leaves, k, d)
    points = np.clip(points, low[:, None], high[:, None])
    return points.reshape(-1, dim), np.repeat(np.arange(len(low)), len(unit))


def _draw_bars(
    ax: Axes,
    low: np.ndarray,
    high: np.ndarray,
    depth: np.ndarray,
    shade: np.ndarray,
    cut: tuple[float, float],
    label: str,
) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import MaxNLocator

    bars = [Rectangle((a, d - 0.4), b - a, 0.8) for a, b, d in zip(low, high, depth, strict=True)]
    drawn = ax.add_collection(PatchCollection(bars, cmap="viridis", edgecolor=EDGE, linewidth=0.3))
    drawn.set_array(shade)
    drawn.set_clim(*cut)
    ax.set_xlim(float(low.min()), float(high.max()))
    ax.set_ylim(float(depth.max()) + 0.7, float(depth.min()) - 0.7)
    ax.set_ylabel("bisections")
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_title("Boxes on which the bound was proved")
    ax.figure.colorbar(drawn, ax=ax, label=label)


def _draw_error_line(ax: Axes, points: np.ndarray, values: np.ndarray, certificate: Certificate) -> None:
    order = np.argsort(points[:, 0], kind="stable")
    ax.plot(points[order, 0], values[order], color=ERROR, linewidth=0.9, label="error, sampled")
    if certificate.p is None:
        ax.axhline(certificate.bound, color=LIMIT, linewidth=1.2, label=f"proved bound {certificate.bound:.3g}")
    ax.set_ylim(0.0, 1.15 * max(float(values.max()), certificate.bound if certificate.p is None else 0.0))
    ax.set_ylabel("|network − target|")
    ax.set_title("The error that they enclose")
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.0)


def _draw_rectangles(
    ax: Axes, low: np.ndarray, high: np.ndarray, shade: np.ndarray, cut: tuple[float, float], label: str
) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    size = high - low
    boxes = [Rectangle((a[0], a[1]), w[0], w[1]) for a, w in zip(low, size, strict=True)]
    drawn = ax.add_collection(PatchCollection(boxes, cmap="viridis", edgecolor="white", linewidth=0.3))
    drawn.set_array(shade)
    drawn.set_clim(*cut)
    ax.set_xlim(float(low[:, 0].min()), float(high[:, 0].max()))
    ax.set_ylim(float(low[:, 1].min()), float(high[:, 1].max()))
    ax.set_title("Boxes on which the bound was proved")
    ax.figure.colorbar(drawn, ax=ax, label=label)


def _draw_parts(figure: Figure, certificate: Certificate) -> None:
    boxed = [part for part in certificate.tree or () if not isinstance(part, int) and part.tree is not None]
    parts = [part for part in boxed if len(part.variables) <= 2]
    if not parts:
        raise InvalidInput("proof_figure", ["no part of the proof has one or two variables; nothing can be drawn"])
    shown = sorted(parts, key=lambda part: -len(part.tree or b""))[:_PANELS]
    for ax, part in zip(figure.subplots(len(shown), 1, squeeze=False)[:, 0], shown, strict=True):
        sides = [certificate.domain[name] for name in part.variables]
        low, high, depth = leaf_boxes(part.tree or b"", [a for a, _ in sides], [b for _, b in sides])
        cut = (float(depth.min()), float(depth.max()))
        if len(sides) == 1:
            _draw_bars(ax, low[:, 0], high[:, 0], depth, depth.astype(float), cut, "depth")
        else:
            _draw_rectangles(ax, low, high, depth.astype(float), cut, "depth")
            ax.set_ylabel(part.variables[1])
        ax.set_xlabel(part.variables[0])
        ax.set_title(f"Part in {', '.join(part.variables)}: error ≤ {part.exact_part:.3g} on {len(low)} boxes")
