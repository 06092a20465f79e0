"""B4: cross-attention reaches the guarantees of B2 and B3: queries from X, keys and values from another sequence Y.

The query token is a sum of linear maps of X, (t, 1) with t the input in the unit frame. The other sequence Y holds one
cell in each column, (k_j, b_j, v_j) with k_j = beta v_j, b_j = -beta |v_j|^2/2 and value f(v_j) (norm "sup") or the
average of f over the cell (norm "L1", "L2.5", ..); W_K, W_V and W_Q only read rows. So the head computes the same
function of X as in B2 and B3 and the same bounds hold. The matrices know nothing of f: with another Y the same layer
computes another function.
"""

from __future__ import annotations

import math
from typing import Any

from softwright.errors import InvalidInput
from softwright.theorems.cell_grid import GridConstruction, grid_construction, grid_rival
from softwright.theorems.integrable import lp_construction
from softwright.theorems.tools.cell_attention import OPTIONS, CellConstruction, cross_attention, draw_slice
from softwright.theorems.tools.rivals import Rivals
from softwright.theorems.tools.theorem import PAPER_B, Theorem, options

_LEAK = 1e-3  # what far cells may add in the sup norm, unless given


def _exponent(norm: str) -> float | None:
    """p of "L1", "L2", "L2.5", ..; None for anything else."""
    try:
        p = float(norm[1:]) if norm[:1] == "L" else math.nan
    except ValueError:
        return None
    return p if math.isfinite(p) else None


def _construct(
    formula: Any, norm: str, cells: int, eps0: float, beta: float, columns: int, side: float, box: Any
) -> CellConstruction:
    """With queries from X and keys and values from another sequence, which holds one grid cell per token, one
    softmax cross-attention head approximates continuous functions in the sup norm and integrable ones in L_p, with
    the same bounds as self-attention. The projection matrices do not depend on the function; the sequence does.
    """
    if norm == "sup":
        return grid_construction("B4", cross_attention, formula, cells, side, eps0 or _LEAK, beta, columns, box)
    p = _exponent(norm)
    if p is None:
        speaks = "the theorem speaks of sup (B2) and L_p (B3)"
        raise InvalidInput("theorem B4", [f"norm {norm!r}: {speaks}; give sup, or L1, L2, L2.5, .. for any p >= 1"])
    return lp_construction("B4", cross_attention, formula, p, cells, eps0, beta, columns, side, box)


def _rival(made: CellConstruction) -> Rivals:
    return grid_rival(made) if isinstance(made, GridConstruction) else {}


B4 = Theorem(
    label="B4",
    title="cross-attention reaches both guarantees: queries from X, keys and values from another sequence",
    paper=PAPER_B,
    conditions=(
        "f continuous (sup)",
        "or in L_p",
        "1 <= p < infinity",
        "eps0 > 0, for sup < 1",
        "G >= 1 cells per axis",
    ),
    options=(
        *options(
            """
            formula  sin(3*x)*exp(-y**2)  a formula; for L_p also sign, floor, disc, root
            norm     sup                  sup, or L1, L2, L2.5, ..: L_p for any p >= 1
            eps0     0.0                  what far cells (sup) or walls (L_p) may add; 0: 0.001, or chosen from p
            """
        ),
        *OPTIONS,
    ),
    construct=_construct,
    sweep=("cells", (4, 8, 16, 32)),
    details=draw_slice,
    rival=_rival,
)
