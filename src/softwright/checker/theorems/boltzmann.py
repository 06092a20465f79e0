"""C1 again: boltz(a) = a . softmax(a) of all sets of n out of V given entries, any two of them told apart.

*The network is boltz.* Its tensors are zeros and ones, compared exactly: tokens (a_l, 1), key and value a_l, query 1,
and of the n equal columns the first is put out. So the output for a set is boltz of it, in whatever order it comes.

*All pairs.* The sets are put in the order in which the theorem's proof has their values (a larger maximum first makes
boltz larger, any later entry that is larger makes it smaller). The differences of neighbours in this order are computed
by (1) of `means`, and must all be certainly positive: then the order is right, and the least difference of neighbours
is the least of all pairs. Nothing of the theorem is used; the separation and the interval of the entries are told as
quantities.
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
from flint import arb, ctx

from softwright.checker.entries import check_entries, is_float, is_number, is_size, is_whole, list_of
from softwright.checker.limits import check_time
from softwright.checker.proved import Proved
from softwright.checker.refusal import require
from softwright.checker.theorems.means import digits, weighed
from softwright.checker.theorems.reading import NOT_DRAWN, REAL_ARITHMETIC, Stage, TheoremFile

BITS = 320
MOST_SETS, MOST_WORK = 20_000, 2_000_000  # sets; sets times entries


def prove(file: TheoremFile) -> Proved:
    """The least distance between boltz of two different sets, in digits."""
    require(file.drawn, NOT_DRAWN)
    check_entries(file.drawn, {"entries": list_of(is_float)}, "what was drawn")
    tests = {"values": is_size, "length": is_size, "jitter": is_number, "seed": is_whole, "entries": list_of(is_float)}
    check_entries(file.sizes, tests, "the sizes", ("entries",))
    entries, length = file.drawn["entries"], file.sizes["length"]
    require(file.sizes.get("entries", entries) == entries, "the entries given are not those drawn")
    require(file.sizes["values"] == len(entries), f"there are {len(entries)} entries, not {file.sizes['values']}")
    require(length >= 2 and len(entries) > length, "there are no two different sets, or sets of one entry")
    require(all(a < b for a, b in pairwise(entries)), "the entries do not ascend")
    count = math.comb(len(entries), length)
    require(count <= MOST_SETS and count * length <= MOST_WORK, f"{count} sets of {length} are too many to be compared")
    check_boltz(file, length)
    with ctx.workprec(BITS):
        balls = [arb(entry) for entry in entries]
        lost = digits(least_gap(balls, length)).max(arb(0))
        delta, spread = 2 * arb(length).log() + 3, balls[-1] - balls[0]
    return Proved(
        statement=(
            f"-log10 of the least distance between boltz values of different sets of {length} of the {len(entries)} "
            "entries, over all pairs"
        ),
        exact=lost,
        rounding=None,
        method="theorem C1",
        norm="digits",
        quantities={"delta": delta, "r": spread / 2, "sets": arb(count)},
        assumptions=REAL_ARITHMETIC,
    )


def least_gap(entries: list[arb], length: int) -> arb:
    """A lower bound of the least difference between boltz of two different sets; the entries ascend."""
    whole, last = weighed(entries, entries), len(entries) - 1
    # Members by place from the top: combinations of these come in the order of descending entries.
    sets = list(combinations(range(len(entries)), length))
    by_top: dict[int, list[tuple[int, ...]]] = {}
    for members in sets:
        by_top.setdefault(members[0], []).append(tuple(last - place for place in members))
    least: arb | None = None
    ascending = [frozenset(members) for top in sorted(by_top, reverse=True) for members in by_top[top]]
    for lower, higher in pairwise(ascending):
        check_time()
        gap = whole.difference(higher, lower).lower()
        require(gap > 0, "two sets cannot be told apart, or not in the order of the theorem")
        least = gap if least is None or gap < least else least
    require(least is not None, "there are no two different sets")
    return arb(0) if least is None else least


def check_boltz(file: TheoremFile, length: int) -> None:
    """The tensors are those of boltz: the entry is key and value, one is the query."""
    tokens, attention = file.chain("sum_of_linear", "attention")
    require(file.inputs == (1, length), f"inputs are sets of {length} numbers")
    require(not any(attention.flags.values()), "the head has a residual, a mask or hardmax")
    require("W_O" not in attention.tensors, "the head has an output matrix")
    entry, one = np.array([[[1.0, 0.0]]]), np.array([[[0.0, 1.0]]])
    first = np.zeros((1, length, 1))
    first[0, 0, 0] = 1.0
    row = np.vstack([np.zeros(length), np.ones(length)])
    exactly(tokens, P=np.array([[[1.0], [0.0]]]), Q=np.eye(length)[None], R=row)
    exactly(attention, W_K=entry, W_Q=one, W_V=entry, T=first)


def exactly(stage: Stage, **tensors: np.ndarray) -> None:
    """These tensors, entry by entry."""
    for name, wanted in tensors.items():
        require(np.array_equal(stage[name], wanted), f"{name} is not that of the construction")
