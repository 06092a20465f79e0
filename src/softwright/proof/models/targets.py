"""Taylor models of targets, and what each of them rests on.

    Expression               no assumption: the formula itself is enclosed
    Function, second_derivative  multilinear interpolation of the corners of a box; its error is sum_i M_i h_i^2 / 8
    Function, lipschitz      the value at the centre +- L times the distance: correct, but boxes ~ L / (bound - error)
    Interpolant              no assumption: one polynomial on each cell of the table's grid (`cells.py`)
    MLP                      layers of Linear and activations in Taylor arithmetic, exact for the stored weights

A promised second derivative is worth far more than a Lipschitz constant: the number of boxes falls from 1/accuracy to
the square root of it in each variable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from softwright.domain import Box
from softwright.errors import InvalidInput
from softwright.proof.arithmetic.directed import U, up
from softwright.proof.arithmetic.multilinear import multilinear
from softwright.proof.arithmetic.series import Basis
from softwright.proof.arithmetic.taylor_model import TaylorModel, constant, variables
from softwright.proof.models.cells import CellModels
from softwright.proof.models.formula import ExpressionModels
from softwright.proof.models.mlp import MlpTarget
from softwright.targets import Expression, Function, Interpolant, Node, Target

# (shape, centers (B, d), radii (B, d)) -> one model per output
TargetModels = Callable[[Basis, np.ndarray, np.ndarray], list[TaylorModel]]


@dataclass
class FormulaModels:
    """Models of a formula; `names` are the proof's variables, of which the formula may use some."""

    nodes: tuple[Node, ...]
    names: tuple[str, ...]
    _walk: ExpressionModels = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._walk = ExpressionModels(self.nodes, self.names)

    def __call__(self, shape: Basis, centers: np.ndarray, radii: np.ndarray) -> list[TaylorModel]:
        return self._walk(variables(shape, centers, radii))


@dataclass
class LipschitzModels:
    """f(centre) +- L times the distance; L a number (Euclidean) or one number a variable."""

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
    """Multilinear interpolation of the corners; `curvature` bounds |d2f/dx_i2|, one number a variable."""

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


def models_of(target: Target, names: Sequence[str], domain: Box) -> tuple[TargetModels, tuple[str, ...]]:
    """The models of a target in the variables `names`, and the assumptions they rest on."""
    if isinstance(target, Expression):
        return FormulaModels(target.nodes, tuple(names)), ()
    if isinstance(target, Function):
        taken = "the callable's float64 values are exact at float64 points"
        if target.second_derivative is not None:
            given = target.second_derivative
            curvature = np.broadcast_to(np.asarray(given, dtype=float), (target.dim,)).copy()
            text = f"the given bound on second derivatives of {target.name}: {given}"
            return CurvatureModels(target, curvature, domain.lower, domain.upper), (text, taken)
        if target.lipschitz is not None:
            text = f"the given Lipschitz constant of {target.name}: {target.lipschitz}"
            return LipschitzModels(target, target.lipschitz), (text, taken)
        raise InvalidInput(
            "certify",
            [
                f"nothing is known of {target.name} between the points where it is called; pass second_derivative= "
                "(best) or lipschitz= to Function, or give the formula as a text"
            ],
        )
    if isinstance(target, MlpTarget):
        return target.models, ()
    if isinstance(target, Interpolant):
        return CellModels(target, domain), ()
    raise InvalidInput("certify", [f"a target of type {type(target).__name__} cannot be certified; use a formula"])
