"""Taylor models of a formula: one walk over its syntax tree for many boxes at once.

Subtrees without variables are numbers and are enclosed by ball arithmetic from what was written: `0.1` is the decimal
number 1/10, `pi` is pi. abs, min, max and sign are relaxed where their sign is not known on a box; `where` whose
condition is not decided on a box encloses both branches:

    {a, b}  is contained in  (a + b)/2 +- sup|a - b|/2.

The statement proved covers the points at which the formula is defined. A root or logarithm is enclosed on the part of
its argument's range where it is defined, because that range is only known up to rounding: sqrt(1 + x) on [-1, 1] is
fine. A domain that holds a point where the formula is certainly undefined is refused before any proof
(`definedness.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from softwright.proof.arithmetic import elementary
from softwright.proof.arithmetic.ball_expression import constant_value, float_enclosure, integer_exponent, precision
from softwright.proof.arithmetic.directed import up
from softwright.proof.arithmetic.taylor_model import TaylorModel, constant, positive_part
from softwright.targets.formula.nodes import Constant, Node, Number, Operation, Variable

_BY_LAGRANGE = ("tan", "asin", "acos", "atan", "tanh", "erf")
_DIRECT = {
    "exp": elementary.exp,
    "sin": elementary.sin,
    "cos": elementary.cos,
    "sinh": elementary.sinh,
    "cosh": elementary.cosh,
    "log": elementary.log,
    "sqrt": elementary.sqrt,
}


class ExpressionModels:
    """The Taylor models of the outputs of an expression, given those of its variables."""

    def __init__(self, nodes: Sequence[Node], names: Sequence[str]) -> None:
        self.nodes = tuple(nodes)
        self.names = tuple(names)
        self._constants: dict[Node, tuple[float, float] | None] = {}

    def __call__(self, inputs: Sequence[TaylorModel]) -> list[TaylorModel]:
        """One model an output; `inputs` are the models of the variables in the order of `names`."""
        known: dict[Node, TaylorModel] = {}
        by_name = dict(zip(self.names, inputs, strict=True))
        return [self._walk(node, by_name, known) for node in self.nodes]

    def _constant(self, node: Node) -> tuple[float, float] | None:
        if node not in self._constants:
            with precision(120):
                ball = constant_value(node)
                self._constants[node] = None if ball is None else float_enclosure(ball)
        return self._constants[node]

    def _walk(self, node: Node, by_name: Mapping[str, TaylorModel], known: dict[Node, TaylorModel]) -> TaylorModel:
        if isinstance(node, Variable):
            return by_name[node.name]
        if node not in known:
            number = self._constant(node)
            if number is not None:
                like = next(iter(by_name.values()))
                known[node] = constant(like.shape, np.full(like.boxes, number[0]), number[1])
            elif isinstance(node, Operation):
                known[node] = self._operation(node, by_name, known)
        return known[node]

    def _operation(
        self, node: Operation, by_name: Mapping[str, TaylorModel], known: dict[Node, TaylorModel]
    ) -> TaylorModel:
        name = node.name

        def model(i: int) -> TaylorModel:
            return self._walk(node.arguments[i], by_name, known)

        if name in _DIRECT:
            return _DIRECT[name](model(0))
        if name in _BY_LAGRANGE:
            return elementary.by_lagrange(model(0), name)
        match name:
            case "neg":
                return -model(0)
            case "add":
                return model(0) + model(1)
            case "sub":
                return model(0) - model(1)
            case "mul":
                for i, j in ((0, 1), (1, 0)):
                    number = self._constant(node.arguments[i])
                    if number is not None:
                        return model(j).times(*number)
                return model(0) * model(1)
            case "div":
                return elementary.divide(model(0), model(1))
            case "pow":
                return self._power(node, model(0), by_name, known)
            case "abs":
                return positive_part(model(0)) + positive_part(-model(0))
            case "max":
                return model(0) + positive_part(model(1) - model(0))
            case "min":
                return model(0) - positive_part(model(0) - model(1))
            case "sign":
                return _sign(model(0))
            case "where":
                return self._where(node, by_name, known)
        raise RuntimeError(f"operation {name} has no Taylor rule")

    def _power(
        self, node: Operation, base: TaylorModel, by_name: Mapping[str, TaylorModel], known: dict[Node, TaylorModel]
    ) -> TaylorModel:
        base_node, exponent_node = node.arguments
        whole = integer_exponent(exponent_node)
        if whole is not None:
            if whole == 0:
                return constant(base.shape, np.ones(base.boxes))
            return base.power(whole) if whole > 0 else elementary.reciprocal(base).power(-whole)
        if isinstance(base_node, Constant) and base_node.name == "e":
            return elementary.exp(self._walk(exponent_node, by_name, known))
        exact = _literal(exponent_node)
        if exact is not None and Fraction(float(exact)) == exact:
            return elementary.real_power(base, float(exact))
        number = self._constant(exponent_node)
        logarithm = elementary.log(base)
        if number is not None:
            result = elementary.exp(logarithm.times(*number))
            return _power_near_zero(base, number, result) if number[0] > 0 else result
        return elementary.exp(self._walk(exponent_node, by_name, known) * logarithm)

    def _where(
        self, node: Operation, by_name: Mapping[str, TaylorModel], known: dict[Node, TaylorModel]
    ) -> TaylorModel:
        condition, if_true, if_false = node.arguments
        if not isinstance(condition, Operation):
            raise RuntimeError("the condition of where() must be a comparison")
        left, right = (self._walk(argument, by_name, known) for argument in condition.arguments)
        lower, upper = (left - right).range()
        strict = condition.name == "less"
        holds = (upper < 0.0) if strict else (upper <= 0.0)
        fails = (lower >= 0.0) if strict else (lower > 0.0)
        yes, no = self._walk(if_true, by_name, known), self._walk(if_false, by_name, known)
        low, high = (yes - no).range()
        both = (yes + no).times(0.5)
        both.remainder = up(both.remainder + 0.5 * np.maximum(np.abs(low), np.abs(high)))
        return yes.where(holds, no.where(fails, both))


def _literal(node: Node) -> Fraction | None:
    """The exact value of a literal with or without signs, else None."""
    if isinstance(node, Operation) and node.name == "neg":
        inner = _literal(node.arguments[0])
        return None if inner is None else -inner
    return Fraction(node.text) if isinstance(node, Number) else None


def _sign(model: TaylorModel) -> TaylorModel:
    lower, upper = model.range()
    value = np.where(lower > 0.0, 1.0, np.where(upper < 0.0, -1.0, 0.0))
    return constant(model.shape, value, np.where(value == 0.0, 1.0, 0.0))


def _power_near_zero(base: TaylorModel, exponent: tuple[float, float], result: TaylorModel) -> TaylorModel:
    """Where the base's range touches zero its logarithm is unbounded, but 0 <= base ** exponent <= top ** exponent."""
    lower, upper = base.range()
    touching = (lower <= 0.0) & (upper >= 0.0)
    if not np.any(touching):
        return result
    top = elementary.log(constant(base.shape, np.where(touching, np.maximum(upper, 1e-300), 1.0)))
    _, ceiling = elementary.exp(top.times(*exponent)).range()
    return result.narrowed(np.where(touching, 0.0, -np.inf), np.where(touching, ceiling, np.inf))
