"""The strategies of `approximate`: one row per strategy, from which help, docstring and documentation are made.

To add one: write `strategies/<name>.py` with `fit_<name>(problem, formula) -> Fit | None` (None: it does not apply),
and add its row here. Code is named, not imported, so that a command line can show the list without loading torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from softwright.approximation.formula import Formula
    from softwright.approximation.problem import Fit, Problem

    Fitter: TypeAlias = Callable[[Problem, Formula | None], Fit | None]


@dataclass(frozen=True)
class Strategy:
    """One way to heads. `code` and the values of `automatic` are "module:function" below `softwright.approximation`.

    `automatic` says what the automatic choice tries, and at which place of its order; a strategy without an entry is
    only taken by name. Places apply to two and more variables; one variable has its own choice (`strategies/line.py`).
    """

    name: str
    summary: str  # one line, for help and documentation
    code: str
    automatic: Mapping[int, str] = field(default_factory=dict)

    def fit(self, problem: Problem, formula: Formula | None = None) -> Fit | None:
        """Heads for the problem; None if the strategy does not apply to it."""
        return loaded(self.code)(problem, formula)


def loaded(code: str) -> Fitter:
    module, name = code.split(":")
    return getattr(import_module(f"softwright.approximation.{module}"), name)


STRATEGIES = {
    row.name: row
    for row in (
        Strategy("auto", "one layer or a stack: of what is proved, what has fewest tokens", "choose:automatic"),
        Strategy("layer", "one layer: structure first, then what needs fewest tokens", "choose:one_layer"),
        Strategy(
            "spectral",
            "uniform grids at a finite temperature with constant values, for smooth targets",
            "strategies.spectral:fit_spectral",
        ),
        Strategy(
            "affine",
            "affine values and optimised keys, for smooth targets",
            "strategies.grid:fit_affine",
        ),
        Strategy(
            "grid",
            "a product of optimised axes, for smooth targets of several variables",
            "strategies.grid:fit_affine",
            {50: "strategies.grid:fit_few_variables"},
        ),
        Strategy(
            "pieces",
            "affine or spectral pieces behind gates, for kinks and singularities",
            "strategies.polyhedral:fit_gated",
            # First of all: gates in max-affine form have a proof in closed form.
            {10: "strategies.polyhedral:fit_polyhedral"},
        ),
        Strategy(
            "graded",
            "keys ever closer towards a root, a power or a pole, for formulas of one variable",
            "strategies.graded:fit_graded_line",
        ),
        Strategy(
            "ridge",
            "functions of one direction, or sums of such functions",
            "strategies.ridge:fit_ridge",
            {20: "strategies.direction:fit_direction", 60: "strategies.ridge:fit_ridge_sum"},
        ),
        Strategy(
            "sum",
            "heads that add up, for terms with kinks and for variables that do not interact",
            "strategies.sums:fit_cliques",
            {30: "strategies.sums:fit_terms", 40: "strategies.sums:fit_cliques"},
        ),
        Strategy(
            "scattered",
            "tokens at scattered centres, where nothing better is known",
            "strategies.scattered:fit_scattered",
            {70: "strategies.scattered:fit_scattered"},
        ),
        Strategy(
            "train",
            "a tensor train from few queries, one layer a variable, for callables of up to 12 variables",
            "strategies.train:fit_train",
            {25: "strategies.train:fit_asked"},
        ),
        Strategy(
            "compose",
            "a formula's own steps as layers of small heads, in any number of variables",
            "strategies.compose:fit_compose",
        ),
        Strategy("cells", "the papers' nearest cells, kept as the baseline", "strategies.cells:fit_cells"),
    )
}


_STACKS = ("train", "compose")  # of several layers


def attempts(stacks: bool = True) -> list[Fitter]:
    """What the automatic choice tries for two and more variables, in its order; the last always gives something."""
    rows = [row for row in STRATEGIES.values() if stacks or row.name not in _STACKS]
    places = sorted((place, code) for row in rows for place, code in row.automatic.items())
    return [loaded(code) for _, code in places]


def names_in_words() -> str:
    """auto, spectral, ... or cells: for help texts."""
    *first, last = STRATEGIES
    return f"{', '.join(first)} or {last}"


def listed(indent: str = "") -> str:
    """One line per strategy: its name and what it is for."""
    width = max(map(len, STRATEGIES))
    return "\n".join(f"{indent}{row.name:<{width}}  {row.summary}" for row in STRATEGIES.values())
