"""Cells as attention: keys, biases and values of N cells written out as the papers' layers, every matrix explicit.

The input X (d x n, flattened column by column to m = d n numbers) is brought to the unit frame t = (x - centre)/half
and copied into every token by a sum of linear maps,

    Z = sum_i P_i X Q_i + R,     P_i = (column i of X -> copy rows of Z, scaled),   Q_i = e_i (1, ..., 1),

the i-th term carrying the i-th column. R holds what does not depend on X. The rows of the N columns of Z are

    key rows k_j (m) | bias row b_j | value rows v_j (outputs) | copy rows t (m) | one row 1

W_K reads (k_j, b_j), W_Q reads (t, 1), W_V reads v_j, so the score of cell j is k_j.t + b_j. All tokens ask the same
question; T keeps the first column. In the cross form the queries come from X and the rows (k_j, b_j, v_j) are the other
sequence Y.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softwright.domain import Box
from softwright.errors import Faults
from softwright.precision import FLOAT64
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.drawing import draw_curves
from softwright.theorems.tools.network import Attention, CrossAttention, TheoremNetwork, Tokens
from softwright.theorems.tools.theorem import options

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGEST_SCORE_ERROR = 0.5  # rounding of a score, beyond which softmax weights mean nothing
MOST_CELLS = 300_000
_U = FLOAT64.unit


OPTIONS = options(
    """
    cells    16   cells G per axis; there are G^m tokens
    beta     0.0  inverse temperature; 0: chosen from eps0
    columns  1    n of the input X (d x n) that holds the m = d n variables
    side     1.0  a formula's domain is [-side, side]^m
    box      -    a Box with the formula's variables instead
    """
)


@dataclass(frozen=True)
class Cells:
    """Keys (N, m), biases (N,) and values (N, o) in the unit frame of a box given by centre and half sides (m,)."""

    keys: np.ndarray
    biases: np.ndarray
    values: np.ndarray
    centre: np.ndarray
    half: np.ndarray

    def flat(self, inputs: np.ndarray) -> np.ndarray:
        """Matrices (q, d, n) -> points (q, m), column after column."""
        return np.swapaxes(np.asarray(inputs, dtype=float), -1, -2).reshape(len(inputs), -1)

    def shaped(self, points: np.ndarray, columns: int) -> np.ndarray:
        """Points (q, m) -> matrices (q, d, n) with n = columns."""
        return np.swapaxes(points.reshape(len(points), columns, -1), -1, -2).copy()

    def weights(self, points: np.ndarray) -> np.ndarray:
        """Softmax weights (q, N) at points (q, m), in NumPy."""
        t = (points - self.centre) / self.half
        scores = t @ self.keys.T + self.biases
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        return scores / scores.sum(axis=1, keepdims=True)


@dataclass(frozen=True, kw_only=True)
class CellConstruction(Construction):
    """A function on a box as cells (theorems B2, B3 and B4)."""

    box: Box
    cells: Cells


def draw_slice(axes: Axes, made: CellConstruction) -> None:
    """Target and network along the first variable, the others in the middle of their sides."""
    box = made.box
    points = np.tile(box.center, (2001, 1))
    points[:, 0] = np.linspace(box.lower[0], box.upper[0], 2001)
    inputs = made.cells.shaped(points, made.sizes["columns"])
    asked, got = made.target(inputs)[:, 0, 0], made.network.evaluate(inputs)[:, 0, 0]
    shown = np.abs(asked) <= 3.0 * np.abs(got).max() + 1e-300  # leave out the tip of a singularity
    draw_curves(axes, points[:, 0], np.where(shown, asked, np.nan), got)
    axes.set_xlabel(box.names[0])
    axes.set_title("along the first variable", fontsize=8)


def _copies(cells: Cells, columns: int, rows: int, first: int, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """P (n, rows, d) and Q (n, n, tokens): column i of X, scaled to the unit frame, to its copy rows in every token."""
    m = len(cells.centre)
    d = m // columns
    P, Q = np.zeros((columns, rows, d)), np.zeros((columns, columns, tokens))
    for i in range(columns):
        P[i, first + i * d : first + (i + 1) * d] = np.diag(1.0 / cells.half[i * d : (i + 1) * d])
        Q[i, i] = 1.0
    return P, Q


def self_attention(label: str, cells: Cells, columns: int = 1) -> TheoremNetwork:
    """X (d x n) -> (outputs x 1) by one self-attention layer on Z = sum_i P_i X Q_i + R."""
    N, m = cells.keys.shape
    o = cells.values.shape[1]
    rows = 2 * m + o + 2
    bias, value, copy, one = m, m + 1, m + 1 + o, rows - 1
    P, Q = _copies(cells, columns, rows, copy, N)
    R = np.zeros((rows, N))
    R[:m], R[bias], R[value:copy], R[one] = cells.keys.T, cells.biases, cells.values.T, 1.0
    R[copy:one] = -(cells.centre / cells.half)[:, None]
    eye = np.eye(rows)
    T = np.zeros((1, N, 1))
    T[0, 0, 0] = 1.0
    attention = Attention(
        eye[[*range(m), bias]][None], eye[[*range(copy, one), one]][None], eye[value:copy][None], None, T
    )
    return TheoremNetwork(label, [Tokens(P, Q, R), attention], (m // columns, columns))


def cross_attention(label: str, cells: Cells, columns: int = 1) -> TheoremNetwork:
    """The same function with queries from X and keys and values from the other sequence Y, rows (k_j, b_j, v_j)."""
    m, o = cells.keys.shape[1], cells.values.shape[1]
    P, Q = _copies(cells, columns, m + 1, 0, 1)
    R = np.append(-cells.centre / cells.half, 1.0)[:, None]  # (m+1, 1): one query token (t, 1)
    other = other_sequence(cells)
    eye = np.eye(m + 1 + o)
    attention = CrossAttention(eye[: m + 1], np.eye(m + 1), eye[m + 1 :], other)
    return TheoremNetwork(label, [Tokens(P, Q, R), attention], (m // columns, columns))


def other_sequence(cells: Cells) -> np.ndarray:
    """Y ((m + 1 + outputs) x N): a key, a bias and a value in each column."""
    return np.vstack([cells.keys.T, cells.biases[None], cells.values.T])


def check_eps0(faults: Faults, eps0: float) -> bool:
    return faults.check(
        0 < eps0 < 1, f"eps0 = {eps0:g}: the theorem chooses beta from log(1/eps0) with 0 < eps0 < 1; give such an eps0"
    )


def check_grid(faults: Faults, cells: int, variables: int, columns: int) -> None:
    """A grid of `cells` cells per axis, for `variables` numbers in an input of `columns` columns."""
    if faults.check(cells >= 1, f"cells = {cells}: the grid of the theorem has G >= 1 cells per axis"):
        faults.check(
            float(cells) ** variables <= MOST_CELLS,
            f"a grid of {cells}^{variables} centres: the theorem takes one token per centre; at most {MOST_CELLS} are "
            "built, take fewer cells",
        )
    faults.check(
        columns >= 1 and variables % columns == 0,
        f"columns = {columns}: X is d x n with d n = {variables} variables, so n must divide {variables}",
    )


def score_error(beta: float, box: Box) -> float:
    """How far stored scores of a grid are from beta (v_j.t - |v_j|^2/2) on the box, computed or not; with beta = 1 also
    how far points of the unit frame are from where they are meant to be.

    Centres are off by 5 u, keys by 6 u beta; the unit frame (1/half, centre/half, two roundings each and those of half
    and centre) by 6 u M/half with M = max |x|; biases by (7 + m/2) m u beta. The running sum of a score, m + 1 products
    of numbers up to beta, adds (m + 2) u (3/2) m beta.
    """
    m = box.dim
    far = float((np.maximum(np.abs(box.lower), np.abs(box.upper)) / box.halfwidth).sum())
    return _U * beta * (m * (14.0 + 0.5 * m) + 6.0 * far + 1.5 * m * (m + 2))


def check_beta(faults: Faults, beta: float, error: float, remedy: str) -> bool:
    """Scores that are off by `error` must keep their meaning in float64."""
    return faults.check(
        bool(np.isfinite(beta)) and beta > 0 and error <= LARGEST_SCORE_ERROR,
        f"beta = {beta:.3g} makes scores that are off by {error:.3g}, more than float64 resolves (beta overflow); the "
        f"theorem takes beta as large as eps0 and the cells ask: {remedy}",
    )


def grid_centres(cells: int, variables: int) -> np.ndarray:
    """The centres (G^m, m) of a grid of G cells per axis on [-1, 1]^m, last axis fastest."""
    line = -1.0 + (2.0 / cells) * (np.arange(cells) + 0.5)
    mesh = np.meshgrid(*[line] * variables, indexing="ij")
    return np.stack([axis.ravel() for axis in mesh], axis=1)


def sampler(cells: Cells, box: Box, beta: float, columns: int) -> Callable[[np.random.Generator, int], np.ndarray]:
    """`sample(rng, n)` of a construction: inputs at random and where cells meet."""
    per_axis = round(len(cells.keys) ** (1.0 / box.dim))

    def sample(rng: np.random.Generator, n: int) -> np.ndarray:
        points = _telling_points(per_axis, box.dim, beta, rng, max(1, n // 4))
        return cells.shaped(box_points(points, box.lower, box.upper), columns)

    return sample


def _telling_points(per_axis: int, variables: int, beta: float, rng: np.random.Generator, n: int) -> np.ndarray:
    """Points of [-1, 1]^m: random ones, corners and faces, and ones beside the walls at the scale of the gates."""
    random = rng.uniform(-1, 1, (n, variables))
    faces = np.where(rng.random((n, variables)) < 0.5, rng.choice([-1.0, 1.0], (n, variables)), random)
    h = 2.0 / per_axis
    wall = -1.0 + h * rng.integers(0, per_axis + 1, (n, variables))
    steps = np.array([0.0, 1e-3, 0.1, 1.0, 5.0, 20.0]) / (beta * h)
    beside = wall + rng.choice([-1.0, 1.0], (n, variables)) * rng.choice(steps, (n, variables))
    mixed = np.where(rng.random((n, variables)) < 0.7, beside, random)
    return np.clip(np.concatenate([random, faces, beside, mixed]), -1.0, 1.0)


def box_points(
    points: np.ndarray, lower: Sequence[float] | np.ndarray, upper: Sequence[float] | np.ndarray
) -> np.ndarray:
    """Unit-frame points in a box given by its ends."""
    low, high = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    return np.clip(low + (points + 1.0) * 0.5 * (high - low), low, high)
