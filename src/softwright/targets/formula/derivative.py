"""`differentiate`: the derivative of a tree as a tree, kept small by dropping zeros and ones as they arise.

The chain rule, one step of the tape at a time, so that shared sub-expressions have shared derivatives. At kinks a
one-sided choice is made: abs' = sign, min and max follow the argument they take, sign' = 0 and where' = where of the
derivatives (the jump itself has no derivative and gets none).
"""

from __future__ import annotations

from collections.abc import Callable

from softwright.targets.formula.algebra import ONE, ZERO, add, div, is_number, less_one, mul, neg, of, power, sub
from softwright.targets.formula.functions import ELEMENTARY
from softwright.targets.formula.nodes import Constant, Node, Number, Operation, Variable
from softwright.targets.formula.tape import Tape


def differentiate(node: Node, name: str) -> Node:
    """d node / d name."""
    tape = Tape((node,))
    derivatives: list[Node] = []
    for step, positions in tape.steps:
        if isinstance(step, Operation):
            # Arguments are taken from the tape and not from the node: equal ones are then the same object.
            arguments = tuple(tape.steps[p].node for p in positions)
            derivatives.append(_chain_rule(step, arguments, tuple(derivatives[p] for p in positions)))
        else:
            derivatives.append(ONE if isinstance(step, Variable) and step.name == name else ZERO)
    return derivatives[-1]


_Nodes = tuple[Node, ...]


def _chain_rule(node: Operation, arguments: _Nodes, derivatives: _Nodes) -> Node:
    if all(is_number(derivative, 0) for derivative in derivatives):
        return ZERO
    if node.name in _STRUCTURAL:
        return _STRUCTURAL[node.name](node, arguments, derivatives)
    total: Node = ZERO
    for slope, derivative in zip(ELEMENTARY[node.name].slopes, derivatives, strict=True):
        if not is_number(derivative, 0):
            total = add(total, mul(slope(*arguments, node), derivative))
    return total


def _product_rule(node: Node, to: _Nodes, by: _Nodes) -> Node:
    return add(mul(by[0], to[1]), mul(to[0], by[1]))


def _quotient_rule(node: Node, to: _Nodes, by: _Nodes) -> Node:
    # (u' - (u/v) v') / v repeats u/v itself, which the tape holds already, and needs no square of v.
    return div(sub(by[0], mul(node, by[1])), to[1])


def _power_rule(node: Node, to: _Nodes, by: _Nodes) -> Node:
    base, exponent = to
    through_base = mul(mul(exponent, power(base, less_one(exponent))), by[0]) if not is_number(by[0], 0) else ZERO
    if is_number(by[1], 0):
        return through_base
    rate = ONE if base == Constant("e") else of("log", base)
    return add(through_base, mul(mul(node, rate), by[1]))


def _choose(condition: Node, a: Node, b: Node) -> Node:
    return a if a is b or (isinstance(a, Number) and a == b) else of("where", condition, a, b)


_STRUCTURAL: dict[str, Callable[[Node, _Nodes, _Nodes], Node]] = {
    "neg": lambda node, to, by: neg(by[0]),
    "add": lambda node, to, by: add(by[0], by[1]),
    "sub": lambda node, to, by: sub(by[0], by[1]),
    "mul": _product_rule,
    "div": _quotient_rule,
    "pow": _power_rule,
    "min": lambda node, to, by: _choose(of("less", to[0], to[1]), by[0], by[1]),
    "max": lambda node, to, by: _choose(of("less", to[1], to[0]), by[0], by[1]),
    **dict.fromkeys(("less", "less_equal", "and", "or"), lambda node, to, by: ZERO),
    "where": lambda node, to, by: _choose(to[0], by[1], by[2]),
}
