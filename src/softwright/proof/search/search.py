"""Branch and bound over a bisection tree of the domain.

The tree starts at the domain and only ever halves a box at its exact midpoint, so a leaf is known by integers: along
each variable an index i and a level l, the interval [i, i + 1] / 2^l of the domain. Centres and radii are floats that
cover the exact leaf; on domains whose ends are short binary fractions they are exact.

The cells of a table start a tree each (`cell_tree.py`); nothing else here knows of them.

Rounds: all open boxes are bounded (in batches, here or by an executor), boxes that meet the goal become leaves, the
others are halved along the variable that contributes most; boxes that are far off are halved along all of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from softwright.progress import Say, Settled
from softwright.proof.arithmetic.directed import U, two_product, two_sum
from softwright.proof.search.preorder import written
from softwright.proof.search.residual import BoxBounds, Residual, concatenate
from softwright.records import Record
from softwright.result.outcome import Outcome
from softwright.scale import Crew
from softwright.work import Allowance, count

_GROUP_BITS = {1: 3, 2: 3, 3: 2}  # neighbours that share moments: 8, 64, 64 boxes; 2^d above three variables
_DEEPEST = 900  # halvings towards the lower end of a side, where indices stay small: 2^-900 of it is still a number
_LARGEST_INDEX = 2**58
_DRAWN = 512  # boxes of a round that are told to who draws them


@dataclass
class SearchState:
    """How far a search has come after a round; its text is what is reported."""

    proved_volume: float  # share of the domain that is proved
    lower: float
    upper: float
    boxes: int
    open_boxes: int
    seconds: float

    @property
    def boxes_per_second(self) -> float:
        return self.boxes / max(self.seconds, 1e-9)

    def __str__(self) -> str:
        done = f"{self.proved_volume:.0%} of the box proved in {self.boxes} boxes ({self.boxes_per_second:.0f}/s)"
        return f"proving: {done}, error between {self.lower:.2g} and {self.upper:.2g}"


@dataclass
class Goal:
    """When a box is good enough. `exact` may rise with the lower bound (`tightness`), `rounding` is its own budget."""

    exact: float
    rounding: float
    tightness: float | None = None

    def refuted_by(self, lower: float) -> bool:
        """Whether an error that is certain shows that the goal cannot be met."""
        return self.tightness is None and lower > self.exact

    def exact_goal(self, lower: float) -> float:
        return self.exact if self.tightness is None else max(self.exact, lower * (1.0 + self.tightness))

    def rounding_goal(self, lower: float) -> float:
        """With `tightness`, rounding below a hundredth of the error is not worth a split."""
        return self.rounding if self.tightness is None else max(self.rounding, 0.01 * self.exact_goal(lower))


@dataclass
class Limits:
    """What a search may take: counted work, boxes, and as a last resort seconds of the clock."""

    work: float
    boxes: int
    seconds: float = math.inf
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._allowed = Allowance(self.work)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @property
    def spent(self) -> bool:
        return self._allowed.spent or self.elapsed > self.seconds

    @property
    def overdrawn(self) -> bool:
        """Spent to the point that a round is not worth ending."""
        return self._allowed.taken > 1.5 * self.work + 1.0 or self.elapsed > 1.5 * self.seconds + 1.0

    @property
    def outcome(self) -> Outcome:
        """How a search ends that used up its limits."""
        return Outcome.TIME if self.elapsed > self.seconds else Outcome.BUDGET

    def halved(self) -> Limits:
        """Half of what is left, from now on."""
        return Limits(0.5 * max(self._allowed.left, 0.0), max(1, self.boxes // 2), 0.5 * (self.seconds - self.elapsed))


@dataclass
class Run:
    """The conditions of a search: its limits, who computes, and who is told."""

    limits: Limits
    executor: Executor | None = None
    say: Say | None = None
    crew: Crew | None = None  # who proves sub-boxes (`units.py`)
    record: Record | None = None  # and where they are written down


@dataclass
class Open:
    """Boxes that are not proved yet: node numbers, indices, levels, and the bounds they inherit from their parents."""

    nodes: np.ndarray  # (n,)
    index: np.ndarray  # (n, d)
    level: np.ndarray  # (n, d)
    known: np.ndarray  # (n, 2) exact, rounding

    def __len__(self) -> int:
        return len(self.nodes)

    def take(self, chosen: np.ndarray) -> Open:
        return Open(self.nodes[chosen], self.index[chosen], self.level[chosen], self.known[chosen])


@dataclass
class SearchResult:
    """What a search found: the tree, the worst leaf, and whether every leaf met the goal."""

    finished: bool
    refuted: bool
    tree: bytes
    leaves: int
    evaluations: int
    exact: float  # largest upper bound of |g - f| over the leaves
    rounding: float  # largest rounding bound over the leaves
    lower: float
    witness: np.ndarray | None
    leaf_upper: np.ndarray  # (leaves,) in preorder
    interrupted: bool = False
    rest: tuple[Open, BoxBounds | None] | None = None  # the leaves that did not meet the goal
    rounding_met: float = 0.0  # largest rounding bound over the others


class BoxTree:
    """The bisection tree; nodes are numbered as they appear, children come in pairs."""

    def __init__(self, lower: np.ndarray, upper: np.ndarray) -> None:
        self.low = np.asarray(lower, dtype=float)
        self.width, self.width_rest = two_sum(np.asarray(upper, dtype=float), -self.low)
        self.dim = len(self.low)
        self.deepest = _DEEPEST
        self.split = [-1]
        self.first_child = [-1]

    def halve(self, boxes: Open, dims: np.ndarray) -> Open:
        """Halve each box along its own dimension: the 2 n children, pairs together."""
        count = len(boxes)
        first = len(self.split) + 2 * np.arange(count)
        # Children before the link to them: an interrupt in between leaves a tree that is still whole.
        self.split += [-1] * (2 * count)
        self.first_child += [-1] * (2 * count)
        for node, dim, child in zip(boxes.nodes.tolist(), dims.tolist(), first.tolist(), strict=True):
            self.first_child[node] = child
            self.split[node] = dim
        index, level = np.repeat(boxes.index, 2, axis=0), np.repeat(boxes.level, 2, axis=0)
        rows, columns = np.arange(2 * count), np.repeat(dims, 2)
        index[rows, columns] = 2 * index[rows, columns] + (rows % 2)
        level[rows, columns] += 1
        return Open(np.repeat(first, 2) + rows % 2, index, level, np.repeat(boxes.known, 2, axis=0))

    def grid(self, levels: Sequence[int]) -> Open:
        """Halve the domain uniformly, so many times along each variable."""
        start = np.zeros((1, self.dim), dtype=np.int64)
        boxes = Open(np.array([0]), start, start, np.full((1, 2), np.inf))
        for dim, depth in enumerate(levels):
            for _ in range(depth):
                boxes = self.halve(boxes, np.full(len(boxes), dim))
        return boxes

    def boxes(self, index: np.ndarray, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Float centres and radii (n, d) that cover the exact boxes."""
        return cover(self.low, self.width, self.width_rest, index, level)

    def is_exhausted(self, boxes: Open) -> bool:
        """Whether integers could not tell the halves of some box apart."""
        return len(boxes) > 0 and bool(boxes.level.max() >= self.deepest or boxes.index.max() >= _LARGEST_INDEX)

    def alike(self, index: np.ndarray, level: np.ndarray) -> np.ndarray:
        """Columns (n, k) that are equal for boxes of equal size in a common ancestor: these may share their moments."""
        return np.concatenate([level, index >> _GROUP_BITS.get(self.dim, 1)], axis=1)

    def share(self, level: np.ndarray) -> float:
        """The share of the domain that boxes of these levels (n, d) have together; for progress only."""
        return float(np.ldexp(1.0, -level.sum(axis=1).astype(np.int32)).sum())

    def preorder(self) -> tuple[bytes, np.ndarray]:
        """The tree as bytes, and the node numbers of the leaves in that order."""
        data, leaves, _ = written(self.split, self.first_child, 1)
        return data, leaves


def cover(
    low: np.ndarray, width: np.ndarray, width_rest: np.ndarray, index: np.ndarray, level: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Float centres and radii (n, d) that cover [index, index + 1] / 2^level of the sides [low, low + width + rest]."""
    cells = np.ldexp(1.0, level.astype(np.int32))
    fraction = (2.0 * index + 1.0) / (2.0 * cells)  # exact: index < 2^58 only along deep, narrow paths
    exact_fraction = index < 2**52
    product, slip = two_product(np.broadcast_to(width, fraction.shape), fraction)
    center, rest = two_sum(np.broadcast_to(low, fraction.shape), product)
    tail = width_rest * fraction
    off = np.abs(slip + rest + tail) + 8 * U * (np.abs(slip) + np.abs(rest) + np.abs(tail))
    off = np.where(exact_fraction, off, off + np.abs(width) * 2.0**-50)
    half = width / (2.0 * cells)
    exact = (off == 0.0) & (width_rest == 0.0)
    loose = np.nextafter((half + np.abs(width_rest) + off) * (1.0 + 2.0**-50), np.inf)
    return center, np.where(exact, half, loose)


def _groups(alike: np.ndarray) -> list[np.ndarray]:
    """Boxes with equal rows."""
    _, key = np.unique(alike, axis=0, return_inverse=True)
    key = key.ravel()
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order])) + 1
    return np.split(order, edges)


def _batches(alike: np.ndarray, size: int) -> list[tuple[np.ndarray, list[np.ndarray]]]:
    """Whole groups packed into batches of about `size` boxes: the boxes of a batch, and its groups as positions."""
    batches: list[tuple[np.ndarray, list[np.ndarray]]] = []
    members: list[np.ndarray] = []
    count = 0
    for group in _groups(alike):
        members.append(group)
        count += len(group)
        if count >= size:
            batches.append(_pack(members))
            members, count = [], 0
    if members:
        batches.append(_pack(members))
    return batches


def _pack(members: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    edges = np.cumsum([0] + [len(group) for group in members])
    return np.concatenate(members), [np.arange(a, b) for a, b in pairwise(edges)]


def _evaluate(task: tuple[Residual, np.ndarray, np.ndarray, list[np.ndarray], float]) -> BoxBounds:
    residual, centers, radii, groups, accuracy = task
    return residual.bounds(centers, radii, groups, accuracy)


def lower_at(residual: Residual, points: np.ndarray, accuracy: float) -> tuple[float, np.ndarray | None, BoxBounds]:
    """The largest |g - f| that is certain at some of the points (n, d), with its point."""
    count(residual.cost(len(points), len(points)))
    found = residual.bounds(points, np.zeros_like(points), [np.array([i]) for i in range(len(points))], accuracy)
    best, lower = int(np.argmax(found.lower)), float(np.max(found.lower))
    return lower, points[best] if lower > 0 else None, found


def start_levels(residual: Residual) -> list[int]:
    """Halvings of each variable for a first grid of about one box for two tokens: few take as long as many."""
    tokens = sum(len(head.keys) for head in residual.heads)
    level = max(0, int((math.log2(max(tokens, 1)) - 1) // residual.dim))
    return [min(level, 14 // residual.dim)] * residual.dim


def search(
    residual: Residual,
    box: tuple[np.ndarray, np.ndarray],
    goal: Goal,
    run: Run,
    *,
    lower: float = 0.0,
    witness: np.ndarray | None = None,
    tree: BoxTree | None = None,
) -> SearchResult:
    """Prove |g - f| <= goal on the box (lower corner, upper corner), or find out why not.

    `lower` and `witness` are what is known already: an error that is certain, and where. `tree` is another start than
    the bisection of the whole box.
    """
    tree = BoxTree(*box) if tree is None else tree
    boxes = tree.grid(start_levels(residual))
    limits = run.limits
    upper_of: dict[int, float] = {}
    exact = rounding = done_volume = 0.0
    leaves = evaluations = 0
    interrupted = refuted = False
    found: BoxBounds | None = None
    try:
        while len(boxes):
            out_of_budget = limits.spent or evaluations + len(boxes) > limits.boxes
            found, lower, witness = _round(residual, tree, boxes, goal, run, lower=lower, witness=witness)
            refuted = goal.refuted_by(lower)
            if found is None:  # stopped in the middle of a round
                break
            evaluations += len(boxes)
            target = goal.exact_goal(lower)
            # Splitting cannot bring the rounding of a box below that of its centre, so that much and a little more is
            # allowed.
            allowed = np.maximum(goal.rounding_goal(lower), 1.25 * found.rounding_center)
            good = (found.upper <= target) & (found.rounding <= allowed)
            upper_of.update(zip(boxes.nodes[good].tolist(), found.upper[good].tolist(), strict=True))
            exact = max(exact, float(np.max(found.upper[good], initial=0.0)))
            rounding = max(rounding, float(np.max(found.rounding[good], initial=0.0)))
            done_volume += tree.share(boxes.level[good])
            leaves += int(np.count_nonzero(good))
            settled = boxes.take(np.flatnonzero(good)[:_DRAWN])
            rest = np.flatnonzero(~good)
            boxes, found = boxes.take(rest), found.take(rest)
            boxes.known = np.stack([found.upper, found.rounding], axis=1)
            if run.say is not None:
                upper = max(exact, float(np.max(found.upper, initial=0.0)))
                state = SearchState(done_volume, lower, upper, leaves, len(rest), limits.elapsed)
                first = evaluations == len(good)
                run.say(Settled(str(state), _shares(*tree.boxes(settled.index, settled.level), *box), first))
            give_up = out_of_budget or refuted or limits.spent or evaluations + 2 * len(rest) > limits.boxes
            if give_up or tree.is_exhausted(boxes):
                break
            if len(boxes):
                boxes = split_boxes(tree, boxes, found, target)
    except KeyboardInterrupt:
        interrupted = True
    finished = not interrupted and not refuted and len(boxes) == 0
    upper_of.update(zip(boxes.nodes.tolist(), boxes.known[:, 0].tolist(), strict=True))
    exact = max(exact, float(np.max(boxes.known[:, 0], initial=0.0)))
    met, rounding = rounding, max(rounding, float(np.max(boxes.known[:, 1], initial=0.0)))
    data, order = tree.preorder()
    leaf_upper = np.array([upper_of.get(int(node), np.inf) for node in order])
    if not np.all(np.isfinite(leaf_upper)):
        exact = np.inf  # interrupted in the middle of a split: some leaf was never bounded
    numbers = (len(order), evaluations, exact, rounding, lower, witness)
    return SearchResult(finished, refuted, data, *numbers, leaf_upper, interrupted, (boxes, found), met)


def _shares(centers: np.ndarray, radii: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> list[list[float]]:
    """Rows (left, right, below, above) of boxes (n, d) in shares of the domain, for a picture."""
    width = np.where(upper > lower, upper - lower, 1.0)
    ends = np.clip((np.stack([centers - radii, centers + radii], axis=2) - lower[:, None]) / width[:, None], 0.0, 1.0)
    flat = ends if ends.shape[1] > 1 else np.concatenate([ends, np.tile([[[0.0, 1.0]]], (len(ends), 1, 1))], axis=1)
    return np.round(flat[:, :2].reshape(-1, 4), 4).tolist()


def _round(
    residual: Residual,
    tree: BoxTree,
    boxes: Open,
    goal: Goal,
    run: Run,
    *,
    lower: float,
    witness: np.ndarray | None,
) -> tuple[BoxBounds | None, float, np.ndarray | None]:
    """Bounds of all open boxes; None if the budget ran out or a refutation was found on the way."""
    centers, _ = tree.boxes(boxes.index, boxes.level)
    parts: list[BoxBounds] = []
    order: list[np.ndarray] = []
    for chosen, part in _results(residual, tree, boxes, goal.exact_goal(lower), run.executor):
        parts.append(part)
        order.append(chosen)
        best = int(np.argmax(part.lower))
        if part.lower[best] > lower:
            lower, witness = float(part.lower[best]), centers[chosen[best]].copy()
        stop = goal.refuted_by(lower) or run.limits.overdrawn
        if stop and sum(map(len, order)) < len(boxes):
            return None, lower, witness
    return _in_order(parts, order), lower, witness


def _results(
    residual: Residual, tree: BoxTree, boxes: Open, accuracy: float, executor: Executor | None
) -> Iterator[tuple[np.ndarray, BoxBounds]]:
    """Bounds batch by batch, with the boxes they belong to."""
    centers, radii = tree.boxes(boxes.index, boxes.level)
    most = residual.at_once
    size = most if executor is None else max(64, min(most, len(boxes) // 8 + 1))
    batches = _batches(tree.alike(boxes.index, boxes.level), size)
    tasks = [(residual, centers[chosen], radii[chosen], groups, accuracy) for chosen, groups in batches]
    results = map(_evaluate, tasks) if executor is None else executor.map(_evaluate, tasks)
    for (chosen, groups), part in zip(batches, results, strict=True):
        count(residual.cost(len(chosen), len(groups)))
        yield chosen, part


def _in_order(parts: list[BoxBounds], order: list[np.ndarray]) -> BoxBounds:
    places = np.concatenate(order)
    back = np.empty(len(places), dtype=np.int64)
    back[places] = np.arange(len(places))
    return concatenate(parts).take(back)


def evaluate_boxes(
    residual: Residual, tree: BoxTree, boxes: Open, accuracy: float, executor: Executor | None
) -> BoxBounds:
    """Bounds of all the boxes."""
    found = list(_results(residual, tree, boxes, accuracy, executor))
    return _in_order([part for _, part in found], [chosen for chosen, _ in found])


def split_boxes(tree: BoxTree, boxes: Open, found: BoxBounds, target: float) -> Open:
    """Halve every box along its worst variable; where the bound is far off, along all that matter nearly as much.

    Boxes at a wall t_1 = 0 become thin and few. On a line what is very far off is halved twice: rounds are small."""
    dims = np.argmax(found.split, axis=1)
    if tree.dim == 1:
        far = ~(found.upper <= 64.0 * target)
        halves = tree.halve(boxes.take(far), dims[far])
        halves = tree.halve(halves, np.zeros(len(halves), dtype=np.int64))
        return _together(tree.halve(boxes.take(~far), dims[~far]), halves)
    far = ~(found.upper <= 8.0 * target) if tree.dim in (2, 3) else np.zeros(len(boxes), dtype=bool)
    near, wide = tree.halve(boxes.take(~far), dims[~far]), boxes.take(far)
    matters = (found.split >= 0.2 * found.split.max(axis=1, keepdims=True))[far]  # (n, d)
    for dim in range(tree.dim if len(wide) else 0):
        chosen = matters[:, dim]
        halved = tree.halve(wide.take(chosen), np.full(int(chosen.sum()), dim))
        wide = _together(halved, wide.take(~chosen))
        matters = np.concatenate([np.repeat(matters[chosen], 2, axis=0), matters[~chosen]])
    return _together(near, wide)


def _together(one: Open, other: Open) -> Open:
    return Open(*(np.concatenate([getattr(one, n), getattr(other, n)]) for n in ("nodes", "index", "level", "known")))
