"""Additive problems: proofs in few variables at a time.

If heads and terms of the formula fall into groups that share no variable, the residual is a sum of functions r_i of
disjoint variables, and with c_i the middle of the range of r_i

    sup |g - f| = sup |sum_i r_i|  <=  sum_i sup |r_i - c_i| + |sum_i c_i|,

with equality for one output, because every r_i reaches its extremes whatever the others do. So eight variables in
groups of two cost four proofs in two variables, and nothing is lost. The terms of a formula are what remains when +, -
and negation are taken apart at the top, numbered from 0 through all outputs in order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from softwright.domain import Box
from softwright.proof.models.head_moments import ExactHead
from softwright.proof.models.targets import FormulaModels
from softwright.proof.search.residual import Residual, order_for
from softwright.targets.formula import Expression, Node, Number, Operation, additive_terms, variables_of

_ZERO = Number(0.0, "0")


class Term(NamedTuple):
    """One term of one output of a formula, with its sign."""

    output: int
    positive: bool
    node: Node


@dataclass(frozen=True)
class Group:
    """Variables (positions in the domain) with the heads and terms that depend on them."""

    columns: tuple[int, ...]
    heads: tuple[int, ...]
    terms: tuple[int, ...]


def terms_of(nodes: tuple[Node, ...]) -> list[Term]:
    """All terms of all outputs, from left to right."""
    return [Term(o, sign > 0, term) for o, node in enumerate(nodes) for sign, term in additive_terms(node)]


def inputs_of(head: ExactHead) -> set[int]:
    """The coordinates on which the head depends."""
    active = np.any(head.keys != 0, axis=0)
    if head.slopes is not None:
        active = active | np.any(head.slopes != 0, axis=(0, 1))
    return set(np.flatnonzero(active).tolist())


def groups_of(heads: tuple[ExactHead, ...], terms: list[Term], names: tuple[str, ...]) -> list[Group]:
    """The finest grouping in which no variable belongs to two groups; constants join the first group."""
    owner = list(range(len(names)))

    def root(i: int) -> int:
        while owner[i] != i:
            i = owner[i]
        return i

    head_inputs = [inputs_of(head) for head in heads]
    term_inputs = [{names.index(name) for name in variables_of((term.node,))} for term in terms]
    used = sorted(set().union(*head_inputs, *term_inputs))
    for inputs in (*head_inputs, *term_inputs):
        for i in inputs:
            owner[root(i)] = root(min(inputs))
    roots = sorted({root(i) for i in used})
    if not roots:
        return [Group((0,), tuple(range(len(heads))), tuple(range(len(terms))))]

    def of(inputs: set[int]) -> int:
        return root(min(inputs)) if inputs else roots[0]

    return [
        Group(
            tuple(i for i in used if root(i) == r),
            tuple(h for h, inputs in enumerate(head_inputs) if of(inputs) == r),
            tuple(t for t, inputs in enumerate(term_inputs) if of(inputs) == r),
        )
        for r in roots
    ]


def part_residual(whole: Residual, group: Group, terms: list[Term], names: tuple[str, ...]) -> Residual:
    """The residual of one group, in its own variables."""
    columns = list(group.columns)
    heads = tuple(restricted(whole.heads[h], columns) for h in group.heads)
    nodes: list[Node] = []
    for output in range(whole.outputs):
        total: Node | None = None
        for t in group.terms:
            term = terms[t]
            if term.output != output:
                continue
            if total is None:
                total = term.node if term.positive else Operation("neg", (term.node,))
            else:
                total = Operation("add" if term.positive else "sub", (total, term.node))
        nodes.append(_ZERO if total is None else total)
    return replace(
        whole,
        heads=heads,
        target=FormulaModels(Expression.from_nodes(nodes, [names[i] for i in columns])),
        dim=len(columns),
        order=order_for(heads, len(columns)),
        summed_heads=len(whole.heads),
    )


def restricted(head: ExactHead, columns: list[int]) -> ExactHead:
    """The head as a function of some coordinates, the others being without influence."""
    return replace(
        head,
        keys=np.ascontiguousarray(head.keys[:, columns]),
        slopes=None if head.slopes is None else np.ascontiguousarray(head.slopes[:, :, columns]),
        center=head.center[columns],
        scale=head.scale[columns],
        grid=None if head.grid is None else head.grid.on(columns),
    )


def part_box(domain: Box, group: Group) -> Box:
    columns = list(group.columns)
    return Box.from_bounds(domain.lower[columns], domain.upper[columns], [domain.names[i] for i in columns])
