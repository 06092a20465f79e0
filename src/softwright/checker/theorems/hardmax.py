"""C3 again: the stored hardmax layer gives the token 1 one id in {1, 2, 5, 6} and in {1, 3, 4, 6}.

Tokens are t e, e = (1, ..., 1)/d. A head scores token t for the query 1 by kappa t, kappa = (W_K e).(W_Q e), so
hardmax takes the largest token (kappa > 0), the smallest (kappa < 0) or, shared evenly by all, their mean (kappa = 0).
All three are the same in both sequences, whatever the weights, so the ids are equal: the bound 0 needs nothing but the
kind of layer, and the numbers of the sequences. The layer of the file is evaluated all the same, in exact rationals,
and with softmax in place of hardmax in balls, for the quantity `softmax_gap`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flint import arb, fmpq

from softwright.checker.entries import check_entries, is_size, is_whole
from softwright.checker.limits import check_time
from softwright.checker.proved import Proved
from softwright.checker.refusal import require
from softwright.checker.theorems.reading import REAL_ARITHMETIC, Stage, TheoremFile

FIRST, SECOND = (1, 2, 5, 6), (1, 3, 4, 6)
MOST_WORK = 500_000  # numbers of the layer


def prove(file: TheoremFile) -> Proved:
    """The largest difference between the two ids of the token 1: zero."""
    check_entries(file.sizes, {**dict.fromkeys(("dim", "heads", "head_size"), is_size), "seed": is_whole}, "the sizes")
    require(not file.drawn, "there is nothing to draw for a theorem about all weights")
    d, heads, s = (file.sizes[name] for name in ("dim", "heads", "head_size"))
    (stage,) = file.chain("attention")
    require(file.inputs == (d, len(FIRST)), f"the network reads {len(FIRST)} tokens of {d} numbers")
    require(stage.flags == {"residual": True, "causal": False, "hard": True}, "the layer is of another kind")
    require("T" not in stage.tensors, "the layer mixes its outputs")
    require(heads * d * s <= MOST_WORK, f"{heads} heads with {s} x {d} weights are more than can be evaluated exactly")
    shapes = {"W_K": (heads, s, d), "W_Q": (heads, s, d), "W_V": (heads, s, d), "W_O": (heads, d, s)}
    for name, shape in shapes.items():
        require(stage[name].shape == shape, f"{name} is not {shape}")
    agree = max(FIRST) == max(SECOND) and min(FIRST) == min(SECOND) and sum(FIRST) == sum(SECOND)
    require(agree and len(FIRST) == len(SECOND), "the sequences are not those of the theorem")
    slopes, outputs = layer(stage, d)
    hard = [rows(slopes, outputs, tokens, hardmax) for tokens in (FIRST, SECOND)]
    require(hard[0] == hard[1], "the ids differ")
    soft = [rows(slopes, outputs, tokens, softmax) for tokens in (FIRST, SECOND)]
    gap = arb(0)
    for one, other in zip(*soft, strict=True):
        gap = gap.max(abs(one - other))
    return Proved(
        statement="largest difference between the hardmax ids of the token 1 in {1,2,5,6} and in {1,3,4,6}, all layers",
        exact=arb(0),
        rounding=None,
        method="theorem C3",
        quantities={"softmax_gap": gap, "hardmax_gap": arb(0)},
        assumptions=REAL_ARITHMETIC,
    )


def layer(stage: Stage, d: int) -> tuple[list[fmpq], list[list[fmpq]]]:
    """Of every head kappa, and W_O W_V e (d,)."""
    slopes, outputs = [], []
    for W_K, W_Q, W_V, W_O in zip(*(stage[name].tolist() for name in ("W_K", "W_Q", "W_V", "W_O")), strict=True):
        check_time()
        key, query, value = ([sum(map(exact, row), fmpq(0)) / d for row in W] for W in (W_K, W_Q, W_V))
        slopes.append(sum((a * b for a, b in zip(key, query, strict=True)), fmpq(0)))
        outputs.append([sum((exact(w) * v for w, v in zip(row, value, strict=True)), fmpq(0)) for row in W_O])
    return slopes, outputs


def exact(number: float) -> fmpq:
    return fmpq(*number.as_integer_ratio())


def hardmax(slope: fmpq, tokens: Sequence[int]) -> fmpq:
    """The mean of the tokens with the largest score slope t."""
    top = max(slope * t for t in tokens)
    chosen = [t for t in tokens if slope * t == top]
    return fmpq(sum(chosen), len(chosen))


def softmax(slope: fmpq, tokens: Sequence[int]) -> arb:
    top = max(slope * t for t in tokens)
    weights = [arb(slope * t - top).exp() for t in tokens]
    return sum((t * w for t, w in zip(tokens, weights, strict=True)), arb(0)) / sum(weights, arb(0))


def rows(
    slopes: list[fmpq], outputs: list[list[fmpq]], tokens: Sequence[int], attend: Callable[[fmpq, Sequence[int]], Any]
) -> list[Any]:
    """The id of the token 1 without its residual, which is the same in both sequences: (d,)."""
    means = [attend(slope, tokens) for slope in slopes]
    return [sum((o[i] * m for o, m in zip(outputs, means, strict=True)), 0 * means[0]) for i in range(len(outputs[0]))]
