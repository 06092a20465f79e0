"""Branch and bound over a bisection tree of the domain.

The tree starts at the domain and only ever halves a box at its exact midpoint, so a leaf is known by integers: along each
variable an index i and a level l, the interval [i, i + 1] / 2^l of the domain. Centres and radii are floats that cover the
exact leaf; on domains whose ends are short binary fractions they are exact.

Rounds: all open boxes are bounded (in batches, here or by an executor), boxes that meet the goal become leaves, the
others are halved along the variable that contributes most; boxes that are far off are halved along all of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np

from softwright.certify.directed import two_product, two_sum
from softwright.certify.residual import BoxBounds, Residual, concatenate

LEAF = 255
_GROUP_BITS = {1: 3, 2: 3, 3: 2}  # neighbours that share moments: 8, 64, 64 boxes; 2^d above three variables
_BATCH = 1024
_DEEPEST = 58


@dataclass
class Progress:
    """What a progress callback is told after every round."""

    proved_volume: float  # share of the domain that is proved
    lower: float
    upper: float
    boxes: int
    open_boxes: int
    seconds: float

    @property
    def boxes_per_second(self) -> float:
        return self.boxes / max(self.seconds, 1e-9)


@dataclass
class Goal:
    """When a box is good enough. `exact` may rise with the lower bound (`tightness`), `rounding` is its own budget."""

    exact: float
    rounding: float
    tightness: float | None = None

    def exact_goal(self, lower: float) -> float:
        return self.exact if self.tightness is None else max(self.exact, lower * (1.0 + self.tightness))


@dataclass
class Budget:
    seconds: float
    boxes: int
    started: float = field(default_factory=time.perf_counter)

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.started

    @property
    def spent(self) -> bool:
        return self.elapsed > self.seconds


@dataclass
class Outcome:
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


class BoxTree:
    """The bisection tree; nodes are numbered as they appear, children come in pairs."""

    def __init__(self, lower: np.ndarray, upper: np.ndarray) -> None:
        self.low = np.asarray(lower, dtype=float)
        self.width, self.width_rest = two_sum(np.asarray(upper, dtype=float), -self.low)
        self.dim = len(self.low)
        self.split = [-1]
        self.first_child = [-1]

    def halve(self, nodes: np.ndarray, index: np.ndarray, level: np.ndarray, dims: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Halve each node along its own dimension: ids, indices and levels of the 2 n children, pairs together."""
        first = len(self.split) + 2 * np.arange(len(nodes))
        for node, dim, child in zip(nodes.tolist(), dims.tolist(), first.tolist(), strict=True):
            self.split[node] = dim
            self.first_child[node] = child
        self.split += [-1] * (2 * len(nodes))
        self.first_child += [-1] * (2 * len(nodes))
        children, levels = np.repeat(index, 2, axis=0), np.repeat(level, 2, axis=0)
        rows, columns = np.arange(2 * len(nodes)), np.repeat(dims, 2)
        children[rows, columns] = 2 * children[rows, columns] + (rows % 2)
        levels[rows, columns] += 1
        return np.repeat(first, 2) + rows % 2, children, levels

    def grid(self, levels: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Halve the domain uniformly, so many times along each variable: ids, indices and levels of the boxes."""
        nodes, index, level = np.array([0]), np.zeros((1, self.dim), dtype=np.int64), np.zeros((1, self.dim), dtype=np.int64)
        for dim, depth in enumerate(levels):
            for _ in range(depth):
                nodes, index, level = self.halve(nodes, index, level, np.full(len(nodes), dim))
        return nodes, index, level

    def boxes(self, index: np.ndarray, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Float centres and radii (n, d) that cover the exact boxes."""
        cells = np.ldexp(1.0, level.astype(np.int32))
        fraction = (2.0 * index + 1.0) / (2.0 * cells)  # exact: index < 2^58 only along deep, narrow paths
        exact_fraction = index < 2**52
        product, slip = two_product(np.broadcast_to(self.width, fraction.shape), fraction)
        center, rest = two_sum(np.broadcast_to(self.low, fraction.shape), product)
        off = np.abs(slip + rest + self.width_rest * fraction) * (1.0 + 2.0**-40)
        off = np.where(exact_fraction, off, off + np.abs(self.width) * 2.0**-50)
        half = self.width / (2.0 * cells)
        exact = (off == 0.0) & (self.width_rest == 0.0)
        loose = np.nextafter((half + np.abs(self.width_rest) + off) * (1.0 + 2.0**-50), np.inf)
        return center, np.where(exact, half, loose)

    def preorder(self) -> tuple[bytes, np.ndarray]:
        """The tree as bytes, and the node numbers of the leaves in that order."""
        out, leaves = bytearray(), []
        stack = [0]
        while stack:
            node = stack.pop()
            if self.split[node] < 0:
                out.append(LEAF)
                leaves.append(node)
            else:
                out.append(self.split[node])
                stack += [self.first_child[node] + 1, self.first_child[node]]
        return bytes(out), np.array(leaves, dtype=np.int64)


def _groups(index: np.ndarray, level: np.ndarray) -> list[np.ndarray]:
    """Boxes of equal level that lie in a common ancestor cell."""
    d = index.shape[1]
    ancestors = np.concatenate([level, index >> _GROUP_BITS.get(d, 1)], axis=1)
    _, key = np.unique(ancestors, axis=0, return_inverse=True)
    key = key.ravel()
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order])) + 1
    return np.split(order, edges)


def _batches(index: np.ndarray, level: np.ndarray, size: int) -> list[tuple[np.ndarray, list[np.ndarray]]]:
    """Whole groups packed into batches of about `size` boxes: the boxes of a batch, and its groups as positions."""
    batches: list[tuple[np.ndarray, list[np.ndarray]]] = []
    members: list[np.ndarray] = []
    count = 0
    for group in _groups(index, level):
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
    return np.concatenate(members), [np.arange(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]


def _evaluate(task: tuple[Residual, np.ndarray, np.ndarray, list[np.ndarray], float]) -> BoxBounds:
    residual, centers, radii, groups, accuracy = task
    return residual.bounds(centers, radii, groups, accuracy)


def lower_at(residual: Residual, points: np.ndarray, accuracy: float) -> tuple[float, np.ndarray | None, BoxBounds]:
    """The largest |g - f| that is certain at some of the points (n, d), with its point."""
    radii = np.zeros_like(points)
    found = residual.bounds(points, radii, [np.array([i]) for i in range(len(points))], accuracy)
    best = int(np.argmax(found.lower))
    return float(found.lower[best]), points[best] if found.lower[best] > 0 else None, found


def start_levels(residual: Residual) -> list[int]:
    """Halvings of each variable for a first grid of about one box for eight tokens."""
    tokens = sum(len(head.keys) for head in residual.heads)
    level = max(0, int((math.log2(max(tokens, 1)) - 3) // residual.dim))
    return [min(level, 14 // residual.dim)] * residual.dim


def search(
    residual: Residual,
    low: np.ndarray,
    high: np.ndarray,
    goal: Goal,
    budget: Budget,
    levels: Sequence[int],
    lower: float = 0.0,
    witness: np.ndarray | None = None,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
    stop_when_refuted: bool = True,
) -> Outcome:
    """Prove |g - f| <= goal on the box, or find out why not."""
    tree = BoxTree(low, high)
    nodes, index, level = tree.grid(levels)
    upper_of: dict[int, float] = {}
    known = np.full((len(nodes), 2), np.inf)  # bounds that open boxes inherit from their parents: exact, rounding
    exact = rounding = done_volume = 0.0
    leaves = evaluations = 0
    interrupted = refuted = False
    try:
        while len(nodes):
            out_of_budget = budget.spent or evaluations + len(nodes) > budget.boxes
            found, lower, witness = _round(
                residual, tree, index, level, goal, lower, witness, executor, budget, stop_when_refuted
            )
            refuted = stop_when_refuted and goal.tightness is None and lower > goal.exact
            if found is None:  # stopped in the middle of a round
                break
            evaluations += len(nodes)
            target = goal.exact_goal(lower)
            # Splitting cannot bring the rounding of a box below that of its centre, so that much and a little more is
            # allowed; and a hundredth of the bound is never worth a split.
            allowed = np.maximum(max(goal.rounding, 0.01 * target), 1.25 * found.rounding_center)
            good = (found.upper <= target) & (found.rounding <= allowed)
            upper_of.update(zip(nodes[good].tolist(), found.upper[good].tolist(), strict=True))
            exact = max(exact, float(np.max(found.upper[good], initial=0.0)))
            rounding = max(rounding, float(np.max(found.rounding[good], initial=0.0)))
            done_volume += float(np.ldexp(1.0, -level[good].sum(axis=1).astype(np.int32)).sum())
            leaves += int(np.count_nonzero(good))
            rest = np.flatnonzero(~good)
            nodes, index, level = nodes[rest], index[rest], level[rest]
            known = np.stack([found.upper[rest], found.rounding[rest]], axis=1)
            if progress is not None:
                upper = max(exact, float(np.max(known[:, 0], initial=0.0)))
                progress(Progress(done_volume, lower, upper, leaves, len(rest), budget.elapsed))
            give_up = out_of_budget or refuted or budget.spent or evaluations + 2 * len(rest) > budget.boxes
            if give_up or level.max(initial=0) >= _DEEPEST:
                break
            if len(nodes):
                nodes, index, level, known = _split(tree, nodes, index, level, known, found.take(rest), target)
    except KeyboardInterrupt:
        interrupted = True
    finished = not interrupted and not refuted and len(nodes) == 0
    upper_of.update(zip(nodes.tolist(), known[:, 0].tolist(), strict=True))
    exact = max(exact, float(np.max(known[:, 0], initial=0.0))) if len(nodes) else exact
    rounding = max(rounding, float(np.max(known[:, 1], initial=0.0))) if len(nodes) else rounding
    data, order = tree.preorder()
    leaf_upper = np.array([upper_of.get(int(node), np.inf) for node in order])
    if not np.all(np.isfinite(leaf_upper)):
        exact = np.inf  # interrupted in the middle of a split: some leaf was never bounded
    return Outcome(
        finished, refuted, data, len(order), evaluations, exact, rounding, lower, witness, leaf_upper, interrupted
    )


def _round(
    residual: Residual,
    tree: BoxTree,
    index: np.ndarray,
    level: np.ndarray,
    goal: Goal,
    lower: float,
    witness: np.ndarray | None,
    executor: Executor | None,
    budget: Budget,
    stop_when_refuted: bool,
) -> tuple[BoxBounds | None, float, np.ndarray | None]:
    """Bounds of all open boxes; None if the budget ran out or a refutation was found on the way."""
    centers, _ = tree.boxes(index, level)
    accuracy = goal.exact_goal(lower)
    parts: list[BoxBounds] = []
    order: list[np.ndarray] = []
    for chosen, part in _results(residual, tree, index, level, accuracy, executor):
        parts.append(part)
        order.append(chosen)
        best = int(np.argmax(part.lower))
        if part.lower[best] > lower:
            lower, witness = float(part.lower[best]), centers[chosen[best]].copy()
        over = stop_when_refuted and goal.tightness is None and lower > goal.exact
        if (over or budget.elapsed > 1.5 * budget.seconds + 1.0) and sum(map(len, order)) < len(index):
            return None, lower, witness
    return _in_order(parts, order), lower, witness


def _results(
    residual: Residual,
    tree: BoxTree,
    index: np.ndarray,
    level: np.ndarray,
    accuracy: float,
    executor: Executor | None,
) -> Iterator[tuple[np.ndarray, BoxBounds]]:
    """Bounds batch by batch, with the boxes they belong to."""
    centers, radii = tree.boxes(index, level)
    size = _BATCH if executor is None else max(64, min(_BATCH, len(index) // 8 + 1))
    batches = _batches(index, level, size)
    tasks = [(residual, centers[chosen], radii[chosen], groups, accuracy) for chosen, groups in batches]
    results = map(_evaluate, tasks) if executor is None else executor.map(_evaluate, tasks)
    for (chosen, _), part in zip(batches, results, strict=True):
        yield chosen, part


def _in_order(parts: list[BoxBounds], order: list[np.ndarray]) -> BoxBounds:
    places = np.concatenate(order)
    back = np.empty(len(places), dtype=np.int64)
    back[places] = np.arange(len(places))
    return concatenate(parts).take(back)


def evaluate_boxes(
    residual: Residual, tree: BoxTree, index: np.ndarray, level: np.ndarray, accuracy: float, executor: Executor | None
) -> BoxBounds:
    """Bounds of all the boxes."""
    found = list(_results(residual, tree, index, level, accuracy, executor))
    return _in_order([part for _, part in found], [chosen for chosen, _ in found])


def _split(
    tree: BoxTree,
    nodes: np.ndarray,
    index: np.ndarray,
    level: np.ndarray,
    known: np.ndarray,
    found: BoxBounds,
    target: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Halve every box along its worst variable, or along all of them where the bound is far off."""
    dims = np.argmax(found.split, axis=1)
    far = ~(found.upper <= 8.0 * target) if tree.dim in (2, 3) else np.zeros(len(nodes), dtype=bool)
    parts = [(*tree.halve(nodes[~far], index[~far], level[~far], dims[~far]), np.repeat(known[~far], 2, axis=0))]
    if np.any(far):
        wide, inherited = (nodes[far], index[far], level[far]), known[far]
        for dim in range(tree.dim):
            wide = tree.halve(*wide, np.full(len(wide[0]), dim))
            inherited = np.repeat(inherited, 2, axis=0)
        parts.append((*wide, inherited))
    nodes, index, level, known = (np.concatenate([part[i] for part in parts]) for i in range(4))
    return nodes, index, level, known
