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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from flint import arb

from softwright.errors import Faults, InvalidInput
from softwright.proof.arithmetic.balls import Ball, ball_above, digits, precision
from softwright.theorems.tools.ball_network import exact_forward
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.drawing import draw_digits, draw_labels
from softwright.theorems.tools.network import TheoremNetwork
from softwright.theorems.tools.rank_one import RankOne, exact_bits
from softwright.theorems.tools.sequences import SEQUENCE_OPTIONS, Sequences, scale_option
from softwright.theorems.tools.theorem import PAPER_C, Theorem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BITS = 60_000  # figures do not wait for more
Context = tuple[frozenset[int], int]  # the tokens seen, and the token that looks


@dataclass(frozen=True, kw_only=True)
class MappingConstruction(Construction):
    """The head, the sequences, one place (sequence, position) for every context, the bits that resolve the ids, and
    what float64 makes of them: the largest shift, and how many coincide with another.
    """

    head: RankOne
    sequences: np.ndarray
    places: list[tuple[int, int]]
    bits: int
    shift: float
    coinciding: int


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
) -> MappingConstruction:
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
    return MappingConstruction(
        head=head,
        sequences=sequences,
        places=places,
        bits=bits,
        shift=shift(network, sequences),
        coinciding=lost,
        network=network,
        bound=bound,
        sizes=sizes,
        drawn={"sequences": sequences.tolist()},
        tokens=sequences.shape[2],
        counted=head.parameters,
        statement="-log10 of the least distance between ids of different (set of tokens, token) pairs",
        target=lambda inputs: np.asarray(inputs, dtype=float),
        sample=lambda rng, n: sequences,
        reasons=(
            f"W_K, W_Q, W_V have rank 1; scale c = {head.c:.4g} ({head.scale})",
            f"{len(sequences)} sequences hold {len(places)} different pairs (set of tokens, token)",
            f"ids are compared in {bits}-bit balls; in float64 {lost} of {len(places)} ids coincide with another",
        ),
        quantities={
            "scale": head.c, "r_min": V.r_min, "r_max": V.r_max, "eps": V.eps, "vocabulary": float(len(V.tokens)),
            "ids": float(len(places)), "largest_shift": 0.25 * V.eps,
        },
        norm="digits",
        measure=measure,
    )  # fmt: skip


def _draw(axes: Axes, made: MappingConstruction) -> None:
    """How many digits the ids of one token in different contexts share."""
    if made.bits > _MOST_BITS:
        draw_labels(axes, made, made.sequences)
        return
    ids = exact_ids(made.network, made.sequences, made.places, made.bits)
    tokens = [int(made.head.vocabulary.index[i, k]) for i, k in made.places]
    shared = []
    with precision(made.bits):
        for a in range(len(ids)):
            for b in range(a):
                if tokens[a] == tokens[b]:
                    gap = max((abs(x - y) for x, y in zip(ids[a], ids[b], strict=True)), key=lambda ball: ball.mid())
                    shared.append(float(digits(gap).mid()) if gap > 0 else np.inf)
    draw_digits(axes, shared, made.bound, "pairs of ids", "pair of contexts of one token, in order")


def _construct(**asked: Any) -> MappingConstruction:
    """For sequences of n distinct tokens with norms between r_min and r_max and any two tokens eps apart, one
    softmax head with W_K, W_Q, W_V of rank 1 and a residual maps every token to an id of norm at most r_max +
    eps/4, and ids of different (set of tokens, token) pairs are more than delta apart. Measured is -log10 of the
    least distance.
    """
    faults = Faults("theorem C2")
    data = Sequences.of(faults, **asked)
    faults.raise_if_any()
    head = data.head(faults)
    return mapping_construction("C2", head, data.tokens, data.sizes)


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
        if found.coinciding > 0:
            break
        largest = words
    return largest


C2 = Theorem(
    label="C2",
    title="one rank-1 softmax head gives every (set of tokens, token) its own id",
    paper=PAPER_C + ", Theorem 2",
    conditions=("n >= 2", "tokens of a sequence pairwise distinct", "no token is zero"),
    options=(*SEQUENCE_OPTIONS, scale_option("paper")),
    construct=_construct,
    sweep=("vocabulary", (2, 3, 4)),
    details=_draw,
)
