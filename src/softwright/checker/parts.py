"""The parts of a statement about a network and a target, each proved again: here, or in pieces by somebody who helps.

Parts. With several parts each is proved on its own variables; their bounds, and the modulus of the sum of the constants
taken off their residuals, must add up to no more than the statement (see `statement.py`).

Pieces. The walk over a long tree can be cut at its nodes: a piece is the way from the domain to a box, and the sub-tree
of that box. The cut is made here, from the tree of the file, so the pieces together are the whole tree; each is proved
wherever the helper likes, by the code that would prove it here. Whoever names a helper believes what it returns, as he
believes the machine that this runs on.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np
from flint import arb, ctx

from softwright.checker.boxes import Proof
from softwright.checker.limits import UndecidedError, check_time, limited, time_left
from softwright.checker.precision import assumed_by
from softwright.checker.refusal import NotProvedError, require
from softwright.checker.statement import Statement, read_statement
from softwright.checker.verdict import Verdict, settled
from softwright.fileformat import ModelFile

LEAF = 255
PIECE = 500  # leaves of a piece at most
# targets that a file may name without holding them -> the hypothesis that they are what the builder saw
ELSEWHERE = {"table": "table", "interpolant": "table", "network": "source-weights"}
Item = tuple[int, list[list[int]], bytes]  # number of the part, way to the box, its sub-tree


class Helper(Protocol):
    """Somebody who calls function(shared, item) for every item and hands over the results in their order."""

    def each(self, function: Callable[[Any, Any], Any], shared: Any, items: Sequence[Any]) -> Iterator[Any]: ...


_HELPER: ContextVar[Helper | Executor | None] = ContextVar("helper", default=None)
_READ: list[tuple[ModelFile, Statement]] = []  # the statement that was read last: all pieces of a proof ask for it


@contextmanager
def helped(helper: Helper | Executor | None) -> Iterator[None]:
    """Whatever can be cut into pieces within is given to the helper."""
    token = _HELPER.set(helper)
    try:
        yield
    finally:
        _HELPER.reset(token)


def read_parts(file: ModelFile) -> Statement:
    statement = read_statement(file)
    for part in statement.parts:
        if not statement.formula:  # what remains of the residual is the network: no bound of it is claimed
            part.exact = arb.pos_inf()
    return statement


def cut(tree: bytes, dim: int, most: int) -> Iterator[tuple[list[list[int]], bytes]]:
    """The largest sub-trees with at most so many leaves, in preorder, each with the way to it."""
    require(all(node < dim or node == LEAF for node in set(tree)), f"the proof tree splits more than {dim} variables")
    sizes, pending = array("L", bytes(array("L").itemsize * len(tree))), []  # nodes of the tree that begins here
    for place in range(len(tree) - 1, -1, -1):
        size = 1
        if tree[place] != LEAF:
            require(len(pending) >= 2, "the proof tree ends before it covers the domain")
            size += pending.pop() + pending.pop()
        sizes[place] = size
        pending.append(size)
    require(len(pending) == 1, "the proof tree goes on after its last leaf")
    steps: list[tuple[int, tuple[Any, ...]]] = [(0, ())]
    while steps:
        place, way = steps.pop()
        if sizes[place] <= 2 * most - 1:
            yield _unrolled(way), tree[place : place + sizes[place]]
            continue
        node, left = tree[place], place + 1
        steps += [(left + sizes[left], (way, node, 1)), (left, (way, node, 0))]


def _unrolled(way: tuple[Any, ...]) -> list[list[int]]:
    found = []
    while way:
        way, node, half = way
        found.append([node, half])
    return found[::-1]


def proved_in_pieces(
    file: ModelFile, number: int, tree: bytes, dim: int, helper: Helper | Executor, progress: Callable[[int], None]
) -> int:
    """Prove a part by a helper; the number of boxes, once every piece is proved."""
    items: list[Item] = [(number, way, below) for way, below in cut(tree, dim, PIECE)]
    require(sum(below.count(LEAF) for _, _, below in items) == tree.count(LEAF), "the pieces are not the tree")
    shared, boxes, answers = (file, time_left(), ctx.prec, ctx.cap), 0, 0
    if isinstance(helper, Executor):
        results = helper.map(functools.partial(prove_piece, shared), items)
    else:
        results = helper.each(prove_piece, shared, items)
    for done, refusal, undecided in results:
        check_time()
        if refusal:
            raise (UndecidedError if undecided else NotProvedError)(refusal)
        boxes, answers = boxes + done, answers + 1
        progress(boxes)
    require(answers == len(items), f"{answers} of {len(items)} pieces were answered for")
    return boxes


def prove_piece(shared: tuple[ModelFile, float | None, int, int], item: Item) -> tuple[int, str, bool]:
    """Runs at the helper's: the boxes of a piece, why it is not proved, and whether that is for want of time."""
    file, seconds, bits, cap = shared
    number, way, tree = item
    before = ctx.prec, ctx.cap
    try:
        ctx.prec, ctx.cap = bits, cap
        with limited(seconds), np.errstate(all="ignore"), assumed_by(file.sections["certificate"]):
            known = _READ[:1]
            if not known or known[0][0] is not file:
                known = _READ[:] = [(file, read_parts(file))]
            statement = known[0][1]
            proof = Proof(statement.parts[number], statement)
            proof.walk(proof.leaves([(node, half) for node, half in way], tree), lambda _: None)
            return proof.boxes, "", False
    except NotProvedError as error:
        return 0, str(error) or "not re-proved", isinstance(error, UndecidedError)
    finally:
        ctx.prec, ctx.cap = before


def reprove_boxes(file: ModelFile, progress: Callable[[int], None]) -> Verdict:
    """Prove every part of the statement in a file again. `progress` is called with the boxes done so far."""
    statement, boxes, helper = read_parts(file), 0, _HELPER.get()
    for number, part in enumerate(statement.parts):
        if not statement.formula and part.tree is None:
            continue
        proof, before = Proof(part, statement), boxes

        def report(done: int, before: int = before) -> None:
            progress(before + done)

        long = part.tree is not None and part.tree.count(LEAF) > 2 * PIECE
        if helper is not None and long and statement.exponent is None:
            boxes += proved_in_pieces(file, number, part.tree or b"", proof.space.dim, helper, report)
            continue
        with np.errstate(all="ignore"):  # overflows become infinities, which prove nothing
            proof.run(report)
        boxes += proof.boxes
    norm = "sup" if statement.exponent is None else f"L{statement.exponent:g} norm of"
    claim = f"{norm} |network - target| <= {statement.bound:.6g}"
    if statement.formula:
        by_axes = " as the factorised engine runs it" if file.sections["certificate"]["engine"] == "factorised" else ""
        return settled(f"{claim} re-proved{by_axes}", boxes=boxes)
    known = "cover and rounding were re-proved" if boxes else "nothing but its sums could be checked"
    reason = f"{claim}; the file does not hold the target: {known}"
    stated = "stated-exact-part" if boxes else "stated-bound"
    return settled(reason, (*hypotheses_of(file.sections["target"]), stated), boxes=boxes)


def hypotheses_of(target: dict[str, Any]) -> tuple[str, ...]:
    """What must be assumed of a target that is not in the file, beside what is stated of the error."""
    if target["kind"] != "function":
        return (f"{ELSEWHERE[target['kind']]}:{target['sha256']}",)
    promise = "user-lipschitz" if target["second_derivative"] is None else "user-second-derivative"
    return "callable-values", promise
