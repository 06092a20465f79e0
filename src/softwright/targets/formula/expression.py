"""`Expression`: a formula as a target, with values, derivatives, enclosures and the places where it is not smooth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from flint import arb, ctx

from softwright.chunks import arrays_in_chunks, rows_within
from softwright.domain import Box
from softwright.errors import Faults, InvalidInput
from softwright.targets.formula.balls import ball_values
from softwright.targets.formula.definedness import Undefined, UndefinedSearch
from softwright.targets.formula.derivative import differentiate
from softwright.targets.formula.enclosure import Enclosure, Suspect, constant_intervals, enclose
from softwright.targets.formula.formatting import format_node, most_characters
from softwright.targets.formula.functions import ELEMENTARY
from softwright.targets.formula.intervals import Interval
from softwright.targets.formula.nodes import Node, Operation
from softwright.targets.formula.parser import read
from softwright.targets.formula.tape import Tape, variables_of
from softwright.targets.formula.tokens import LONGEST_TEXT
from softwright.targets.formula.values import fold_constants, numpy_values, torch_values
from softwright.targets.points import as_points
from softwright.targets.target import Target

_FEW_LOST, _BITS = 64, 200  # points of a batch whose value rounding may have lost; binary digits to find it with


@dataclass(frozen=True, slots=True)
class Kink:
    """A set on which a formula may not be smooth: where `expression` is zero.

    `kind` is the operation it comes from ('abs', 'min', 'where', ...); `jump` says that the value itself, and not only
    the slope, may break there.
    """

    kind: str
    expression: Expression
    jump: bool


def _borders(condition: Node, *branches: Node) -> list[Node]:
    """Left minus right side of every comparison of a condition."""
    found: list[Node] = []
    pending = [condition]
    while pending:
        node = pending.pop()
        if isinstance(node, Operation) and node.name in ("and", "or"):
            pending += reversed(node.arguments)
        elif isinstance(node, Operation):
            found.append(Operation("sub", node.arguments))
    return found


# Operation -> the expressions whose zeros hold its breaks of smoothness.
_BREAKS: dict[str, Callable[..., list[Node]]] = {
    **dict.fromkeys(("min", "max"), lambda a, b: [Operation("sub", (a, b))]),
    "where": _borders,
    **{
        name: (lambda *arguments, kink=row.kink: [kink(*arguments)])
        for name, row in ELEMENTARY.items()
        if row.kink is not None
    },
}
_CORNERS = frozenset({"min", "max"} | {name for name, row in ELEMENTARY.items() if not row.jump})


class Expression(Target):
    """A formula such as `Expression("sin(3*x)*exp(-y**2)")`; a comma separates several outputs.

    `names` fixes the variables and their order (a `Box` may be given for its names); without it they are the variables
    of the formula in order of appearance. `nodes` are the syntax trees, one for each output.
    """

    kind: ClassVar[str] = "expression"

    def __init__(self, text: str, names: Sequence[str] | Box | None = None) -> None:
        if isinstance(names, Box):
            names = names.names
        elif isinstance(names, str):
            names = (names,)
        nodes, self.tape, rewritten = read(text, names)
        self._set(nodes, names)
        # What was given is the text to keep if the trees no longer show it (log10, a if c else b): whoever reads a
        # stored text then gives its words his own meaning. And if the canonical form exceeds the parser's limit, by its
        # spaces or because parts that are shared are written out, since a stored text must parse.
        if rewritten or most_characters(self.tape) > 4 * LONGEST_TEXT or len(self.text) > LONGEST_TEXT:
            self.text = " ".join(text.split())

    @classmethod
    def from_nodes(cls, nodes: Sequence[Node], names: Sequence[str] | None = None) -> Expression:
        """An expression from syntax trees, for example from derivatives."""
        expression = cls.__new__(cls)
        expression._set(tuple(nodes), names)
        return expression

    def _set(self, nodes: tuple[Node, ...], names: Sequence[str] | None) -> None:
        self.nodes: tuple[Node, ...] = nodes
        self.names = tuple(names) if names is not None else variables_of(nodes)
        self.outputs = len(nodes)
        self._searched: tuple[Box, list[Undefined]] | None = None
        faults = Faults("formula")
        faults.check(
            bool(self.names), "the formula has no variables; give their names, for example Expression('1', names=['x'])"
        )
        unknown = [name for name in variables_of(nodes) if name not in self.names]
        faults.check(not unknown, f"unknown variables {', '.join(unknown)}; the variables are {', '.join(self.names)}")
        faults.check(len(set(self.names)) == len(self.names), f"names {list(self.names)} repeat; give each once")
        faults.raise_if_any()

    def with_names(self, names: Sequence[str]) -> Expression:
        """The same formula as a function of these variables in this order."""
        renamed = Expression.from_nodes(self.nodes, names)
        renamed.text = self.text
        return renamed

    @cached_property
    def text(self) -> str:
        """The canonical text, unless another one was kept: parsing it gives the same trees."""
        return ", ".join(format_node(node) for node in self.nodes)

    @cached_property
    def tape(self) -> Tape:
        """The trees in the order of evaluation, every part once: what all walks over a formula replay."""
        return Tape(self.nodes)

    @cached_property
    def _folded(self) -> dict[int, float]:
        return fold_constants(self.tape)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Values (n, m) at points (n, d) in float64; nan or inf where the formula is undefined, without a warning."""
        points = as_points(points, self.names, "Expression")
        return arrays_in_chunks(self._values, points, rows_within(8 * (self.dim + self.outputs + len(self.tape))))

    def _values(self, points: np.ndarray) -> np.ndarray:
        columns = {name: np.ascontiguousarray(points[:, i]) for i, name in enumerate(self.names)}
        values = np.empty((len(points), self.outputs))
        for output, value in enumerate(numpy_values(self.tape, self._folded, columns)):
            values[:, output] = value
        if self._chooses:
            self._mend(points, values)
        return values

    @cached_property
    def _chooses(self) -> bool:
        return any(isinstance(step.node, Operation) and step.node.name == "where" for step in self.tape.steps)

    def _mend(self, points: np.ndarray, values: np.ndarray) -> None:
        """Write the values of a formula with choices that rounding has lost, in place.

        where(x >= 0.3, sqrt(x**3 - 0.027), 0) has a value at the float 0.3, which is below 3/10; floats take the root,
        and of a little less than 0. Points without a value are asked in balls, if they are few: many have none.
        """
        lost = np.flatnonzero(np.isnan(values).any(axis=1) & np.isfinite(points).all(axis=1))
        if not 0 < len(lost) <= _FEW_LOST:
            return
        with ctx.workprec(_BITS):
            for row in lost.tolist():
                at = {name: arb(float(x)) for name, x in zip(self.names, points[row], strict=True)}
                for output, ball in enumerate(ball_values(self.tape, at)):
                    if np.isnan(values[row, output]) and ball.is_finite() and ball.rad() < 1e-10:
                        values[row, output] = float(ball.mid())

    def torch(self, x: torch.Tensor) -> torch.Tensor:
        """Values (..., m) at points (..., d): differentiable, of the dtype and on the device of `x`."""
        if not x.is_floating_point() or x.ndim == 0 or x.shape[-1] != self.dim:
            wanted = f"a floating-point tensor of shape (..., {self.dim})"
            raise InvalidInput("Expression", [f"a {x.dtype} tensor of shape {tuple(x.shape)}; give {wanted}"])
        columns = {name: x[..., i] for i, name in enumerate(self.names)}
        values = torch_values(self.tape, self._folded, columns)
        full = [v if isinstance(v, torch.Tensor) else x.new_full((), v) for v in values]
        return torch.stack([v.expand(x.shape[:-1]) for v in full], dim=-1)

    def derivative(self, name: str) -> Expression:
        """The partial derivative of every output; at kinks the one-sided choice of `differentiate`."""
        if name not in self.names:
            fault = f"{name!r} is not a variable of this formula; derive by one of {', '.join(self.names)}"
            raise InvalidInput("derivative", [fault])
        return Expression.from_nodes([differentiate(node, name) for node in self.nodes], self.names)

    def enclose(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rigorous bounds (n, m) below and above over the boxes [lower, upper] (n, d), and where all is defined (n,).

        Where `defined` is False the formula may be undefined somewhere in the box, and the bounds hold elsewhere in it.
        """
        found = self._enclosure(lower, upper)
        lows = np.stack([output.lower for output in found.outputs], axis=1)
        highs = np.stack([output.upper for output in found.outputs], axis=1)
        return lows, highs, found.defined

    def suspects(self, lower: np.ndarray, upper: np.ndarray) -> list[Suspect]:
        """The sub-expressions that may be undefined on some of the boxes, with the reason and the boxes (n,)."""
        return self._enclosure(lower, upper).suspects

    def _enclosure(self, lower: np.ndarray, upper: np.ndarray) -> Enclosure:
        lower, upper = (as_points(end, self.names, "Expression.enclose") for end in (lower, upper))
        if lower.shape != upper.shape or not np.all(lower <= upper):
            fault = f"boxes need lower <= upper of one shape, not {lower.shape} and {upper.shape}; mend the bounds"
            raise InvalidInput("Expression.enclose", [fault])
        columns = {name: Interval(lower[:, i], upper[:, i]) for i, name in enumerate(self.names)}
        return enclose(self.tape, self._constant_intervals, columns)

    @cached_property
    def _constant_intervals(self) -> dict[int, Interval]:
        return constant_intervals(self.tape)

    @classmethod
    def rebuilt(cls, description: Mapping[str, Any]) -> Expression:
        return cls(description["text"], description["variables"])

    def faults_on(self, box: Box) -> list[str]:
        return self.find_undefined(box)

    def find_undefined(self, box: Box) -> list[str]:
        """Why the formula is undefined on the box: one report for each sub-expression at fault, with a place."""
        return [report.text for report in self.undefined(box)]

    def undefined(self, box: Box) -> list[Undefined]:
        """The same with what is known of each place; a box is searched once, however often it is asked for."""
        if self._searched is None or self._searched[0] != box:
            self._searched = box, self._search(box)
        return list(self._searched[1])

    def undefined_places(self, box: Box) -> list[dict[str, Any]]:
        """The same for programs: sub-expression, a point by names, and whether it is certain."""
        return [
            {
                "expression": report.expression,
                "point": dict(zip(self.names, report.point, strict=False)),
                "certain": report.certain,
            }
            for report in self.undefined(box)
        ]

    def _search(self, box: Box) -> list[Undefined]:
        missing = [name for name in self.names if name not in box.names]
        if missing:
            fault = f"the box has no side for {', '.join(missing)}; its sides are {', '.join(box.names)}"
            raise InvalidInput("find_undefined", [f"{fault}, add the others"])
        return UndefinedSearch(self.tape, self._folded, self._constant_intervals, self.names, box).run()

    def kinks(self) -> list[Kink]:
        """The places where smoothness may break: one `Kink` for each distinct abs, min, max, sign, where, ..."""
        breaks: list[tuple[str, Node]] = []
        for node in (step.node for step in self.tape.steps):
            if isinstance(node, Operation) and node.name in _BREAKS:
                breaks += [(node.name, zero) for zero in _BREAKS[node.name](*node.arguments)]
        places = Tape([zero for _, zero in breaks]).outputs if breaks else ()  # equal expressions have one place
        found: dict[tuple[str, int], Kink] = {}
        for (kind, zero), place in zip(breaks, places, strict=True):
            if (kind, place) not in found and variables_of((zero,)):  # the kink of a constant is nowhere
                jump = kind not in _CORNERS
                found[kind, place] = Kink(kind, Expression.from_nodes([zero], self.names), jump)
        return list(found.values())

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "text": self.text, "variables": list(self.names)}

    def __repr__(self) -> str:
        return f"Expression({self.text!r}, names={list(self.names)})"
