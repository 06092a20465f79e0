"""C2: one rank-1 softmax head gives every (set of tokens, token) its own id.

The head of `rank_one` at the paper's own scale. Its ids F(X)_k are more than delta apart whenever the sets of tokens or
the tokens differ, and |F(X)_k - x_k| <= eps/4, so |F(X)_k| <= r_max + eps/4: an (r, delta)-contextual mapping.

delta is 10^-124 for two tokens and 10^-10000 for five. The module holds the weights in float64 and runs, but its ids
coincide; what the theorem says is checked with balls of as many bits as delta asks for (`exact_network`), with the very
weights of the module. `scale="tight"` uses the distances of the given tokens instead of the promised ones; float64 then
holds small vocabularies (`largest_float64`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import arb

from softwright.errors import Faults, InvalidInput
from softwright.proof.arithmetic.balls import Ball, ball_above, digits, precision
from softwright.theorems.tools.ball_network import exact_forward
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.network import TheoremNetwork
from softwright.theorems.tools.rank_one import (
    SCALES,
    RankOne,
    check_data_sizes,
    exact_bits,
    random_sequences,
    rank_one,
    vocabulary_of,
)
from softwright.theorems.tools.theorem import PAPER_C, Option, Theorem

Context = tuple[frozenset[int], int]  # the tokens seen, and the token that looks


def contexts(index: np.ndarray, causal: bool = False) -> dict[Context, tuple[int, int]]:
    """Every different (set of tokens seen, token), with one place (sequence, position) where it occurs."""
    found: dict[Context, tuple[int, int]] = {}
    for i, row in enumerate(index.tolist()):
        for k, token in enumerate(row):
            seen = row[: k + 1] if causal else row
            found.setdefault((frozenset(seen), token), (i, k))
    return found


def exact_ids(
    network: TheoremNetwork, sequences: np.ndarray, places: list[tuple[int, int]], bits: int
) -> list[list[Ball]]:
    """The ids (columns of d balls) at the given places."""
    out = []
    for i, k in places:
        matrix = exact_forward(network, sequences[i], bits, queries=[k])
        out.append([row[0] for row in matrix])
    return out


def least_distance(ids: list[list[Ball]]) -> Ball | None:
    """A lower bound of the least distance (largest coordinate difference) of ids; None if two cannot be told apart."""
    least: Ball | None = None
    for a in range(len(ids)):
        for b in range(a):
            size = arb(0)
            for x, y in zip(ids[a], ids[b], strict=True):
                size = size.max(abs(x - y))
            lower = size.lower()
            if not lower > 0:
                return None
            least = lower if least is None or lower < least else least
    return least


def shift(network: TheoremNetwork, sequences: np.ndarray) -> float:
    """The largest |F(X)_k - x_k| in float64: at most eps/4."""
    out = network.evaluate(sequences) - sequences
    return float(np.sqrt((out**2).sum(axis=1)).max())


def float64_collisions(network: TheoremNetwork, sequences: np.ndarray, places: list[tuple[int, int]]) -> int:
    """How many of the ids equal another one to the last bit in float64."""
    ids = network.evaluate(sequences)  # (N, d, n)
    rows = np.array([ids[i, :, k] for i, k in places])
    return len(rows) - len(np.unique(rows, axis=0))


def mapping_construction(
    label: str, head: RankOne, sequences: np.ndarray, sizes: dict[str, Any], causal: bool = False
) -> Construction:
    network = TheoremNetwork(label, [head.attention(causal)], sequences.shape[1:])
    found = contexts(head.vocabulary.index, causal)
    places = list(found.values())
    bits = exact_bits(head)
    with precision(bits):
        # Ids are compared by their largest coordinate difference, which is at least the distance over sqrt(d).
        bound = ball_above(digits(head.delta() / arb(len(head.v)).sqrt()))

    def measure(rng: np.random.Generator, n: int) -> tuple[float, int]:
        ids = exact_ids(network, sequences, places, bits)
        with precision(bits):
            gap = least_distance(ids)
            return (math.inf if gap is None else max(0.0, ball_above(digits(gap)))), len(ids)

    lost = float64_collisions(network, sequences, places)
    V = head.vocabulary
    n = sequences.shape[2]
    return Construction(
        label=label,
        network=network,
        bound=bound,
        sizes=sizes,
        layers=1,
        heads=1,
        tokens=n,
        parameters=head.parameters,
        statement="-log10 of the least distance between ids of different (set of tokens, token) pairs",
        target=lambda inputs: np.asarray(inputs, dtype=float),
        sample=lambda rng, n: sequences,
        quantities={
            "scale": head.c, "r_min": V.r_min, "r_max": V.r_max, "eps": V.eps, "vocabulary": float(len(V.tokens)),
            "ids": float(len(places)), "shift": shift(network, sequences), "largest_shift": 0.25 * V.eps,
            "bits": float(bits), "float64_equal": float(lost),
        },
        norm="digits",
        measure=measure,
        reasons=(
            f"W_K, W_Q, W_V have rank 1; scale c = {head.c:.4g} ({head.scale})",
            f"ids are compared in {bits}-bit balls; in float64 {lost} of {len(places)} ids coincide with another",
        ),
        extra={"head": head, "sequences": sequences, "places": places, "bits": bits},
    )  # fmt: skip


def _construct(
    sequences: int, length: int, vocabulary: int, dim: int, head_size: int, scale: str, seed: int, data: Any
) -> Construction:
    faults = Faults("theorem C2")
    given = {} if data is None else {"data": np.asarray(data, dtype=float).tolist()}
    if data is None:
        check_data_sizes(faults, sequences, length, vocabulary, dim)
        faults.raise_if_any()
        data = random_sequences(sequences, length, vocabulary, dim, seed)
    X = np.asarray(data, dtype=float)
    words = vocabulary_of(X, faults)
    faults.raise_if_any()
    if words is None:
        raise RuntimeError("a fault was expected")
    head = rank_one(words, X.shape[2], head_size, scale, seed, faults)
    faults.raise_if_any()
    if head is None:
        raise RuntimeError("a fault was expected")
    sizes = {
        "sequences": sequences, "length": X.shape[2], "vocabulary": vocabulary, "dim": X.shape[1],
        "head_size": head_size, "scale": scale, "seed": seed, **given,
    }  # fmt: skip
    return mapping_construction("C2", head, X, sizes)


def largest_float64(length: int, scale: str, most: int = 12) -> int:
    """The largest vocabulary of evenly spaced numbers whose ids (all sets of `length`) float64 still tells apart."""
    from itertools import combinations

    largest = 0
    for words in range(length, most + 1):
        tokens = 1.0 + np.arange(words) / words
        X = np.array([tokens[list(pick)] for pick in combinations(range(words), length)])[:, None, :]
        try:
            found = C2.build(data=X, scale=scale)
        except InvalidInput:
            break
        if found.quantities["float64_equal"] > 0:
            break
        largest = words
    return largest


C2 = Theorem(
    label="C2",
    title="one rank-1 softmax head gives every (set of tokens, token) its own id",
    statement=(
        "For sequences of n distinct tokens with norms between r_min and r_max and any two tokens eps apart, one "
        "softmax head with W_K, W_Q, W_V of rank 1 and a residual maps every token to an id of norm at most "
        "r_max + eps/4, and ids of different (set of tokens, token) pairs are more than delta apart. Measured is "
        "-log10 of the least distance."
    ),
    paper=PAPER_C + ", Theorem 2",
    conditions=("n >= 2", "tokens of a sequence pairwise distinct", "no token is zero"),
    options=(
        Option("sequences", int, 4, "number N of sequences"),
        Option("length", int, 2, "tokens n of a sequence"),
        Option("vocabulary", int, 4, "different tokens to draw from"),
        Option("dim", int, 1, "dimension d of a token"),
        Option("head_size", int, 1, "rows s of W_K, W_Q, W_V"),
        Option("scale", str, "paper", "paper: the theorem's own scale; tight: what these tokens need", SCALES),
        Option("seed", int, 0, "seed of the sequences"),
        Option("data", object, None, "the sequences themselves, an array (N, d, n)"),
    ),
    construct=_construct,
    sweep=("vocabulary", (2, 3, 4)),
)
