"""C1: the Boltzmann operator boltz(a) = a . softmax(a) tells sets apart.

*Statement.* Finite sets of at most n >= 2 reals each, any two different entries (of one set or of two) at least
delta >= 2 log n + 3 apart, all entries in an interval of length 2r. If A and B differ and have the same size,

    |boltz(A) - boltz(B)| > (log n)^2 e^{-2r}.                                                                       (1)

For different sizes (causal prefixes, C6) the same holds if 2r >= 1.03 (log n)^2 + 0.06.

*Proof.* Put q = e^{-delta} <= n^{-2} e^{-3} <= 0.0125; t e^{-t} falls for t >= 1. Sorted downwards, let i be the first
place where A and B differ, a_i > b_i (or B has ended), and C the common part above it.

  i = 1: boltz(B) <= b_1, and boltz(A) >= a_1 - sum_j (a_1 - a_j) e^{a_j - a_1} >= a_1 - delta q/(1-q)^2
         >= a_1 - 0.056. So they differ by delta - 0.056 or more.

  i > 1: let c = boltz(C) >= c_1 - 0.056, T = c_1 - a_i >= delta, t = c - a_i >= T - 0.056. For S = A, B,

             c - boltz(S) = sum over the rest of S of e^s (c - s)/Z_S,     e^{c_1} <= Z_S <= e^{c_1}/(1-q).

         For A this is at least 0.987 t e^{-T}. For B it is 0 if B has ended, else at most
         (1-q)^{-2} e^{b_i - c_1} (c - b_i) <= 0.026 t e^{-T}, because e^{-s}(1 + s/t) at s = a_i - b_i >= delta is at
         most 2.02 q. The difference is at least 0.96 (T - 0.056) e^{-T}, which falls in T.

             same size   T <= 2r - delta and 2r >= 2 delta: at least
                         0.96 (delta - 0.056) e^{delta} e^{-2r} > 80 n^2 e^{-2r}
             B ended     T <= 2r: at least 0.98 (2r - 0.056) e^{-2r}                                              QED

Shifting all entries shifts boltz, so only the length 2r of the interval matters. The bound is far below float64's
resolution (e^{-2r} with 2r >= (n-1) delta), so it is checked with balls: all n-subsets of a vocabulary, every pair of
them. One softmax head computes boltz: the query is 1, key and value are the entry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from flint import arb

from softwright.errors import Faults
from softwright.proof.arithmetic.balls import Ball, ball_above, digits, precision
from softwright.theorems.tools.ball_network import exact_forward
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.drawing import draw_digits
from softwright.theorems.tools.network import Attention, TheoremNetwork, Tokens
from softwright.theorems.tools.theorem import PAPER_C, Theorem, options

if TYPE_CHECKING:
    from matplotlib.axes import Axes
MOST_SETS = 20_000


@dataclass(frozen=True, kw_only=True)
class SetsConstruction(Construction):
    """All sets (M, n), and the bits of precision that tell their values apart."""

    sets: np.ndarray
    bits: int


def least_separation(length: int) -> float:
    """2 log n + 3, rounded up."""
    with precision(80):
        return ball_above(2 * arb(length).log() + 3)


def separation_bound(length: int, spread: float | Ball) -> Ball:
    """(log n)^2 e^{-2r} for entries in an interval of length 2r = spread."""
    return arb(length).log() ** 2 * (-arb(spread)).exp()


def bits_for(spread: float, extra: int = 160) -> int:
    """Bits of precision that resolve e^{-spread} beside 1."""
    return int(spread / math.log(2.0)) + extra


def boltzmann_network(length: int) -> TheoremNetwork:
    """(1 x n) -> (1 x 1): boltz of the entries by one head on the tokens (a_l, 1)."""
    P, Q, R = np.array([[[1.0], [0.0]]]), np.eye(length)[None], np.vstack([np.zeros(length), np.ones(length)])
    entry, one = np.array([[[1.0, 0.0]]]), np.array([[[0.0, 1.0]]])
    T = np.zeros((1, length, 1))
    T[0, 0, 0] = 1.0
    return TheoremNetwork("C1", [Tokens(P, Q, R), Attention(entry, one, entry, None, T)], (1, length))


def boltz_numpy(inputs: np.ndarray) -> np.ndarray:
    """boltz along the last axis in float64."""
    shifted = np.exp(inputs - inputs.max(axis=-1, keepdims=True))
    return (inputs * shifted).sum(axis=-1) / shifted.sum(axis=-1)


def least_gap(values: list[Ball]) -> Ball | None:
    """The least distance between numbers that are all certainly different; None if some two cannot be told apart."""
    order = sorted(range(len(values)), key=lambda i: values[i].mid())
    least: Ball | None = None
    for i, j in pairwise(order):
        gap = values[j] - values[i]
        if not gap > 0:
            return None
        lower = gap.lower()
        least = lower if least is None or lower < least else least
    return least


def _construct(values: int, length: int, jitter: float, seed: int, entries: Any) -> SetsConstruction:
    """Take sets of n numbers from an interval of length 2r, any two different numbers at least 2 log n + 3 apart.
    Then boltz(a) = a.softmax(a) of two different sets differs by more than (log n)^2 e^(-2r). Measured is -log10 of
    the least distance, so the theorem's bound is an upper bound of it.
    """
    given = entries
    faults = Faults("theorem C1")
    faults.check(length >= 2, f"length = {length}: the bound (log n)^2 e^(-2r) needs n >= 2")
    if entries is None:
        faults.check(
            values > length, f"values = {values}: two different sets of {length} need more than {length} values"
        )
        faults.check(jitter >= 0, f"jitter = {jitter:g} must not be negative: entries must stay separated")
    faults.raise_if_any()
    delta = least_separation(length)
    if entries is None:
        steps = delta * (1.0 + 1e-9 + jitter * np.random.default_rng(seed).random(values - 1))
        entries = np.concatenate([[0.0], np.cumsum(steps)])
        entries -= 0.5 * (entries[0] + entries[-1])
    entries = np.sort(np.asarray(entries, dtype=float).ravel())
    faults.check(
        len(entries) > length, f"{len(entries)} entries: two different sets of {length} need more than {length}"
    )
    faults.check(bool(np.isfinite(entries).all()), "entries must be finite")
    faults.check(
        bool((np.diff(entries) >= delta).all()),
        f"entries must be at least 2 log n + 3 = {delta:.4g} apart (the lemma's condition); the closest two are "
        f"{np.diff(entries).min(initial=math.inf):.4g} apart",
    )
    count = math.comb(len(entries), length) if len(entries) >= length else 0
    faults.check(count <= MOST_SETS, f"{count} sets: at most {MOST_SETS} are checked exhaustively; take fewer values")
    faults.raise_if_any()
    spread = float(entries[-1] - entries[0]) * (1.0 + 1e-15)
    sets = np.array(list(combinations(entries, length)))  # (M, n)
    network = boltzmann_network(length)
    bits = bits_for(spread)
    with precision(bits):
        bound = ball_above(digits(separation_bound(length, spread)))

    def measure(rng: np.random.Generator, n: int) -> tuple[float, int]:
        """-log10 of the least gap over all pairs of sets, in ball arithmetic with the network's weights."""
        exact = [exact_forward(network, row[None], bits)[0][0] for row in sets]
        with precision(bits):
            gap = least_gap(exact)
            return (math.inf if gap is None else max(0.0, ball_above(digits(gap)))), len(sets)

    floats = network.evaluate(sets[:, None, :])[:, 0, 0]
    lost = len(floats) - len(np.unique(floats))
    return SetsConstruction(
        sets=sets,
        bits=bits,
        network=network,
        bound=bound,
        sizes={
            "values": len(entries), "length": length, "jitter": jitter, "seed": seed,
            **({} if given is None else {"entries": entries.tolist()}),
        },
        tokens=length,
        reasons=(
            f"all {len(sets)} sets of {length} out of {len(entries)} entries, every pair, with {bits}-bit balls",
            f"in float64 {lost} of the {len(sets)} values coincide with another",
        ),
        statement=(
            f"-log10 of the least distance between boltz values of different sets of {length} of the {len(entries)} "
            "entries, over all pairs"
        ),
        target=lambda inputs: boltz_numpy(np.asarray(inputs, dtype=float)[:, 0])[:, None, None],
        sample=lambda rng, n: sets[rng.integers(0, len(sets), n), None, :],
        drawn={"entries": entries.tolist()},
        quantities={"delta": delta, "r": 0.5 * spread, "sets": float(len(sets))},
        norm="digits",
        measure=measure,
    )  # fmt: skip


def _draw(axes: Axes, made: SetsConstruction) -> None:
    """The distances between neighbouring values in order, in decimal digits, against the bound."""
    with precision(made.bits):
        values = [exact_forward(made.network, row[None], made.bits)[0][0] for row in made.sets[:400]]
        values.sort(key=lambda ball: ball.mid())
        shared = [float(digits(b - a).mid()) for a, b in pairwise(values) if b > a]
    draw_digits(axes, shared, made.bound, "neighbouring boltz values", "pair, in order")


C1 = Theorem(
    label="C1",
    title="the Boltzmann operator tells sets apart by at least (log n)^2 e^(-2r)",
    paper=PAPER_C + ", Lemma 1",
    conditions=("n >= 2", "no repeated entry", "entries at least 2 log n + 3 apart"),
    options=options(
        """
        values   6    how many different entries there are
        length   3    entries n of a set
        jitter   0.0  how uneven the spacing is: steps are up to (1 + jitter) times the least
        seed     0    seed of the uneven spacing
        entries  -    the entries themselves, as an array
        """
    ),
    construct=_construct,
    sweep=("values", (4, 5, 6, 7, 8)),
    details=_draw,
)
