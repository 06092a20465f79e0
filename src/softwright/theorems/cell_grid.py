"""B2: self-attention approximates a continuous function in the sup norm, one token per cell of a grid.

f is continuous on [-D, D]^m, m = d n after flattening X (d x n). A grid of N = G^m centres v_j, spacing h = 2D/G,
score beta (v_j.x - |v_j|^2/2), value f(v_j); the tokens come from X by Z = sum_i P_i X Q_i + R (`cell_attention`). Up
to a term without j the score is -(beta/2)|x - v_j|^2. Some centre is within h sqrt(m)/2 of x, so all centres farther
than rho = h sqrt(m) together have mass at most N e^{-beta (rho^2 - m h^2/4)/2} = N e^{-(3/8) beta m h^2}, and

    sup |g - f| <= omega_f(h sqrt(m)) + 2 |f|_inf N e^{-(3/8) beta m h^2},    beta = 8/(3 m h^2) log(2 N |f|_inf/eps0).

Stored scores are off from these by delta (`cell_attention.score_error`), which multiplies the last term by e^{2 delta}.
The bound stated has omega_f (1 + 1e-6): omega_f may be sharp, and whoever proves it again rounds in another way.
Everything is done in the unit frame, D = 1, which a general box is brought to by the query map; omega_f and |f|_inf are
upper bounds from the formula (`modulus`). The rate is one in h: halving the cells halves the error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

from softwright.approximation.choose import choose
from softwright.approximation.formula import Formula
from softwright.approximation.problem import Budget, OutOfBudget, Problem
from softwright.attention import AttentionNetwork, Axis, Head
from softwright.domain import Box
from softwright.errors import Faults
from softwright.proof.arithmetic.balls import ball_above, precision
from softwright.targets import Expression
from softwright.theorems.tools import cell_attention as tools
from softwright.theorems.tools.cell_attention import CellConstruction, Cells, check_grid, draw_slice, grid_centres
from softwright.theorems.tools.modulus import Modulus, formula_on_box
from softwright.theorems.tools.rivals import Rival, Rivals
from softwright.theorems.tools.theorem import PAPER_B, Option, Theorem

_ROOM = 1e-6  # of omega, which may be sharp: a second proof in ball arithmetic needs room for the radii of its balls


@dataclass(frozen=True, kw_only=True)
class GridConstruction(CellConstruction):
    """Cells that hold the values of a continuous function."""

    expression: Expression


def beta_for(cells: int, variables: int, size: float, eps0: float) -> float:
    """8/(3 m h^2) log(2 N |f|/eps0) with h = 2/G, rounded up; a zero function takes any beta."""
    h2m = variables * (2.0 / cells) ** 2
    leak = 2.0 * float(cells) ** variables * max(size, 0.0) / eps0
    return (8.0 / (3.0 * h2m) * math.log(max(leak, math.e))) * (1.0 + 1e-12)


def leak(cells: int, variables: int, size: float, beta: float) -> Any:
    """2 |f| N e^{-(3/8) beta m h^2} as a ball."""
    h = arb(2) / cells
    return 2 * arb(size) * arb(cells) ** variables * (-arb(3) / 8 * arb(beta) * variables * h * h).exp()


def cells_of(centres: np.ndarray, values: np.ndarray, beta: float, box: Box) -> Cells:
    biases = -0.5 * beta * (centres**2).sum(axis=1)
    return Cells(beta * centres, biases, values, box.center, box.halfwidth)


def sides(box: Box) -> str:
    """The box in words, as statements have it."""
    return ", ".join(f"{name} in [{low!r}, {high!r}]" for name, low, high in box)


def drawn(expression: Expression, box: Box, beta: float) -> dict[str, Any]:
    """What the bound speaks of, for whoever checks it."""
    return {
        "formula": expression.text,
        "variables": list(box.names),
        "box": [[low, high] for _, low, high in box],
        "beta": beta,
    }


def grid_head(cells: int, values: np.ndarray, beta: float, variables: int) -> Head:
    """The same function as one head in the unit frame: a question for the prover."""
    line = grid_centres(cells, 1)[:, 0]
    return Head.on_grid([Axis(beta * line, -0.5 * beta * line**2)] * variables, values)


def grid_rival(made: GridConstruction) -> Rivals:
    """softwright's own construction with no more tokens: the most accurate of a few tolerances."""
    expression, box, tokens = made.expression, made.box, made.tokens
    formula = Formula(expression, box)
    best: tuple[int, float] | None = None
    for tolerance in (1e-3, 1e-6, 1e-9):
        problem = Problem(
            formula.values, box.dim, expression.outputs, float(tolerance), kinks=formula.kinks,
            budget=Budget(max_tokens=tokens, max_work=6.0),
        )  # fmt: skip
        try:
            fit = choose(problem, formula)
        except OutOfBudget:
            break
        if fit.tokens > tokens:
            break
        if best is None or fit.error < best[1]:
            best = (fit.tokens, fit.error)
        if fit.error > tolerance:
            break
    return {} if best is None else {"softwright approximate (observed)": Rival(*best)}


def grid_construction(
    label: str, make: Any, formula: Any, cells: int, side: float, eps0: float, beta: float, columns: int, box: Any
) -> GridConstruction:
    """The grid of cells as B2 (self-attention) or B4 (cross-attention): `make(label, cells, columns)` writes it out."""
    faults = Faults(f"theorem {label}")
    tools.check_eps0(faults, eps0)
    posed = formula_on_box(formula, side, box, faults)
    if posed is None:
        faults.raise_if_any()
        raise RuntimeError("a fault was expected")
    expression, domain = posed
    m = domain.dim
    check_grid(faults, cells, m, columns)
    faults.raise_if_any()
    modulus = Modulus(expression, domain)
    size, rho = modulus.sup_norm, 2.0 / cells * math.sqrt(m) * (1.0 + 1e-14)
    omega = modulus(rho) if math.isfinite(size) else math.inf
    faults.check(
        math.isfinite(size) and math.isfinite(omega),
        "the theorem needs f continuous, hence bounded, on the closed domain; interval arithmetic finds no bound of "
        f"{expression.text}: move the domain away from where it is undefined, or use B3",
    )
    if any(kink.jump for kink in expression.kinks()) and math.isfinite(omega):
        finest = modulus.oscillation(0.0)
        faults.check(
            finest < omega or finest == 0.0,
            f"{expression.text} has a jump of about {finest:.3g}: the theorem needs f continuous; use B3 for jumps",
        )
    faults.raise_if_any()
    chosen = beta if beta > 0 else beta_for(cells, m, size, eps0)
    off = tools.score_error(chosen, domain)
    tools.check_beta(faults, chosen, off, "raise eps0 or take fewer cells")
    faults.raise_if_any()
    centres = grid_centres(cells, m)
    values = expression(domain.from_unit(centres))
    grid = cells_of(centres, values, chosen, domain)
    network = make(label, grid, columns)
    with precision(80):
        leaked = leak(cells, m, size, chosen) * (2 * arb(off)).exp()
        bound = ball_above(arb(omega) * (1 + arb(_ROOM)) + leaked)
        leaked_up = ball_above(leaked)

    def target(inputs: np.ndarray) -> np.ndarray:
        return expression(grid.flat(inputs))[:, :, None]

    provable = None
    if len(centres) <= 1024:
        provable = (AttentionNetwork([grid_head(cells, values, chosen, m)], domain), expression)
    return GridConstruction(
        expression=expression,
        box=domain,
        cells=grid,
        network=network,
        bound=bound,
        sizes={
            "formula": expression.text, "box": domain.as_dict(), "cells": cells, "eps0": eps0, "beta": beta,
            "columns": columns,
        },
        drawn=drawn(expression, domain, chosen),
        tokens=len(centres),
        statement=f"sup over {sides(domain)} of |network - f| for f = {expression.text}",
        target=target,
        sample=tools.sampler(grid, domain, chosen, columns),
        quantities={"beta": chosen, "eps0": eps0, "h": 2.0 / cells},
        provable=provable,
        reasons=(
            f"beta = 8/(3 m h^2) log(2 N |f|/eps0) with |f| <= {size:.4g} from interval arithmetic",
            f"omega_f(h sqrt m) <= {omega:.4g}, the smaller of gradient times distance and oscillation over sub-boxes",
            f"cells beyond h sqrt m add at most {leaked_up:.3g}",
        ),
    )  # fmt: skip


def _construct(
    formula: Any, cells: int, side: float, eps0: float, beta: float, columns: int, box: Any
) -> GridConstruction:
    """A continuous function of m variables on a cube is approximated in the sup norm by one softmax self-attention
    head whose tokens hold the centres of a grid and the function's values there. The error is at most the modulus
    of continuity at h sqrt(m) plus what cells beyond that distance leak, which beta makes as small as wanted.
    """
    return grid_construction("B2", tools.self_attention, formula, cells, side, eps0, beta, columns, box)


B2 = Theorem(
    label="B2",
    title="self-attention approximates a continuous function in sup norm, one token per grid cell",
    paper=PAPER_B,
    conditions=("f continuous on the closed cube", "0 < eps0 < 1", "G >= 1 cells per axis"),
    options=(
        Option("formula", str, "sin(3*x)*exp(-y**2)", "the continuous function, a formula in any number of variables"),
        Option("eps0", float, 1e-6, "what the far cells may add"),
        *tools.OPTIONS,
    ),
    construct=_construct,
    sweep=("cells", (4, 8, 16, 32)),
    details=draw_slice,
    rival=grid_rival,
)
