"""Fits to noisy data: the number of tokens, their widths and the strength of the ridge by cross-validation.

A table of measurements has no function that should be met at its points: a network that meets them repeats the noise.
Here the network is a sum of heads, with z the standardised coordinates (mean 0, variance 1),

    linear      one token with the affine value b_0 + b.z
    additive    for each variable a head of K tokens at its quantiles, scores of Gaussians along that variable
    scattered   N tokens at centres that cover the points evenly, scores of Gaussians of one width, constant or affine

and its values minimise sum_i w_i |y_i - g(z_i)|^2 + lambda W |v|^2 (W the sum of the weights; b_0 is free). The linear
part is always there; which of the others join it, with how many tokens, widths and lambda, is what five folds decide:
each candidate is fitted to four of them and asked for the fifth. The error of the fifth is the rms that is reported;
it is an estimate for rows that were not seen, and no bound.

Rows at the same point count as one row with their mean and the sum of their weights, and folds are drawn from the
distinct points in their own order: to repeat a row is to double its weight, and the order of rows is nothing. Sums
over rows are all that is kept of them (A^T w A and A^T w y for each fold), so that memory does not grow with rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softwright.approximation.problem import head_of
from softwright.approximation.strategies.scattered import farthest_points
from softwright.chunks import rows_within
from softwright.domain import Box

if TYPE_CHECKING:
    from softwright.attention import Head

_STRENGTHS = 10.0 ** np.arange(-7.0, 1.5, 0.5)
_MOST_UNKNOWNS = 400
_FREE = 1e-12  # of the strength: the constant is not drawn to 0
_COVERED = 1.96  # standard deviations of a normal error that hold 95 %
_CENTRES_FROM = 4000  # points that centres are picked from


@dataclass(frozen=True)
class Block:
    """Tokens with scores keys.z + biases, and whether their values are affine."""

    keys: np.ndarray  # (N, d)
    biases: np.ndarray  # (N,)
    affine: bool

    @property
    def unknowns(self) -> int:
        return len(self.keys) * (1 + self.keys.shape[1] * self.affine)

    def columns(self, z: np.ndarray) -> np.ndarray:
        scores = z @ self.keys.T + self.biases
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        weights = scores / scores.sum(axis=1, keepdims=True)
        if not self.affine:
            return weights
        return np.hstack([weights, *(weights * z[:, i : i + 1] for i in range(z.shape[1]))])


@dataclass(frozen=True)
class Candidate:
    """Blocks that add up, in words, with the strength of the ridge and the cross-validated error per output."""

    blocks: tuple[Block, ...]
    words: str
    strength: float = 0.0
    errors: np.ndarray | None = None  # (m,) mean squares, in the units of the values

    @property
    def unknowns(self) -> int:
        return sum(block.unknowns for block in self.blocks)

    @property
    def tokens(self) -> int:
        return sum(len(block.keys) for block in self.blocks)

    def columns(self, z: np.ndarray) -> np.ndarray:
        return np.hstack([block.columns(z) for block in self.blocks])


@dataclass(frozen=True)
class NoisyFit:
    """Heads in the unit frame of the box, and what cross-validation says of rows that were not seen."""

    heads: list[Head]
    words: str
    rms: np.ndarray  # (m,) cross-validated
    coverage: float  # the share of rows within 1.96 rms of their prediction, each predicted from the other folds
    folds: int


class _Rows:
    """Distinct points in standardised coordinates, their means, weights and folds."""

    def __init__(self, points: np.ndarray, values: np.ndarray, weights: np.ndarray, folds: int, seed: int) -> None:
        kept = weights > 0
        x, group = np.unique(points[kept], axis=0, return_inverse=True)
        group, w = group.reshape(-1), weights[kept]
        self.weights = np.bincount(group, w, len(x))
        self.values = np.stack([np.bincount(group, w * y, len(x)) for y in values[kept].T], axis=1)
        self.values /= self.weights[:, None]
        total = self.weights.sum()
        # what no function of the point explains, and every candidate pays alike
        self.within = (w[:, None] * (values[kept] - self.values[group]) ** 2).sum(axis=0) / total
        self.weights = self.weights / total
        self.mean = self.weights @ x
        self.sd = np.sqrt(self.weights @ (x - self.mean) ** 2)
        self.z = (x - self.mean) / self.sd
        self.offset = self.weights @ self.values
        self.scale = np.sqrt(self.weights @ (self.values - self.offset) ** 2)
        self.scale = np.where(self.scale > 0, self.scale, 1.0)
        self.y = (self.values - self.offset) / self.scale
        self.folds = min(folds, len(x))
        self.fold = np.random.default_rng(seed).permutation(np.arange(len(x)) % max(self.folds, 1))

    def sums(self, candidate: Candidate) -> tuple[np.ndarray, np.ndarray]:
        """A^T w A (folds, p, p) and A^T w y (folds, p, m)."""
        p, m = candidate.unknowns, self.y.shape[1]
        G, c = np.zeros((self.folds, p, p)), np.zeros((self.folds, p, m))
        for f in range(self.folds):
            for part in self.parts(np.flatnonzero(self.fold == f), p):
                A = candidate.columns(self.z[part])
                weighted = A * self.weights[part, None]
                G[f] += weighted.T @ A
                c[f] += weighted.T @ self.y[part]
        return G, c

    @staticmethod
    def parts(rows: np.ndarray, columns: int) -> Iterator[np.ndarray]:
        step = rows_within(8 * 3 * columns)
        for start in range(0, len(rows), step):
            yield rows[start : start + step]


def fit_noisy(
    points: np.ndarray,
    values: np.ndarray,
    box: Box,
    *,
    weights: np.ndarray | None = None,
    sd: float | None = None,
    most_tokens: int = 200,
    folds: int = 5,
    seed: int = 0,
) -> NoisyFit:
    """The fit with the smallest cross-validated error; with `sd` known, the fewest tokens whose error is near it.

    points (n, d) that vary in every coordinate, values (n, m), weights (n,) not negative.
    """
    rows = _Rows(points, values, np.ones(len(points)) if weights is None else weights, folds, seed)
    found = [_validated(rows, candidate) for candidate in _candidates(rows, most_tokens)]

    def error(candidate: Candidate) -> float:
        return np.inf if candidate.errors is None else float((candidate.errors / rows.scale**2).mean())

    best = min(found, key=error)
    if sd is not None:
        near = [c for c in found if c.errors is not None and float(c.errors.mean()) <= (1.02 * sd) ** 2]
        best = min(near, key=lambda c: (c.tokens, error(c))) if near else best
    errors = rows.within if best.errors is None else best.errors
    G, c = rows.sums(best)
    solution = _solved(G.sum(axis=0), c.sum(axis=0), best.strength)
    rms = np.sqrt(np.maximum(errors, 0.0))
    coverage = _coverage(rows, best, G, c, rms)
    heads = _heads(best, solution, rows, box)
    return NoisyFit(heads, best.words, rms, coverage, rows.folds)


def _candidates(rows: _Rows, most_tokens: int) -> Iterator[Candidate]:
    """Networks in the order of their sizes; no more unknowns than half of the points."""
    n, d = rows.z.shape
    linear = Block(np.zeros((1, d)), np.zeros(1), True)
    yield Candidate((linear,), "one affine token")
    most = min(_MOST_UNKNOWNS, max(n // 2, 1))
    additive: tuple[Block, ...] = ()
    for count in (3, 5, 8, 14, 24, 40):
        blocks = tuple(block for i in range(d) if (block := _along(rows.z, i, count)) is not None)
        if 1 + d + sum(block.unknowns for block in blocks) > most or sum(len(b.keys) for b in blocks) >= most_tokens:
            break
        if blocks and (count <= 8 or d <= 4):
            yield Candidate((linear, *blocks), f"one affine token and {count} tokens along each variable")
            additive = blocks if count <= 5 else additive
    if d == 1:
        return
    from scipy.spatial import KDTree

    step = -(-n // _CENTRES_FROM)
    order = farthest_points(rows.z[::step], min(most_tokens, most))
    spread = rows.z[::step][order]
    for count in (4, 8, 16, 32, 64, 128, 256):
        if count >= most_tokens or count > len(spread):
            break
        centres = spread[:count]
        spacing = float(np.median(KDTree(centres).query(centres, k=2)[0][:, 1]))
        for multiple in (0.7, 1.2, 2.0, 3.5):
            width = multiple * spacing
            keys, biases = centres / width**2, -0.5 * (centres**2).sum(axis=1) / width**2
            for affine in (False, True):
                for extra in ((), additive) if additive else ((),):
                    blocks = (linear, *extra, Block(keys, biases, affine))
                    if sum(block.unknowns for block in blocks) > most:
                        continue
                    kind = f"{count} {'affine' if affine else 'constant'} tokens, width {multiple:g} spacings"
                    with_lines = " and lines along each variable" if extra else ""
                    yield Candidate(blocks, f"one affine token, {kind}{with_lines}")


def _along(z: np.ndarray, axis: int, count: int) -> Block | None:
    """Tokens at quantiles of one variable; None if it has fewer than three distinct values."""
    distinct = np.unique(z[:, axis])
    if len(distinct) < 3:
        return None
    centres = np.unique(np.quantile(distinct, np.linspace(0, 1, min(count, len(distinct)))))
    width = 0.8 * float(np.diff(centres).mean())
    keys = np.zeros((len(centres), z.shape[1]))
    keys[:, axis] = centres / width**2
    return Block(keys, -0.5 * centres**2 / width**2, False)


def _solved(G: np.ndarray, c: np.ndarray, strength: float) -> np.ndarray:
    """(G + strength D) v = c with D the identity but for the free constant."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    ridge = np.full(len(G), strength * max(float(np.trace(G)), 1e-300))
    ridge[0] *= _FREE
    ridge += 1e-14 * max(float(np.trace(G)), 1e-300)
    try:
        return cho_solve(cho_factor(G + np.diag(ridge), lower=True), c)
    except LinAlgError:
        return np.linalg.lstsq(G + np.diag(ridge), c, rcond=None)[0]


def _validated(rows: _Rows, candidate: Candidate) -> Candidate:
    """The candidate with its best strength and the error of rows that each fit has not seen."""
    if rows.folds < 2:
        return Candidate(candidate.blocks, candidate.words, 1e-3, None)
    G, c = rows.sums(candidate)
    whole_G, whole_c = G.sum(axis=0), c.sum(axis=0)
    squares = np.array([(rows.weights[rows.fold == f] @ rows.y[rows.fold == f] ** 2) for f in range(rows.folds)])
    best: tuple[float, float, np.ndarray] | None = None
    for strength in _STRENGTHS:
        errors = np.zeros(rows.y.shape[1])
        for f in range(rows.folds):
            v = _solved(whole_G - G[f], whole_c - c[f], strength)
            errors += squares[f] - 2 * (v * c[f]).sum(axis=0) + (v * (G[f] @ v)).sum(axis=0)
        total = float(errors.mean())
        if best is None or total < best[0]:
            best = (total, float(strength), errors)
    if best is None:
        raise RuntimeError("at least one strength was tried")
    return Candidate(candidate.blocks, candidate.words, best[1], rows.within + best[2] * rows.scale**2)


def _coverage(rows: _Rows, best: Candidate, G: np.ndarray, c: np.ndarray, rms: np.ndarray) -> float:
    if rows.folds < 2:
        return 0.0
    inside = 0.0
    limit = _COVERED * rms / rows.scale
    for f in range(rows.folds):
        v = _solved(G.sum(axis=0) - G[f], c.sum(axis=0) - c[f], best.strength)
        for part in rows.parts(np.flatnonzero(rows.fold == f), best.unknowns):
            off = np.abs(best.columns(rows.z[part]) @ v - rows.y[part])
            inside += float(rows.weights[part] @ (off <= limit).mean(axis=1))
    return inside


def _heads(candidate: Candidate, solution: np.ndarray, rows: _Rows, box: Box) -> list[Head]:
    """One head for each block, in the unit frame: z = stretch t + shift."""
    stretch, shift = box.halfwidth / rows.sd, (box.center - rows.mean) / rows.sd
    heads, start = [], 0
    for number, block in enumerate(candidate.blocks):
        n, d = block.keys.shape
        own = solution[start : start + block.unknowns] * rows.scale
        start += block.unknowns
        values, slopes = own[:n], None
        if block.affine:
            gradient = np.stack([own[n * (i + 1) : n * (i + 2)] for i in range(d)], axis=2)  # (n, m, d)
            values, slopes = values + gradient @ shift, gradient * stretch
        if number == 0:
            values = values + rows.offset
        heads.append(head_of(block.keys * stretch, block.biases + block.keys @ shift, values, slopes))
    return heads
