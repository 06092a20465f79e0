"""`prove_same`: the program of a composed network means the formula, everywhere on the box.

Both become polynomials over the same atoms (`normal.py`); their difference is shown to be 0 wherever both have a value.
That the formula has one everywhere on the box is shown apart (`prove_defined`), and that every feature has one is part
of the proof of the features. Where |D| of a D with both signs is left in the difference, the two cases D >= 0 and
D <= 0 are looked at one by one. Balls at a few points only refute.

`limited`: ranges from the formula's own words. A compiler multiplies out and puts together anew: (x + y - 0.86)^2
becomes a sum of x, y and the square of x + y, whose interval is far wider than that of the square. But the formula is
there too, and where the normal forms of two nodes are the same up to a factor a and a constant b, their values are,

    node  =  a relative + b     wherever both have a value,

so a range of the relative is one of the node. What the formula is made of has values everywhere on the box
(`prove_defined`); a feature whose arguments are shown to have values, one after the other, has one where this shows
that its function is asked inside its domain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from flint import arb, ctx, fmpq

from softwright.checker.composition.dag import CONDITIONS
from softwright.checker.composition.intervals import BITS, Interval, above, below
from softwright.checker.composition.normal import Normaliser
from softwright.checker.composition.polynomials import UNIT, Poly, plus, scaled
from softwright.checker.composition.ranges import Range, Ranges
from softwright.checker.refusal import NotProvedError, UndefinedError, require
from softwright.checker.trees import Tree

TRIED = 16  # points at which a difference is looked for
MOST_PARTS = 60  # sub-expressions whose relatives are asked
MOST_CASES = 7  # signs that are assumed at once


def prove_defined(formula: Sequence[Tree], ranges: Ranges) -> None:
    """Every operation of the formula has a value at every point of the box, or `UndefinedError`."""
    ranges.prove_defined(formula)


def prove_same(formula: Sequence[Tree], features: Sequence[Tree], outputs: Sequence[Tree], ranges: Ranges) -> None:
    """The outputs equal the formula on the box, or `NotProvedError`.

    Trees speak of the inputs as variables 0 .. d-1, and of feature j as variable d + j.
    """
    require(len(formula) == len(outputs), "the program has another number of outputs than the formula")
    stream = ranges.stream(features)
    wanted = [ranges.dag.tree(tree, ranges.inputs) for tree in formula]
    found = [ranges.dag.tree(tree, stream) for tree in outputs]
    _check_branches(wanted, ranges)
    _check_branches(found, ranges, stream[len(ranges.inputs) :])
    _prove(wanted, found, ranges, "output {} of the program", "the formula")


def prove_texts(texts: Sequence[Tree], features: Sequence[Tree], ranges: Ranges) -> None:
    """Each text means its feature, both in the inputs and the features before it."""
    require(len(texts) == len(features), "there is not one text for each feature")
    stream = ranges.stream(features)
    wanted = stream[len(ranges.inputs) :]
    found = [ranges.dag.tree(tree, stream[: len(ranges.inputs) + k]) for k, tree in enumerate(texts)]
    _check_branches([*wanted, *found], ranges, wanted)
    _prove(wanted, found, ranges, "the text of feature {}", "what it computes")


def _check_branches(targets: list[int], ranges: Ranges, features: Sequence[int] = ()) -> None:
    """Both branches of a choice that is open have values everywhere.

    The algebra clears denominators, which is right where they are not 0; in a branch that is not taken they may be.
    `features` of the program have values everywhere, or their heads are not proved.
    """
    given = {n: Interval(ranges.lower[i : i + 1], ranges.upper[i : i + 1]) for i, n in enumerate(ranges.inputs)}
    for number in ranges.dag.needed(targets):
        node = ranges.dag[number]
        if node.kind == "where":
            truth = ranges.enclosing.values([node.arguments[0]], given, 1)[0][node.arguments[0]]
            if truth.lower[0] != truth.upper[0]:
                ranges.require_defined(node.arguments[1:], features)


def agree(ranges: Ranges, one: int, other: int, features: Sequence[int] = ()) -> bool:
    """Whether two nodes, the first made of features, are shown to be the same wherever both have a value."""
    try:
        _check_branches([one], ranges, features)
        _check_branches([other], ranges)
        return one == other or _agree(_normaliser(ranges), one, other, 0)
    except (RecursionError, UndefinedError):
        return False


def _normaliser(ranges: Ranges) -> Normaliser:
    normal = ranges.shared.get("normal")
    if not isinstance(normal, Normaliser):
        normal = ranges.shared["normal"] = Normaliser(ranges)
    return normal


def _prove(wanted: list[int], found: list[int], ranges: Ranges, what: str, aim: str) -> None:
    _refute(wanted, found, ranges, what, aim)
    normal = _normaliser(ranges)
    for k, (one, other) in enumerate(zip(wanted, found, strict=True)):
        try:
            agreed = one == other or _agree(normal, one, other, MOST_CASES)
        except RecursionError:  # of terms within terms, as a file may nest them
            agreed = False
        require(agreed, f"{what.format(k + 1)} could not be shown to be {aim}")


def _refute(wanted: list[int], found: list[int], ranges: Ranges, what: str, aim: str) -> None:
    """A point at which the two differ ends the search for a proof."""
    share = np.random.default_rng(2).random((TRIED, len(ranges.names)))
    x = ranges.lower + share * (ranges.upper - ranges.lower)
    given = {n: Interval(x[:, i], x[:, i]) for i, n in enumerate(ranges.inputs)}
    values, masks = ranges.enclosing.values([*wanted, *found], given, TRIED)
    for k, (one, other) in enumerate(zip(wanted, found, strict=True)):
        a, b, both = values[one], values[other], masks[one] & masks[other]
        apart = both & ((a.upper < b.lower) | (b.upper < a.lower))
        if apart.any():
            place = int(np.flatnonzero(apart)[0])
            at = ", ".join(f"{name} = {value:.6g}" for name, value in zip(ranges.names, x[place], strict=True))
            raise NotProvedError(f"{what.format(k + 1)} is not {aim}: they differ at {at}")


def _agree(normal: Normaliser, one: int, other: int, cases: int) -> bool:
    difference = plus(normal.of(one), normal.of(other), -1)
    if normal.is_zero(difference):
        return True
    open_ = _undecided(normal, difference)
    if open_ is None or cases == 0:
        return False
    sides = [1, -1]
    for side in (1, -1):
        if len(sides) > 1 and _settled(normal, open_, side):
            sides.remove(side)
    for side in sides:
        normal.assumed[open_] = side
        normal.forget()
        try:
            agreed = _agree(normal, one, other, cases - 1)
        finally:
            del normal.assumed[open_]
            normal.forget()
        if not agreed:
            return False
    return True


def _settled(normal: Normaliser, new: int, side: int) -> bool:
    """Whether side D >= 0, with what is assumed already, leaves at most points of the other case, D = 0.

    So it is if side D + sum of l_i s_i D_i, each term of which is >= 0, is a constant <= 0 for some l_i >= 0: below 0
    there is no such point, and at 0 every term is 0. The l_i are those of the only linear combination, by elimination.
    """
    rows = [scaled(normal.atoms[a].inner[0], s) for a, s in normal.assumed.items()]
    rest = scaled(normal.atoms[new].inner[0], side)
    basis: list[tuple[Poly, list[fmpq]]] = []
    for i, assumed in enumerate(rows):
        row, shares = assumed, [fmpq(int(k == i)) for k in range(len(rows))]
        for other, parts in basis:
            row, shares = _eliminated(row, shares, other, parts)
        if any(m != UNIT for m in row):
            basis.append((row, shares))
    shares = [fmpq(0)] * len(rows)
    for other, parts in basis:
        rest, shares = _eliminated(rest, shares, other, parts)
    constant = all(m == UNIT for m in rest) and rest.get(UNIT, fmpq(0)) <= 0
    return constant and all(share >= 0 for share in shares)


def _eliminated(row: Poly, shares: list[fmpq], other: Poly, parts: list[fmpq]) -> tuple[Poly, list[fmpq]]:
    """row with the multiple of `other` added that removes the first term of `other`."""
    lead = max(m for m in other if m != UNIT)
    if lead not in row:
        return row, shares
    factor = -row[lead] / other[lead]
    return plus(row, other, factor), [a + factor * b for a, b in zip(shares, parts, strict=True)]


def _undecided(normal: Normaliser, p: Poly) -> int | None:
    """The first |D| in a polynomial, or in what its atoms are made of, whose sign is not assumed yet."""
    seen: set[int] = set()
    pending = [a for m in p for a, _ in m]
    found: list[int] = []
    while pending:
        a = pending.pop()
        if a in seen:
            continue
        seen.add(a)
        if normal.atoms[a].kind == "abs" and a not in normal.assumed:
            found.append(a)
        pending += [b for inner in normal.atoms[a].inner for m in inner for b, _ in m]
    return min(found, default=None)


def limited(ranges: Ranges, number: int, low: float, high: float) -> bool:
    """Whether a node is shown to lie in [low, high]: as it is, by its relatives, or by those of its parts."""
    normal = ranges.shared.get("normal")
    if not isinstance(normal, Normaliser):
        return ranges.within(number, low, high)
    try:
        parts = [n for n in ranges.dag.needed([number]) if _matters(ranges, n)]
        for n in parts[-MOST_PARTS:]:  # from the inside out: what is known of one narrows the next
            for other, a, b in normal.relatives_of(n):
                if other < n:
                    ranges.range(other)
                    _learn(ranges, n, other, a, b)
        ranges.look(number)
        for other, a, b in normal.relatives_of(number):
            if ranges.is_within(number, low, high):
                return True
            ends = sorted(((low - float(b)) / float(a), (high - float(b)) / float(a)))
            ranges.within(other, *ends)
            _learn(ranges, number, other, a, b)
    except (NotProvedError, RecursionError, OverflowError):  # what is known already may be enough
        pass
    return ranges.within(number, low, high)


def _matters(ranges: Ranges, number: int) -> bool:
    return ranges.dag.varies[number] and ranges.dag[number].kind not in ("variable", *CONDITIONS)


def _learn(ranges: Ranges, number: int, other: int, a: fmpq, b: fmpq) -> None:
    """The range of a node from that of its relative, outward."""
    low, high = ranges.known.get(other, (-math.inf, math.inf))
    found = Interval(np.array([low]), np.array([high])) * _number(a) + _number(b)
    ends: Range = float(found.lower[0]), float(found.upper[0])
    if not any(map(math.isnan, ends)):
        ranges.learn(number, ends)


def _number(exact: fmpq) -> Interval:
    with ctx.workprec(BITS):
        ball = arb(exact)
        return Interval(np.array([below(ball)]), np.array([above(ball)]))
