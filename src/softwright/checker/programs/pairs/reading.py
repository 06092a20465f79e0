"""Values at the tokens of largest scores, as they are read."""

from __future__ import annotations

from softwright.checker.programs.graph_core import Graph

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
