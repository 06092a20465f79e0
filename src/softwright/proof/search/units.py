"""A search in units that are proved apart: sub-boxes, by anybody, in any order, and written down when they are done.

A unit is a run of neighbouring sub-boxes. Whoever works on it searches them as `search.py` does until they are proved
or a number of boxes is used up, and returns bytes: the preorder trees of the sub-boxes, with an OPEN byte where a box
is still open, and the bounds met on the closed ones. Open boxes are cut into new units, in their order. So nobody
waits for a round of all open boxes, nothing but the residual is large on the way out, about three bytes a leaf come
back, and what is kept of a unit is its bytes.

Units are acted on in the order in which they were made, whoever finishes first. What a unit finds depends on its boxes
and on the goal alone, never on other units or on the clock; so the tree, the bounds, the witness and the work counted
are the same for any number of workers. In the end trees are spliced: an OPEN byte is replaced by the tree of its box.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from softwright.progress import Settled
from softwright.proof.models.grid_head import by_axes
from softwright.proof.models.targets import FormulaModels
from softwright.proof.search.preorder import LEAF, OPEN, written
from softwright.proof.search.residual import Residual
from softwright.proof.search.search import (
    BoxTree,
    Goal,
    Limits,
    Open,
    Run,
    SearchResult,
    SearchState,
    search,
    split_boxes,
    start_levels,
)
from softwright.proof.search.unit_bytes import Unit, UnitResult, packed, spliced, unpacked
from softwright.scale import Crew, Pieces
from softwright.work import count, done

_LONGEST, _SHORTEST, _NOMINAL = 2048, 128, 2e9  # boxes of a unit, and the work that decides between the two
_SHORTEST_GRID = 1024  # of grids: neighbours share sums over their first axes, which few boxes would compute again
_ROOTS = 4  # a new unit begins with so many times fewer boxes than it may bound


def find(
    residual: Residual,
    box: tuple[np.ndarray, np.ndarray],
    goal: Goal,
    run: Run,
    *,
    lower: float = 0.0,
    witness: np.ndarray | None = None,
    tree: BoxTree | None = None,
) -> SearchResult:
    """`search`, by whoever works for the run; cells of a table are searched in rounds."""
    if run.crew is None or type(tree) not in (BoxTree, type(None)):
        return search(residual, box, goal, run, lower=lower, witness=witness, tree=tree)
    return Apart(residual, box, goal, run, run.crew).found(lower, witness)


class Forest(BoxTree):
    """Bisection trees of some boxes of a domain, one root each."""

    def __init__(self, box: tuple[np.ndarray, np.ndarray], index: np.ndarray, level: np.ndarray) -> None:
        super().__init__(*box)
        self._roots = Open(np.arange(len(index)), index, level, np.full((len(index), 2), np.inf))
        self.split, self.first_child = [-1] * len(index), [-1] * len(index)
        self.ends = np.empty(0, dtype=np.int64)

    def grid(self, levels: Sequence[int]) -> Open:
        return self._roots

    def preorder(self) -> tuple[bytes, np.ndarray]:
        """All trees one after the other; `ends` says where each of them ends."""
        data, leaves, self.ends = written(self.split, self.first_child, len(self._roots))
        return data, leaves


@dataclass(frozen=True)
class Task:
    """What all units of a search share; this is what travels once."""

    residual: Residual
    box: tuple[np.ndarray, np.ndarray]
    goal: Goal
    lower: float
    longest: int  # boxes of a unit
    seconds: float


def prove_unit(task: Task, item: tuple[np.ndarray, np.ndarray]) -> bytes:
    """Search sub-boxes, given by index and level (n, d). Runs anywhere."""
    forest, before = Forest(task.box, *item), done()
    run = Run(Limits(math.inf, task.longest, task.seconds))
    found = search(task.residual, task.box, task.goal, run, lower=task.lower, tree=forest)
    if found.rest is None or found.interrupted:
        raise RuntimeError("a unit of a proof was interrupted")
    _, first_leaves = forest.preorder()
    rest, bounds = found.rest
    stuck = found.refuted or bounds is None or forest.is_exhausted(rest)
    if len(rest) and bounds is not None and not stuck:
        rest = split_boxes(forest, rest, bounds, task.goal.exact_goal(found.lower))
    tree, leaves = forest.preorder()
    still_open = np.isin(leaves, rest.nodes)
    order = np.argsort(rest.nodes)
    order = order[np.searchsorted(rest.nodes[order], leaves[still_open])]  # as the tree has them
    rest = rest.take(order)
    marked = np.frombuffer(tree, dtype=np.uint8).copy()
    marked[np.flatnonzero(marked == LEAF)[still_open]] = OPEN
    met = np.full(len(forest.split), np.inf)
    met[first_leaves] = found.leaf_upper
    upper = met[leaves[~still_open]]
    return packed(
        UnitResult(
            tree=marked.tobytes(),
            ends=forest.ends,
            upper=_float32_above(upper),
            exact=float(np.max(upper, initial=0.0)),
            rounding=found.rounding_met,
            lower=found.lower,
            witness=found.witness,
            evaluations=found.evaluations,
            work=done() - before,
            stuck=stuck,
            index=rest.index,
            level=rest.level,
            known=rest.known,
        )
    )


def _float32_above(values: np.ndarray) -> np.ndarray:
    near = values.astype(np.float32)
    return np.where(near >= values, near, np.nextafter(near, np.float32(np.inf)))


def question_key(task: Task) -> str:
    """What a unit's result depends on beside its boxes, in one digest. An error that is known already changes the goal
    of a search for the smallest bound, and nothing else."""
    residual, goal = task.residual, task.goal
    lower = task.lower if goal.tightness is not None else 0.0
    formula = str(residual.target.expression) if isinstance(residual.target, FormulaModels) else ""
    numbers = (goal.exact, goal.rounding, goal.tightness, lower, residual.order, residual.summed_heads, task.longest)
    digest = hashlib.sha256(repr((numbers, formula, type(residual.target).__name__)).encode())
    arrays = [*task.box, residual.constant]
    for head in residual.heads:
        found = [getattr(head, entry.name) for entry in fields(head)]
        arrays += [array for array in found if isinstance(array, np.ndarray)]
        digest.update(repr((head.engine, None if head.grid is None else head.grid.sizes)).encode())
    for array in arrays:
        digest.update(repr((array.shape, str(array.dtype))).encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def in_words(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


class Apart:
    """One search in units."""

    def __init__(
        self, residual: Residual, box: tuple[np.ndarray, np.ndarray], goal: Goal, run: Run, crew: Crew
    ) -> None:
        self._residual, self._box, self._goal, self._run, self._crew = residual, box, goal, run, crew
        per_box = residual.cost(1024, 16) / 1024
        shared = all(by_axes(head, residual.dim) for head in residual.heads)
        shortest = _SHORTEST_GRID if shared else _SHORTEST
        self._longest = int(min(_LONGEST, max(shortest, _NOMINAL / per_box)))
        self._acted: list[Unit] = []  # on, in the order in which they were made: parents before their rest
        self._waiting: deque[Unit] = deque()
        self._open = 0  # boxes of those that wait
        self._volume = self._earlier = 0.0  # shares of the domain: proved; proved by an earlier run
        self._closed, self._key = 0, ""

    def found(self, lower: float, witness: np.ndarray | None) -> SearchResult:
        """Prove the goal on the whole box, or find out why not."""
        limits, goal = self._run.limits, self._goal
        seconds = limits.seconds - limits.elapsed
        task = Task(self._residual, self._box, goal, lower, self._longest, seconds)
        self._key = question_key(task)
        evaluations, exact, rounding, refuted, interrupted = 0, 0.0, 0.0, goal.refuted_by(lower), False
        with self._crew.pieces(prove_unit, task, first_here=True) as queue:
            try:
                self._act_on(self._start(), queue)
                while self._waiting and not refuted:
                    unit = self._waiting[0]
                    found = self._received(unit, queue)
                    self._waiting.popleft()
                    count(unit.uncounted)
                    evaluations += found.evaluations
                    exact, rounding = max(exact, found.exact), max(rounding, found.rounding)
                    if found.lower > lower:
                        lower, witness = found.lower, found.witness
                    refuted = goal.refuted_by(lower)
                    over = evaluations + self._open + len(found.index) > limits.boxes
                    stop = refuted or found.stuck or limits.spent or over
                    self._act_on(unit, None if stop else queue)
                    self._tell(exact, lower)
                    if stop:
                        break
            except KeyboardInterrupt:
                interrupted = True
        left = [part.known for part in self._waiting]
        exact = max(exact, *(float(np.max(known[:, 0])) for known in left), 0.0)
        rounding = max(rounding, *(float(np.max(known[:, 1])) for known in left), 0.0)
        tree, upper = spliced(self._acted)
        finished = not (left or refuted or interrupted)
        found = (tree, len(upper), evaluations, exact, rounding, lower, witness, upper)
        return SearchResult(finished, refuted, *found, interrupted)

    def _start(self) -> Unit:
        """The domain as a unit that is done: a grid of open boxes."""
        tree = BoxTree(*self._box)
        boxes = tree.grid(start_levels(self._residual))
        data, leaves = tree.preorder()
        place = np.empty(len(tree.split), dtype=np.int64)
        place[boxes.nodes] = np.arange(len(boxes))
        boxes = boxes.take(place[leaves])
        nothing = np.zeros((1, tree.dim), dtype=np.int64)
        result = UnitResult(
            tree=data.replace(bytes([LEAF]), bytes([OPEN])),
            ends=np.array([len(data)]),
            upper=np.empty(0, dtype=np.float32),
            index=boxes.index,
            level=boxes.level,
            known=boxes.known,
        )
        return Unit(nothing, nothing, np.full((1, 2), np.inf), result)

    def _act_on(self, unit: Unit, queue: Pieces | None) -> None:
        """Cut what a unit left open into further units and send them off; without a queue they stay as they are."""
        found = unit.result
        if found is None:
            raise RuntimeError("a unit is acted on when it is done")
        self._acted.append(unit)
        self._open -= 0 if len(self._acted) == 1 else len(unit.index)
        most = max(1, self._longest // _ROOTS)
        parts = -(-len(found.index) // most)
        for chosen in np.array_split(np.arange(len(found.index)), parts) if parts else ():
            rest = Unit(found.index[chosen], found.level[chosen], found.known[chosen])
            unit.rest.append(rest)
            self._waiting.append(rest)
            self._open += len(chosen)
            if queue is not None and not self._recalled(rest):
                queue.add(rest, (rest.index, rest.level))
        proved = float(np.ldexp(1.0, -unit.level.sum(axis=1).astype(np.int32)).sum())
        proved -= float(np.ldexp(1.0, -found.level.sum(axis=1).astype(np.int32)).sum())
        self._volume += proved
        self._closed += found.tree.count(LEAF)
        self._earlier += proved if unit.recorded else 0.0
        unit.index = unit.level = found.index[:0]  # what is kept of a unit is its tree
        found.index = found.level = found.known = found.index[:0]

    def _recalled(self, unit: Unit) -> bool:
        """Whether an earlier run has done this unit; a record that does not fit the unit is not believed."""
        if self._run.record is None:
            return False
        content = self._run.record.get(f"{self._key} {unit.name}")
        if content is None:
            return False
        unit.result = unpacked(content, unit.index, unit.level)
        unit.recorded = unit.result is not None
        return unit.recorded

    def _received(self, unit: Unit, queue: Pieces) -> UnitResult:
        """The result of a unit; those of others that come before it are kept, and written down at once."""
        while unit.result is None:
            before = done()
            other, content, error = queue.next()
            if error is not None:
                raise error
            if self._run.record is not None:
                self._run.record.put(f"{self._key} {other.name}", content)
            other.result = unpacked(content, other.index, other.level)
            if other.result is None:
                raise RuntimeError("a worker returned what is no proof of its boxes; is it of the same version?")
            other.uncounted = max(0, other.result.work - (done() - before))
        return unit.result

    def _tell(self, exact: float, lower: float) -> None:
        say, limits = self._run.say, self._run.limits
        if say is None:
            return
        worst = max([exact, *(float(np.max(part.known[:, 0])) for part in list(self._waiting)[:64])])
        state = SearchState(self._volume, lower, worst, self._closed, self._open, limits.elapsed)
        fresh = self._volume - self._earlier
        left = "" if not fresh > 0.0 else f", about {in_words(limits.elapsed * (1.0 - self._volume) / fresh)} left"
        say(Settled(f"{state}, {self._crew.workers} at work{left}", [], len(self._acted) == 2))
