"""`Ranges`: ranges of formulas over a whole box, tight enough to decide signs and domains, each found once.

Boxes are bisected until their enclosures show what is asked: a range up to a share of what samples show, or a sign.
Each box is enclosed in three ways, all rigorous, and the narrowest ends are kept:

    natural          the interval of the formula
    monotone ends    where a partial derivative has a sign on the box, its variable stands at one end for the lower
                     bound and at the other for the upper one
    mean values      f(m) + sum_i [f_i] (x_i - m_i)

and besides a sub-expression that is used several times may stand as a coordinate of its own, with its own range in
place of what it is made of: sqrt(A^2 + B) - A > 0 for all A of a range and B > 0, whatever A and B are.

What is proved of a node is kept and met with every later enclosure of it. The work is counted, and where it is used up
the answer is a wider range, never a wrong one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from softwright.checker.composition.dag import CONDITIONS, Dag
from softwright.checker.composition.enclosing import Enclosing
from softwright.checker.composition.intervals import Array, Interval, total
from softwright.checker.refusal import UndefinedError, require
from softwright.checker.trees import Tree

Range = tuple[float, float]
WHOLE: Range = (-np.inf, np.inf)
BOXES, MOST_BOXES = 300, 3_000  # for a range, and for a sign that matters
MOST_WORK = 4_000_000  # arguments of nodes times boxes for all ranges together, unless more is granted
NESTED = 3  # sub-expressions that stand as coordinates at once
MOST_ROUNDS = 60  # bisections of one box
SAMPLES = 64
DEEPEST = 30  # sub-expressions within sub-expressions that are looked at for a sign
LEAST = 5e-324


class Ranges:
    """Ranges of nodes over the box lower <= x <= upper. Trees are put into `dag`, whose variables are the names'."""

    def __init__(self, names: Sequence[str], lower: Array, upper: Array, dag: Dag | None = None) -> None:
        self.names, self.dag = list(names), Dag() if dag is None else dag
        self.lower, self.upper = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
        require(bool((self.lower <= self.upper).all()), "a box has sides that end before they begin")
        require(bool((np.isfinite(self.lower) & np.isfinite(self.upper)).all()), "a box must be finite")
        self.inputs = [self.dag.variable(i) for i in range(len(self.names))]
        self.known: dict[int, Range] = {
            number: (float(low), float(high))
            for number, low, high in zip(self.inputs, self.lower, self.upper, strict=True)
        }
        self.enclosing = Enclosing(self.dag, self.known)
        self._ranged: set[int] = set()
        self._signed: dict[int, int] = {}  # a node -> boxes that a search for its sign had
        self.shared: dict[str, object] = {}  # what those who compare formulas over this box want to keep
        self._depth = 0
        self._most_work = MOST_WORK
        self._rng = np.random.default_rng(0)

    def of(self, tree: Tree) -> Range:
        """A range of a tree in the inputs."""
        return self.range(self.dag.tree(tree, self.inputs))

    def range(self, number: int) -> Range:
        """A range of a node, its ends within some twentieth of its width of what is taken."""
        if number not in self._ranged:
            self._ranged.add(number)
            for coordinates in self._choices(number):
                self.learn(number, self._search(number, coordinates, BOXES, None))
        return self.known.get(number, WHOLE)

    def sign(self, number: int, strict: bool = True, most: int = MOST_BOXES) -> int:
        """1 or -1 if the node is proved to be above or below 0 everywhere; without `strict`, or to be 0; else 0."""
        low, high = self._refined(number, most)
        if strict:
            return 1 if low > 0 else -1 if high < 0 else 0
        return 1 if low >= 0 else -1 if high <= 0 else 0

    def is_positive(self, number: int) -> bool:
        return self.sign(number) > 0

    def is_not_negative(self, number: int) -> bool:
        if self.is_law_of_cosines(number):
            self.learn(number, (0.0, np.inf))
        return self._refined(number, MOST_BOXES)[0] >= 0

    def is_law_of_cosines(self, number: int) -> bool:
        """Whether a node is a^2 + b^2 + c 2 a b with c a sine or a cosine, or its negative: at least (|a| - |b|)^2."""
        node, squares, mixed = self.dag[number], [], None
        if node.kind != "sum" or len(node.arguments) != 3:
            return False
        for sign, term in zip(node.payload, node.arguments, strict=True):
            part = self.dag[term]
            if sign > 0 and part.kind == "pow" and self.dag.rational(part.arguments[1]) == 2:
                squares.append(part.arguments[0])
            elif part.kind == "product" and all(s > 0 for s in part.payload):
                mixed = part.arguments
        if len(squares) != 2 or mixed is None:
            return False
        factors = [n for n in mixed if self.dag[n].kind not in ("sin", "cos", "number")]
        waves = [n for n in mixed if self.dag[n].kind in ("sin", "cos")]
        sizes = [self.dag.rational(n) for n in mixed if self.dag[n].kind == "number"]
        return sorted(factors) == sorted(squares) and len(waves) == 1 and sizes == [2]

    def grant(self, work: int) -> None:
        """Allow so much more work from here on."""
        self._most_work = self.enclosing.work + work

    def look(self, number: int) -> None:
        """Learn the range that one look at the whole box shows, with all that is known of the parts."""
        self.learn(number, self._search(number, self._coordinates(number), 1, None))

    def is_within(self, number: int, low: float, high: float) -> bool:
        """Whether what is known shows that the node lies in [low, high] everywhere."""
        return _inside(self.known.get(number, WHOLE), (low, high))

    def within(self, number: int, low: float, high: float) -> bool:
        """Whether the node is proved to lie in [low, high] everywhere."""
        goal = low, high
        if not self.is_within(number, low, high):
            self._by_parts(number, goal)
        for coordinates in self._choices(number):
            if self.is_within(number, low, high):
                break
            self.learn(number, self._search(number, coordinates, MOST_BOXES, goal))
        return self.is_within(number, low, high)

    def _by_parts(self, number: int, goal: Range) -> None:
        """The range of a sum whose terms fall into groups without common variables: the sum of the groups' ranges."""
        groups = self._groups(number)
        if len(groups) < 2:
            return
        parts = [self.dag.sum(group) for group in groups]
        seen = [self._sampled(n, self._coordinates(n), self._sides(n)) for n in parts]
        room = [sum(ends[0] for ends in seen) - goal[0], goal[1] - sum(ends[1] for ends in seen)]
        if not np.isfinite(seen).all() or not min(room) > 0:
            return
        share = [0.9 * one / len(parts) for one in room]
        for n, ends in zip(parts, seen, strict=True):
            self.within(n, float(ends[0] - share[0]), float(ends[1] + share[1]))
        known = [self.known.get(n, WHOLE) for n in parts]
        found = total((Interval(np.array([low]), np.array([high])) for low, high in known), 1)
        self.learn(number, (float(found.lower[0]), float(found.upper[0])))

    def _groups(self, number: int) -> list[list[tuple[int, int]]]:
        """The terms of a sum, (sign, node), those with common variables together, constants with the first."""
        node = self.dag[number]
        if node.kind != "sum":
            return []
        groups: list[tuple[set[int], list[tuple[int, int]]]] = []
        for term in zip(node.payload, node.arguments, strict=True):
            variables, terms = set(self.dag.variables([term[1]])), [term]
            apart = []
            for other, held in groups:
                if variables & other or not variables or not other:
                    variables, terms = variables | other, held + terms
                else:
                    apart.append((other, held))
            groups = [*apart, (variables, terms)]
        return [terms for _, terms in groups]

    def _sides(self, number: int) -> Array:
        return np.array([self.known[c] for c in self._coordinates(number)])

    def stream(self, features: Sequence[Tree]) -> list[int]:
        """The nodes of the inputs and of features, each a tree in the inputs and in the features before it."""
        nodes = list(self.inputs)
        for tree in features:
            nodes.append(self.dag.tree(tree, nodes))
        return nodes

    def learn(self, number: int, found: Range) -> None:
        """Keep a range of a node that was proved elsewhere."""
        low, high = self.known.get(number, WHOLE)
        self.known[number] = max(low, found[0]), min(high, found[1])

    # Definedness ----------------------------------------------------------------------------------------------------

    def prove_defined(self, targets: Sequence[Tree]) -> None:
        """Every operation of the formulas has a value at every point of the box, or `UndefinedError`."""
        numbers = [self.dag.tree(tree, self.inputs) for tree in targets]
        self.require_defined(numbers)

    def require_defined(self, numbers: Sequence[int], features: Sequence[int] = ()) -> None:
        """So it is with nodes; `features` are nodes that are known to have a value everywhere."""
        numbers = [n for n in numbers if n not in features and not (features and self._is_defined(n, features))]
        for number in self.dag.needed(numbers):
            self._prepare(number)
        pending = [n for n in numbers if not self._is_defined(n)]
        if pending:
            raise UndefinedError("the formula could not be shown to be defined everywhere on the box")

    def _prepare(self, number: int) -> None:
        """The signs that an operation needs, so that they are known when whole boxes are looked at."""
        node = self.dag[number]
        if node.kind in ("log", "log2", "log10", "lgamma", "gamma"):
            self.is_positive(node.arguments[0])
        elif node.kind == "sqrt":
            self.is_not_negative(node.arguments[0])
        elif node.kind == "product":
            for sign, argument in zip(node.payload, node.arguments, strict=True):
                if sign < 0:
                    self.sign(argument)
        elif node.kind == "pow":
            exponent = self.dag.rational(node.arguments[1])
            if exponent is not None and exponent.q == 1 and exponent < 0:
                self.sign(node.arguments[0])
            elif exponent is None or exponent.q != 1:
                self.is_not_negative(node.arguments[0])
        elif node.kind in ("asin", "acos", "atanh", "acosh", "log1p", "xlogy"):
            self.range(node.arguments[-1])

    def _is_defined(self, number: int, features: Sequence[int] = ()) -> bool:
        """By bisection of the whole formula; one look at the whole box is enough where all signs are known."""
        lower, upper = self.lower[None].copy(), self.upper[None].copy()
        taken = {n: self.known.get(n, WHOLE) for n in features}
        spent = 0
        while True:
            given = {n: Interval(np.full(len(lower), a), np.full(len(lower), b)) for n, (a, b) in taken.items()}
            given |= {n: Interval(lower[:, i], upper[:, i]) for i, n in enumerate(self.inputs)}
            _, masks = self.enclosing.values([number], given, len(lower))
            open_ = ~masks[number]
            if not open_.any():
                return True
            if features:
                return False
            spent += len(lower)
            if spent > MOST_BOXES or self.enclosing.work > self._most_work:
                return False
            lower, upper = _halves(lower[open_], upper[open_], (upper - lower)[open_])

    # Searching ------------------------------------------------------------------------------------------------------

    def _refined(self, number: int, most: int) -> Range:
        """The known range after a search for a sign, on the side that samples show."""
        low, high = self.known.get(number, WHOLE)
        if low > 0 or high < 0 or self._signed.get(number, 0) >= most:
            return low, high
        self._signed[number] = most
        if self._depth < DEEPEST and self.dag[number].kind in ("product", "pow", "sqrt"):
            for argument in self.dag[number].arguments:  # the signs of the parts show more than boxes
                self._depth += 1
                self._refined(argument, most)
                self._depth -= 1
        for coordinates in self._choices(number):
            self.learn(number, self._search(number, coordinates, most, None, for_sign=True))
            low, high = self.known[number]
            if low > 0 or high < 0:
                break
        return low, high

    def _choices(self, number: int) -> Iterator[list[int]]:
        """The variables, then what may stand for them; found when asked for."""
        yield self._coordinates(number)
        yield from self._cuts(number)

    def _coordinates(self, number: int) -> list[int]:
        return self.dag.variables([number])

    def _cuts(self, number: int) -> list[list[int]]:
        """Sets of coordinates in which sub-expressions that are used several times stand for themselves."""
        order = self.dag.needed([number])
        uses = dict.fromkeys(order, 0)
        for n in order:
            for argument in self.dag[n].arguments:
                uses[argument] += 1
        repeated = [
            n
            for n in reversed(order)
            if uses[n] > 1 and self.dag.varies[n] and self.dag[n].kind not in ("variable", *CONDITIONS)
        ]
        found: list[list[int]] = []
        chosen: list[int] = []
        if self._depth >= DEEPEST or self.enclosing.work > self._most_work:
            return found
        for n in repeated[:NESTED]:
            self._depth += 1
            ends = self.range(n)
            self._depth -= 1
            if not np.isfinite(ends).all():
                continue
            chosen = [*chosen, n]
            below = self.dag.needed([number], chosen)
            cut = [c for c in below if c in chosen or self.dag[c].kind == "variable"]
            if cut not in found:
                found.append(cut)
        return found

    def _search(
        self, number: int, coordinates: list[int], most: int, goal: Range | None, for_sign: bool = False
    ) -> Range:
        """The range over the box of coordinates by bisection: up to some slack, into the goal, or away from 0."""
        if not self.dag.varies[number]:
            values, masks = self.enclosing.values([number], {}, 1)
            ends = float(values[number].lower[0]), float(values[number].upper[0])
            return ends if masks[number][0] else WHOLE
        sides = np.array([self.known[c] for c in coordinates])
        lower, upper = sides[None, :, 0].copy(), sides[None, :, 1].copy()
        if self.enclosing.work > self._most_work:
            return WHOLE
        seen = self._sampled(number, coordinates, sides)
        if for_sign:
            goal = (LEAST, np.inf) if seen[1] > 0 else (-np.inf, -LEAST)
            if seen[0] < 0 < seen[1]:
                return WHOLE  # there is none
        if goal is None:
            slack = 0.05 * max(seen[1] - seen[0], 0.0) if np.isfinite(seen).all() else np.inf
            goal = float(seen[0] - slack), float(seen[1] + slack)
        low, high, spent, rounds = np.inf, -np.inf, 0, 0
        while True:
            found, defined, weight = self._enclosed(number, coordinates, lower, upper)
            wide = (found.lower < goal[0]) | (found.upper > goal[1]) | ~defined
            if not for_sign:
                wide |= ~found.finite
            spent, rounds = spent + len(lower), rounds + 1
            full = spent + 2 * int(wide.sum()) > most or rounds > MOST_ROUNDS or self.enclosing.work > self._most_work
            done = np.ones_like(wide) if full else ~wide
            if done.any():
                low, high = min(low, found.lower[done].min()), max(high, found.upper[done].max())
            if full or not wide.any():
                return float(low), float(high)
            lower, upper = _halves(lower[wide], upper[wide], weight[wide])

    def _enclosed(
        self, number: int, coordinates: list[int], lower: Array, upper: Array
    ) -> tuple[Interval, Array, Array]:
        """Over boxes (n, k): the range, where it is defined, and how much (n, k) each coordinate seems to matter."""
        count, width = len(lower), upper - lower
        given = {c: Interval(lower[:, i], upper[:, i]) for i, c in enumerate(coordinates)}
        values, masks = self.enclosing.values([number], given, count)
        natural, defined = values[number], masks[number]
        slopes = self.enclosing.slopes(number, given, values)
        low, high = (np.stack([getattr(slopes[c], end) for c in coordinates], axis=1) for end in ("lower", "upper"))
        rising, falling = (low >= 0) & defined[:, None], (high <= 0) & defined[:, None]
        found = natural
        if (rising | falling).any():
            for up, down, name in ((rising, falling & ~rising, "lower"), (falling & ~rising, rising, "upper")):
                first, last = np.where(down, upper, lower), np.where(up, lower, upper)
                ends = {c: Interval(first[:, i], last[:, i]) for i, c in enumerate(coordinates)}
                inner = self.enclosing.values([number], ends, count)[0][number]
                first_end = name == "lower"
                inner = Interval(inner.lower, found.upper) if first_end else Interval(found.lower, inner.upper)
                found = found.meet(inner)
        middle = lower + 0.5 * width
        steady = defined & np.isfinite(low).all(axis=1) & np.isfinite(high).all(axis=1)
        if steady.any():
            centre = {c: Interval(middle[:, i], middle[:, i]) for i, c in enumerate(coordinates)}
            mean = self.enclosing.values([number], centre, count)[0][number]
            steps = (slopes[c] * (given[c] - centre[c]) for c in coordinates)
            mean = mean + total(steps, count)
            found = found.meet(mean).where(steady, found)
        crossed = found.lower > found.upper  # coordinates that no point has: anything is true there
        found = natural.where(crossed, found)
        with np.errstate(all="ignore"):
            weight = np.maximum(np.abs(low), np.abs(high)) * width * np.where(rising | falling, 1e-3, 1.0)
        usable = np.isfinite(weight).all(axis=1, keepdims=True) & (weight.max(axis=1, keepdims=True) > 0)
        scale = np.maximum(width.max(axis=0, keepdims=True), 1e-300)
        return found, defined, np.where(usable, weight, width / scale)

    def _sampled(self, number: int, coordinates: list[int], sides: Array) -> Array:
        """The least and the largest value at random points and ends: where a search may stop, no more than that."""
        share = self._rng.random((SAMPLES, len(coordinates)))
        share[: SAMPLES // 4] = np.rint(share[: SAMPLES // 4])
        x = sides[:, 0] + share * (sides[:, 1] - sides[:, 0])
        given = {c: Interval(x[:, i], x[:, i]) for i, c in enumerate(coordinates)}
        values, masks = self.enclosing.values([number], given, SAMPLES)
        defined = masks[number] & values[number].finite
        if not defined.any():
            return np.array([-np.inf, np.inf])
        return np.array([values[number].upper[defined].min(), values[number].lower[defined].max()])


def _inside(found: Range, goal: Range) -> bool:
    return goal[0] <= found[0] and found[1] <= goal[1]


def _halves(lower: Array, upper: Array, weight: Array) -> tuple[Array, Array]:
    """Each box bisected along its heaviest side."""
    rows, axis = np.arange(len(lower)), weight.argmax(axis=1)
    middle = lower[rows, axis] + 0.5 * (upper[rows, axis] - lower[rows, axis])
    under, over = upper.copy(), lower.copy()
    under[rows, axis], over[rows, axis] = middle, middle
    return np.vstack([lower, over]), np.vstack([under, upper])
