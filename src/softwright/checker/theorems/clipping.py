"""A1 and A2 again: column i of X (d x n) becomes clip(w_i.x_i + t_i, a, b) e_kappa, w and t in the file.

What places numbers (zeros, ones, w, t) is compared entry by entry. What is left are scores r_k s + c_k and values, read
from the tensors as exact rationals, and `interpolation` says how far such heads are from the clip.

*Stored values* miss the points by nu at most: nu more for one head, 2 nu for heads that share points (at most two of
them have more than their leak on points of their own). At a seam two heads differ by sigma in the score of one key less
that of the next, for s between the two: sigma V/4 more.

*Rounding*, for |x| <= limit, u = 2^-53. S is the largest sum_j |w_ij| limit + |t_i|. Zeros and ones round nothing.

- s: every product and the one sum with t are rounded: at most 2 u (1 + u) S, and clip does not magnify it.
- scores: a key is a sum of up to three products, a score one of d + 1, so that they are off by (gamma_{d+1} (1 +
  gamma_3) + gamma_3)(K S + C), where K and C bound what a key and a bias add up, in modulus; A1 stores its keys and has
  no gamma_3. The shift by the maximum rounds by u times a difference of scores, exp by 4 units in the last place. The
  sum of these is h, which goes into the leaks (`interpolation`) and, at seams, adds h V.
- weights, products and sums: gamma_{2p+5} V; values formed by the layer: gamma_3 of what they add up; adding the heads:
  gamma_{H-1} H V.
- numbers below the least normal one may become 0, which costs less than `smallest` for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb, fmpq

from softwright.checker.entries import check_entries, is_count, is_float, is_size
from softwright.checker.proved import Proved
from softwright.checker.refusal import require
from softwright.checker.theorems.interpolation import (
    FLOAT64,
    REAL,
    ROUNDED,
    Scores,
    array_of,
    blank,
    gamma,
    largest,
    mean_distance,
    ones_at,
    rational,
    rationals,
    read_scores,
    same,
    shared_error,
)
from softwright.checker.theorems.reading import Stage, TheoremFile

SIZES = {
    "tokens": is_size,
    "dim": is_size,
    "a": is_float,
    "b": is_float,
    "eps0": is_float,
    "outputs": is_size,
    "coordinate": is_count,
    "limit": is_float,
    "seed": is_count,
}
FIXED_ROWS = 7  # of A2: 1, j, j^2, inner, j inner, first, last
U, SMALLEST = arb(FLOAT64.unit), arb(FLOAT64.smallest)


@dataclass(frozen=True)
class Task:
    """What is asked. `reach` is S; 0 where nothing is said of rounding."""

    n: int
    d: int
    outputs: int
    coordinate: int
    low: fmpq
    high: fmpq
    eps0: float
    limit: float
    w: np.ndarray
    t: np.ndarray

    @property
    def size(self) -> fmpq:
        return max(abs(self.low), abs(self.high))

    @property
    def reach(self) -> fmpq:
        rows = (sum(map(abs, rationals(row)), fmpq(0)) for row in self.w)
        return max(row * rational(self.limit) + abs(rational(float(t))) for row, t in zip(rows, self.t, strict=True))

    def lost(self) -> arb:
        """What rounding makes of s."""
        return 2 * U * (1 + U) * arb(self.reach) + 2 * self.d * SMALLEST

    def proved(self, file: TheoremFile, exact: arb, rounding: arb | None, beta: arb, points: int) -> Proved:
        inputs = "for every input X" if rounding is None else f"for every X with entries up to {self.limit:g}"
        return Proved(
            statement=f"every column i is within the bound of clip(w_i.x_i + t_i, a, b) e_kappa, {inputs}",
            exact=exact,
            rounding=rounding,
            method=f"theorem {file.label}",
            quantities={
                "beta": beta,
                "eps0": arb(self.eps0),
                "spacing": arb((self.high - self.low) / points),
                "points": arb(points),
            },
            assumptions=REAL if rounding is None else ROUNDED,
        )


def read_task(file: TheoremFile, first: str) -> Task:
    """The sizes, of which `first` is A1's or A2's own, and what was drawn."""
    require(file.drawn, "the file does not hold what was drawn; build the theorem again")
    check_entries(file.sizes, {first: is_size, **SIZES}, "the sizes")
    s = file.sizes
    check_entries(file.drawn, dict.fromkeys(("weights", "offsets"), lambda item: isinstance(item, list)), "drawn")
    n, d = s["tokens"], s["dim"]
    require(file.inputs == (d, n), "the input has another shape than the sizes say")
    require(s["a"] < s["b"] and s["eps0"] > 0 and s["limit"] >= 0, "the sizes are out of range")
    require(float(f"{s['limit']:g}") == s["limit"], "the limit has more digits than the statement shows")
    require(s["coordinate"] < s["outputs"], "the coordinate is not one of the outputs")
    w, t = array_of(file.drawn["weights"], (n, d), "weights"), array_of(file.drawn["offsets"], (n,), "offsets")
    low, high = rational(s["a"]), rational(s["b"])
    return Task(n, d, s["outputs"], s["coordinate"], low, high, s["eps0"], s["limit"], w, t)


def check_maps(task: Task, stage: Stage, rows: int, columns: int) -> None:
    """Column i gets w_i * x_i, entry by entry, in its first d rows, and t_i in the first of them."""
    n, d = task.n, task.d
    R, P = blank(stage["R"], (rows, columns), "R"), blank(stage["P"], (n, rows, d), "P")
    P[:, range(d), range(d)] = task.w
    R[0, :n] = task.t
    same(stage["P"], P, "P")
    ones_at(stage["Q"], (n, n, columns), (range(n), range(n), range(n)), "Q")
    same(stage["R"][:d], R[:d], "the first rows of R")


def plain_attention(stage: Stage, *tensors: str) -> None:
    require(not any(stage.flags.values()), "the attention is plain: no residual, not causal, not hard")
    require(set(stage.tensors) == {"W_K", "W_Q", "W_V", *tensors}, "the attention has other tensors")


def score_error(task: Task, key: fmpq, bias: fmpq, formed: bool) -> arb:
    """h; `key` and `bias` are K and C, `formed` tells that the layer adds them up."""
    added = gamma(3) if formed else arb(0)
    size = arb(key) * (arb(task.reach) + task.lost()) + arb(bias)
    off = (gamma(task.d + 1) * (1 + added) + added) * size + 3 * (task.d + 1) * SMALLEST * (1 + arb(task.reach))
    require(4 * (size + off) < FLOAT64.largest, "a score may overflow")
    exp = arb(FLOAT64.exp_error)
    return off + 2 * U * (size + off) + SMALLEST + exp / (1 - exp)


def prove_one_head(file: TheoremFile) -> Proved:
    """A1: one head on p > n tokens."""
    task, p = read_task(file, "points"), file.sizes["points"]
    n, d = task.n, task.d
    require(p > n and p >= 3, "the theorem needs more points than tokens, and 3 of them")
    tokens, attention = file.chain("sum_of_linear", "attention")
    rows, kept = 2 * d + task.outputs + 2, 2 * d + 2
    check_maps(task, tokens, rows, p)
    plain_attention(attention, "T")
    ones_at(attention["W_K"], (1, d + 1, rows), (0, range(d + 1), [*range(d, 2 * d), 2 * d + 1]), "W_K")
    ones_at(attention["W_Q"], (1, d + 1, rows), (0, range(d + 1), [*range(d), 2 * d]), "W_Q")
    ones_at(attention["W_V"], (1, task.outputs, rows), (0, range(task.outputs), range(kept, rows)), "W_V")
    ones_at(attention["T"], (1, p, n), (0, range(n), range(n)), "T")
    R = tokens["R"]
    same(R[d : 2 * d], np.tile(R[d], (d, 1)), "the keys")
    same(R[2 * d], np.ones(p), "the row of ones")
    idle = [kept + i for i in range(task.outputs) if i != task.coordinate]
    same(R[idle], np.zeros((len(idle), p)), "the other coordinates")
    ramp, bias, values = (rationals(R[row]) for row in (d, 2 * d + 1, kept + task.coordinate))

    step = (task.high - task.low) / p
    scores = read_scores(ramp, bias, task.low, step)
    off = max(abs(value - (task.low + k * step)) for k, value in enumerate(values))
    beta = arb((ramp[-1] - ramp[0]) / (2 * (p - 1)))
    if not task.limit:
        return task.proved(file, mean_distance(scores, p, arb(0)) + arb(off), None, beta, p)
    h = score_error(task, max(map(abs, ramp)), max(map(abs, bias)), False)
    size = arb(max(map(abs, values)))
    rounding = arb(off) + gamma(2 * p + 5) * size + task.lost() + 8 * p * SMALLEST * (1 + size)
    return task.proved(file, mean_distance(scores, p, h), rounding, beta, p)


def fixed_rows(n: int) -> np.ndarray:
    j = np.arange(n, dtype=float)
    inner = ((j > 0) & (j < n - 1)).astype(float)
    return np.stack([np.ones(n), j, j * j, inner, j * inner, (j == 0) * 1.0, (j == n - 1) * 1.0])


@dataclass(frozen=True)
class SharedHeads:
    """H heads that share points, as read from the tensors: what `interpolation` asks, and what rounding asks.

    off       nu, how far stored values are from the points
    seam      sigma
    size      V, the largest modulus of a value
    sums      K, C, and the same for values: what keys, biases and values add up to, in modulus
    beta      half of what a key grows from point to point
    """

    scores: Scores
    off: fmpq
    seam: fmpq
    size: fmpq
    sums: tuple[fmpq, fmpq, fmpq]
    beta: fmpq

    def exact(self, heads: int, n: int, h: arb) -> arb:
        return shared_error(self.scores, heads, n, arb(self.size), h)

    def stored(self) -> arb:
        """What stored values and stored keys add to it."""
        return arb(2 * self.off + self.seam * self.size / 4)


def read_shared(stage: Stage, values: np.ndarray, d: int, n: int, low: fmpq, high: fmpq) -> SharedHeads:
    """Heads on tokens with d rows that add up to s and the seven fixed rows; `values` (H, rows) form the values."""
    heads, rows = len(values), d + FIXED_ROWS
    one, j1, j2, inner, j_inner, first, last = range(d, rows)
    ones_at(stage["W_Q"], (heads, d + 1, rows), (slice(None), range(d + 1), [*range(d), one]), "W_Q")
    W_K, free = stage["W_K"], blank(stage["W_K"], (heads, d + 1, rows), "W_K")
    free[:, :d, [one, j1]] = W_K[:, :1, [one, j1]]
    free[:, d, [one, j1, j2]] = W_K[:, d, [one, j1, j2]]
    same(W_K, free, "W_K")
    ends = np.zeros((heads, rows))
    ends[:, [inner, j_inner]] = values[:, [inner, j_inner]]
    ends[0, first], ends[-1, last] = values[0, first], values[-1, last]
    same(values, ends, "W_V")

    step, j = (high - low) / (heads * (n - 2)), range(n)
    found, off, seam, size, sums = [], fmpq(0), fmpq(0), fmpq(0), [fmpq(0)] * 3
    before: tuple[fmpq, fmpq] | None = None  # slope and offset of the last key less the one before
    for h in range(heads):
        k0, k1 = rationals(W_K[h, 0, [one, j1]])
        c0, c1, c2 = rationals(W_K[h, d, [one, j1, j2]])
        v0, v1, left, right = rationals(values[h, [inner, j_inner, first, last]])
        ramp, bias = [k0 + k1 * i for i in j], [c0 + c1 * i + c2 * (i * i) for i in j]
        start = low + step * (h * (n - 2) - 1)
        found.append(read_scores(ramp, bias, start, step))
        given = [left, *(v0 + v1 * i for i in range(1, n - 1)), right]
        ideal = [low if h == 0 else fmpq(0), *(start + step * i for i in range(1, n - 1))]
        ideal.append(high if h == heads - 1 else fmpq(0))
        off = max(off, *(abs(x - y) for x, y in zip(given, ideal, strict=True)))
        size = max(size, *map(abs, given))
        added = (
            abs(k0) + abs(k1) * n,
            abs(c0) + abs(c1) * n + abs(c2) * (n * n),
            max(abs(v0) + abs(v1) * (n - 2), abs(left), abs(right)),
        )
        sums = [max(one_sum, more) for one_sum, more in zip(sums, added, strict=True)]
        if before is not None:
            rise, fall = ramp[1] - ramp[0] - before[0], bias[1] - bias[0] - before[1]
            seam = max(seam, *(abs(rise * s + fall) for s in (start, start + step)))
        before = (ramp[-1] - ramp[-2], bias[-1] - bias[-2])
    scores = found[0]
    for each in found[1:]:
        scores = scores | each
    return SharedHeads(scores, off, seam, size, (sums[0], sums[1], sums[2]), scores.most / 2)


def prove_many_heads(file: TheoremFile) -> Proved:
    """A2: H heads on the n tokens of the input."""
    task, H = read_task(file, "heads"), file.sizes["heads"]
    n, d = task.n, task.d
    require(n >= 3, "the theorem needs two sentinels and a point in each head")
    tokens, attention = file.chain("sum_of_linear", "attention")
    rows = d + FIXED_ROWS
    check_maps(task, tokens, rows, n)
    same(tokens["R"][d:], fixed_rows(n), "the fixed rows")
    plain_attention(attention)
    W_V, alone = attention["W_V"], blank(attention["W_V"], (H, task.outputs, rows), "W_V")
    alone[:, task.coordinate] = W_V[:, task.coordinate]
    same(W_V, alone, "W_V")
    heads = read_shared(attention, W_V[:, task.coordinate], d, n, task.low, task.high)

    beta, points = arb(heads.beta), H * (n - 2)
    if not task.limit:
        return task.proved(file, heads.exact(H, n, arb(0)) + heads.stored(), None, beta, points)
    key, bias, value = heads.sums
    h, size = score_error(task, key, bias, True), arb(heads.size)
    every = gamma(2 * n + 5) * size + 2 * gamma(3) * arb(value) + gamma(H - 1) * (size + arb(value))
    rounding = heads.stored() + H * every + task.lost() + 8 * H * n * SMALLEST * (1 + arb(value))
    rounding += h * size if H > 1 else arb(0)
    return task.proved(file, heads.exact(H, n, h), largest([rounding]), beta, points)
