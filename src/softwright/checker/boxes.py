"""The proof by boxes: the stored tree is walked again, and every leaf is proved in ball arithmetic.

Boxes. The stored tree is walked from the domain with exact rationals, so its leaves cover the domain. On a leaf
x = c + r s, |s_i| <= 1, the residual g - f becomes a polynomial in s plus an error. Its Bernstein coefficients b_i
bound it: sup <= max|b_i|, and as Bernstein polynomials are weights of equal integral, int |q|^P <= volume mean|b_i|^P.
A leaf whose bound is not sharp enough here is bisected further; a centre with a larger error than stated refutes. So
does, of a norm, int |q|^P >= volume |mean of q|^P, by Jensen, and the mean of q is that of its b_i.

The parts of a statement, and pieces of a long walk that others take, are in `parts.py`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from flint import arb, arb_mat, ctx

from softwright.checker.gates import proved_by_gates
from softwright.checker.grid import GridView, sides_of
from softwright.checker.head import View, ceiling
from softwright.checker.limits import check_time
from softwright.checker.parser import NotProvedError, UndefinedError, require
from softwright.checker.statement import Box, Part, Statement
from softwright.checker.taylor import ZERO, Model, Space, evaluate, space_of, total

Way = Sequence[tuple[int, int]]  # from the domain to one of its boxes: variable and half of each halving
# variables -> smallest and largest degree used here, whatever order the certificate names
ORDERS = {1: (12, 24), 2: (10, 14), 3: (8, 10), 4: (6, 8), 5: (5, 8), 6: (4, 6), 7: (4, 4), 8: (4, 4)}
EXTRA_DEPTH, OWN_BUDGET = 16, 10_000  # bisections of one leaf here; boxes in all if the file brings no tree
ALL_TOKENS = 6  # bisections of a leaf after which grids are taken token by token
MOST_BITS = 1024  # of the balls, after doublings
BATCH = 64  # boxes worked on together
ROUNDS = 6  # of bisecting all boxes for an Lp norm
NORM_BUDGET = 2_000  # boxes for it, beside three for each leaf of the tree


@dataclass
class Item:
    box: Box
    views: tuple[View | GridView, ...]
    depth: int = 0
    for_rounding: int = 0  # bisections that only the rounding bound asked for


@dataclass
class Finding:
    """What is known on a box: of every output coefficients of the residual, their Bernstein coefficients, and errors.

    How to know more, and what only norms need, is computed where it is asked for: most boxes are proved at once.
    """

    space: Space
    coefficients: list[list[arb]]
    bernstein: list[list[arb]]
    errors: list[arb]  # of the Bernstein polynomials
    seen: arb  # a lower bound of the residual at the centre
    rounding: float
    radii: list[arb]

    @functools.cached_property
    def largest(self) -> arb:
        """Bounds the residual."""
        each = zip(self.bernstein, self.errors, strict=True)
        return functools.reduce(arb.max, (functools.reduce(arb.max, map(abs, row)) + e for row, e in each))

    @property
    def bounds(self) -> list[arb]:
        """Moduli of Bernstein coefficients plus the error, of the largest output each."""
        moduli = [[abs(x) + e for x in row] for row, e in zip(self.bernstein, self.errors, strict=True)]
        return [functools.reduce(arb.max, column) for column in zip(*moduli, strict=True)]

    @property
    def mean(self) -> arb:
        """A lower bound of the modulus of an output's mean."""
        each = zip(self.bernstein, self.errors, strict=True)
        return functools.reduce(arb.max, (abs(total(row) / len(row)) - e for row, e in each))

    @property
    def axis(self) -> int:
        """The variable to bisect: the one that moves the residual most, or the widest side."""
        moduli = np.sum([np.abs(np.array(list(map(float, row)))) for row in self.coefficients], axis=0)
        pull = moduli @ np.array(self.space.monomials)
        return int(np.argmax(pull)) if pull.max() > 0 else int(np.argmax(list(map(float, self.radii))))

    def noisy(self, exact: arb) -> bool:
        """Whether more precision would help more."""
        return any(not 8 * total(x.rad() for x in row) <= exact for row in self.coefficients)


class Proof:
    """The walk over the boxes of one part."""

    def __init__(self, part: Part, statement: Statement) -> None:
        self.part, self.statement, self.boxes, self.undefined = part, statement, 0, ""
        self.exponent = statement.exponent
        # Adding the heads' outputs: at least gamma of (heads - 1) additions.
        self.joining = (
            (statement.heads - 1) * statement.precision.unit * (1 + 2 * statement.heads * statement.precision.unit)
        )
        self.allowed = float(part.rounding)
        if self.exponent is not None:  # a rounding error of at most e everywhere has the norm e volume^(1/p) or less
            allowed = part.rounding / volume(part.domain) ** (1 / arb(self.exponent))
            self.allowed = float(allowed.lower()) * (1 - 2.0**-50)
        c, r = self.frame(part.domain)
        reach, scale = [ceiling(abs(x) + y) for x, y in zip(c, r, strict=True)], [ceiling(arb(s)) for s in part.scale]
        for head in part.heads:
            head.measure(np.array(reach), np.array(scale), part.frame)
            together = 2 * statement.heads * head.tokens * head.largest  # no sum of the run is larger
            require(together < statement.precision.largest / 16, f"values overflow in {statement.precision.name}")
            in_range = 2 * head.extent < statement.precision.largest / 16
            require(in_range, f"scores overflow in {statement.precision.name}")
        size = sum(head.tokens for head in part.heads) * (1 + sum(head.largest for head in part.heads))
        self.smallest = max(min(float(part.exact), self.allowed) / (2**14 * (size + 1)), 1e-300)

    @functools.cached_property
    def space(self) -> Space:
        """The polynomials on boxes; a closed form needs none and has no limit on its variables."""
        dim = len(self.part.columns)
        require(dim in ORDERS, f"{dim} variables are more than the {max(ORDERS)} that boxes are checked in")
        smallest, largest = ORDERS[dim]
        return space_of(dim, min(max(self.statement.order, smallest), largest))

    def frame(self, box: Box) -> tuple[list[arb], list[arb]]:
        """Centre and radius of a box in the network's frame t = (x - center) * scale."""
        sides = list(zip(*box, self.part.center, self.part.scale, strict=True))
        return [arb(((a + b) / 2 - m) * s) for a, b, m, s in sides], [arb((b - a) / 2 * s) for a, b, _, s in sides]

    def narrowed(self, item: Item) -> Item:
        c, r = self.frame(item.box)
        views = tuple(view.narrowed(c, r, self.smallest) for view in item.views)
        same = all(a is b for a, b in zip(views, item.views, strict=True))
        return item if same else replace(item, views=views)

    def views(self, by_axes: bool) -> tuple[View | GridView, ...]:
        """All tokens of every head; grids axis by axis, unless biases are too far from sums for what is claimed."""
        found: list[View | GridView] = []
        for head, sizes in zip(self.part.heads, self.part.grids, strict=True):
            sides = sides_of(head, sizes) if by_axes else None
            fine = sides is not None and arb(float(8 * sides.off.max() * head.largest)) < self.part.exact / 64
            found.append(GridView(sides) if sides is not None and fine else View(head, np.arange(head.tokens)))
        return tuple(found)

    def leaves(self, way: Way = (), tree: bytes | None = None) -> Iterator[Item]:
        """The leaves of the tree in preorder; the domain itself if the file brings no tree. With `way` and `tree`,
        those of a sub-tree: a variable and a half (0 or 1) for each halving that leads to it.
        """
        start = Item(self.part.domain, self.views(by_axes=True))
        for node, half in way:
            start = halves(self.narrowed(start) if start.depth % 2 == 0 else start, node)[half]
        whole = b"\xff" if self.part.tree is None else self.part.tree
        pending = [start]
        for node in whole if tree is None else tree:
            require(pending, "the proof tree goes on after its last leaf")
            item = pending.pop()
            item = self.narrowed(item) if item.depth % 2 == 0 else item
            if node == 255:
                yield Item(item.box, item.views)
                continue
            require(node < self.space.dim, f"the proof tree splits variable {node} of {self.space.dim}")
            pending += halves(item, node)[::-1]
        require(not pending, "the proof tree ends before it covers the domain")

    def run(self, progress: Callable[[int], None]) -> None:
        """Prove the part; returns only if that worked."""
        if self.part.tree is None and proved_by_gates(self.part, self.statement):
            return
        if self.exponent is not None:
            self.integrate(self.exponent, progress)
            return
        self.walk(self.leaves(), progress)

    def walk(self, leaves: Iterable[Item], progress: Callable[[int], None]) -> None:
        """Prove the sup bound on all of these leaves."""
        for batch in batches(leaves):
            self.settle(batch)
            progress(self.boxes)

    def settle(self, batch: list[Item]) -> None:
        """Prove the sup bound on every box of a batch, bisecting where that is needed."""
        exact, own, pending = self.part.exact, self.part.tree is None, [batch]
        while pending:
            again: list[Item] = []
            batch, precision = pending.pop(), ctx.prec
            for item, found in zip(batch, self.examine(batch), strict=True):
                self.boxes += 1
                where = f"in {show(item.box)}"
                require(not found.seen > exact, f"refuted: the error exceeds {float(exact):.6g} {where}")
                proved = bool(found.largest <= exact)
                if proved and found.rounding <= self.allowed:
                    continue
                # Small boxes lose the factor e^rho of omega, no more: a few bisections show all there is to gain.
                in_budget = self.boxes < OWN_BUDGET if own else item.depth < EXTRA_DEPTH
                in_budget = in_budget and item.for_rounding < 3 * self.space.dim
                # Where no smaller box helps, digits may: asin of what is nearly -1.
                hidden = not in_budget and not found.largest.is_finite()
                if precision < MOST_BITS and (hidden or found.noisy(exact)):
                    ctx.prec = 2 * precision
                    again.append(item)
                    continue
                got = f"{float(found.largest):.6g} + {found.rounding:.3g}"
                where += "" if found.largest.is_finite() else self.undefined
                require(in_budget, f"not re-proved: {got} against {float(exact):.6g} + {self.allowed:.3g} {where}")
                # Where axes are of no use, tokens may be.
                views = self.views(by_axes=False) if item.depth == ALL_TOKENS else item.views
                # What steers knows the polynomial and not its error: every third time the widest side is halved.
                axis = self.widest(item.box) if item.depth % 3 == 2 else found.axis
                for half in halves(replace(item, views=views), axis):
                    half.for_rounding = item.for_rounding + proved
                    again.append(self.narrowed(half) if own else half)
            pending += batches(again)

    def widest(self, box: Box) -> int:
        """The side that is the largest share of the domain's."""
        sides = zip(*box, *self.part.domain, strict=True)
        shares = [float(arb((b - a) / (high - low))) if high > low else 0.0 for a, b, low, high in sides]
        return int(np.argmax(shares))

    def integrate(self, exponent: float, progress: Callable[[int], None]) -> None:
        """Prove the Lp bound, bisecting all boxes where the first sum is not sharp enough."""
        p, items, norm = arb(exponent), list(self.leaves()), ZERO
        budget = NORM_BUDGET + 3 * len(items)
        for _ in range(ROUNDS):
            integral, least, finer, rounded = ZERO, ZERO, [], True
            for batch in batches(items):
                for item, found in zip(batch, self.examine(batch), strict=True):
                    bounds, mean = found.bounds, found.mean
                    integral += total(x.upper() ** p for x in bounds) / len(bounds) * volume(item.box)
                    least += mean.lower() ** p * volume(item.box) if mean > 0 else ZERO
                    rounded = rounded and found.rounding <= self.allowed
                    finer += halves(item, found.axis)
                self.boxes += len(batch)
                progress(self.boxes)
            norm = integral.upper() ** (1 / p)
            if rounded and norm <= self.part.exact:
                return
            lower = least.lower() ** (1 / p) if least > 0 else ZERO
            require(not lower > self.part.exact, f"refuted: the norm is at least {float(lower):.6g}")
            if self.boxes + len(finer) > budget:
                break
            items = finer
        raise NotProvedError(f"not re-proved: the norm came out as {float(norm):.6g}, or rounding as too large")

    def examine(self, batch: list[Item]) -> Iterator[Finding]:
        """What can be said about the residual on boxes that share their views."""
        part, space, m = self.part, self.space, len(self.part.outputs)
        frames = [self.frame(item.box) for item in batch]
        heads = [list(view.on_boxes(space, frames, self.allowed)) for view in batch[0].views]
        residuals, networks, nothing = [], [], Model(space, space.linear(ZERO))
        for b, item in enumerate(batch):
            check_time()
            variables = []
            for i, (low, high) in enumerate(zip(*item.box, strict=True)):
                slopes = [arb((high - low) / 2) if i == k else ZERO for k in range(space.dim)]
                variables.append(Model(space, space.linear(arb((low + high) / 2), slopes)))
            for o, terms in enumerate(part.outputs):
                network = functools.reduce(operator.add, (head[b][0][o] for head in heads), nothing)
                try:
                    target = evaluate(("sum", [*terms, (1, ("number", part.constant[o]))]), variables)
                except UndefinedError as error:
                    target, self.undefined = Model(space, nothing.parts, arb.pos_inf()), f": {error}"
                residuals.append(network - target)
                networks.append(network)
        once = self.statement.precision.rounded
        sums = self.moduli(networks) if once else np.zeros(0)
        coefficients = [space.coefficients(residual.parts) for residual in residuals]
        bernstein = (arb_mat([row[: space.low_count] for row in coefficients]) * space.bernstein).tolist()
        for b in range(len(batch)):
            own = range(b * m, (b + 1) * m)
            errors = [residuals[n].error + total(map(abs, coefficients[n][space.low_count :])) for n in own]
            run = sum((np.array(head[b][1]) for head in heads), np.zeros(m))
            size = sum((np.array(head[b][2]) for head in heads), np.zeros(m))
            run = run + self.joining * (run + size)
            if once and heads:
                run = (
                    run + once * (np.minimum(sums[b * m : (b + 1) * m], size) + run) + self.statement.precision.smallest
                )
            yield Finding(
                space=space,
                coefficients=[coefficients[n] for n in own],
                bernstein=[bernstein[n] for n in own],
                errors=errors,
                seen=functools.reduce(arb.max, (abs(coefficients[n][0]) - residuals[n].error for n in own)),
                rounding=float(np.max(run * (1 + 2.0**-30))),
                radii=frames[b][1],
            )

    def moduli(self, models: list[Model]) -> np.ndarray:
        """Upper bounds of |g| for each of these models, by their Bernstein coefficients."""
        rows = [self.space.coefficients(model.parts) for model in models]
        count = self.space.low_count
        bernstein = (arb_mat([row[:count] for row in rows]) * self.space.bernstein).tolist()
        found = []
        for model, row, low in zip(models, rows, bernstein, strict=True):
            largest = functools.reduce(arb.max, map(abs, low)) + model.error + total(map(abs, row[count:]))
            found.append(ceiling(largest) if largest.is_finite() else np.inf)
        return np.array(found)


def batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Runs of at most BATCH boxes with the same views."""
    batch: list[Item] = []
    for item in items:
        if batch and (item.views is not batch[0].views or len(batch) >= BATCH):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def halves(item: Item, axis: int) -> list[Item]:
    low, high = item.box
    left, right = list(high), list(low)
    left[axis] = right[axis] = (low[axis] + high[axis]) / 2
    return [Item((low, left), item.views, item.depth + 1), Item((right, high), item.views, item.depth + 1)]


def volume(box: Box) -> arb:
    return arb(functools.reduce(operator.mul, (b - a for a, b in zip(*box, strict=True))))


def show(box: Box) -> str:
    return " x ".join(f"[{float(arb(a)):.9g}, {float(arb(b)):.9g}]" for a, b in zip(*box, strict=True))
