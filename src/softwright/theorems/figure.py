"""Figures of the theorems: on the left the bound and the observed error along the theorem's own sweep of sizes, on the
right what is particular to the label, drawn by the function that `_DETAILS` names (none: the errors of single inputs).

A function of `_DETAILS` takes the axes and the construction: `draw(axes, construction)`.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.errors import InvalidInput
from softwright.report.style import BLUE, GREY, ORANGE, RED, figure
from softwright.theorems import find_theorem
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.theorem import Theorem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from softwright.result.built import Built

_DETAILS = {
    "A1": "softwright.theorems.figure:draw_line",
    "A2": "softwright.theorems.figure:draw_line",
    "A4": "softwright.theorems.figure:draw_line",
    "A6": "softwright.theorems.figure:draw_line",
    "B1": "softwright.theorems.details:draw_partition",
    "B2": "softwright.theorems.details:draw_slice",
    "B3": "softwright.theorems.details:draw_slice",
    "B4": "softwright.theorems.details:draw_slice",
    "C1": "softwright.theorems.details:draw_gaps",
    "C2": "softwright.theorems.details:draw_ids",
    "C3": "softwright.theorems.details:draw_hardmax",
    "C4": "softwright.theorems.details:draw_ids",
    "C5": "softwright.theorems.details:draw_equivariant",
    "C6": "softwright.theorems.details:draw_ids",
}


def plot_theorem(built: Built, path: str | Path | None = None) -> Figure:
    """The figure of a theorem's construction; written to `path` if given."""
    stated = find_theorem(built.target["label"])
    made = built.source if isinstance(built.source, Construction) else _made_again(stated, built.target["sizes"])
    with figure(path, (8.4, 3.6), _title(stated, made)) as drawn:
        left, right = drawn.subplots(1, 2)
        draw_sweep(left, stated, made)
        place = _DETAILS.get(stated.label)
        (_named(place) if place else draw_errors)(right, made)
    return drawn


def _named(place: str) -> Any:
    module, name = place.split(":")
    return getattr(import_module(module), name)


def _made_again(stated: Theorem, sizes: dict[str, Any]) -> Construction:
    known = {option.name for option in stated.options}
    return stated.build(**{name: value for name, value in sizes.items() if name in known})


def _title(stated: Theorem, made: Construction) -> str:
    sizes = ", ".join(f"{name} {value}" for name, value in made.sizes.items() if not isinstance(value, list | dict))
    return f"{stated.label}: {stated.title}\n{sizes}"


def draw_sweep(axes: Axes, stated: Theorem, made: Construction) -> None:
    """Bound and observed error against the size that the theorem's rate speaks of."""
    observed, _ = made.observe()
    relation = "bound"
    if stated.sweep is None:
        axes.bar([relation, "observed"], [made.bound, observed], color=[GREY, BLUE], width=0.5)
        axes.set_ylabel(made.norm)
        return
    name, values = stated.sweep
    known = {option.name for option in stated.options}
    sizes = {key: value for key, value in made.sizes.items() if key in known}
    line = []
    for value in values:
        with suppress(InvalidInput):  # a size of the sweep that does not go with the others
            line.append((value, stated.build(**{**sizes, name: value})))
    values, line = tuple(value for value, _ in line), [each for _, each in line]
    seen = [each.observe()[0] for each in line]
    limits = [each.bound + (each.rounding or 0.0) for each in line]
    if any(each.rounding for each in line):
        relation += " + rounding"
    if limits and min(limits) > 0:
        seen = [max(value, 1e-17) for value in seen]  # a zero error would have no place on a logarithmic axis
    places: Any = values if all(isinstance(value, int | float) for value in values) else range(len(values))
    axes.plot(places, limits, color=GREY, marker="s", ms=4, lw=1.2, label=f"theorem's {relation}")
    axes.plot(places, seen, color=BLUE, marker="o", ms=4.5, lw=1.2, label="observed (sampled)")
    if places is values:
        axes.set_xscale("log")
        axes.set_xticks(list(values), [f"{value:g}" for value in values])
        axes.minorticks_off()
    else:
        axes.set_xticks(list(places), [str(value) for value in values])
    if min([*seen, *limits], default=0.0) > 0:
        axes.set_yscale("log")
    axes.set_xlabel(name)
    axes.set_ylabel(f"{made.norm} error" if made.norm[0] in "sL" else made.norm)
    axes.legend()


def draw_line(axes: Axes, made: Construction) -> None:
    """The scalar function inside the network: what was asked, what comes out, and the error below it."""
    line = made.extra.get("line")
    if line is None:
        draw_errors(axes, made)
        return
    low, high = made.extra["range"]
    reach = made.extra.get("margin", 0.15 * (high - low))
    s = np.linspace(low - reach, high + reach, 3001)
    got, asked = line(s)
    axes.plot(s, asked, color=BLUE, alpha=0.3, lw=5, label="asked")
    axes.plot(s, got, color="black", lw=0.9, label="network")
    axes.set_xlabel("s")
    axes.legend(loc="upper left")
    inner = axes.inset_axes((0.6, 0.12, 0.38, 0.32))
    inner.plot(s, got - asked, color=RED, lw=0.6)
    inner.axhline(0, color=GREY, lw=0.5)
    inner.set_title("error", fontsize=7.5)
    inner.tick_params(labelsize=6.5)


def draw_errors(axes: Axes, made: Construction) -> None:
    """The errors of single inputs in order, below the bound."""
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
