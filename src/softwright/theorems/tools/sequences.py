"""Sequences of tokens as the theorems of paper C take them: given, or drawn from a small vocabulary."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice, permutations
from typing import Any

import numpy as np

from softwright.errors import Faults, InvalidInput
from softwright.theorems.tools.rank_one import SCALES, RankOne, Vocabulary, rank_one, vocabulary_of
from softwright.theorems.tools.theorem import Option, options

HEAD_SIZE = Option("head_size", int, 1, "rows s of W_K, W_Q, W_V")
SEQUENCE_OPTIONS = (
    *options(
        """
        sequences   4  number N of sequences
        length      2  tokens n of a sequence
        vocabulary  4  different tokens to draw from
        dim         1  dimension d of a token
        seed        0  seed of what is drawn
        data        -  the sequences themselves, an array (N, d, n)
        """
    ),
    HEAD_SIZE,
)


def scale_option(default: str) -> Option:
    return Option("scale", str, default, "tight: what these tokens need; paper: the theorem's own scale", SCALES)


def tight_or(scale: str) -> str:
    """The beginning of an advice: the tight scale, for those who have not taken it."""
    return "" if scale == "tight" else "scale='tight', "


@dataclass(frozen=True)
class Sequences:
    """Tokens (N, d, n), their vocabulary, and the head that was asked for."""

    tokens: np.ndarray
    vocabulary: Vocabulary
    head_size: int
    scale: str
    seed: int
    sizes: dict[str, Any]  # for JSON

    @classmethod
    def of(
        cls, faults: Faults, *, sequences: int, length: int, vocabulary: int, dim: int, head_size: int, scale: str,
        seed: int, data: Any,
    ) -> Sequences:  # fmt: skip
        """The sequences given or drawn; what breaks a condition of the theorems is added to the faults."""
        given = {} if data is None else {"data": np.asarray(data, dtype=float).tolist()}
        if data is None:
            check_sizes(faults, sequences, length, vocabulary, dim)
            faults.raise_if_any()
            data = random_sequences(sequences, length, vocabulary, dim, seed)
        X = np.asarray(data, dtype=float)
        words = vocabulary_of(X, faults)
        if words is None:
            raise InvalidInput(faults.subject, faults.found)
        sizes = {
            "sequences": X.shape[0], "length": X.shape[2], "vocabulary": vocabulary, "dim": X.shape[1],
            "head_size": head_size, "scale": scale, "seed": seed, **given,
        }  # fmt: skip
        return cls(X, words, head_size, scale, seed, sizes)

    def head(self, faults: Faults) -> RankOne:
        """The rank-1 head for these tokens, or an error that names the conditions it breaks."""
        head = rank_one(self.vocabulary, self.tokens.shape[2], self.head_size, self.scale, self.seed, faults)
        if head is None:
            raise InvalidInput(faults.subject, faults.found)
        return head


def random_sequences(count: int, length: int, words: int, dim: int, seed: int) -> np.ndarray:
    """Different sequences (N, d, n) of distinct tokens out of a small vocabulary: different sets first, each in random
    order, then other orders."""
    rng = np.random.default_rng(seed)
    if dim == 1:
        tokens = 1.0 + np.arange(words)[:, None] / max(1, words)
    else:
        tokens = rng.normal(size=(words, dim))
        tokens *= (rng.uniform(1.0, 1.5, words) / np.sqrt((tokens**2).sum(axis=1)))[:, None]
    sets: set[tuple[int, ...]] = set()
    chosen: dict[tuple[int, ...], None] = {}
    for _ in range(200 * count):
        if len(chosen) == count:
            break
        pick = tuple(rng.permutation(words)[:length].tolist())
        key = tuple(sorted(pick))
        if key not in sets or len(sets) >= math.comb(words, length):
            sets.add(key)
            chosen.setdefault(pick)
    left = (pick for pick in permutations(range(words), length) if pick not in chosen)
    for pick in islice(left, count - len(chosen)):  # chance has missed the last few
        chosen[pick] = None
    return np.array([tokens[list(pick)].T for pick in chosen])


def check_sizes(faults: Faults, count: int, length: int, words: int, dim: int) -> bool:
    faults.check(count >= 1, f"sequences = {count}: give at least one sequence")
    faults.check(length >= 2, f"length = {length}: the theorem needs n >= 2 tokens per sequence")
    faults.check(dim >= 1, f"dim = {dim}: tokens live in R^d with d >= 1")
    distinct = faults.check(
        words >= length,
        f"vocabulary = {words} < length = {length}: the theorem needs the tokens of a sequence pairwise distinct",
    )
    if distinct and length >= 1:
        there = math.perm(words, length)
        faults.check(
            count <= there,
            f"sequences = {count}: there are only {there} sequences of {length} different tokens out of {words}; take "
            "fewer, or a larger vocabulary",
        )
    return distinct
