"""B3: attention approximates integrable functions in L_p, 1 <= p < infinity: jumps and singularities included.

The head of B2 with cell averages c_j as values. With S = c_j on cell j, the step function of the averages,

    |g - f|_p <= |f - S|_p + |g - S|_p.                                                                      (1)

|f - S|_p is an integral, enclosed by `lp_integral` from the ranges of the formula; it tends to zero with the cells for
every f in L_p.

*|g - S|_p.* Unit frame, spacing h, N cells, scores beta (v_j.t - |v_j|^2/2). On an axis a centre k cells away is
behind the centre of the cell by beta k h (k h/2 - u), u the offset in the cell. At distance >= s from the walls all
others are behind by beta h s; anywhere, centres that are not neighbours (2 or more cells away on some axis) are behind
by beta h^2. For s <= h and e = (N - 1) e^{-beta h s}, C = max c - min c, J_j = max |c_i - c_j| over the 3^m - 1
neighbours of cell j:

    off the band (distance >= s from every wall)    |g - S| <= C e
    in the band, a share of at most 2 m s/h of a cell       |g - S| <= J_j + C e

    |g - S|_p^p <= |box| (C e)^p + sum_j |cell| min(1, 2 m s/h) (J_j + C e)^p.                                 (2)

beta = log((N - 1)/e)/(h s) with e = eps0/(4 C |box|^{1/p}) and the s that makes the second term (eps0/2)^p or less (s
<= h/4), so that |g - S|_p <= eps0. The bound of the theorem is (1) with both parts rounded up. The averages need not
be exact: they are rounded means over points of the cell, and the bound is that of the rounded ones.

The error itself, |g - f|_p, is enclosed from both sides by `certify.theorem_integral`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import maximum_filter, minimum_filter

from softwright.domain import Box
from softwright.errors import Faults
from softwright.targets import Expression
from softwright.theorems.cell_grid import cells_of, drawn, sides
from softwright.theorems.tools import cell_attention as tools
from softwright.theorems.tools.cell_attention import CellConstruction, Cells, check_grid, draw_slice, grid_centres
from softwright.theorems.tools.lp_integral import Enclosed, Singularity, enclose_norm
from softwright.theorems.tools.modulus import formula_on_box
from softwright.theorems.tools.theorem import PAPER_B, Theorem, options

MOST_EXPONENT = 1000  # powers of larger exponents leave the range of floats
_UP = 1.0 + 1e-12
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


def neighbour_jumps(values: np.ndarray, cells: int, variables: int) -> np.ndarray:
    """J_j (N,): the largest difference to one of the 3^m - 1 neighbours."""
    grid = values.reshape((cells,) * variables)
    top = maximum_filter(grid, size=3, mode="nearest")
    bottom = minimum_filter(grid, size=3, mode="nearest")
    return np.maximum(top - grid, grid - bottom).ravel()


def gate_error(values: np.ndarray, cells: int, variables: int, volume: float, p: float, beta: float, s: float) -> float:
    """(2), rounded up."""
    h, N = 2.0 / cells, len(values)
    C = float(values.max() - values.min())
    e = (N - 1) * math.exp(-min(beta * h * s, 700.0))
    band = min(1.0, 2.0 * variables * s / h)
    jumps = neighbour_jumps(values, cells, variables) + C * e
    total = volume * (C * e) ** p + volume / N * band * float((jumps**p).sum())
    return total ** (1.0 / p) * _UP


def gate_choice(
    values: np.ndarray, cells: int, variables: int, volume: float, p: float, eps0: float
) -> tuple[float, float]:
    """(beta, s) that make (2) at most eps0; beta = 8/(3 m h^2) if all values are equal."""
    h, N = 2.0 / cells, len(values)
    C = float(values.max() - values.min())
    if C == 0.0 or N == 1:
        return 8.0 / (3.0 * variables * h * h), 0.25 * h
    e = min(eps0 / (4.0 * C * volume ** (1.0 / p)), 0.5)
    jumps = neighbour_jumps(values, cells, variables) + C * e
    weight = volume / N * float((jumps**p).sum()) * 2.0 * variables / h  # the second term of (2) is weight * s
    s = min(0.25 * h, (0.5 * eps0) ** p / weight)
    return math.log((N - 1) / e) / (h * s) * _UP, s


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
    tools.check_eps0(faults, eps0)
    found = target if isinstance(target, Integrable) else named_target(str(target))
    if found is None:
        posed = formula_on_box(target, side, box, faults)
        found = None if posed is None else Integrable(*posed)
    p = plain_exponent(p)
    faults.check(1 <= p <= MOST_EXPONENT, f"p = {p}: the theorem needs 1 <= p < infinity; give at most {MOST_EXPONENT}")
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
    volume = float(np.prod(domain.upper - domain.lower)) * _UP
    chosen, s = gate_choice(values, cells, m, volume, p, eps0)
    if beta > 0:
        chosen, s = beta, min(0.25 * 2.0 / cells, s)
    tools.check_beta(faults, chosen, 1.5 * m * chosen, m + 1)
    faults.raise_if_any()
    steps = step_error(found, values, cells, p, absolute=0.02 * eps0)
    faults.check(
        math.isfinite(steps.upper),
        f"the theorem needs f in L_p: no finite bound of the integral of |{found.expression.text}|^{p} was found; "
        "choose a domain on which the formula is bounded",
    )
    faults.raise_if_any()
    gates = gate_error(values, cells, m, volume, p, chosen, s)
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
        bound=float((steps.upper + gates) * _UP),
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
        ),
    )  # fmt: skip


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
    return float((volume * (gap**p).mean()) ** (1.0 / p)), len(points)


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
    conditions=("f in L_p of the box", "1 <= p < infinity", "0 < eps0 < 1", "G >= 1 cells per axis"),
    options=(
        *options(
            """
            target  disc  sign, floor, disc (indicator), root (x^(-1/4)), or a formula
            p       2.0   the exponent of L_p, any p >= 1
            eps0    0.05  what the walls between cells may add to the L_p error
            """
        ),
        *tools.OPTIONS,
    ),
    construct=_construct,
    sweep=("cells", (4, 8, 16, 32)),
    details=draw_slice,
)
