"""Taylor models of targets, and what each of them rests on.

    Expression                    no assumption: the formula itself is enclosed
    Function, second_derivative   multilinear interpolation of the corners of a box; its error is sum_i M_i h_i^2 / 8
    Function, lipschitz           the value at the centre +- L times the distance: boxes ~ L / (bound - error)
    Interpolant                   no assumption: one polynomial on each cell of the table's grid (`cells.py`)
    MlpTarget                     no assumption: layers in Taylor arithmetic, exact for the stored weights (`mlp.py`)
    Table                         none between its points: it is certified at them

A promised second derivative is worth far more than a Lipschitz constant: the number of boxes falls from 1/accuracy to
the square root of it in each variable.

A new type of target registers itself with `models_of` and, if some domains are out of the question, `check_provable`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import singledispatch

import numpy as np

from softwright.domain import Box
from softwright.errors import Faults, InvalidInput
from softwright.proof.arithmetic.directed import U, up
from softwright.proof.arithmetic.multilinear import multilinear
from softwright.proof.arithmetic.series import Basis
from softwright.proof.arithmetic.taylor_model import TaylorModel, constant, variables
from softwright.proof.models.cells import CellModels, narrowest_cell
from softwright.proof.models.formula import ExpressionModels
from softwright.targets import Expression, Function, Interpolant, Table, Target

# (shape, centers (B, d), radii (B, d)) -> one model per output
TargetModels = Callable[[Basis, np.ndarray, np.ndarray], list[TaylorModel]]

NARROWEST_CELL = 1e-150  # products of widths must not underflow
_LOST_CELL = 1e-13  # of a cell's side against the size of its ends: smaller boxes are no longer in one cell for sure


@dataclass
class FormulaModels:
    """Models of a formula as a function of the proof's variables, of which it may use some."""

    expression: Expression
    _walk: ExpressionModels = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._walk = ExpressionModels(self.expression)

    def __call__(self, shape: Basis, centers: np.ndarray, radii: np.ndarray) -> list[TaylorModel]:
        return self._walk(variables(shape, centers, radii))


@dataclass
class LipschitzModels:
    """f(centre) +- L times the distance; L a number (Euclidean) or one number per variable."""

    values: Callable[[np.ndarray], np.ndarray]
    lipschitz: float | tuple[float, ...]

    def __call__(self, shape: Basis, centers: np.ndarray, radii: np.ndarray) -> list[TaylorModel]:
        if isinstance(self.lipschitz, float):
            distance = self.lipschitz * np.sqrt((radii * radii).sum(axis=1))
        else:
            distance = radii @ np.array(self.lipschitz)
        at_center = self.values(centers)  # (B, m)
        return [constant(shape, column, up(distance, shape.dim + 8)) for column in at_center.T]


@dataclass
class CurvatureModels:
    """Multilinear interpolation of the corners; `curvature` bounds |d2f/dx_i2|, one number per variable."""

    values: Callable[[np.ndarray], np.ndarray]
    curvature: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def __call__(self, shape: Basis, centers: np.ndarray, radii: np.ndarray) -> list[TaylorModel]:
        # Corners are floats just outside the box (but never outside the domain, where f may not exist).
        left = np.maximum(np.nextafter(centers - radii, -np.inf), self.low)
        right = np.minimum(np.nextafter(centers + radii, np.inf), self.high)

        def at_corner(right_end: np.ndarray) -> np.ndarray:
            return self.values(np.where(right_end, right, left))  # (B, m)

        bend = up(((right - left) * (1 + 4 * U)) ** 2 @ (self.curvature / 8.0), shape.dim + 8)
        return [
            TaylorModel(model.shape, model.coefficients, up(model.remainder + bend), model.live)
            for model in multilinear(shape, centers, radii, left, right, values=at_corner)
        ]


@singledispatch
def models_of(target: Target, names: Sequence[str], domain: Box) -> tuple[TargetModels, tuple[str, ...]]:
    """The models of a target in the variables `names`, and the assumptions they rest on."""
    raise InvalidInput("certify", [f"a target of type {type(target).__name__} cannot be certified; use a formula"])


@models_of.register
def _(target: Expression, names: Sequence[str], domain: Box) -> tuple[TargetModels, tuple[str, ...]]:
    return FormulaModels(target), ()


@models_of.register
def _(target: Function, names: Sequence[str], domain: Box) -> tuple[TargetModels, tuple[str, ...]]:
    taken = "the callable's float64 values are exact at float64 points"
    if target.second_derivative is not None:
        given = target.second_derivative
        curvature = np.broadcast_to(np.asarray(given, dtype=float), (target.dim,)).copy()
        text = f"the given bound on second derivatives of {target.name}: {given}"
        return CurvatureModels(target, curvature, domain.lower, domain.upper), (text, taken)
    if target.lipschitz is not None:
        text = f"the given Lipschitz constant of {target.name}: {target.lipschitz}"
        return LipschitzModels(target, target.lipschitz), (text, taken)
    fault = (
        f"nothing is known of {target.name} between the points where it is called; pass second_derivative= "
        "(best) or lipschitz= to Function, or give the formula as a text"
    )
    raise InvalidInput("certify", [fault])


@models_of.register
def _(target: Interpolant, names: Sequence[str], domain: Box) -> tuple[TargetModels, tuple[str, ...]]:
    return CellModels(target, domain), ()


@models_of.register
def _(target: Table, names: Sequence[str], domain: Box) -> tuple[TargetModels, tuple[str, ...]]:
    return _nothing_between, ()


def _nothing_between(shape: Basis, centers: np.ndarray, radii: np.ndarray) -> list[TaylorModel]:
    """A table has no models between its points; it is certified at them."""
    raise InvalidInput("certify", ["a table is certified at its points only"])


@singledispatch
def check_provable(target: Target, domain: Box, faults: Faults) -> None:
    """Record what makes a proof over the domain impossible, whatever the network."""


@check_provable.register
def _(target: Expression, domain: Box, faults: Faults) -> None:
    faults.found += [report.text for report in target.undefined(domain) if report.certain]


@check_provable.register
def _(target: Interpolant, domain: Box, faults: Faults) -> None:
    side, ratio = narrowest_cell(target, domain)
    faults.check(
        side > NARROWEST_CELL and ratio > _LOST_CELL,
        "the table's grid, or what the domain cuts off it, has cells too narrow for float64; rescale or merge",
    )
