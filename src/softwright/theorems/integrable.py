"""B3: attention approximates integrable functions in L_p, 1 <= p < infinity: jumps and singularities included.

The head of B2 with cell averages c_j as values. With S = c_j on cell j, the step function of the averages,

    |g - f|_p <= |f - S|_p + |g - S|_p.                                                                      (1)

|f - S|_p is an integral, enclosed by `lp_integral` from the ranges of the formula; it tends to zero with the cells for
every f in L_p.

|g - S|_p is what the soft walls between cells add (`soft_walls`); beta is chosen so that it is at most eps0. The bound
of the theorem is (1) with both parts rounded up. The averages need not be exact: they are rounded means over points of
the cell, and the bound is that of the rounded ones.

The error itself, |g - f|_p, is enclosed from both sides by `certify.theorem_integral`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from softwright.domain import Box
from softwright.errors import Faults
from softwright.targets import Expression
from softwright.theorems.cell_grid import cells_of, drawn, sides
from softwright.theorems.tools import cell_attention as tools
from softwright.theorems.tools.cell_attention import CellConstruction, Cells, check_grid, draw_slice, grid_centres
from softwright.theorems.tools.lp_integral import Enclosed, Singularity, enclose_norm
from softwright.theorems.tools.modulus import formula_on_box
from softwright.theorems.tools.soft_walls import UP, Walls
from softwright.theorems.tools.theorem import PAPER_B, Theorem, options

MOST_EXPONENT = 1_000_000  # an L_p norm with a larger exponent is the sup norm to all digits that matter
_POINTS_A_CELL = 4096


@dataclass(frozen=True)
class Integrable:
    """A target in L_p: a formula on a box, with a singularity at the lower end of its variable if it has one."""

    expression: Expression
    box: Box
    singularity: Singularity | None = None
    averages: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None  # exact means over [lower, upper], if known

    def ranges(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ranges of f over boxes (n, d), infinite where it may be undefined."""
        lows, highs, defined = self.expression.enclose(lower, upper)
        return np.where(defined, lows[:, 0], -np.inf), np.where(defined, highs[:, 0], np.inf)


def _stairs(steps: int) -> str:
    text = str(steps - 1)
    for k in range(steps - 1, 0, -1):
        text = f"where(x < {k}, {k - 1}, {text})"
    return text


def _root_means(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Means of x^(-1/4): 4/3 (u^(3/4) - l^(3/4))/(u - l)."""
    return 4.0 / 3.0 * (upper[:, 0] ** 0.75 - lower[:, 0] ** 0.75) / (upper[:, 0] - lower[:, 0])


def named_target(name: str) -> Integrable | None:
    """The four targets of the theorem's examples; None for any other text, which is then a formula."""
    match name:
        case "sign":
            return Integrable(Expression("sign(x - 0.1)"), Box(x=(-1, 1)))
        case "floor":
            return Integrable(Expression(_stairs(4)), Box(x=(0, 4)))
        case "disc":
            return Integrable(Expression("where(x**2 + y**2 < 0.49, 1, 0)"), Box(x=(-1, 1), y=(-1, 1)))
        case "root":
            return Integrable(Expression("x**(-0.25)"), Box(x=(0, 1)), Singularity(0.0, 0.25), _root_means)
    return None


def cell_edges(cells: int, box: Box) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper corners (N, m) of the cells, in the order of `grid_centres`; neighbours share their edges."""
    edges = np.linspace(-1.0, 1.0, cells + 1)
    index = np.stack([a.ravel() for a in np.meshgrid(*[np.arange(cells)] * box.dim, indexing="ij")], axis=1)
    return box.from_unit(edges[index]), box.from_unit(edges[index + 1])


def cell_averages(target: Integrable, cells: int) -> np.ndarray:
    """Means of f over the cells (N,): exact where known, else over a fine grid of midpoints."""
    lower, upper = cell_edges(cells, target.box)
    if target.averages is not None:
        return target.averages(lower, upper)
    m = target.box.dim
    inside = 0.5 * (grid_centres(max(2, int(_POINTS_A_CELL ** (1.0 / m))), m) + 1.0)  # (k, m) in [0, 1]^m
    out = np.empty(len(lower))
    for j in range(len(lower)):
        out[j] = target.expression(lower[j] + inside * (upper[j] - lower[j]))[:, 0].mean()
    return out


def step_error(
    target: Integrable, values: np.ndarray, cells: int, p: float, tolerance: float = 0.02, absolute: float = 0.0
) -> Enclosed:
    """|f - S|_p, enclosed: the cells are the first boxes, and every box remembers its cell by where it lies."""
    lower, upper = cell_edges(cells, target.box)
    shape = (cells,) * target.box.dim

    def ranges(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        f_low, f_high = target.ranges(low, high)
        unit = target.box.to_unit(0.5 * (low + high))  # midpoints are well inside their cell
        index = np.clip(np.floor((unit + 1.0) * 0.5 * cells).astype(int), 0, cells - 1)
        c = values[np.ravel_multi_index(tuple(index.T), shape)]
        # The ends of unbounded ranges stay infinite; the others are widened by more than the rounding of - c.
        return f_low - c - 1e-15 * (np.abs(c) + np.abs(f_low)), f_high - c + 1e-15 * (np.abs(c) + np.abs(f_high))

    return enclose_norm(
        ranges, lower, upper, p, singularity=target.singularity, others=float(np.abs(values).max()),
        tolerance=tolerance, absolute=absolute,
    )  # fmt: skip


def _asked(target: Any, found: Integrable, label: str) -> dict[str, Any]:
    """How the target was named, so that it can be named again."""
    name = "target" if label == "B3" else "formula"
    if isinstance(target, str) and named_target(target) is not None:
        return {name: target}
    return {name: found.expression.text, "box": found.box.as_dict()}


@dataclass(frozen=True, kw_only=True)
class LpConstruction(CellConstruction):
    """Cells that hold the averages of an integrable function."""

    integrable: Integrable
    p: float

    def own_proof(self, max_work: float) -> float | None:
        """The L_p error enclosed by adaptive integration, in real arithmetic: its upper end."""
        from softwright.theorems.cell_error import enclose_lp_error

        return enclose_lp_error(self.cells, self.integrable, self.p).upper


def plain_exponent(p: float) -> float:
    """p as it is written down: whole numbers without a point."""
    return int(p) if p == int(p) else p


def lp_construction(
    label: str, make: Any, target: Any, p: float, cells: int, eps0: float, beta: float, columns: int, side: float,
    box: Any,
) -> LpConstruction:  # fmt: skip
    """Cell averages as B3 (self-attention) or B4 (cross-attention)."""
    faults = Faults(f"theorem {label}")
    faults.check(eps0 >= 0, f"eps0 = {eps0:g}: the theorem needs eps0 > 0; give such a number, or 0 to have it chosen")
    found = target if isinstance(target, Integrable) else named_target(str(target))
    if found is None:
        posed = formula_on_box(target, side, box, faults)
        found = None if posed is None else Integrable(*posed)
    p = plain_exponent(p)
    faults.check(
        1 <= p <= MOST_EXPONENT,
        f"p = {p}: the theorem needs 1 <= p < infinity, and beyond {MOST_EXPONENT:,} the norm is not told from the sup "
        "norm; give p between the two, or take B2",
    )
    if found is not None:
        m = found.box.dim
        check_grid(faults, cells, m, columns)
        faults.check(found.expression.outputs == 1, "one output at a time: L_p errors are measured for each by itself")
        if found.singularity is not None and p >= 1:
            faults.check(
                found.singularity.integrable(p),
                f"the theorem needs f in L_p: {found.expression.text} has a singularity of order "
                f"{found.singularity.exponent:g}, whose {p}-th power is not integrable; take p < "
                f"{1.0 / found.singularity.exponent:g}",
            )
    faults.raise_if_any()
    if found is None:
        raise RuntimeError("a fault was expected")
    domain, m = found.box, found.box.dim
    values = cell_averages(found, cells)
    faults.check(
        bool(np.isfinite(values).all()),
        f"the theorem needs f integrable: the cell averages of {found.expression.text} are not finite; choose a domain "
        "on which it is",
    )
    faults.raise_if_any()
    volume = float(np.prod(domain.upper - domain.lower)) * UP
    faults.check(
        float(values.max()) / 4 - float(values.min()) / 4 < 1e300 and 1e-300 < volume < 1e300,
        f"values up to {float(np.abs(values).max()):.3g} on a box of volume {volume:.3g}: their integrals leave the "
        "range of float64; take other units",
    )
    faults.raise_if_any()
    walls, off = Walls(values, cells, m, volume, p), tools.score_error(1.0, domain)
    least, usual = walls.eps0(tools.LARGEST_SCORE_ERROR / off)
    eps0 = eps0 or least
    chosen = beta if beta > 0 else walls.beta(eps0)
    tools.check_beta(faults, chosen, off * chosen, f"give eps0 = {least:g} or more, or leave it to be chosen")
    faults.raise_if_any()
    steps = step_error(found, values, cells, p, absolute=0.02 * eps0)
    faults.check(
        math.isfinite(steps.upper),
        f"the theorem needs f in L_p: no finite bound of the integral of |{found.expression.text}|^{p} was found; "
        "choose a domain on which the formula is bounded",
    )
    faults.raise_if_any()
    s = walls.band(chosen, off * chosen, off)
    gates = walls.error(chosen, s, off * chosen, off)
    centres = grid_centres(cells, m)
    grid = cells_of(centres, values[:, None], chosen, domain)
    network = make(label, grid, columns)

    def wanted(inputs: np.ndarray) -> np.ndarray:
        return found.expression(grid.flat(inputs))[:, :, None]

    def measure(rng: np.random.Generator, n: int) -> tuple[float, int]:
        return sampled_norm(network, found, grid, columns, cells, p, rng, n)

    return LpConstruction(
        integrable=found,
        p=p,
        box=domain,
        cells=grid,
        network=network,
        bound=float((steps.upper + gates) * UP),
        sizes={
            **_asked(target, found, label), "cells": cells, "eps0": eps0, "beta": beta, "columns": columns,
            **({"p": p} if label == "B3" else {"norm": f"L{p}"}),
        },
        drawn=drawn(found.expression, domain, chosen),
        tokens=len(centres),
        statement=f"L{p} norm over {sides(domain)} of network - f for f = {found.expression.text}",
        target=wanted,
        sample=tools.sampler(grid, domain, chosen, columns),
        quantities={"beta": chosen, "eps0": eps0, "p": float(p)},
        norm=f"L{p}",
        measure=measure,
        reasons=(
            "values are cell averages; |f - S|_p enclosed by adaptive interval integration "
            f"({steps.boxes} boxes, [{steps.lower:.4g}, {steps.upper:.4g}])",
            f"the walls add at most {gates:.3g}: beta = log((N-1)/e)/(h s), s = {s:.3g}",
            *_why(eps0, usual, p, beta),
        ),
    )  # fmt: skip


def _why(eps0: float, usual: float, p: float, beta: float) -> tuple[str, ...]:
    """Why eps0 is larger than it is by default for small p, if it is."""
    if beta > 0 or eps0 <= usual:
        return ()
    return (f"eps0 = {eps0:g} instead of {usual:g}, whose beta is (J/eps0)^{p:g} and beyond what float64 resolves",)


def sampled_norm(
    network: Any, target: Integrable, grid: Cells, columns: int, cells: int, p: float, rng: np.random.Generator, n: int
) -> tuple[float, int]:
    """The L_p norm of network - f by stratified sampling, one random point in each of K^m boxes inside every cell."""
    m = target.box.dim
    inside = max(2, int((min(100 * n, 40_000) / cells**m) ** (1.0 / m)))
    K = cells * inside
    corner = grid_centres(K, m) - 1.0 / K
    points = tools.box_points(corner + rng.random(corner.shape) * 2.0 / K, target.box.lower, target.box.upper)
    got = network.evaluate(grid.shaped(points, columns))[:, 0, 0]
    gap = np.abs(got - target.expression(points)[:, 0])
    gap = np.where(np.isnan(gap), np.inf, gap)
    volume = float(np.prod(target.box.upper - target.box.lower))
    largest = float(gap.max())
    if not 0.0 < largest < math.inf:
        return largest, len(points)
    return largest * float((volume * ((gap / largest) ** p).mean()) ** (1.0 / p)), len(points)


def _construct(
    target: Any, p: float, cells: int, eps0: float, beta: float, columns: int, side: float, box: Any
) -> LpConstruction:
    """Every function in L_p of a box, 1 <= p < infinity, is approximated in the L_p norm by one softmax
    self-attention head whose tokens hold the centres of a grid and the averages over its cells. The error is at most
    the distance of f to its step function of cell averages plus what the soft walls between cells add.
    """
    return lp_construction("B3", tools.self_attention, target, p, cells, eps0, beta, columns, side, box)


B3 = Theorem(
    label="B3",
    title="self-attention approximates integrable functions in L_p, jumps and singularities included",
    paper=PAPER_B,
    conditions=("f in L_p of the box", "1 <= p < infinity", "eps0 > 0", "G >= 1 cells per axis"),
    options=(
        *options(
            """
            target  disc  sign, floor, disc (indicator), root (x^(-1/4)), or a formula
            p       2.0   the exponent of L_p, any p >= 1
            eps0    0.0   what the walls between cells may add to the L_p error; 0: chosen from p and the target
            """
        ),
        *tools.OPTIONS,
    ),
    construct=_construct,
    sweep=("cells", (4, 8, 16, 32)),
    details=draw_slice,
)
