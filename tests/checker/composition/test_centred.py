"""Functions about a point: the same values, and nothing left that cancels there."""

from __future__ import annotations

import pytest
from flint import arb, ctx, fmpq

from softwright.checker.composition.dag import Dag
from softwright.checker.composition.enclosing import constant_ball
from softwright.checker.composition.kinds.centred import in_frame, on_side, turns_at
from softwright.checker.parser import Parser
from softwright.checker.trees import Tree, nonnegative

TEXTS = [
    ("sqrt(1 - min(u, 1))", fmpq(1)),
    ("sqrt(1 + max(u, -1))*(u**2 - 3*u + 1/7)", fmpq(-1)),
    ("exp(-0.2*sqrt(0.1*max(u, 0)))", fmpq(0)),
    ("(3*max(u, 1/3) - 1)**0.3 + cos(2*pi*u)", fmpq(1, 3)),
    ("(2 - u)**3/5 + where(u < 2, u, 2*u)", fmpq(2)),
    ("max(2*u, 4) - min(7 - u, 5) + max(u, 1)", fmpq(2)),
]


def tree_of(text: str) -> Tree:
    (tree,) = Parser(text, ["u"]).outputs()
    return tree


def at(tree: Tree, u: fmpq) -> arb:
    dag = Dag()
    with ctx.workprec(200):
        return constant_ball(dag, dag.tree(tree, [dag.number(u)]))


@pytest.mark.parametrize(("text", "point"), TEXTS)
def test_a_centred_tree_has_the_values_of_the_tree(text: str, point: fmpq) -> None:
    tree, half = tree_of(text), fmpq(3, 4)
    framed = in_frame(point, half).tree(tree)
    for t in (fmpq(-1), fmpq(-2, 7), fmpq(0), fmpq(1, 1000), fmpq(1)):
        assert at(framed, t).overlaps(at(tree, point + half * t)), t
        if t >= 0:
            for side in (1, -1):
                assert at(on_side(point, side).tree(tree), t).overlaps(at(tree, point + side * t)), (side, t)


def test_what_a_root_is_taken_of_shows_its_sign() -> None:
    for text, point in TEXTS[:4]:
        roots, pending = [], [in_frame(point, fmpq(1, 2)).tree(tree_of(text))]
        while pending:
            node = pending.pop()
            if isinstance(node, tuple) and node[0] in ("sqrt", "pow") and node[-1] != ("number", fmpq(2)):
                roots.append(node[1])
            pending += [item for item in node if isinstance(item, tuple | list)]
        assert roots and all(map(nonnegative, roots)), text


def test_other_turning_points_are_told_apart() -> None:
    assert turns_at(tree_of("sqrt(1 - min(u, 1))"), fmpq(1))
    assert not turns_at(tree_of("sqrt(1 - min(u, 1))"), fmpq(2))
    assert not turns_at(tree_of("sqrt(2 - max(u**2, 1))"), fmpq(1))
