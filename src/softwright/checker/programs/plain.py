"""Values of plain operations at whole numbers, in exact fractions."""

from __future__ import annotations

from fractions import Fraction

from softwright.checker.programs.graph_core import PLAIN, Graph
from softwright.checker.refusal import require

MOST_TOKENS, MOST_CROSSED = 512, 128  # for sums that are written out; of places and the length together


def plain_value(graph: Graph, value: int, given: dict[int, Fraction], symbols: list[str]) -> Fraction:
    """A plain value where some values are given; refused if it depends on anything else."""
    if value in given:
        return given[value]
    op, args = graph.op[value], graph.args[value]
    if op == "number":
        return graph.constant[value]
    if op == "symbol":
        return Fraction(symbols.index(graph.constant[value]))
    if op in ("eq", "lt", "le"):
        difference = next((d for d in given if graph.op[d] in ("sub", "difference") and graph.args[d] == args), None)
        if difference is not None:  # a < b is a - b < 0
            return _compare(op, given[difference], Fraction(0))
    require(op in PLAIN, "a table's value depends on what it does not look up")
    if op == "table":
        index = plain_value(graph, args[0], given, symbols)
        chosen = args[2 + int(index)] if 0 <= index < len(args) - 2 else args[1]
        return plain_value(graph, chosen, given, symbols)
    a = [plain_value(graph, arg, given, symbols) for arg in args]
    if op in ("eq", "lt", "le"):
        return _compare(op, a[0], a[1])
    if op == "where":
        return a[1] if a[0] != 0 else a[2]
    if op in ("div", "floordiv", "mod") and a[1] == 0:
        return Fraction(0)  # the range of a divisor has no 0: this case does not occur
    if op in ("add", "sub", "mul", "div"):
        return {"add": a[0] + a[-1], "sub": a[0] - a[-1], "mul": a[0] * a[-1]}[op] if op != "div" else a[0] / a[1]
    if op in ("floordiv", "mod"):
        quotient = Fraction(a[0] // a[1])
        return quotient if op == "floordiv" else a[0] - a[1] * quotient
    if op == "pow":
        if a[1] < 0 and graph.folded(args[1]) is None:
            return Fraction(0)  # the range of such exponents begins at 0: this case does not occur
        require(a[1].denominator == 1 and (a[1] >= 0 or a[0] != 0), "a power that is not known")
        return a[0] ** int(a[1])
    if op in ("neg", "abs"):
        return -a[0] if op == "neg" else abs(a[0])
    if op in ("min", "max"):
        return min(a) if op == "min" else max(a)
    truth = {"not": a[0] == 0, "and": all(a), "or": any(a)}[op]
    return Fraction(int(truth))


def _compare(op: str, a: Fraction, b: Fraction) -> Fraction:
    return Fraction(int({"eq": a == b, "lt": a < b, "le": a <= b}[op]))


def is_upto(graph: Graph, condition: int) -> bool:
    """Whether a condition is j <= i."""
    if graph.op[condition] != "le":
        return False
    sides = [(graph.op[arg], [graph.op[inner] for inner in graph.args[arg]]) for arg in graph.args[condition]]
    return sides == [("j", ["position"]), ("i", ["position"])]


def written_out(graph: Graph, value: int, longest: int) -> tuple[str, list[Fraction]] | None:
    """Which of length and place decides a value, and what it is by that; None if neither does alone."""
    op, args = graph.op[value], graph.args[value]
    if op in ("length", "position"):
        return op, [Fraction(k) for k in range(longest + 1)]
    if op not in ("sum", "mean") or longest > MOST_TOKENS or graph.op[args[0]] not in ("j", "number"):
        return None
    everywhere = graph.is_number(args[1])
    inner = graph.args[args[0]][0] if graph.op[args[0]] == "j" else args[0]
    if not (everywhere or is_upto(graph, args[1])):
        return None
    below = _placed(graph, inner, longest)
    if below is None:
        return None
    crossed = any(name == "length" for name, _ in below.values())
    if crossed and (not everywhere or longest > MOST_CROSSED):
        return None

    def here(j: int, n: int) -> Fraction:
        given = {leaf: row[n if name == "length" else j] for leaf, (name, row) in below.items()}
        return plain_value(graph, inner, given, [])

    if crossed:
        sums = [sum((here(j, n) for j in range(n)), Fraction(0)) for n in range(longest + 1)]
    else:
        sums = [Fraction(0)]
        for j in range(longest):
            sums.append(sums[-1] + here(j, longest))
    if op == "mean":
        sums = [total / (k or 1) for k, total in enumerate(sums)]
    return ("length", sums) if everywhere else ("position", sums[1:])


def _placed(graph: Graph, value: int, longest: int) -> dict[int, tuple[str, list[Fraction]]] | None:
    """The values under a rational function of places and the length, each by what decides it."""
    op = graph.op[value]
    if op == "number":
        return {}
    if op == "pow":
        power = graph.args[value][1]
        whole = graph.is_number(power) and graph.constant[power].denominator == 1
        return _placed(graph, graph.args[value][0], longest) if whole else None
    if op not in PLAIN:
        out = written_out(graph, value, longest)
        return None if out is None else {value: out}
    found: dict[int, tuple[str, list[Fraction]]] = {}
    for arg in graph.args[value]:
        more = _placed(graph, arg, longest)
        if more is None:
            return None
        found |= more
    return found
