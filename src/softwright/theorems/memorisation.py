"""C4: one rank-1 head and a relu readout memorise N sequences of n tokens, with 4 (s + d) + d (2 n N + d) parameters.

The head of `rank_one` gives every (set, token) its id z in R^d (C2). A direction w puts the ids on a line, in general
position all apart. For output coordinate o, with the nN projected ids in order z_1 < z_2 < ...,

    out_o = id_o + sum_j c_{o,j} relu(w_o.id - t_j),      t_1 < z_1,   t_{j+1} = z_j,

is, beside the residual, the piecewise linear function through (z_j, y_{j,o} - id_{j,o}): each relu bends the line so
that it meets the next point. Per output d numbers of w_o, nN of t and nN of c: d (2 n N + d) in all, and 4 (s + d) in
the four rank-1 matrices of attention. In real arithmetic every label is met exactly: the theorem's bound is 0.

*In float64* the thresholds are the ids that the module computes. With eta the rounding error of a projected id, S the
largest slope of the piecewise linear function and |c|_1 R the sum of |c_j| times the range of ids,

    error <= 2 S eta + u (nN + 4) 2 |c|_1 (R + eta) + small,                                                (rounding)

so ids must be farther apart than eta, which at the paper's scale only a vocabulary of n tokens is
(`contextual_mapping`). `scale="tight"` reaches somewhat further; beyond that the whole network is run in ball
arithmetic (`exact_recall`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from flint import arb

from softwright.errors import Faults
from softwright.memory.network import paper_parameters
from softwright.precision import FLOAT64
from softwright.proof.arithmetic.balls import Ball, ball_above, precision
from softwright.theorems.contextual_mapping import Context, contexts, exact_ids
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.drawing import draw_labels
from softwright.theorems.tools.network import Attention, FeedForward, TheoremNetwork
from softwright.theorems.tools.rank_one import RankOne, exact_bits
from softwright.theorems.tools.sequences import SEQUENCE_OPTIONS, Sequences, scale_option, tight_or
from softwright.theorems.tools.theorem import PAPER_C, Option, Theorem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_U = FLOAT64.unit
_DIRECTIONS = 64


@dataclass(frozen=True, kw_only=True)
class MemoryConstruction(Construction):
    """The head, and the sequences (N, d, n) that it was asked to store."""

    head: RankOne
    sequences: np.ndarray


def slopes_through(z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Thresholds (M,) and coefficients (M,) of sum_j c_j relu(. - t_j) through (z_j, y_j), z ascending."""
    first = z[0] - max(1.0, abs(z[0]))
    t = np.concatenate([[first], z[:-1]])
    slopes = np.diff(np.concatenate([[0.0], y])) / np.diff(np.concatenate([[first], z]))
    return t, np.diff(np.concatenate([[0.0], slopes]))


def spread_direction(ids: np.ndarray, v: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    """The unit direction, of v and some random ones, along which the ids (M, d) are farthest apart, and how far."""
    d = ids.shape[1]
    rng = np.random.default_rng(seed + 17)
    candidates = [v] if d == 1 else [v, *(w / np.sqrt((w**2).sum()) for w in rng.normal(size=(_DIRECTIONS, d)))]
    gaps = [float(np.diff(np.sort(ids @ w)).min()) if len(ids) > 1 else math.inf for w in candidates]
    best = int(np.argmax(gaps))
    return candidates[best], gaps[best]


def id_rounding(head: RankOne, network: TheoremNetwork, sequences: np.ndarray) -> float:
    """A bound of the rounding error of w.id, |w| = 1, for these sequences in float64, any order of summation.

    A score errs by theta = (2 d + s + 6) u c |x_l| |x_k| and its exponential by as much, relatively, plus 2 u |score
    difference|; so the mean of the values p_l = v.x_l errs by at most sum_l w_l theta_l |p_l - mean| (1 + tau) and by
    the rounding of n products, gamma max |p|. Twice that is charged.
    """
    d, s, n = sequences.shape[1], head.head_size, sequences.shape[2]
    attention = network.stages[0]
    if not isinstance(attention, Attention):
        raise TypeError("the first stage attends")
    norms = np.sqrt((sequences**2).sum(axis=1))  # (N, n)
    with torch.inference_mode():
        weights = attention.weights(torch.from_numpy(sequences), 0).numpy()  # (N, keys, queries)
    p = np.einsum("d,ndk->nk", head.v, sequences)
    mean = np.einsum("nk,nkq->nq", p, weights)
    theta = (2 * d + s + 8) * _U * 2.0 * head.c * norms[:, :, None] * norms[:, None, :] + 4.0 * _U  # (N, keys, queries)
    soft = (weights * theta * np.abs(p[:, :, None] - mean[:, None, :])).sum(axis=1).max()
    largest = head.vocabulary.r_max
    plain = (n + 2 * d + s + 8) * _U * largest
    return float(2.0 * (head.output_scale * (soft + plain) + 4.0 * (d + 4) * _U * largest))


def label_contexts(index: np.ndarray, labels: np.ndarray, causal: bool, faults: Faults) -> dict[Context, np.ndarray]:
    """The label (d,) of every context; two labels for one context are a fault."""
    known: dict[Context, np.ndarray] = {}
    clash = ""
    for i, row in enumerate(index.tolist()):
        for k, token in enumerate(row):
            key = (frozenset(row[: k + 1] if causal else row), token)
            label = labels[i, :, k]
            if key in known and not np.array_equal(known[key], label):
                clash = f"sequence {i}, position {k + 1}"
            known.setdefault(key, label)
    faults.check(
        not clash,
        f"{clash} holds a (set of tokens, token) that was given another label before: the theorem labels contexts, and "
        "attention without position codes sees sets; make the labels agree",
    )
    return known


def memory_construction(
    label: str, head: RankOne, sequences: np.ndarray, labels: np.ndarray, sizes: dict[str, Any], causal: bool, seed: int
) -> MemoryConstruction:
    """The head, and the readout through the ids that float64 computes."""
    faults = Faults(f"theorem {label}")
    N, d, n = sequences.shape
    known = label_contexts(head.vocabulary.index, labels, causal, faults)
    faults.raise_if_any()
    places = list(contexts(head.vocabulary.index, causal).values())
    attention = head.attention(causal)
    mapping = TheoremNetwork(label, [attention], (d, n))
    out = mapping.evaluate(sequences)  # (N, d, n)
    ids = np.array([out[i, :, k] for i, k in places])  # (M, d)
    wanted = np.array(list(known.values()))  # (M, d), in the same order
    w, gap = spread_direction(ids, head.v, seed)
    eta = id_rounding(head, mapping, sequences)
    if not gap > 8.0 * eta:
        with precision(64):
            promised = float((head.present_delta().log() / arb(10).log()).mid())
        faults.add(
            f"the ids are {gap:.3g} apart in float64, whose rounding reaches {eta:.3g}; the theorem separates them by "
            f"10^{promised:.0f}, below what float64 resolves: take {tight_or(head.scale)}fewer or better separated "
            "tokens, or memorisation.exact_recall, which runs the network in ball arithmetic"
        )
    faults.raise_if_any()
    z = ids @ w
    order = np.argsort(z)
    units = n * N  # the theorem's count; contexts that repeat leave relus idle beyond the last id
    W_1, b_1, W_2 = np.zeros((d * units, d)), np.zeros(d * units), np.zeros((d, d * units))
    steepest = slack = 0.0
    for o in range(d):
        t, c = slopes_through(z[order], (wanted[:, o] - ids[:, o])[order])
        block = slice(o * units, o * units + len(t))
        W_1[o * units : (o + 1) * units] = w
        b_1[o * units : (o + 1) * units] = -z[order][-1] - 1.0
        b_1[block], W_2[o, block] = -t, c
        steepest = max(steepest, float(np.abs(np.cumsum(c)).max()))
        slack = max(slack, float((np.abs(c) * (z.max() - t).clip(0.0)).sum()))
    network = TheoremNetwork(label, [attention, FeedForward(W_1, b_1, W_2, np.zeros(d), residual=True)], (d, n))
    rounding = 2.0 * steepest * eta + _U * (units + d + 8) * 4.0 * (slack + steepest * eta)
    rounding += 8.0 * _U * (float(np.abs(wanted).max()) + head.vocabulary.r_max + 1.0)
    parameters = paper_parameters(head.head_size, d, n, N)
    ideal = labels.copy()
    return MemoryConstruction(
        head=head,
        sequences=sequences,
        network=network,
        bound=0.0,
        sizes=sizes,
        drawn={"sequences": sequences.tolist(), "labels": labels.tolist()},
        tokens=n,
        counted=parameters,
        statement=f"largest |network - label| over the {N} sequences, all tokens and coordinates",
        target=lambda inputs: ideal,
        sample=lambda rng, count: sequences,
        quantities={
            "scale": head.c, "steepest": steepest, "contexts": float(len(places)),
            "head_size": float(head.head_size), "parameters": float(parameters),
        },
        rounding=rounding,
        reasons=(
            f"{len(places)} contexts, ids {gap:.3g} apart on a line, rounding of an id at most {eta:.3g}",
            f"4(s+d) + d(2nN+d) = {parameters} parameters, rank-1 attention, scale {head.scale}",
        ),
    )  # fmt: skip


def draw_memory(axes: Axes, made: MemoryConstruction) -> None:
    """All labels in order, and what the network answers."""
    draw_labels(axes, made, made.sequences)


def exact_recall(head: RankOne, sequences: np.ndarray, labels: np.ndarray, causal: bool = False) -> tuple[float, int]:
    """The same network in ball arithmetic at any scale: the largest |output - label| (rounded up), and the bits used.

    Ids, thresholds, slopes and readout are balls; the readout is evaluated at every id as a sum over all relus.
    """
    faults = Faults("exact_recall")
    known = label_contexts(head.vocabulary.index, labels, causal, faults)
    faults.raise_if_any()
    _, d, n = sequences.shape
    places = list(contexts(head.vocabulary.index, causal).values())
    bits = 3 * exact_bits(head)
    network = TheoremNetwork("C4", [head.attention(causal)], (d, n))
    ids = exact_ids(network, sequences, places, bits)
    wanted = list(known.values())
    worst = 0.0
    with precision(bits):
        z = [sum((arb(float(a)) * b for a, b in zip(head.v, row, strict=True)), arb(0)) for row in ids]
        order = sorted(range(len(z)), key=lambda i: z[i].mid())
        for i, j in pairwise(order):
            if not z[i] < z[j]:
                return math.inf, bits
        points = [z[i] for i in order]
        first = points[0] - 1
        thresholds = [first, *points[:-1]]
        for o in range(d):
            y = [arb(float(wanted[i][o])) - ids[i][o] for i in order]
            slopes = _slopes(first, points, y)
            bends = [slopes[0], *(b - a for a, b in pairwise(slopes))]
            for j, point in enumerate(points):
                value = sum((c * (point - t).max(arb(0)) for c, t in zip(bends, thresholds, strict=True)), arb(0))
                worst = max(worst, ball_above(abs(value - y[j])))
    return worst, bits


def _slopes(first: Ball, points: list[Ball], y: list[Ball]) -> list[Ball]:
    out, left, height = [], first, arb(0)
    for point, level in zip(points, y, strict=True):
        out.append((level - height) / (point - left))
        left, height = point, level
    return out


def random_labels(index: np.ndarray, dim: int, causal: bool, seed: int) -> np.ndarray:
    """Labels (N, d, n) in [-1, 1], one for every context."""
    rng = np.random.default_rng(seed + 1)
    table: dict[Context, np.ndarray] = {}
    out = np.empty((index.shape[0], dim, index.shape[1]))
    for i, row in enumerate(index.tolist()):
        for k, token in enumerate(row):
            key = (frozenset(row[: k + 1] if causal else row), token)
            if key not in table:
                table[key] = rng.uniform(-1, 1, dim)
            out[i, :, k] = table[key]
    return out


def build_memory(label: str, causal: bool, labels: Any, **asked: Any) -> MemoryConstruction:
    """Check the data, choose the head, build the memory (C4; with a causal mask C6)."""
    faults = Faults(f"theorem {label}")
    data = Sequences.of(faults, **asked)
    X, sizes = data.tokens, data.sizes
    if labels is not None and not faults.found:
        faults.check(
            np.shape(labels) == X.shape, f"labels have shape {np.shape(labels)}, they must be (N, d, n) = {X.shape}"
        )
    faults.raise_if_any()
    head = data.head(faults)
    Y = random_labels(head.vocabulary.index, X.shape[1], causal, data.seed)
    if labels is not None:
        Y = np.asarray(labels, dtype=float)
        sizes["labels"] = Y.tolist()
    if causal:
        faults.check(
            head.spread >= 1.03 * math.log(X.shape[2]) ** 2 + 0.06,
            f"scores of a query lie in an interval of length {head.spread:.3g}; for prefixes of different lengths C1 "
            "needs 1.03 (log n)^2 + 0.06: take a larger scale",
        )
        faults.raise_if_any()
    return memory_construction(label, head, X, Y, sizes, causal, data.seed)


def _construct(**asked: Any) -> MemoryConstruction:
    """One softmax head with rank-1 matrices and one hidden relu layer reproduce arbitrary labels of N sequences of
    n distinct tokens exactly: the head gives every context an id, and a piecewise linear function runs through the
    ids. It takes 4(s+d) + d(2nN+d) parameters. In real arithmetic the error is 0; the rounding of float64 is
    bounded.
    """
    return build_memory("C4", False, **asked)


OPTIONS = (*SEQUENCE_OPTIONS, scale_option("tight"), Option("labels", object, None, "their labels, an array (N, d, n)"))

C4 = Theorem(
    label="C4",
    title="one rank-1 head and a relu readout memorise N sequences with 4(s+d) + d(2nN+d) parameters",
    paper=PAPER_C + ", Corollary 1",
    conditions=("n >= 2", "tokens of a sequence pairwise distinct", "no token is zero", "one label per context"),
    options=OPTIONS,
    construct=_construct,
    sweep=("sequences", (1, 2, 4, 6)),
    details=draw_memory,
)
