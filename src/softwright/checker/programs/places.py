"""Places and conditions by what they are made of: whether a number is a place, whether a token always meets itself."""

from __future__ import annotations

from fractions import Fraction

from softwright.checker.programs.graph_core import Graph

Lengths = tuple[int, int]


def by_length_and_place(graph: Graph, value: int) -> tuple[Fraction, Fraction, Fraction] | None:
    """(a, b, c) of a n + b i + c."""
    op, args = graph.op[value], graph.args[value]
    simple = {"length": (1, 0), "position": (0, 1)}
    if op in simple:
        return Fraction(simple[op][0]), Fraction(simple[op][1]), Fraction(0)
    if op == "number":
        return Fraction(0), Fraction(0), graph.constant[value]
    if op == "mul" and any(graph.is_number(arg) for arg in args):
        one, other = args if graph.is_number(args[0]) else args[::-1]
        inner, factor = by_length_and_place(graph, other), graph.constant[one]
        return None if inner is None else (factor * inner[0], factor * inner[1], factor * inner[2])
    if op not in ("add", "sub", "neg"):
        return None
    total = [Fraction(0)] * 3
    for sign, arg in zip((-1,) if op == "neg" else (1, 1 if op == "add" else -1), args, strict=True):
        part = by_length_and_place(graph, arg)
        if part is None:
            return None
        total = [x + sign * y for x, y in zip(total, part, strict=True)]
    return total[0], total[1], total[2]


def place_ends(graph: Graph, value: int, lengths: Lengths) -> list[Fraction] | None:
    """Among which the least and largest a n + b i + c are: it is linear in i and, at the ends of i, in n."""
    found = _extremes(graph, value, lengths)
    return None if found is None else [number for number, _ in found]


def always_itself(graph: Graph, condition: int) -> bool | None:
    """Whether j = i meets a condition at all tokens, at none, or (None) that is not known."""
    op, args = graph.op[condition], graph.args[condition]
    if op == "number":
        return graph.constant[condition] == 1
    if op == "not":
        inner = always_itself(graph, args[0])
        return inner if inner is None else not inner
    if op in ("and", "or"):
        both = {always_itself(graph, arg) for arg in args}
        if both == {True} or (op == "or" and True in both):
            return True
        return False if both == {False} or (op == "and" and False in both) else None
    if op not in ("eq", "lt", "le") or {graph.op[arg] for arg in args} != {"i", "j"}:
        return None
    left, right = (graph.args[arg][0] for arg in args)
    if left == right:
        return op in ("eq", "le")
    one, other = by_length_and_place(graph, left), by_length_and_place(graph, right)
    if one is None or other is None or one[:2] != other[:2]:
        return None
    return one[2] == other[2] if op == "eq" else (one[2] < other[2] or (op == "le" and one[2] == other[2]))


def is_place(graph: Graph, value: int, lengths: Lengths) -> bool:
    """0 <= value <= n - 1 in every sequence. What is linear in i and n has its extremes at the corners."""
    return at_least_zero(graph, value, lengths) and below_length(graph, value, lengths)


def _extremes(graph: Graph, value: int, lengths: Lengths) -> list[tuple[Fraction, int]] | None:
    found = by_length_and_place(graph, value)
    if found is None:
        return None
    return [(found[0] * n + found[1] * i + found[2], n) for n in lengths for i in (0, n - 1)]


def _whole_from_one(graph: Graph, value: int) -> bool:
    return graph.is_number(value) and graph.constant[value] >= 1


def _looked_at(graph: Graph, value: int) -> int:
    return graph.args[value][0] if graph.op[value] == "j" else value


def at_least_zero(graph: Graph, value: int, lengths: Lengths) -> bool:
    extremes, op, args = _extremes(graph, value, lengths), graph.op[value], graph.args[value]
    if extremes is not None:
        return min(number for number, _ in extremes) >= 0
    if op == "sum":  # a count, or a multiple of one
        return graph.is_number(args[0]) and graph.constant[args[0]] >= 0
    if op in ("max_of", "min_of"):  # of nothing: 0
        return at_least_zero(graph, _looked_at(graph, args[0]), lengths)
    divided = op in ("mod", "floordiv") and (graph.op[args[1]] == "length" or _whole_from_one(graph, args[1]))
    if divided:
        return op == "mod" or at_least_zero(graph, args[0], lengths)
    inner = [at_least_zero(graph, arg, lengths) for arg in (args[1:] if op == "where" else args)]
    return any(inner) if op == "max" else op in ("min", "add", "mul", "where") and all(inner)


def below_length(graph: Graph, value: int, lengths: Lengths) -> bool:
    extremes, op, args = _extremes(graph, value, lengths), graph.op[value], graph.args[value]
    if extremes is not None:
        return all(number <= n - 1 for number, n in extremes)
    if op in ("max_of", "min_of"):
        return below_length(graph, _looked_at(graph, args[0]), lengths)
    if op == "mod":
        small = _whole_from_one(graph, args[1]) and graph.constant[args[1]] <= lengths[0]
        return small or graph.op[args[1]] == "length"
    if op == "floordiv":
        divided = _whole_from_one(graph, args[1]) and at_least_zero(graph, args[0], lengths)
        ends = _extremes(graph, args[0], lengths) if divided and graph.constant[args[1]] >= 2 else None
        if ends is not None and all(number <= n for number, n in ends):
            return True  # at most n // 2, which is at most n - 1
        return divided and below_length(graph, args[0], lengths)
    if op == "sub":
        first = args[0]
        count = graph.op[first] == "sum" and graph.is_number(graph.args[first][0])
        if count and graph.constant[graph.args[first][0]] == 1 and _whole_from_one(graph, args[1]):
            return True
        return below_length(graph, first, lengths) and at_least_zero(graph, args[1], lengths)
    inner = [below_length(graph, arg, lengths) for arg in (args[1:] if op == "where" else args)]
    return any(inner) if op == "min" else op in ("max", "where") and all(inner)
