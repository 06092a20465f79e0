"""The rank-1 head of paper C, and what it needs to know of its tokens.

    F(X)_k = x_k + W_O W_V X softmax((W_K X)^T W_Q x_k),
    W_K = e v^T,   W_Q = c e v^T,   W_V = e v^T,   W_O = (eps/(4 r_max)) v e^T

with e the first unit vector of R^s and v a unit vector of R^d. The score of token l for query k is c (v.x_l)(v.x_k),
and the attention output has norm at most eps/4.

*Separation.* The tokens (together: the vocabulary V) have r_min <= |x| <= r_max and are at least eps apart. There is a
unit vector v with |v.(x - x')| >= |V'|^{-2} sqrt(8/(pi d)) |x - x'| for all pairs of any finite V' (a random one does
with positive probability); with V' = V and 0, |V'| = |V| + 1, also |v.x| >= (|V|+1)^{-2} sqrt(8/(pi d)) |x|. So

    c = (|V|+1)^4 (pi d/8) (2 log n + 3)/(eps r_min)                      scale "paper"

makes the scores of every query at least 2 log n + 3 apart, whatever the vocabulary. For a given one,

    c = (2 log n + 3) / (min |v.x| min |v.(x - x')|)                       scale "tight"

does: the same proof, with the distances that are there in place of those that are promised.

*Ids.* sum_l softmax_l v.x_l = boltz(a)/(c v.x_k) with a_l = c (v.x_k)(v.x_l). For one token in two different sets C1
gives a distance of more than (eps/(4 r_max)) (log n)^2 e^{-2r}/(c max |v.x|), 2r the length of the interval that the
scores of a query lie in; different tokens stay eps - 2 eps/4 apart. With the promised distances, 2r <= 2 c r_max^2 and
|v.x| <= r_max:

    delta = 2 (log n)^2 eps^2 r_min / (r_max^2 M) * exp(-M r_max^2/(4 eps r_min)),   M = (|V|+1)^4 (2 log n + 3) pi d.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from softwright.errors import Faults
from softwright.precision import FLOAT64
from softwright.proof.arithmetic.balls import Ball, precision
from softwright.theorems.boltzmann import least_separation, separation_bound
from softwright.theorems.tools.network import Attention

SCALES = ("paper", "tight")
LARGEST_SPREAD = 4e5  # scores farther apart would take more than about 600 000 bits
_TRIES = 4000


@dataclass(frozen=True)
class Vocabulary:
    """The different tokens (V, d) of some sequences, and which of them stands where: index (N, n)."""

    tokens: np.ndarray
    index: np.ndarray

    @cached_property
    def norms(self) -> np.ndarray:
        return np.sqrt((self.tokens**2).sum(axis=1))

    @property
    def r_min(self) -> float:
        return float(self.norms.min()) * (1.0 - 1e-14)

    @property
    def r_max(self) -> float:
        return float(self.norms.max()) * (1.0 + 1e-14)

    @cached_property
    def eps(self) -> float:
        """The least distance between two tokens; r_min if there is only one."""
        if len(self.tokens) < 2:
            return self.r_min
        gaps = np.sqrt(((self.tokens[:, None] - self.tokens[None]) ** 2).sum(axis=-1))
        return float(gaps[~np.eye(len(gaps), dtype=bool)].min()) * (1.0 - 1e-14)


def vocabulary_of(sequences: np.ndarray, faults: Faults) -> Vocabulary | None:
    """The vocabulary of sequences (N, d, n); the theorem's conditions on them are checked."""
    X = np.asarray(sequences, dtype=float)
    if not faults.check(X.ndim == 3 and X.size > 0, f"sequences must be an array (N, d, n), got shape {X.shape}"):
        return None
    if not faults.check(bool(np.isfinite(X).all()), "tokens must be finite"):
        return None
    N, d, n = X.shape
    tokens, index = np.unique(np.swapaxes(X, 1, 2).reshape(-1, d), axis=0, return_inverse=True)
    index = index.reshape(N, n)
    faults.check(n >= 2, f"sequences of length {n}: the theorem needs n >= 2 tokens")
    repeated = [i for i in range(N) if len(set(index[i])) < n]
    faults.check(
        not repeated,
        f"sequence {repeated[0] if repeated else 0} holds a duplicate token: the theorem needs the tokens of a "
        "sequence pairwise distinct; add a position code or drop the repetition",
    )
    zero = bool((tokens == 0).all(axis=1).any())
    faults.check(not zero, "a token is zero: the theorem needs norms of at least r_min > 0; shift the tokens")
    return Vocabulary(tokens, index)


def direction(tokens: np.ndarray, seed: int = 0) -> np.ndarray | None:
    """A unit vector that keeps distances as the lemma promises: the best of a few that do, None if none was found."""
    V, d = tokens.shape
    if d == 1:
        return np.ones(1)
    everything = np.vstack([tokens, np.zeros((1, d))])
    left, right = np.triu_indices(V + 1, 1)
    pairs = everything[left] - everything[right]
    sizes = np.sqrt((pairs**2).sum(axis=1))
    promised = (V + 1) ** -2.0 * math.sqrt(8.0 / (math.pi * d)) * (1.0 + 1e-12)
    rng = np.random.default_rng(seed)
    best, best_share, good = None, 0.0, 0
    for _ in range(_TRIES):
        v = rng.normal(size=d)
        v /= np.sqrt((v**2).sum()) * (1.0 + 1e-15)
        share = float((np.abs(pairs @ v) / sizes).min())
        if share >= promised:
            good += 1
            if share > best_share:
                best, best_share = v, share
            if good >= 64:
                break
    return best


@dataclass(frozen=True)
class RankOne:
    """The head's numbers: direction v, scale c, size of the output, and the bounds that follow."""

    vocabulary: Vocabulary
    length: int
    head_size: int
    v: np.ndarray
    scale: str
    c: float

    @cached_property
    def projections(self) -> np.ndarray:
        return self.vocabulary.tokens @ self.v

    @property
    def output_scale(self) -> float:
        """|W_O| = eps/(4 r_max), a hair less so that rounding cannot lift the output above eps/4."""
        return self.vocabulary.eps / (4.0 * self.vocabulary.r_max) * (1.0 - 1e-12)

    @property
    def spread(self) -> float:
        """2r: the scores of any query lie in an interval of this length, by the tokens that are there."""
        p = self.projections
        return float(self.c * np.abs(p).max() * (p.max() - p.min())) * (1.0 + 1e-12)

    def delta(self) -> Ball:
        """The separation of ids that is guaranteed: the theorem's own at its own scale, else by the distances there."""
        V, n = self.vocabulary, self.length
        if self.scale == "paper":
            size, d = len(V.tokens), len(self.v)
            big = arb(size + 1) ** 4 * (2 * arb(n).log() + 3) * arb.pi() * d
            front = 2 * arb(n).log() ** 2 * arb(V.eps) ** 2 * arb(V.r_min) / (arb(V.r_max) ** 2 * big)
            return front * (-big * arb(V.r_max) ** 2 / (4 * arb(V.eps) * arb(V.r_min))).exp()
        return self.present_delta()

    def present_delta(self) -> Ball:
        """The separation that the tokens that are there guarantee, at either scale."""
        n = self.length
        largest = arb(float(np.abs(self.projections).max()) * (1.0 + 1e-12))
        return arb(self.output_scale) * separation_bound(n, self.spread) / (arb(self.c) * largest)

    def attention(self, causal: bool = False) -> Attention:
        e = np.zeros((self.head_size, 1))
        e[0] = 1.0
        row = self.v[None]
        W_O = self.output_scale * (row.T @ e.T)  # (d, s)
        return Attention(
            (e @ row)[None], (self.c * (e @ row))[None], (e @ row)[None], W_O[None], residual=True, causal=causal
        )

    @property
    def parameters(self) -> int:
        """Numbers in four rank-1 matrices: 4 (s + d)."""
        return 4 * (self.head_size + len(self.v))


def rank_one(
    vocabulary: Vocabulary,
    length: int,
    head_size: int,
    scale: str,
    seed: int,
    faults: Faults,
    v: np.ndarray | None = None,
) -> RankOne | None:
    """The head for a vocabulary, along v if given; None with faults added if a condition fails."""
    faults.check(scale in SCALES, f"scale {scale!r} is not known; choose from {', '.join(SCALES)}")
    faults.check(head_size >= 1, f"head_size = {head_size}: the head has s >= 1 rows")
    if faults.found:
        return None
    v = direction(vocabulary.tokens, seed) if v is None else v
    if v is None:
        faults.add(
            f"no direction was found in {_TRIES} draws that keeps the distances of {len(vocabulary.tokens)} tokens as "
            "the theorem needs; space the tokens more evenly"
        )
        return None
    p = vocabulary.tokens @ v
    gaps = np.diff(np.sort(p))
    separation = least_separation(length)
    with np.errstate(over="ignore", divide="ignore"):
        if scale == "paper":
            size = float(len(p) + 1) ** 4 * math.pi * len(v) / 8.0
            c = size * separation / (vocabulary.eps * vocabulary.r_min)
        else:
            nearest = float(gaps.min()) if len(gaps) else float(np.abs(p).min())
            c = float(separation / np.float64(np.abs(p).min() * nearest))
    c *= 1.0 + 1e-9
    head = RankOne(vocabulary, length, head_size, v, scale, c)
    resolved = 4.0 * (2 * len(v) + head_size + 6) * FLOAT64.unit * c * vocabulary.r_max**2 <= 0.5
    faults.check(
        math.isfinite(c) and head.spread <= LARGEST_SPREAD and resolved,
        f"beta overflow: the theorem's scale {c:.3g} puts scores {head.spread:.3g} apart and ids e^-{head.spread:.3g} "
        "apart, more bits than are computed here; take fewer or better separated tokens",
    )
    return None if faults.found else head


def exact_bits(head: RankOne) -> int:
    """Bits that resolve the separation of the ids."""
    with precision(64):
        return int(-float(head.present_delta().log().lower()) / math.log(2.0)) + 160
