"""Taylor models of a formula: one replay of its tape for many boxes at once.

Steps without variables are numbers and are enclosed by ball arithmetic from what was written: `0.1` is the decimal
number 1/10, `pi` is pi. abs, min, max and sign are relaxed where their sign is not known on a box; `where` whose
condition is not decided on a box encloses both branches:

    {a, b}  is contained in  (a + b)/2 +- sup|a - b|/2.

The statement proved covers the points at which the formula is defined. A root or logarithm is enclosed on the part of
its argument's range where it is defined, because that range is only known up to rounding: sqrt(1 + x) on [-1, 1] is
fine. A domain that holds a point where the formula is certainly undefined is refused before any proof
(`definedness.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from softwright.proof.arithmetic import elementary
from softwright.proof.arithmetic.balls import float_enclosure, precision
from softwright.proof.arithmetic.directed import up
from softwright.proof.arithmetic.series import basis
from softwright.proof.arithmetic.taylor_model import TaylorModel, constant, positive_part, variables
from softwright.targets.formula import (
    FAMILIES,
    Constant,
    Expression,
    Node,
    Operation,
    Tape,
    Variable,
    constant_balls,
    integer_at,
    literals_of,
)
from softwright.targets.formula.algebra import exact_value, mul, number_node, power


class _Number(NamedTuple):
    """A step without variables: a float and its distance from the exact value."""

    value: float
    error: float


class _Decision(NamedTuple):
    """A condition: on which boxes (B,) it holds and on which it fails; on the others it is not decided."""

    holds: np.ndarray
    fails: np.ndarray


class ExpressionModels:
    """The Taylor models of the outputs of an expression, given those of its variables."""

    def __init__(self, expression: Expression) -> None:
        self.names, self.tape = expression.names, _continued(expression)
        self._literals = literals_of(self.tape)
        with precision(120):
            self._constants = {
                index: ball if ball is None or isinstance(ball, bool) else _Number(*float_enclosure(ball))
                for index, ball in constant_balls(self.tape).items()
            }

    def __call__(self, inputs: Sequence[TaylorModel]) -> list[TaylorModel]:
        """One model per output; `inputs` are the models of the variables in the order of `names`."""
        by_name = dict(zip(self.names, inputs, strict=True))
        shape, boxes = inputs[0].shape, inputs[0].boxes

        def known(index: int) -> _Number | _Decision:
            value = self._constants[index]
            if isinstance(value, _Number):
                return value
            return _Decision(np.full(boxes, value is True), np.full(boxes, value is False))

        def model(value: Any) -> Any:
            return constant(shape, np.full(boxes, value.value), value.error) if isinstance(value, _Number) else value

        def leaf(index: int, node: Node) -> Any:
            return by_name[node.name] if isinstance(node, Variable) else known(index)

        def rule(index: int, name: str, arguments: list[Any]) -> Any:
            if index in self._constants:
                return known(index)
            if name == "mul":
                return _product(*arguments)
            if name == "pow":
                base, exponent = self.tape.steps[index].arguments
                return self._power(base, exponent, model(arguments[0]), arguments[1])
            if name in _FAMILIES:
                return elementary.by_lagrange(arguments[1], name, int(arguments[0].value))
            return _RULES[name](*(model(argument) for argument in arguments))

        return [model(output) for output in self.tape.replay(leaf, rule)]

    def over(self, left: np.ndarray, right: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray]:
        """Ranges (B,) of the one output of a formula over the boxes from left to right (B, d), or (B,) if d = 1."""
        left, right = left.reshape(len(left), -1), right.reshape(len(right), -1)
        center = 0.5 * (left + right)
        radius = np.nextafter(np.maximum(right - center, center - left), np.inf)
        return self(variables(basis(left.shape[1], degree), center, radius))[0].range()

    def _power(self, base_at: int, exponent_at: int, base: TaylorModel, exponent: TaylorModel | _Number) -> TaylorModel:
        whole = integer_at(self._literals, exponent_at)
        if whole is not None:
            if whole == 0:
                return constant(base.shape, np.ones(base.boxes))
            return base.power(whole) if whole > 0 else elementary.reciprocal(base).power(-whole)
        if isinstance(exponent, TaylorModel):
            if self.tape.steps[base_at].node == Constant("e"):
                return elementary.exp(exponent)
            return elementary.exp(exponent * elementary.log(base))
        exact = self._literals.get(exponent_at)
        if exact is not None and Fraction(float(exact)) == exact:
            return elementary.real_power(base, float(exact))
        result = elementary.exp(elementary.log(base).times(*exponent))
        return _power_near_zero(base, exponent, result) if exponent.value > 0 else result


def _continued(expression: Expression) -> Tape:
    """The tape; in a formula with choices c log(c) is xlogy(c, c), equal wherever c > 0 and bounded next to 0.

    where(x > 0, x*log(x), 0) asks for it at x > 0 alone, but on a box that touches 0 the product has no bounds. Of
    c**q, q >= 1, one c is taken; for 0 < q < 1 c**q log(c) is xlogy(y, y)/q with y = c**q.
    """
    tape = expression.tape
    names = {step.node.name for step in tape.steps if isinstance(step.node, Operation)}
    if not {"where", "mul", "log"} <= names:
        return tape
    built: list[Node] = []
    for step in tape.steps:
        node = step.node
        if isinstance(node, Operation):
            made = Operation(node.name, tuple(built[i] for i in step.arguments))
            built.append(_with_logarithm(made) if node.name == "mul" else made)
        else:
            built.append(node)
    return Tape([built[i] for i in tape.outputs])


def _with_logarithm(product: Operation) -> Node:
    for one, other in (product.arguments, product.arguments[::-1]):
        if not isinstance(other, Operation) or other.name != "log":
            continue
        (c,) = other.arguments
        joined = Operation("xlogy", (c, c))
        found = _exchanged(one, c, joined)
        if found is not None:
            return found
    return product


def _exchanged(node: Node, c: Node, joined: Node) -> Node | None:
    """The product with `joined` in place of one factor c; None if it has none."""
    if node == c:
        return joined
    if not isinstance(node, Operation):
        return None
    if node == Operation("sqrt", (c,)) or (node.name == "pow" and node.arguments[0] == c):
        exponent = Fraction(1, 2) if node.name == "sqrt" else exact_value(node.arguments[1])
        if exponent is None or exponent <= 0:
            return None
        if exponent < 1:
            return mul(number_node(1 / exponent), Operation("xlogy", (node, node)))
        return mul(power(c, number_node(exponent - 1)), joined)
    if node.name in ("mul", "div", "neg"):
        places = range(2) if node.name == "mul" else range(1)
        for n in places:
            inner = _exchanged(node.arguments[n], c, joined)
            if inner is not None:
                return Operation(node.name, (*node.arguments[:n], inner, *node.arguments[n + 1 :]))
    return None


def _product(a: TaylorModel | _Number, b: TaylorModel | _Number) -> TaylorModel:
    if isinstance(a, _Number):
        a, b = b, a
    if isinstance(a, _Number):
        raise RuntimeError("a product of numbers is a number")
    return a.times(*b) if isinstance(b, _Number) else a * b


def _less(left: TaylorModel, right: TaylorModel) -> _Decision:
    lower, upper = (left - right).range()
    return _Decision(upper < 0.0, lower >= 0.0)


def _less_equal(left: TaylorModel, right: TaylorModel) -> _Decision:
    lower, upper = (left - right).range()
    return _Decision(upper <= 0.0, lower > 0.0)


def _where(condition: _Decision, yes: TaylorModel, no: TaylorModel) -> TaylorModel:
    low, high = (yes - no).range()
    both = (yes + no).times(0.5)
    both.remainder = up(both.remainder + 0.5 * np.maximum(np.abs(low), np.abs(high)))
    return yes.where(condition.holds, no.where(condition.fails, both))


def _larger(a: TaylorModel, b: TaylorModel) -> TaylorModel:
    """max(a, b) = a + max(b - a, 0); one of the two itself, without the rounding of that sum, where it is known."""
    step = b - a
    lower, upper = step.range()
    return b.where(lower >= 0.0, a.where(upper <= 0.0, a + positive_part(step)))


def _power_near_zero(base: TaylorModel, exponent: _Number, result: TaylorModel) -> TaylorModel:
    """Where the base's range touches zero its logarithm is unbounded, but 0 <= base ** exponent <= top ** exponent."""
    lower, upper = base.range()
    touching = (lower <= 0.0) & (upper >= 0.0)
    if not np.any(touching):
        return result
    top = elementary.log(constant(base.shape, np.where(touching, np.maximum(upper, 1e-300), 1.0)))
    _, ceiling = elementary.exp(top.times(*exponent)).range()
    return result.narrowed(np.where(touching, 0.0, -np.inf), np.where(touching, ceiling, np.inf))


_FAMILIES = frozenset(row.name for row in FAMILIES)
# "mul" and "pow" need to know which arguments are numbers and are treated above.
_RULES: dict[str, Callable[..., Any]] = {
    "neg": lambda a: -a,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "div": elementary.divide,
    "max": _larger,
    "min": lambda a, b: -_larger(-a, -b),
    "less": _less,
    "less_equal": _less_equal,
    "and": lambda a, b: _Decision(a.holds & b.holds, a.fails | b.fails),
    "or": lambda a, b: _Decision(a.holds | b.holds, a.fails & b.fails),
    "where": _where,
    **elementary.TAYLOR_RULES,
}
