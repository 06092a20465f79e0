"""Formulas that jump, where the claim excludes bands: the same formula with indicators [c > 0] of listed differences.

A claim may list differences c_k and a gap g > 0: it speaks of those points of the box alone at which |c_k| >= g for all
k. There a comparison a <= b of a formula is worth [b - a > 0] if b - a is, up to its sign, one of them, and so are

    sign(u) = 2 [u > 0] - 1     step(u) = [u > 0]     floor(u) = n + sum_k [u - k > 0]     ceil(u) = -floor(-u)
    round(u) = floor(u + 1/2)   mod(a, b) = a - b floor(a/b)    and   where, by [c], its `and`, `or`, `not`.

Comparisons that are decided on the box need not be listed. That a difference is one that is listed is shown by the
normal form of both; so is it that the score of every step of the program is one, whose size the proof of the step rests
on. Of [c > 0] and [-c > 0] = 1 - [c > 0] the one is taken whose difference is listed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flint import fmpq

from softwright.checker.composition.program import Feature, Program
from softwright.checker.composition.ranges import Ranges
from softwright.checker.composition.same import agree
from softwright.checker.parser import Parser
from softwright.checker.refusal import NotProvedError, require
from softwright.checker.trees import Tree

ZERO, ONE = ("number", fmpq(0)), ("number", fmpq(1))
MOST_LISTED, MOST_VALUES = 256, 256


class Bands:
    """What the claim excludes: differences as nodes of the dag of the ranges."""

    def __init__(self, outside: dict[str, Any], names: Sequence[str], ranges: Ranges) -> None:
        self.ranges, self.gap = ranges, float(outside["gap"])
        require(0 < self.gap < math.inf, "the gap is not a positive number")
        require(0 < len(outside["of"]) <= MOST_LISTED, f"a claim lists 1 to {MOST_LISTED} differences")
        require(len(set(outside["of"])) == len(outside["of"]), "a difference is listed twice")
        self.trees: list[Tree] = []
        for text in outside["of"]:
            found = Parser(text, names).outputs()
            require(len(found) == 1, "a difference that is listed has several values")
            self.trees.append(found[0])
        ranges.prove_defined(self.trees)
        # What is listed may jump itself; it is the same number with indicators, outside of the bands.
        self.nodes: list[int] = []
        for tree in self.trees:
            self.nodes.append(ranges.dag.tree(self.rewritten(tree), ranges.inputs))

    def rewritten(self, tree: Tree) -> Tree:
        """The formula with indicators in place of jumps; refuses a jump that is neither decided nor listed."""
        kind = tree[0]
        if kind in ("number", "variable", "pi", "e"):
            return tree
        if kind in ("sum", "product"):
            return (kind, [(sign, self.rewritten(child)) for sign, child in tree[1]])
        if kind == "where":
            first, second = self.rewritten(tree[2]), self.rewritten(tree[3])
            if first == second:
                return first
            return _chosen(self._truth(tree[1]), first, second)
        arguments = [self.rewritten(child) for child in tree[1:]]
        if kind == "sign":
            return _chosen(self._above(arguments[0], False), ONE, ("number", fmpq(-1)))
        if kind == "step":
            return _chosen(self._above(arguments[0], True), ONE, ZERO)
        if kind == "floor":
            return self._floor(arguments[0])
        if kind == "ceil":
            return _negated(self._floor(_negated(arguments[0])))
        if kind == "round":
            return self._floor(("sum", [(1, arguments[0]), (1, ("number", fmpq(1, 2)))]))
        if kind == "mod":
            a, b = arguments
            return _difference(a, ("product", [(1, b), (1, self._floor(("product", [(1, a), (-1, b)])))]))
        return (kind, *arguments)

    def _truth(self, condition: Tree) -> Tree:
        """A condition in the differences that are listed; ONE or ZERO where it is decided."""
        kind = condition[0]
        if kind == "compare":
            links = []
            for symbol, a, b in zip(condition[2], condition[1], condition[1][1:], strict=False):
                less, more = (a, b) if symbol[0] == "<" else (b, a)
                links.append(self._above(_difference(self.rewritten(more), self.rewritten(less)), symbol[-1] == "="))
            return _all(links)
        if kind in ("and", "or"):
            return self._joined(condition[1], kind == "and")
        require(kind == "not", "a condition of an unknown kind")
        return _opposite(self._truth(condition[1]))

    def _joined(self, conditions: list[Tree], all_: bool) -> Tree:
        """`and` or `or`: one that is decided the decisive way is enough, whatever the others are."""
        links, refusal = [], None
        for one in conditions:
            try:
                found = self._truth(one)
            except NotProvedError as error:
                refusal = refusal or error
                continue
            if found == (ZERO if all_ else ONE):
                return found
            links.append(found)
        if refusal is not None:
            raise refusal
        return _all(links) if all_ else _opposite(_all([_opposite(one) for one in links]))

    def _above(self, c: Tree, reached: bool) -> Tree:
        """[c > 0], or [c >= 0]."""
        ranges = self.ranges
        node = ranges.dag.tree(c, ranges.inputs)
        for listed, tree in zip(self.nodes, self.trees, strict=False):
            if agree(ranges, node, listed):
                return _exceeds(self.rewritten(tree))
        opposite = ranges.dag.sum([(-1, node)])
        for listed, tree in zip(self.nodes, self.trees, strict=False):
            if agree(ranges, opposite, listed):
                return _opposite(_exceeds(self.rewritten(tree)))
        ranges.sign(node)
        low, high = ranges.known.get(node, (-math.inf, math.inf))
        if low > 0 or (reached and low >= 0):
            return ONE
        if high < 0 or (high <= 0 and not reached):
            return ZERO
        raise NotProvedError("the formula jumps where the claim excludes nothing")

    def _floor(self, u: Tree) -> Tree:
        ranges = self.ranges
        low, high = ranges.range(ranges.dag.tree(u, ranges.inputs))
        require(math.isfinite(low) and math.isfinite(high), "an argument of floor has no finite range")
        lowest, highest = math.floor(low) - 1, math.floor(high) + 1  # ends may be listed that are just not passed
        require(highest - lowest < MOST_VALUES, "floor takes too many values")
        terms = [(1, ("number", fmpq(lowest)))]
        for k in range(lowest + 1, highest + 1):
            terms.append((1, _chosen(self._above(_difference(u, ("number", fmpq(k))), True), ONE, ZERO)))
        return ("sum", terms)

    def prove_steps(self, program: Program, stream: Sequence[int]) -> None:
        """The score of every step is a difference that is listed: its size is at least the gap wherever it matters."""
        features = stream[program.inputs :]
        for feature in program.features:
            if feature.kind == "step":
                node = self.ranges.dag.tree(feature.score.tree, stream)
                found = any(agree(self.ranges, node, listed, features) for listed in self.nodes)
                require(found, f"the condition of {feature.name} is no difference that the claim lists")


def has_steps(features: Sequence[Feature]) -> bool:
    return any(feature.kind == "step" for feature in features)


def sentence(start: str, outside: dict[str, Any]) -> str:
    """What a claim with bands says."""
    names = outside["of"]
    what = ", ".join(names) if len(names) <= 4 else f"the {len(names)} differences of the set"
    which = f"where {what} is not" if len(names) == 1 else f"where none of {what} is"
    return f"{start} {which} within {float(outside['gap'])!r} of 0"


def _difference(a: Tree, b: Tree) -> Tree:
    return ("sum", [(1, a), (-1, b)])


def _negated(a: Tree) -> Tree:
    return ("sum", [(-1, a)])


def _exceeds(c: Tree) -> Tree:
    return ("compare", [c, ZERO], [">"])


def _chosen(truth: Tree, first: Tree, second: Tree) -> Tree:
    if truth in (ZERO, ONE):
        return first if truth == ONE else second
    return ("where", truth, first, second)


def _opposite(truth: Tree) -> Tree:
    return ZERO if truth == ONE else ONE if truth == ZERO else truth[1] if truth[0] == "not" else ("not", truth)


def _all(truths: list[Tree]) -> Tree:
    if any(truth == ZERO for truth in truths):
        return ZERO
    kept = [truth for truth in truths if truth != ONE]
    if not kept:
        return ONE
    return kept[0] if len(kept) == 1 else ("and", kept)
