"""Functions that are exact rewritings of others: the parser puts the definition in place of the call.

A function is defined here, and not by a row of its own, if the definition keeps the digits of floats over the whole
domain (log10 does; log1p does not) and holds each parameter once, so that nested calls grow no faster than their text.
"""

from __future__ import annotations

from dataclasses import dataclass

from softwright.targets.formula.nodes import Node, Operation, Variable
from softwright.targets.formula.tape import Tape


@dataclass(frozen=True)
class Defined:
    """One function: `text` is a formula in its parameters."""

    name: str
    parameters: tuple[str, ...]
    text: str
    example: tuple[tuple[float, float], ...]  # one interval per parameter, on which it is built and proved
    jump: bool = False


DEFINED: dict[str, Defined] = {
    row.name: row
    for row in (
        Defined("ln", ("x",), "log(x)", ((0.1, 10),)),
        Defined("log2", ("x",), "log(x)/log(2)", ((0.1, 10),)),
        Defined("log10", ("x",), "log(x)/log(10)", ((0.1, 10),)),
        Defined("exp2", ("x",), "2**x", ((-3, 3),)),
        Defined("pow", ("x", "y"), "x**y", ((0.5, 2), (-1, 1))),
        Defined("sec", ("x",), "1/cos(x)", ((-1, 1),)),
        Defined("csc", ("x",), "1/sin(x)", ((0.5, 2.5),)),
        Defined("coth", ("x",), "1/tanh(x)", ((0.5, 3),)),
        Defined("normpdf", ("x",), "exp(-x**2/2)/sqrt(2*pi)", ((-4, 4),)),
        Defined("normcdf", ("x",), "0.5*erfc(-x/sqrt(2))", ((-4, 4),)),
        Defined("relu", ("x",), "max(x, 0)", ((-1, 2),)),
        Defined("clip", ("x", "low", "high"), "min(max(x, low), high)", ((-2, 2), (-1, -0.5), (0.5, 1))),
        Defined("ceil", ("x",), "-floor(-x)", ((-1.5, 1.5),), jump=True),
        Defined("step", ("x",), "where(0 <= x, 1, 0)", ((-1, 1),), jump=True),
    )
}


def expanded(tree: Node, parameters: tuple[str, ...], arguments: tuple[Node, ...]) -> Node:
    """The tree of a definition with the arguments in place of the parameters."""
    given = dict(zip(parameters, arguments, strict=True))
    built: list[Node] = []
    for node, positions in Tape((tree,)).steps:
        if isinstance(node, Operation):
            built.append(Operation(node.name, tuple(built[p] for p in positions)))
        else:
            built.append(given[node.name] if isinstance(node, Variable) else node)
    return built[-1]
