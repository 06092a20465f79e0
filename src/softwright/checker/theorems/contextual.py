"""C2 again: the ids that the stored head gives to all contexts of the drawn sequences, any two of them told apart.

The id of token k among the tokens S is x_k + o mu, mu the mean of v.x_l over l in S with weights e^{(k.x_l)(q.x_k)}:
attention without places sees a set, so one place for each context is enough. The distance of two ids is their largest
coordinate difference.

    one token, two sets   o (mu - mu'), computed without cancellation by (1) of `means`
    two tokens            at least |x - x'| - |o| (m + m') in the coordinate where that is largest, m the largest |mu|
                          of a token's contexts

The least of all these is the number proved, for the tensors as they are; nothing of the theorem is used. r_min, r_max,
eps (the least distance of two tokens) and the largest shift eps/4 of an id, which is checked, are told as quantities.
"""

from __future__ import annotations

from itertools import combinations

from flint import arb, ctx

from softwright.checker.limits import check_time
from softwright.checker.proved import Proved
from softwright.checker.refusal import require
from softwright.checker.theorems.means import Weighed, digits, weighed
from softwright.checker.theorems.reading import REAL_ARITHMETIC, TheoremFile
from softwright.checker.theorems.sequences import RankOneHead, dot, rank_one_head, read_sequences

BITS = 320
MOST_PAIRS = 300_000  # of contexts of one token, times the tokens of a sequence


def prove(file: TheoremFile) -> Proved:
    """The least distance between ids of different contexts, in digits."""
    sequences = read_sequences(file, labelled=False)
    d, n = file.inputs
    (stage,) = file.chain("attention")
    groups: dict[int, list[frozenset[int]]] = {}
    for seen, token in sequences.contexts(causal=False):
        groups.setdefault(token, []).append(seen)
    pairs = sum(len(sets) * (len(sets) - 1) // 2 for sets in groups.values()) + len(groups) ** 2
    require(pairs * n <= MOST_PAIRS, f"{pairs} pairs of contexts of {n} tokens are too many to be compared")
    with ctx.workprec(BITS):
        head = rank_one_head(stage, d, causal=False)
        require(head.size == file.sizes["head_size"], f"the head has {head.size} rows")
        tokens = [[arb(x) for x in row] for row in sequences.tokens.tolist()]
        norms = [dot(x, x).sqrt() for x in tokens]
        least, largest = extreme(norms)
        apart = [dot(z, z).sqrt() for x, y in combinations(tokens, 2) for z in [difference(x, y)]]
        eps = extreme(apart)[0] if apart else least
        gap, shift = distances(head, tokens, groups)
        if shift is not None:
            require(shift <= eps / 4, "an id is farther from its token than a quarter of the least distance of tokens")
        lost = arb(0) if gap is None else digits(gap).max(arb(0))
        scale = head.scale
    return Proved(
        statement="-log10 of the least distance between ids of different (set of tokens, token) pairs",
        exact=lost,
        rounding=None,
        method="theorem C2",
        norm="digits",
        quantities={
            **{"scale": scale, "r_min": least, "r_max": largest, "eps": eps, "largest_shift": eps / 4},
            **{"vocabulary": arb(len(tokens)), "ids": arb(sum(map(len, groups.values())))},
        },
        assumptions=REAL_ARITHMETIC,
    )


def difference(x: list[arb], y: list[arb]) -> list[arb]:
    return [a - b for a, b in zip(x, y, strict=True)]


def extreme(numbers: list[arb]) -> tuple[arb, arb]:
    least = largest = numbers[0]
    for number in numbers[1:]:
        least, largest = least.min(number), largest.max(number)
    return least, largest


def distances(
    head: RankOneHead, tokens: list[list[arb]], groups: dict[int, list[frozenset[int]]]
) -> tuple[arb | None, arb | None]:
    """A lower bound of the distance of two ids (None if there is but one), an upper bound of how far an id is moved."""
    values, keys = [dot(head.value, x) for x in tokens], [dot(head.key, x) for x in tokens]
    size = dot(head.output, head.output).sqrt()
    reach: dict[int, arb] = {}
    least: arb | None = None
    for token, sets in groups.items():
        query = dot(head.query, tokens[token])
        whole = weighed(values, [key * query for key in keys])
        reach[token] = max((mean(whole, values, seen) for seen in sets), key=lambda ball: ball.upper())
        for one, other in combinations(sets, 2):
            check_time()
            moved = abs(whole.difference(one, other))
            least = smaller(least, max(abs(o) * moved for o in head.output))
    for one, other in combinations(groups, 2):
        total = reach[one] + reach[other]
        gaps = difference(tokens[one], tokens[other])
        least = smaller(least, max(abs(gap) - abs(o) * total for gap, o in zip(gaps, head.output, strict=True)))
    return least, size * max(reach.values(), key=lambda ball: ball.upper())


def mean(whole: Weighed, values: list[arb], seen: frozenset[int]) -> arb:
    """An upper bound of the modulus of the mean of the values over a set."""
    mass, moment = whole.sums(seen)
    return abs(moment / mass + values[0].mid()).upper()


def smaller(least: arb | None, gap: arb) -> arb:
    lower = gap.lower()
    require(lower > 0, "two ids cannot be told apart")
    return lower if least is None or lower < least else least
