"""B1: one softmax head computes the indicator vector of a max-affine partition.

MaxAff(x) = max_j (a_j.x + b_j) splits the space into the cells U_j on which piece j attains the maximum (a power
diagram). With scores beta (a_j.x + b_j) and values e_j the head gives p(x) = softmax(beta (a_j.x + b_j)).

*Off the walls.* If the leading piece i is ahead of all others by at least t at x, then

    1 - p_i(x) = S/(1 + S) <= S,   S = sum_{j != i} e^{-beta (l_i - l_j)} <= (N - 1) e^{-beta t},

and the largest entry of |p(x) - e_i| is 1 - p_i(x). So it is at most eps for beta = log((N-1)/eps) / t.

*The band.* l_i - l_j = |a_i - a_j| times the distance of x to the hyperplane where both are equal. So every x that is
at least w/2 away from these hyperplanes is ahead by t = (w/2) min_{i != j} |a_i - a_j|: the indicator is off by more
than eps only inside a band of width w round the walls. `width` is that w; the a_j must differ pairwise, because pieces
with one slope have no wall between them.

*Rounding.* For |x_i| <= 2 a score of float64 errs by at most theta = 2 (d + 3) u max_j beta (2 |a_j|_1 + |b_j|), so a
weight errs by a factor e^{+-4 theta} and by N + 8 further roundings. Off the band, then,

    |fl(p) - p| <= bound (e^{4 theta} - 1) + 2 (N + 8) u.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from flint import arb

from softwright.errors import Faults
from softwright.precision import FLOAT64
from softwright.proof.arithmetic.balls import ball_above, precision
from softwright.theorems.tools.cell_attention import Cells, check_beta, check_eps0, self_attention
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.interpolation import EXP_ASSUMPTION
from softwright.theorems.tools.theorem import PAPER_B, Theorem, options

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_REACH = 2.0  # rounding is bounded for inputs up to this size


def gaps(slopes: np.ndarray, offsets: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The leading piece at points (q, d), and by how much it is ahead of the next: (q,), (q,)."""
    scores = points @ slopes.T + offsets
    order = np.argsort(scores, axis=1)
    rows = np.arange(len(points))
    first, second = order[:, -1], order[:, -2]
    return first, scores[rows, first] - scores[rows, second]


def beta_for(pieces: int, eps: float, margin: float) -> float:
    """log((N-1)/eps)/t, rounded up."""
    with precision(80):
        return ball_above((arb(pieces - 1) / arb(eps)).log() / arb(margin))


def indicator_bound(pieces: int, beta: float, margin: float) -> float:
    """(N - 1) e^{-beta t}, rounded up."""
    with precision(80):
        return ball_above((pieces - 1) * (-arb(beta) * arb(margin)).exp())


@dataclass(frozen=True, kw_only=True)
class PartitionConstruction(Construction):
    """The slopes a_j (N, d) of the pieces."""

    slopes: np.ndarray


def _random_partition(pieces: int, dim: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Slopes and offsets of a Voronoi diagram of random sites in [-1, 1]^d with random weights."""
    rng = np.random.default_rng(seed)
    sites = rng.uniform(-1, 1, (pieces, dim))
    return sites, -0.5 * (sites**2).sum(axis=1) + 0.05 * rng.uniform(-1, 1, pieces)


def _construct(
    pieces: int, dim: int, width: float, eps0: float, beta: float, seed: int, slopes: Any, offsets: Any
) -> PartitionConstruction:
    """A maximum of N affine functions with different slopes splits space into N cells. One softmax head whose
    scores are beta times these functions and whose values are the unit vectors gives the indicator vector of the
    cell that x lies in, to eps in every entry, for every x that is at least width/2 away from the walls.
    """
    faults = Faults("theorem B1")
    given = slopes is not None or offsets is not None
    A, b = np.zeros((2, 1)), np.zeros(2)
    if given:
        A, b = np.asarray(slopes, dtype=float), np.asarray(offsets, dtype=float)
        shapes = A.ndim == 2 and b.shape == A.shape[:1] and bool(np.isfinite(A).all() and np.isfinite(b).all())
        faults.check(shapes, f"slopes must be (pieces, d) and offsets (pieces,), got {A.shape} and {b.shape}")
    else:
        faults.check(dim >= 1, f"dim = {dim}: the partition lives in R^d with d >= 1")
    check_eps0(faults, eps0)
    faults.check(width > 0, f"width = {width:g}: the band round the walls must have a width > 0")
    if not given:
        faults.check(pieces >= 2, f"pieces = {pieces}: a partition needs at least 2 pieces")
    faults.raise_if_any()
    if not given:
        A, b = _random_partition(pieces, dim, seed)
    N, d = A.shape
    distance = np.sqrt(((A[:, None] - A[None]) ** 2).sum(axis=-1)) + np.diag(np.full(N, np.inf))
    nearest = float(distance.min()) * (1.0 - 1e-14)
    faults.check(N >= 2, f"{N} piece(s): a partition needs at least 2")
    faults.check(
        N < 2 or nearest > 0,
        "two pieces have the same slope a_j: the theorem's cells have walls between different slopes; drop one",
    )
    faults.raise_if_any()
    margin = 0.5 * width * nearest
    chosen = beta if beta > 0 else beta_for(N, eps0, margin)
    largest = chosen * float((_REACH * np.abs(A).sum(axis=1) + np.abs(b)).max())
    check_beta(faults, chosen, 2.0 * (d + 3) * FLOAT64.unit * largest, "raise eps0 or width")
    faults.raise_if_any()
    cells = Cells(chosen * A, chosen * b, np.eye(N), np.zeros(d), np.ones(d))
    network = self_attention("B1", cells)
    bound = min(1.0, indicator_bound(N, chosen, margin))
    theta = 2.0 * (d + 3) * FLOAT64.unit * largest
    rounding = bound * math.expm1(4.0 * theta) * (1.0 + 1e-12) + 2.0 * (N + 8) * FLOAT64.unit

    def target(inputs: np.ndarray) -> np.ndarray:
        first, _ = gaps(A, b, cells.flat(inputs))
        return np.eye(N)[first][:, :, None]

    def sample(rng: np.random.Generator, n: int) -> np.ndarray:
        """Points off the band: random ones, and ones pushed away from a wall to just outside it."""
        points = rng.uniform(-1, 1, (4 * n, d))
        first, ahead = gaps(A, b, points)
        second = np.argsort(points @ A.T + b, axis=1)[:, -2]
        normal = A[first] - A[second]
        step = (margin * (1.0 + 1e-9) - ahead) / (normal**2).sum(axis=1)
        pushed = points + step[:, None] * normal
        both = np.concatenate([points, pushed])
        both = both[np.abs(both).max(axis=1) <= _REACH]
        return both[gaps(A, b, both)[1] >= margin][:, :, None]

    faults.check(
        len(sample(np.random.default_rng(seed), 100)) > 0,
        f"width = {width:g}: no point of [-{_REACH:g}, {_REACH:g}]^{d} was found outside a band that wide round the "
        "walls, so nothing would be claimed there; take a smaller width",
    )
    faults.raise_if_any()

    return PartitionConstruction(
        slopes=A,
        network=network,
        bound=bound,
        sizes={
            "pieces": N, "dim": d, "width": width, "eps0": eps0, "beta": beta, "seed": seed,
            **({"slopes": A.tolist(), "offsets": b.tolist()} if given else {}),
        },
        tokens=N,
        drawn={"slopes": A.tolist(), "offsets": b.tolist(), "beta": chosen},
        statement=(
            f"sup over |x_i| <= {_REACH:g} outside a band of width {width!r} round the walls of |softmax - indicator|, "
            "every entry"
        ),
        target=target,
        sample=sample,
        quantities={"beta": chosen, "eps0": eps0, "margin": margin, "width": width, "least_slope_distance": nearest},
        rounding=rounding,
        assumptions=(EXP_ASSUMPTION,),
        reasons=(f"beta = log((N-1)/eps0)/t with t = width/2 * min |a_i - a_j| = {margin:.4g}",),
    )  # fmt: skip


def _draw(axes: Axes, made: PartitionConstruction) -> None:
    """The cells of the partition in the plane, darker where no piece leads clearly; or the indicator on a line."""
    dim = made.slopes.shape[1]
    if dim == 1:
        x = np.linspace(-1, 1, 2001)
        axes.plot(x, made.network.evaluate(x[:, None, None])[:, :, 0], lw=1.0)
        axes.set_xlabel("x")
        axes.set_ylabel("softmax weights")
        return
    x = np.linspace(-1, 1, 160)
    points = np.zeros((160 * 160, dim))
    points[:, :2] = np.stack([a.ravel() for a in np.meshgrid(x, x, indexing="ij")], axis=1)
    out = made.network.evaluate(points[:, :, None])[:, :, 0]
    shade = (out.argmax(axis=1) % 20).reshape(160, 160).T
    axes.imshow(shade, origin="lower", extent=(-1, 1, -1, 1), cmap="tab20", alpha=0.55)
    axes.contourf(x, x, (1.0 - out.max(axis=1)).reshape(160, 160).T, levels=[made.bound, 1.0], colors=["black"])
    axes.set_title("cells; black: the indicator is off by more than the bound", fontsize=8)
    axes.set_aspect("equal")


B1 = Theorem(
    label="B1",
    title="one head computes the indicator of a max-affine partition, outside a thin band at the walls",
    paper=PAPER_B,
    conditions=("slopes a_j pairwise different", "0 < eps0 < 1", "width > 0"),
    options=options(
        """
        pieces   12     number N of affine pieces (random ones)
        dim      2      dimension of x
        width    0.02   width of the band round the walls
        eps0     0.001  how far the indicator may be off outside the band
        beta     0.0    inverse temperature; 0: chosen from eps0 and width
        seed     0      seed of the random pieces
        slopes   -      a_j as an array (N, d)
        offsets  -      b_j as an array (N,)
        """
    ),
    construct=_construct,
    sweep=("width", (0.32, 0.16, 0.08, 0.04, 0.02, 0.01)),
    details=_draw,
)
