"""A formula on a box: its terms, smooth and rough, and its kink functions in the unit frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.approximation.problem import Scalar
from softwright.domain import Box
from softwright.targets.formula import Constant, Expression, Node, Operation, additive_terms
from softwright.work import count

_JUMPS = ("where", "sign", "floor", "round", "mod")
_RATIONAL = ("neg", "add", "sub", "mul", "div")
_STEP = 6.0  # nominal nanoseconds of one operation of a formula at one point


@dataclass(frozen=True)
class Formula:
    """An expression on a box, asked in the unit frame."""

    expression: Expression
    box: Box

    def values(self, points: np.ndarray) -> np.ndarray:
        """Values (n, m) at points (n, d) of [-1, 1]^d."""
        steps = len(self.expression.tape)
        count(steps * (3000 + _STEP * len(points)))
        return self.expression(self.box.from_unit(points))

    @property
    def jumps(self) -> bool:
        """Whether it has a comparison or a function that jumps."""
        return any(isinstance(step.node, Operation) and step.node.name in _JUMPS for step in self.expression.tape.steps)

    @property
    def is_rational(self) -> bool:
        """Whether it is made of numbers and variables by the four operations alone."""
        nodes = [step.node for step in self.expression.tape.steps]
        plain = all(node.name in _RATIONAL for node in nodes if isinstance(node, Operation))
        return plain and not any(isinstance(node, Constant) for node in nodes)

    @property
    def kinks(self) -> tuple[Scalar, ...]:
        """Functions whose zero sets hold every break of smoothness."""
        return tuple(
            (lambda t, kink=kink: kink.expression(self.box.from_unit(t))[:, 0]) for kink in self.expression.kinks()
        )

    def split(self) -> tuple[Formula | None, list[Formula]]:
        """The smooth terms of a one-output formula as one formula (or None), and each term with a kink on its own."""
        smooth: list[Node] = []
        rough: list[Formula] = []
        for sign, node in additive_terms(self.expression.nodes[0]):
            term = Expression.from_nodes([node if sign > 0 else Operation("neg", (node,))], self.expression.names)
            if _has_active_kink(Formula(term, self.box)):
                rough.append(Formula(term, self.box))
            else:
                smooth.append(term.nodes[0])
        if not smooth:
            return None, rough
        total = smooth[0]
        for node in smooth[1:]:
            total = Operation("add", (total, node))
        return Formula(Expression.from_nodes([total], self.expression.names), self.box), rough


def _has_active_kink(formula: Formula) -> bool:
    """Whether some kink function can be zero on the box; abs(x + 3) on [-1, 1] has none."""
    lower, upper = formula.box.lower[None], formula.box.upper[None]
    for kink in formula.expression.kinks():
        low, high, _ = kink.expression.enclose(lower, upper)
        if np.any(low <= 0) and np.any(high >= 0):
            return True
    return False
