"""Where a formula is undefined on a box: a search for witnesses, not a proof of their absence.

Two kinds of evidence count. A *point* of the box at which an operation leaves its domain (1/0, log(0), sqrt(-1)) or the
value exceeds float64 is found by evaluating a grid, the corners, and the corners and centres of ever smaller boxes on
which interval arithmetic cannot rule the operation out. A *pole between floats*, such as that of 1/(x**2 - 2), is never
hit by a point: there the divisor (or the cosine, for tan) changes its sign within a tiny box and is continuous on it,
so it has a zero. If the box cannot be cleared and no sign change shows ((x**2 - 2)**2), the report is not certain.

Touching the border of the domain is no fault: sqrt(1 - x**2) on [-1, 1] and x**0.5 on [0, 1] are fine, also where
rounding alone puts an argument outside. A step that only a branch of `where` needs is reported only with a point as
witness: where(0 < x, x*log(x), 0) is fine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from softwright.domain import Box
from softwright.targets.descent import lowest
from softwright.targets.formula.enclosure import OUTSIDE, REASONS, Suspect, constant_intervals, enclose
from softwright.targets.formula.formatting import format_node
from softwright.targets.formula.functions import ELEMENTARY
from softwright.targets.formula.intervals import Interval
from softwright.targets.formula.nodes import Node, Operation, Variable
from softwright.targets.formula.removable import continuous_twin
from softwright.targets.formula.tape import Tape
from softwright.targets.formula.values import NUMPY_RULES
from softwright.targets.points import show_point

_GRID_POINTS = 20_000  # fewer for long formulas, so that points times steps stay below _GRID_WORK
_GRID_WORK = 4_000_000
_KEPT_BOXES = 64  # suspicious boxes split further in a round
_HALVINGS = 4  # a round: each box becomes 2**4 boxes
_WORK = 700  # rounds times steps of the tape; about 0.3 s
_MOST_REPORTS = 50
_DESCENTS = 8  # operations that are looked at one by one
_LONGEST = 10_000  # characters of a sub-expression, for programs
_CONFIRMED = 2000  # points of a fault that are looked at with intervals
_NEAR = 1e-6  # of a side: how far from a pole a report may point
_REMEDY = "shrink the box to stay away from there, or guard it with where(condition, a, b)"

# Operations whose values grow without bound, or have no limit, where they are undefined.
_POLES = frozenset({"div", "mod", "pow"} | {name for name, row in ELEMENTARY.items() if row.pole})
# ... and what of their arguments changes its sign there.
_VANISHING: dict[str, Callable[..., Node]] = {
    "div": lambda a, b: b,
    "mod": lambda a, b: b,
    "pow": lambda a, b: a,
    **{name: row.vanishing for name, row in ELEMENTARY.items() if row.vanishing is not None},
}
_JUMPS = frozenset({"where"} | {name for name, row in ELEMENTARY.items() if row.jump})


class Undefined(NamedTuple):
    """A step of the tape at which a formula is undefined somewhere on a box, or, if not `certain`, may be."""

    step: int
    certain: bool
    text: str
    expression: str = ""  # the sub-expression
    point: tuple[float, ...] = ()  # of the variables in their order: where it is undefined, or next to it


class UndefinedSearch:
    """One search over one box; `run` returns the reports, one for each sub-expression at fault."""

    def __init__(
        self,
        tape: Tape,
        folded: Mapping[int, float],
        constants: Mapping[int, Interval],
        names: tuple[str, ...],
        box: Box,
    ) -> None:
        self.tape = tape
        self.folded = folded
        self.constants = constants
        self.names = names
        order = [box.names.index(name) for name in names]
        self.lower, self.upper = box.lower[order], box.upper[order]
        self.guarded = _guarded_steps(tape)
        self.reports: dict[int, Undefined] = {}  # by step

    def run(self) -> list[Undefined]:
        first = self._suspects(self.lower[None], self.upper[None])
        self._try_points(self._grid())
        if first and len(self.reports) <= _MOST_REPORTS:
            self._descend(first)
            self._narrow_down()
        found = list(self.reports.values())
        listed, rest = found[:_MOST_REPORTS], found[_MOST_REPORTS:]
        if rest:
            more = "and more parts are undefined; mend these first"
            certain = any(report.certain for report in rest)
            listed.append(Undefined(rest[0].step, certain, more, rest[0].expression, rest[0].point))
        return listed

    # Points -------------------------------------------------------------------------------------------------------

    def _grid(self) -> np.ndarray:
        """Corners, centre, a grid with an odd number of points per side, scattered points, and those with a zero."""
        dim = len(self.names)
        most = min(_GRID_POINTS, _GRID_WORK // len(self.tape))
        side = int(most ** (1.0 / dim) + 1e-9)
        side -= 1 - side % 2
        scattered = np.random.default_rng(0).uniform(self.lower, self.upper, (1000, dim))
        corners = Box.from_bounds(self.lower, self.upper).corners(1024)
        zeros = np.repeat(scattered[:1], dim + 1, axis=0)  # each coordinate as near to 0 as the box has it, and all
        zeros[np.arange(dim), np.arange(dim)] = zeros[dim] = np.clip(0.0, self.lower, self.upper)
        parts = [zeros, corners, 0.5 * self.lower[None] + 0.5 * self.upper[None], scattered]
        if side >= 3:
            axes = [np.linspace(low, high, side) for low, high in zip(self.lower, self.upper, strict=True)]
            parts.insert(0, np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dim))
        return np.concatenate(parts)

    def _try_points(self, points: np.ndarray) -> None:
        """Report every step that is at fault at one of the points."""
        values, outside = self._evaluate(points)
        overflow = np.zeros(len(points), dtype=bool)
        for output in self.tape.outputs:
            overflow |= ~np.isfinite(values[output])
        for index, found in outside.items():
            overflow &= ~found
            mask = self._beyond_rounding(index, points, found)
            if len(self.reports) <= _MOST_REPORTS and index not in self.reports and mask.any():
                row = _simplest(points, mask)
                where, reason = show_point(self.names, points[row]), self._reason(index, values, row)
                remedy = self._remedy(index, values, row)
                self._report(index, f"is undefined at {where} ({reason}); {remedy}", points[row])
        if overflow.any():
            row = _simplest(points, overflow)
            index = self._first_infinite(values, row)
            where = show_point(self.names, points[row])
            if index not in self.reports:
                self._report(index, f"exceeds float64 at {where}; shrink the box or rescale the formula", points[row])

    def _beyond_rounding(self, index: int, points: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Of the points marked those at which an argument that may touch the border of its domain is truly outside.

        The rounded x**2 + y**2 - 2*x*y is below 0 at points where it is 0: no reason to refuse a root.
        """
        node = self.tape.steps[index].node
        if not isinstance(node, Operation) or not mask.any():
            return mask
        if node.name != "pow" and (node.name in _POLES or len(node.arguments) != 1):
            return mask
        rows = np.flatnonzero(mask)[:_CONFIRMED]
        (value, *rest) = (self._ranges(argument, points[rows], points[rows]) for argument in node.arguments)
        if node.name == "pow":
            certain = (value.upper < 0.0) | (rest[0].lower < 0.0)
        else:
            low, high = ELEMENTARY[node.name].domain
            certain = (value.upper < low) | (value.lower > high)
        kept = np.zeros_like(mask)
        kept[rows[certain]] = True
        return kept

    def _remedy(self, index: int, values: list[np.ndarray], row: int) -> str:
        """What to do about it; a function that is continuous there comes first."""

        def vanishes(node: Node) -> bool:
            place = next(i for i, step in enumerate(self.tape.steps) if step.node == node)
            return bool(values[place][row] == 0.0)

        twin = continuous_twin(self.tape, index, vanishes)
        return f"{twin}: write that; or {_REMEDY}" if twin else _REMEDY

    def _reason(self, index: int, values: list[np.ndarray], row: int) -> str:
        node, arguments = self.tape.steps[index]
        if not isinstance(node, Operation):
            return ""
        if node.name == "pow":
            base = values[arguments[0]][row]
            return "zero to a negative power" if base == 0.0 else "negative number to a power that is no integer"
        return REASONS[node.name]

    def _evaluate(self, points: np.ndarray) -> tuple[list[np.ndarray], dict[int, np.ndarray]]:
        """Values of all steps, and for each step that leaves its domain the points where it does and is needed."""
        count = len(points)
        values: list[np.ndarray] = []
        local: dict[int, np.ndarray] = {}
        with np.errstate(all="ignore"):
            for index, (node, arguments) in enumerate(self.tape.steps):
                if index in self.folded:
                    values.append(np.broadcast_to(self.folded[index], (count,)))
                elif isinstance(node, Variable):
                    values.append(points[:, self.names.index(node.name)])
                elif isinstance(node, Operation):
                    given = [values[a] for a in arguments]
                    values.append(NUMPY_RULES[node.name](*given))
                    if node.name in OUTSIDE and (mask := OUTSIDE[node.name](*given)).any():
                        local[index] = mask
        if local:
            needed = self._needed(values, count)
            local = {index: mask & needed[index] for index, mask in local.items()}
        return values, local

    def _needed(self, values: list[np.ndarray], count: int) -> list[np.ndarray]:
        """At which points each step is needed: always, but for the branch that `where` does not take."""
        needed = [np.zeros(count, dtype=bool) for _ in self.tape.steps]
        for output in self.tape.outputs:
            needed[output][:] = True
        for index in reversed(range(len(self.tape))):
            node, arguments = self.tape.steps[index]
            for place, argument in enumerate(arguments):
                taken = needed[index]
                if isinstance(node, Operation) and node.name == "where" and place > 0:
                    condition = values[arguments[0]].astype(bool)
                    taken = taken & (condition if place == 1 else ~condition)
                needed[argument] |= taken
        return needed

    def _first_infinite(self, values: list[np.ndarray], row: int) -> int:
        """The step nearest to the variables that is infinite or nan at this point, on the way to a bad output."""
        index = next(output for output in self.tape.outputs if not np.isfinite(values[output][row]))
        while True:
            node, arguments = self.tape.steps[index]
            if isinstance(node, Operation) and node.name == "where":
                arguments = arguments[1:2] if values[arguments[0]][row] else arguments[2:]
            bad = [a for a in arguments if not np.isfinite(values[a][row])]
            if not bad:
                return index
            index = bad[0]

    def _report(self, index: int, finding: str, point: np.ndarray, certain: bool = True) -> None:
        node = self.tape.steps[index].node
        found = f"{format_node(node, 80)} {finding}"
        self.reports[index] = Undefined(index, certain, found, format_node(node, _LONGEST), tuple(point.tolist()))

    # Descents -----------------------------------------------------------------------------------------------------

    def _descend(self, suspects: list[Suspect]) -> None:
        """From the best of some points, down to where arguments leave their domains or divisors change their sign."""
        points = self._grid()[-600:]
        most = max(2000, _GRID_WORK // (4 * len(self.tape)))
        for suspect in suspects[:_DESCENTS]:
            if suspect.step in self.reports or not isinstance(suspect.node, Operation):
                continue
            room = self._room(suspect)
            if room is None:
                continue
            found = lowest(room, points, self.lower, self.upper, most)
            self._try_points(found)
            if suspect.step not in self.reports and suspect.node.name in _POLES and suspect.step not in self.guarded:
                self._crossed(suspect, room, found, points)

    def _room(self, suspect: Suspect) -> Callable[[np.ndarray], np.ndarray] | None:
        """What is negative where an operation is undefined, or where what it divides by has changed its sign."""
        node, arguments = self.tape.steps[suspect.step]
        name = node.name if isinstance(node, Operation) else ""
        row = ELEMENTARY.get(name)
        place = arguments[0] if name == "pow" else arguments[-1] if arguments else 0

        def of(points: np.ndarray) -> np.ndarray:
            return np.asarray(self._evaluate(points)[0][place], dtype=float)

        if name in ("div", "mod", "pow"):
            middle = of(0.5 * self.lower[None] + 0.5 * self.upper[None])[0]
            return lambda points: of(points) * (-1.0 if middle < 0 else 1.0)
        if row is None or len(arguments) > 2 or (name != "xlogy" and row.domain == (-np.inf, np.inf)):
            return None
        low, high = (0.0, np.inf) if name == "xlogy" else row.domain

        def inside(points: np.ndarray) -> np.ndarray:
            argument = of(points)
            return np.minimum(argument - low, high - argument)

        return inside

    def _crossed(
        self,
        suspect: Suspect,
        room: Callable[[np.ndarray], np.ndarray],
        found: np.ndarray,
        points: np.ndarray,
    ) -> None:
        """A divisor that has both signs and does not jump is 0 between: report where, next to it."""
        node = suspect.node
        if not isinstance(node, Operation) or node.name not in _VANISHING:
            return
        if node.name == "pow" and not self._exponent_negative(suspect.step, self.lower[None], self.upper[None]):
            return
        at, seen = room(found), room(points)
        tape = Tape((_VANISHING[node.name](*node.arguments),))
        jumps = any(isinstance(s.node, Operation) and s.node.name in _JUMPS for s in tape.steps)
        whole = enclose(tape, constant_intervals(tape), self._columns(self.lower[None], self.upper[None])).defined
        if jumps or not whole.all() or not (np.nanmin(at) < 0 < np.nanmax(seen)):
            return
        low, high = found[int(np.nanargmin(at))], points[int(np.nanargmax(seen))]
        for _ in range(60):
            middle = 0.5 * low + 0.5 * high
            low, high = (middle, high) if room(middle[None])[0] < 0 else (low, middle)
        self._try_points(np.stack([low, high]))
        if suspect.step in self.reports:
            return
        where = show_point(self.names, high)
        self._report(suspect.step, f"is undefined near {where} ({suspect.reason}); {_REMEDY}", high)

    # Boxes --------------------------------------------------------------------------------------------------------

    def _columns(self, lower: np.ndarray, upper: np.ndarray) -> dict[str, Interval]:
        return {name: Interval(lower[:, i], upper[:, i]) for i, name in enumerate(self.names)}

    def _suspects(self, lower: np.ndarray, upper: np.ndarray) -> list[Suspect]:
        """Steps without a report yet that may be undefined, on boxes where an output may be."""
        found = enclose(self.tape, self.constants, self._columns(lower, upper))
        open_steps = [s for s in found.suspects if s.step not in self.reports]
        live = [s._replace(boxes=s.boxes & ~found.defined) for s in open_steps]
        return [s for s in live if s.boxes.any()]

    def _narrow_down(self) -> None:
        lower, upper = self.lower[None], self.upper[None]
        rounds = int(np.clip(_WORK / len(self.tape), 6, 14 * len(self.names)))
        suspects: list[Suspect] = []
        for _ in range(rounds):
            lower, upper = _split(lower, upper, self.upper - self.lower)
            suspects = self._suspects(lower, upper)
            if not suspects:
                return
            lower, upper, suspects = _keep_some(lower, upper, suspects)
            self._try_points(_box_points(lower, upper))
            suspects = [s for s in suspects if s.step not in self.reports]
            if not suspects:
                return
        for suspect in suspects:
            self._judge(suspect, lower[suspect.boxes], upper[suspect.boxes])

    def _judge(self, suspect: Suspect, lower: np.ndarray, upper: np.ndarray) -> None:
        """The last word on a step that tiny boxes could not clear and no point convicted."""
        node = suspect.node
        if not isinstance(node, Operation) or node.name not in _POLES or suspect.step in self.guarded:
            return  # at the border of the domain of sqrt, asin, ... : touching it is fine
        if node.name == "pow" and not self._exponent_negative(suspect.step, lower, upper):
            return
        crossing = self._sign_change(node, lower, upper)
        certain = crossing is not None
        point = 0.5 * lower[crossing or 0] + 0.5 * upper[crossing or 0]
        where = show_point(self.names, point)
        verb = "is" if certain else "may be"
        self._report(suspect.step, f"{verb} undefined near {where} ({suspect.reason}); {_REMEDY}", point, certain)

    def _exponent_negative(self, step: int, lower: np.ndarray, upper: np.ndarray) -> bool:
        exponent = self.tape.steps[self.tape.steps[step].arguments[1]].node
        return bool(np.any(self._ranges(exponent, lower, upper).lower < 0.0))

    def _ranges(self, node: Node, lower: np.ndarray, upper: np.ndarray) -> Interval:
        tape = Tape((node,))
        return enclose(tape, constant_intervals(tape), self._columns(lower, upper)).outputs[0]

    def _sign_change(self, node: Operation, lower: np.ndarray, upper: np.ndarray) -> int | None:
        """A box at two of whose corners the divisor provably has opposite signs, and on which it is continuous."""
        if node.name not in _VANISHING:
            return None
        tape = Tape((_VANISHING[node.name](*node.arguments),))
        if any(isinstance(s.node, Operation) and s.node.name in _JUMPS for s in tape.steps):
            return None
        # Boxes of a few floats are too small for interval arithmetic to tell a sign; look a little further out.
        around = _NEAR * (self.upper - self.lower)
        lower, upper = np.maximum(lower - around, self.lower), np.minimum(upper + around, self.upper)
        constants = constant_intervals(tape)
        continuous = enclose(tape, constants, self._columns(lower, upper)).defined
        negative, positive = np.zeros_like(continuous), np.zeros_like(continuous)
        for corner in _corners(lower, upper):
            value = enclose(tape, constants, self._columns(corner, corner)).outputs[0]
            negative |= value.upper < 0.0
            positive |= value.lower > 0.0
        hits = np.flatnonzero(negative & positive & continuous)
        return int(hits[0]) if hits.size else None


def _guarded_steps(tape: Tape) -> frozenset[int]:
    """Steps that are needed only within a branch of `where`."""
    free = set(tape.outputs)
    for index in reversed(range(len(tape))):
        if index in free:
            node, arguments = tape.steps[index]
            is_where = isinstance(node, Operation) and node.name == "where"
            free.update(arguments[:1] if is_where else arguments)
    return frozenset(range(len(tape))) - free


def _simplest(points: np.ndarray, mask: np.ndarray) -> int:
    """Of the marked points the one that is shortest to write, so that a report says x=0 rather than x=-0.73241."""
    rows = np.flatnonzero(mask)[:100]
    return int(min(rows, key=lambda row: len("".join(f"{value:.6g}" for value in points[row]))))


def _split(lower: np.ndarray, upper: np.ndarray, sides: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each box in 16: four times, the side that is longest relative to the whole box is halved."""
    for _ in range(_HALVINGS):
        widest = np.argmax((upper - lower) / sides, axis=1)
        rows = np.arange(len(lower))
        middle = 0.5 * lower[rows, widest] + 0.5 * upper[rows, widest]
        left_upper, right_lower = upper.copy(), lower.copy()
        left_upper[rows, widest] = middle
        right_lower[rows, widest] = middle
        lower, upper = np.concatenate([lower, right_lower]), np.concatenate([left_upper, upper])
    return lower, upper


def _keep_some(
    lower: np.ndarray, upper: np.ndarray, suspects: list[Suspect]
) -> tuple[np.ndarray, np.ndarray, list[Suspect]]:
    """A fair share of suspicious boxes for each step, spread over all that it has."""
    share = max(1, _KEPT_BOXES // len(suspects))
    chosen: set[int] = set()
    for suspect in suspects:
        rows = np.flatnonzero(suspect.boxes)
        chosen.update(rows[np.unique(np.linspace(0, len(rows) - 1, share).astype(int))].tolist())
    rows = np.array(sorted(chosen))
    return lower[rows], upper[rows], [s._replace(boxes=s.boxes[rows]) for s in suspects]


def _corners(lower: np.ndarray, upper: np.ndarray) -> list[np.ndarray]:
    """Corners of each box: all in one to three dimensions, else the lowest, the highest and six more."""
    dim = lower.shape[1]
    choices = [((bits >> np.arange(dim)) & 1).astype(bool) for bits in range(min(2**dim, 7))]
    return [*(np.where(choice, upper, lower) for choice in choices), upper]


def _box_points(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    return np.concatenate([0.5 * lower + 0.5 * upper, *_corners(lower, upper)])
