"""B1 again: one head gives the indicator of the cell of a max-affine partition, off a band round its walls.

    drawn    slopes a_j (N, d), offsets b_j (N,), beta

l_j(x) = a_j.x + b_j. Off the band of width w, every x is at least w/2 away from each hyperplane l_i = l_j, and l_i -
l_j is |a_i - a_j| times the distance to it. So the leading piece i is ahead of all others by t = (w/2) min |a_i - a_j|,
and with scores beta l_j the mass of the others is at most (N - 1) e^{-beta t}: no entry is off by more.

*The run.* |x_i| <= 2, u = 2^-53. The stored keys and biases are off from beta a_j and beta b_j by what their exact
difference says; a score is a sum of d + 1 products, off by gamma_{d+1} sum |k_ji| 2 + |c_j|, with what may underflow.
Together at most E, the scores at most L in modulus. Less the largest score a score errs by another u (2 L + 2 E), exp
by `exp_error` relatively. So each ratio of a weight to that of the leading piece is too large by at most a factor

    kappa = e^{2 E + 4 u (L + E)} (1 + exp_error)/(1 - exp_error),

and the entries, after N additions and a division, are off by at most min(1, (N - 1) e^{-beta t} kappa)
(1 + gamma_{N+2}) + gamma_{N+2}. What this exceeds (N - 1) e^{-beta t} by is the rounding part. Zeros and ones round
nothing.
"""

from __future__ import annotations

import numpy as np
from flint import arb, fmpq

from softwright.checker.entries import at_least_zero, check_entries, is_float, is_size, is_whole, list_of
from softwright.checker.limits import check_time
from softwright.checker.proved import Proved
from softwright.checker.refusal import require
from softwright.checker.theorems.cells import Cells, read_cells
from softwright.checker.theorems.interpolation import FLOAT64, ROUNDED, array_of, gamma, largest, rational, same
from softwright.checker.theorems.reading import NOT_DRAWN, TheoremFile

REACH = 2  # of every |x_i|
U, SMALLEST, EXP = arb(FLOAT64.unit), arb(FLOAT64.smallest), arb(FLOAT64.exp_error)
BLOCK = 1_000_000  # differences of slopes at once
MOST_DIFFERENCES = 2_000_000_000


def prove(file: TheoremFile) -> Proved:
    """How far an entry is from the indicator, off the band, for |x_i| <= 2."""
    require(file.drawn, NOT_DRAWN)
    lists = dict.fromkeys(("slopes", "offsets"), lambda item: isinstance(item, list))
    check_entries(file.drawn, {**lists, "beta": is_float}, "what was drawn")
    tests = {"pieces": is_size, "dim": is_size, "width": is_float, "eps0": is_float, "beta": at_least_zero}
    given = {"slopes": list_of(list_of(is_float)), "offsets": list_of(is_float)}
    check_entries(file.sizes, {**tests, "seed": is_whole, **given}, "the sizes", tuple(given))
    N, d, width, beta = (*(file.sizes[name] for name in ("pieces", "dim", "width")), file.drawn["beta"])
    for name in given:
        require(file.sizes.get(name, file.drawn[name]) == file.drawn[name], f"the {name} given are not those drawn")
    require(width > 0 and beta > 0 and N >= 2, "the sizes are out of range")
    require(file.sizes["beta"] in (0, beta), "beta is not the one asked for")
    slopes, offsets = array_of(file.drawn["slopes"], (N, d), "slopes"), array_of(file.drawn["offsets"], (N,), "offsets")
    cells = read_cells(file, d, 1)
    same(cells.values, np.eye(N) if len(cells.values) == N else np.zeros((N, N)), "the values")
    same(cells.scale, np.ones(d), "the scale")
    same(cells.offset, np.zeros(d), "the offset")
    nearest = least_distance(slopes)
    margin = arb(rational(width) / 2) * nearest
    others = (N - 1) * (-arb(rational(beta)) * margin).exp()
    exact = largest([others]).min(arb(1))
    size, off = score_error(cells, slopes, offsets, beta)
    kappa = (2 * off + 4 * U * (size + off)).exp() * (1 + EXP) / (1 - EXP)
    run = (others.upper() * kappa + N * SMALLEST).min(arb(1)) * (1 + gamma(N + 2)) + gamma(N + 2) + N * SMALLEST
    return Proved(
        statement=(
            f"sup over |x_i| <= {REACH} outside a band of width {width!r} round the walls of |softmax - indicator|, "
            "every entry"
        ),
        exact=exact,
        rounding=largest([run - exact]),
        method="theorem B1",
        quantities={
            "beta": arb(rational(beta)),
            "eps0": arb(rational(file.sizes["eps0"])),
            "margin": margin,
            "width": arb(rational(width)),
            "least_slope_distance": nearest,
        },
        assumptions=ROUNDED,
    )


def least_distance(slopes: np.ndarray) -> arb:
    """min |a_i - a_j|, from squares in float64: d + 2 roundings each, none of a number that is too small."""
    N, d = slopes.shape
    require(N * N * d <= MOST_DIFFERENCES, f"{N} pieces in {d} dimensions are too many to be compared")
    rows, least = max(1, BLOCK // (N * d)), np.inf
    for start in range(0, N, rows):
        check_time()
        block = slopes[start : start + rows]
        squares = ((block[:, None] - slopes[None]) ** 2).sum(axis=-1)
        squares[np.arange(len(block)), np.arange(start, start + len(block))] = np.inf
        least = min(least, float(squares.min()))
    require(1e-290 < least < 1e290, "two slopes are equal, or too near to or far from each other to be compared")
    return (arb(least) * (1 + arb(0, 1) * gamma(d + 4))).sqrt()


def score_error(cells: Cells, slopes: np.ndarray, offsets: np.ndarray, beta: float) -> tuple[arb, arb]:
    """L and E: the largest stored score, and how far a computed one is from beta l_j, for |x_i| <= 2."""
    (N, d), b = slopes.shape, rational(beta)
    size, off = fmpq(0), fmpq(0)
    for j in range(N):
        check_time()
        pairs = list(zip(cells.keys[j].tolist(), slopes[j].tolist(), strict=True))
        bias = rational(cells.biases[j])
        moduli = sum((abs(rational(k)) for k, _ in pairs), fmpq(0)) * REACH + abs(bias)
        stored = sum((abs(rational(k) - b * rational(a)) for k, a in pairs), fmpq(0)) * REACH
        size, off = max(size, moduli), max(off, stored + abs(bias - b * rational(offsets[j])))
    require(4 * (arb(size) + 1) < FLOAT64.largest, "a score may overflow")
    return arb(size), arb(off) + gamma(d + 1) * arb(size) + 2 * (d + 1) * SMALLEST
