"""Values at the tokens of largest scores, and lines between points, as they are read."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from softwright.checker.programs.graph_core import Graph
from softwright.checker.refusal import require

MOST = 16


def nearest(graph: Graph, value: int, score: int, margin: int, count: int) -> int:
    """The mean of a value at the tokens of the largest scores."""
    places: list[int] = []
    total = -1
    for _ in range(count):
        places.append(graph.make("place_of", score, margin, *places))
        item = graph.make("at", value, places[-1])  # it is the place of a token, so there is one
        total = item if total < 0 else graph.make("add", total, item)
    return graph.make("div", total, graph.number(count)) if count > 1 else total


class Ends(Protocol):
    """A range."""

    @property
    def low(self) -> Fraction: ...

    @property
    def high(self) -> Fraction: ...


@dataclass(frozen=True)
class Lines:
    """What y at the query q is read off: token j has the line level + steep q between the times before and t."""

    query: int
    before: int
    step: int
    steep: int
    level: int


def lines(graph: Graph, value: int, times: Ends, values: Ends) -> Lines:
    """The lines of interp(q, t, y, h): through a token's point and the one before; of the first token a constant."""
    require(graph.op[value] == "interp" and len(graph.args[value]) == 4, "lines of what is no interpolation")
    asked, time, y, spacing = graph.args[value]
    require(graph.is_number(spacing) and graph.constant[spacing] > 0, "a spacing is no positive number")
    place, one = graph.make("position"), graph.number(1)
    later = graph.make("lt", graph.number(0), place)
    place_before = graph.make("sub", place, one)
    time_before = graph.make("at", time, place_before, graph.number(times.low))
    before = graph.make("where", later, time_before, graph.make("sub", time, spacing))
    y_before = graph.make("where", later, graph.make("at", y, place_before, graph.number(values.low)), y)
    most = max(times.high - times.low, graph.constant[spacing])
    step = graph.make("assume", graph.make("sub", time, before), spacing, graph.number(most))
    steep = graph.make("mul", graph.make("sub", y, y_before), graph.make("div", one, step))
    level = graph.make("sub", y, graph.make("mul", steep, time))
    first = graph.make("at", time, graph.number(0))
    last = graph.make("at", time, graph.make("sub", graph.make("length"), one))
    query = graph.make("min", graph.make("max", asked, first), last)
    return Lines(query, before, step, steep, level)
