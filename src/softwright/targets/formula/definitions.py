"""Functions that are exact rewritings of others: the parser puts the definition in place of the call.

A function is defined here, and not by a row of its own, if the definition keeps the digits of floats over the whole
domain (log10 does; log1p does not) and holds each parameter once, so that nested calls grow no faster than their text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from softwright.targets.formula.nodes import Node, Operation, Variable
from softwright.targets.formula.tape import Tape


@dataclass(frozen=True)
class Defined:
    """One function: `text` is a formula in its parameters."""

    name: str
    text: str
    example: Mapping[str, tuple[float, float]]  # its parameters, and where it is built and proved

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self.example)


DEFINED: dict[str, Defined] = {
    row.name: row
    for row in (
        Defined("ln", "log(x)", {"x": (0.1, 10)}),
        Defined("log2", "log(x)/log(2)", {"x": (0.1, 10)}),
        Defined("log10", "log(x)/log(10)", {"x": (0.1, 10)}),
        Defined("exp2", "2**x", {"x": (-3, 3)}),
        Defined("pow", "x**y", {"x": (0.5, 2), "y": (-1, 1)}),
        Defined("sec", "1/cos(x)", {"x": (-1, 1)}),
        Defined("csc", "1/sin(x)", {"x": (0.5, 2.5)}),
        Defined("coth", "1/tanh(x)", {"x": (0.5, 3)}),
        Defined("normpdf", "exp(-x**2/2)/sqrt(2*pi)", {"x": (-4, 4)}),
        Defined("normcdf", "0.5*erfc(-x/sqrt(2))", {"x": (-4, 4)}),
        Defined("relu", "max(x, 0)", {"x": (-1, 2)}),
        Defined("clip", "min(max(x, low), high)", {"x": (-2, 2), "low": (-1, -0.5), "high": (0.5, 1)}),
        Defined("ceil", "-floor(-x)", {"x": (-1.5, 1.5)}),
        Defined("step", "where(0 <= x, 1, 0)", {"x": (-1, 1)}),
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
