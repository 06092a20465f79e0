"""An independent checker: re-proves a certificate in ball arithmetic. Shares no code with the prover, needs no torch.

Written to be read: whoever believes this file, its tools in `checking/` (parser, Taylor models, heads, statement), python-
flint and the file reader need not believe the rest of softwright.

Boxes. The stored tree is walked from the domain with exact rationals, so its leaves cover the domain. On a leaf
x = c + r s, |s_i| <= 1, the residual g - f becomes a polynomial in s plus an error. Its Bernstein coefficients b_i bound
it: sup <= max|b_i|, and since the Bernstein polynomials are weights of equal integral, int |q|^P <= volume mean|b_i|^P.
A leaf whose bound is not sharp enough here is bisected further; a centre with a larger error than stated refutes.

Parts. With several parts each is proved on its own variables; their bounds, and the modulus of the sum of the constants
taken off their residuals, must add up to no more than the statement (see `certificate.py` for what is stated).
"""

from __future__ import annotations

import functools
import math
import operator
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from flint import arb, arb_mat, ctx

from softwright.certify.checking.head import UNIT, View, ceiling
from softwright.certify.checking.parser import NotProvedError, UndefinedError, require
from softwright.certify.checking.statement import Box, Part, read_statement
from softwright.certify.checking.taylor import ZERO, Model, Space, evaluate, total
from softwright.errors import FileFormatError

ORDERS = {1: (12, 24), 2: (10, 14), 3: (8, 10)}  # dimension -> smallest and largest degree used here; else (4, 6)
EXTRA_DEPTH, OWN_BUDGET = 16, 50_000  # bisections of one leaf here; boxes in all if the file brings no tree
PRECISIONS = (128, 1024)  # bits: first, and last after doublings
BATCH = 64  # boxes worked on together


@dataclass(frozen=True)
class Verdict:
    """`status`: VERIFIED (re-proved), CONSISTENT (nothing is wrong, but it cannot be re-proved here) or NOT VERIFIED."""

    status: str
    reason: str
    boxes: int = 0
    seconds: float = 0.0

    @property
    def verified(self) -> bool:
        return self.status == "VERIFIED"

    def __str__(self) -> str:
        return f"{self.status}: {self.reason} ({self.boxes} boxes, {self.seconds:.2f} s)"


@dataclass
class Item:
    box: Box
    views: tuple[View, ...]
    depth: int = 0


@dataclass
class Finding:
    """What is known on a box: bounds whose maximum bounds the residual, and whether it may still be improved, and how."""

    bounds: list[arb]
    seen: arb  # a lower bound of the residual at the centre
    rounding: float
    axis: int  # the variable to bisect
    noisy: bool  # more precision would help more


class Proof:
    """The walk over the boxes of one part."""

    def __init__(self, part: Part, order: int, heads: int, dtype: str, exponent: float | None) -> None:
        self.part, self.exponent, self.boxes, dim = part, exponent, 0, len(part.columns)
        smallest, largest = ORDERS.get(dim, (4, 6))
        self.space = Space(dim, min(max(order, smallest), largest))
        self.joining = heads * UNIT[dtype] if heads > 1 else 0.0  # at least gamma of heads - 1 additions
        self.allowed = float(part.rounding)
        if exponent is not None:  # a rounding error of at most e everywhere has an Lp norm of at most e volume^(1/p)
            self.allowed = float((part.rounding / volume(part.domain) ** (1 / arb(exponent))).lower()) * (1 - 2.0**-50)
        c, r = self.frame(part.domain)
        for head in part.heads:
            head.measure(np.array([ceiling(abs(x) + y) for x, y in zip(c, r, strict=True)]))
        size = sum(len(head.bias) for head in part.heads) * (1 + sum(head.largest for head in part.heads))
        self.smallest = max(min(float(part.exact), self.allowed) / (2**14 * (size + 1)), 1e-300)

    def frame(self, box: Box) -> tuple[list[arb], list[arb]]:
        """Centre and radius of a box in the network's frame t = (x - center) * scale."""
        sides = list(zip(*box, self.part.center, self.part.scale, strict=True))
        return [arb(((a + b) / 2 - m) * s) for a, b, m, s in sides], [abs(arb((b - a) / 2 * s)) for a, b, _, s in sides]

    def narrowed(self, item: Item) -> Item:
        c, r = self.frame(item.box)
        views = tuple(view.narrowed(c, r, self.smallest) for view in item.views)
        same = all(a is b for a, b in zip(views, item.views, strict=True))
        return item if same else Item(item.box, views, item.depth)

    def leaves(self) -> Iterator[Item]:
        """The leaves of the tree in preorder; the domain itself if the file brings no tree."""
        root = tuple(View(head, np.arange(len(head.bias)), 0.0) for head in self.part.heads)
        pending = [Item(self.part.domain, root)]
        for node in b"\xff" if self.part.tree is None else self.part.tree:
            require(pending, "the proof tree goes on after its last leaf")
            item = pending.pop()
            item = self.narrowed(item) if item.depth % 2 == 0 else item
            if node == 255:
                yield Item(item.box, item.views)
                continue
            require(node < self.space.dim, f"the proof tree splits variable {node} of {self.space.dim}")
            pending += halves(item, node)[::-1]
        require(not pending, "the proof tree ends before it covers the domain")

    def run(self, progress: Callable[[int], None] | None) -> None:
        items = self.leaves()
        for _ in range(6):  # for a sup norm the first pass is the last: it bisects box by box
            integral, parents = ZERO, []
            for batch in batches(items):
                if self.exponent is None:
                    self.settle(batch)
                else:
                    for item, found in zip(batch, self.examine(batch), strict=True):
                        mean = total(x ** arb(self.exponent) for x in found.bounds) / len(found.bounds)
                        integral += mean * volume(item.box)
                        require(found.rounding <= self.allowed, f"rounding not re-proved in {show(item.box)}")
                        parents.append((item, found.axis))
                    self.boxes += len(batch)
                if progress:
                    progress(self.boxes)
            if self.exponent is None or integral ** (1 / arb(self.exponent)) <= self.part.exact:
                return
            items = iter([half for item, axis in parents for half in halves(item, axis)])
        require(
            False,
            f"not re-proved: the L{self.exponent:g} norm came out as {float(integral ** (1 / arb(self.exponent))):.6g}",
        )

    def settle(self, batch: list[Item]) -> None:
        """Prove the bound on every box of a batch that shares its views, bisecting where that is needed."""
        part, own = self.part, self.part.tree is None
        while batch:
            again: list[Item] = []
            for item, found in zip(batch, self.examine(batch), strict=True):
                self.boxes += 1
                require(
                    not found.seen > part.exact,
                    f"refuted: the error exceeds {float(part.exact):.6g} in {show(item.box)}",
                )
                if all(x <= part.exact for x in found.bounds) and found.rounding <= self.allowed:
                    continue
                if found.noisy and ctx.prec < PRECISIONS[1]:
                    ctx.prec *= 2
                    again.append(item)
                    continue
                got = f"{float(functools.reduce(arb.max, found.bounds)):.6g} + {found.rounding:.3g}"
                goal = f"{float(part.exact):.6g} + {self.allowed:.3g}"
                small = self.boxes < OWN_BUDGET if own else item.depth < EXTRA_DEPTH
                require(small, f"not re-proved: {got} against {goal} in {show(item.box)}")
                again += [self.narrowed(half) if own else half for half in halves(item, found.axis)]
            batch, rest = again[:BATCH], again[BATCH:]
            if rest or any(item.views is not batch[0].views for item in batch):
                for group in batches(iter(again)):
                    self.settle(group)
                return

    def examine(self, batch: list[Item]) -> Iterator[Finding]:
        part, space, m = self.part, self.space, len(self.part.outputs)
        frames = [self.frame(item.box) for item in batch]
        heads = [list(view.on_boxes(space, frames, self.allowed)) for view in batch[0].views]
        residuals: list[Model] = []
        for b, item in enumerate(batch):
            variables = []
            for i, (low, high) in enumerate(zip(*item.box, strict=True)):
                slopes = [arb((high - low) / 2) if i == k else ZERO for k in range(space.dim)]
                variables.append(Model(space, space.linear(arb((low + high) / 2), slopes)))
            for o, terms in enumerate(part.outputs):
                residual = functools.reduce(
                    operator.add, (head[b][0][o] for head in heads), Model(space, space.linear(ZERO))
                )
                try:
                    target = evaluate(("sum", [*terms, (1, ("number", part.constant[o]))]), variables)
                except UndefinedError:
                    target = Model(space, space.linear(ZERO), arb.pos_inf())
                residuals.append(residual - target)
        coefficients = [space.coefficients(residual.parts) for residual in residuals]
        bernstein = (arb_mat([row[: space.low_count] for row in coefficients]) * space.bernstein).tolist()
        for b, (_, r) in enumerate(frames):
            own = range(b * m, (b + 1) * m)
            errors = [residuals[n].error + total(map(abs, coefficients[n][space.low_count :])) for n in own]
            bounds = [[abs(x) + e for x in bernstein[n]] for n, e in zip(own, errors, strict=True)]
            runs = [(sum(head[b][1][o] for head in heads), sum(head[b][2][o] for head in heads)) for o in range(m)]
            rounding = max((run + self.joining * (run + size)) * (1 + 2.0**-30) for run, size in runs)
            pull = [
                sum(
                    powers[i] * abs(float(x))
                    for n in own
                    for powers, x in zip(space.monomials, coefficients[n], strict=True)
                )
                for i in range(space.dim)
            ]
            axis = int(np.argmax(pull if math.isfinite(sum(pull)) and sum(pull) > 0 else list(map(float, r))))
            noise = functools.reduce(arb.max, (total(x.rad() for x in coefficients[n]) for n in own))
            yield Finding(
                bounds=[functools.reduce(arb.max, column) for column in zip(*bounds, strict=True)],
                seen=functools.reduce(arb.max, (abs(coefficients[n][0]) - residuals[n].error for n in own)),
                rounding=rounding,
                axis=axis,
                noisy=bool(8 * noise > part.exact),
            )


def batches(items: Iterator[Item]) -> Iterator[list[Item]]:
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


def verify(path: str | Path, progress: Callable[[int], None] | None = None) -> Verdict:
    """Re-prove the certificate in a model file. `progress` is called with the number of boxes done so far."""
    started, boxes, before = time.perf_counter(), 0, (ctx.prec, ctx.cap)
    try:
        ctx.prec, ctx.cap = PRECISIONS[0], 64
        parts, said, count, obstacle = read_statement(path)
        for part in parts:
            proof = Proof(part, said["order"], count, said["dtype"], said.get("p"))
            if obstacle:
                boxes += sum(1 for _ in proof.leaves())
                continue
            proof.run(progress)
            boxes += proof.boxes
        status, reason = "VERIFIED", f"|network - target| <= {said['bound']:.6g} re-proved"
        if obstacle:
            status = "CONSISTENT"
            reason = f"{obstacle}, so the statement rests on: {'; '.join(said['assumptions'])}. Only weights, cover and format were checked"
    except NotProvedError as error:
        status, reason = "NOT VERIFIED", str(error)
    except FileFormatError as error:
        status, reason = "NOT VERIFIED", str(error)
    except (
        KeyError,
        TypeError,
        ValueError,
        IndexError,
        ArithmeticError,
        AttributeError,
        RecursionError,
        zlib.error,
    ) as error:
        status, reason = "NOT VERIFIED", f"the statement is damaged ({type(error).__name__}: {error})"
    finally:
        ctx.prec, ctx.cap = before
    return Verdict(status, reason, boxes, time.perf_counter() - started)
