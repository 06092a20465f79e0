"""`Activation`: one activation with its parameters, and everything that its row says of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from softwright.errors import Faults
from softwright.targets.mlp.activation_row import ActivationRow, Array, Spelling, Token
from softwright.targets.mlp.activations import ACTIVATIONS


@dataclass(frozen=True)
class Activation:
    """One activation with its parameters; parameters left out are torch's."""

    name: str
    parameters: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        faults = Faults("Activation")
        if faults.check(self.name in ACTIVATIONS, f"{self.name!r} is not known; use one of {', '.join(ACTIVATIONS)}"):
            defaults = tuple(self.row.parameters.values())
            given = tuple(float(value) for value in self.parameters) or defaults
            counted = faults.check(
                len(given) == len(defaults),
                f"{self.name} takes {len(defaults)} parameter(s), got {len(given)}; give all of them or none",
            )
            finite = faults.check(
                all(math.isfinite(value) for value in given), f"{self.name}{given}: parameters must be finite numbers"
            )
            fault = self.row.fault(*given) if counted and finite else ""
            faults.check(not fault, fault)
            object.__setattr__(self, "parameters", given)
        faults.raise_if_any()

    @property
    def row(self) -> ActivationRow:
        return ACTIVATIONS[self.name]

    @property
    def options(self) -> dict[str, float]:
        """Parameters by name."""
        return dict(zip(self.row.parameters, self.parameters, strict=True))

    @property
    def formula(self) -> str:
        """The activation as a formula in x, its parameters written exactly."""
        return self.row.formula(*self.parameters)

    @property
    def base(self) -> Activation:
        """The activation at rate 1 and without a jump, to which tokens are fitted."""
        return replace(self, parameters=self.row.base(*self.parameters))

    @property
    def rate(self) -> float:
        return self.row.rate(*self.parameters)

    @property
    def smooth(self) -> Activation:
        """The activation without its jump."""
        return replace(self, parameters=self.row.smooth(*self.parameters))

    @property
    def slope(self) -> float:
        """sup |phi'|, rounded up."""
        return self.row.slope(*self.parameters)

    @property
    def least_slope(self) -> float:
        """inf phi', rounded down."""
        return -self.slope if self.row.least is None else self.row.least(*self.parameters)

    @property
    def bounded(self) -> bool:
        everything = self.row.span(np.array([-np.inf]), np.array([np.inf]), *self.parameters)
        return bool(np.all(np.isfinite(everything)))

    def tokens(self, dtype: str) -> tuple[Token, ...] | None:
        """The tokens of its head before the dtype rounds them; None if they have to be fitted."""
        return None if self.row.tokens is None else self.row.tokens(dtype, *self.parameters)

    def local_slope(self, low: Array, high: Array) -> Array:
        """sup |phi'| for each unit over its own range: 0 where it is off or saturated, at most `slope` elsewhere."""
        left, right = self.row.flat(*self.parameters)
        steepest = np.full(np.shape(low), self.slope)
        if self.row.fading is not None:
            away = np.maximum(np.maximum(low, -high), 0.0)
            steepest = np.minimum(steepest, self.row.fading(away, *self.parameters) * (1 + 1e-12) + 1e-300)
        if self.row.left is not None:
            most = self.row.left(np.maximum(-high, 0.0), *self.parameters) * (1 + 1e-12) + 1e-300
            steepest = np.where(high <= 0, np.minimum(steepest, most), steepest)
        return np.where((high < left) | (low > right), 0.0, steepest)

    def span(self, low: Array, high: Array) -> tuple[Array, Array]:
        """An interval that holds phi([low, high]), from inequalities that need no library function."""
        ends = self.row.span(low, high, *self.parameters)
        slack = [1e-15 * np.abs(end) + 1e-300 for end in ends]
        return ends[0] - slack[0], ends[1] + slack[1]

    def __call__(self, x: Array) -> Array:
        return self.row.function(x, *self.parameters)

    def __str__(self) -> str:
        shown = [f"{name}={value:g}" for name, value in self.options.items() if value != self.row.parameters[name]]
        return f"{self.name}({', '.join(shown)})" if shown else self.name

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "parameters": list(self.parameters)}


def spellings(library: str) -> list[tuple[ActivationRow, Spelling]]:
    """Every spelling of a library, "torch" or "onnx", with the row that it spells."""
    return [(row, spelling) for row in ACTIVATIONS.values() for spelling in getattr(row, library)]


def read_spelling(
    found: Sequence[tuple[ActivationRow, Spelling]], option: Callable[[int, str, Any], Any]
) -> Activation | None:
    """The activation among `found` that a call is; `option(position, name, default)` looks up one of its options."""
    for row, spelling in found:
        if spelling.only is not None:
            name, value, default = spelling.only
            if option(0, name, default) != value:
                continue
        given = [option(i, name, default) for i, (name, default) in enumerate(spelling.options)]
        if None in given:
            continue
        return Activation(row.name, tuple(float(value) for value in given) or spelling.fixed)
    return None
