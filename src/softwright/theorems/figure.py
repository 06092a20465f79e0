"""Figures of the theorems: on the left the bound and the observed error along the theorem's own sweep of sizes, on the
right what is particular to the label, drawn by the theorem's `details`.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softwright.errors import InvalidInput
from softwright.report.style import BLUE, GREY, figure
from softwright.theorems import find_theorem
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.theorem import Theorem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from softwright.result.built import Built


def plot_theorem(built: Built, path: str | Path | None = None) -> Figure:
    """The figure of a theorem's construction; written to `path` if given."""
    stated = find_theorem(built.target["label"])
    made = built.source if isinstance(built.source, Construction) else _made_again(stated, built.target["sizes"])
    with figure(path, (8.4, 3.6), _title(stated, made)) as drawn:
        left, right = drawn.subplots(1, 2)
        draw_sweep(left, stated, made)
        stated.details(right, made)
    return drawn


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
