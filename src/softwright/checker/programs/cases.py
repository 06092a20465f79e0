"""Means and extremes over conditions of several cases, as the language says it.

A condition that one head cannot look at is a union of products that exclude each other. Extremes are those of the
cases' extremes of w = v - low + 1 (or high + 1 - v), which are 0 where nothing meets a case; means are quotients of
sums. If j < i is among what a condition joins, it speaks of the tokens before those up to i. A sum of real numbers of
token j over the places from i + a to i + b, at most nine, is the sum of what stands there, 0 outside the sequence.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

from softwright.checker.programs.graph_core import Graph
from softwright.checker.programs.places import always_itself, by_length_and_place
from softwright.checker.programs.polynomials import polynomial
from softwright.checker.programs.ranges import Ranges
from softwright.checker.refusal import require

MOST, PLACES = 24, 9
Case = list[int]


def one_head(graph: Graph, condition: int) -> bool:
    """Whether a condition is one product of equalities, truth values and j <= i."""
    terms = polynomial(graph, condition)
    return list(terms.values()) == [1] and not any(atom[0] in ("less", "more") for atoms in terms for atom in atoms)


def over_cases(ranges: Ranges, op: str, value: int, condition: int) -> int:
    """mean, max_of or min_of over a condition of a value, its tokens written out."""
    graph = ranges.graph
    if op == "mean" and not graph.is_number(condition) and graph.op[value] not in ("j", "number"):
        return _quotient(ranges, value, condition)  # of what both tokens have
    while not one_head(graph, condition):
        joined = _conjuncts(graph, condition)
        others = [part for part in joined if not _says_before(graph, part)]
        if len(others) == len(joined):
            if op == "mean":
                return _quotient(ranges, value, condition)
            return _extreme(ranges, op, graph.args[value][0] if graph.op[value] == "j" else value, condition)
        place = graph.make("position")
        causal = graph.make("le", graph.make("j", place), graph.make("i", place))
        not_first = graph.make("j", graph.make("lt", graph.number(0), place))
        condition = _all_of(graph, [causal, not_first, *(_one_back(ranges, part) for part in others)])
        value = _one_back(ranges, value)
    return graph.make(op, value, condition)


def _quotient(ranges: Ranges, value: int, condition: int) -> int:
    graph = ranges.graph
    count = graph.make("sum", graph.number(1), condition)
    total = over_window(ranges, value, condition)
    if always_itself(graph, condition) is not True:
        count = graph.make("max", count, graph.number(1))
    return graph.make("div", total, count)


def _extreme(ranges: Ranges, op: str, value: int, condition: int) -> int:
    graph, kind = ranges.graph, ranges.of(value)
    require(kind.kind != "symbol", "an extreme of symbols over several cases")
    zero = graph.number(0)
    turn = graph.number(1 - kind.low if op == "max_of" else kind.high + 1)
    lifted = graph.make("add", value, turn) if op == "max_of" else graph.make("sub", turn, value)
    row = [
        graph.make("max_of", graph.make("j", lifted), _all_of(graph, case)) for case in _cases(ranges, condition, True)
    ]
    if not row:
        return zero
    while len(row) > 1:
        paired = [graph.make("max", row[k], row[k + 1]) for k in range(0, len(row) - 1, 2)]
        row = paired + ([row[-1]] if len(row) % 2 else [])
    found = graph.make("sub", row[0], turn) if op == "max_of" else graph.make("sub", turn, row[0])
    if always_itself(graph, condition) is True:
        return found
    some = graph.make("lt", zero, graph.make("sum", graph.number(1), condition))
    return graph.make("where", some, found, zero)


# windows --------------------------------------------------------------------------------------------------------------


def over_window(ranges: Ranges, value: int, condition: int) -> int:
    """The sum of a value over a condition."""
    graph = ranges.graph
    plain = graph.make("sum", value, condition)
    if graph.op[value] != "j" or ranges.of(value).whole:
        return plain
    least, most = -math.inf, math.inf
    for part in _conjuncts(graph, condition):
        ends = _apart(graph, part)
        if ends is None:
            return plain
        least, most = max(least, ends[0]), min(most, ends[1])
    if not 0 <= most - least < PLACES:  # nor if one of them is infinite
        return plain
    (own,) = graph.args[value]
    parts = []
    for k in range(int(least), int(most) + 1):
        place = graph.make("add" if k > 0 else "sub", graph.make("position"), graph.number(abs(k)))
        parts.append(graph.make("at", own, place, graph.number(0)) if k else own)
    total = parts[0]
    for part in parts[1:]:
        total = graph.make("add", total, part)
    return total


def _apart(graph: Graph, part: int) -> tuple[float, float] | None:
    """The whole numbers between which j - i lies by one comparison of places; None if it is another."""
    op, args = graph.op[part], graph.args[part]
    sides = {graph.op[arg]: by_length_and_place(graph, graph.args[arg][0]) for arg in args if graph.args[arg]}
    mine, other = sides.get("j"), sides.get("i")
    if op not in ("eq", "lt", "le") or mine is None or other is None or mine[:2] != other[:2] or mine[1] == 0:
        return None
    border = (other[2] - mine[2]) / mine[1]  # j - i where both sides are equal
    if op == "eq":
        return (float(border), float(border)) if border.denominator == 1 else None
    j_first = graph.op[args[0]] == "j"
    if j_first == (mine[1] > 0):  # j - i < border
        return -math.inf, float(math.floor(border) - (1 if op == "lt" and border.denominator == 1 else 0))
    return float(math.ceil(border) + (1 if op == "lt" and border.denominator == 1 else 0)), math.inf


# the tokens before ----------------------------------------------------------------------------------------------------


def _conjuncts(graph: Graph, condition: int) -> list[int]:
    if graph.op[condition] != "and":
        return [condition]
    return [part for arg in graph.args[condition] for part in _conjuncts(graph, arg)]


def _says_before(graph: Graph, part: int) -> bool:
    args = graph.args[part]
    if graph.op[part] != "lt" or [graph.op[arg] for arg in args] != ["j", "i"]:
        return False
    return all(graph.op[graph.args[arg][0]] == "position" for arg in args)


def _one_back(ranges: Ranges, part: int) -> int:
    graph = ranges.graph
    op, args = graph.op[part], graph.args[part]
    if op == "j":
        return graph.make("j", _before(ranges, args[0]))
    if op in ("i", "number"):
        return part
    return graph.make(op, *(_one_back(ranges, arg) for arg in args), constant=graph.constant[part])


def _before(ranges: Ranges, value: int) -> int:
    graph = ranges.graph
    if graph.op[value] in ("number", "symbol"):
        return value
    place = graph.make("sub", graph.make("position"), graph.number(1))
    if graph.op[value] == "position":
        return graph.make("max", place, graph.number(0))
    kind = ranges.of(value).kind
    if kind == "symbol":
        return graph.make("at", value, place, graph.make("symbol", constant=ranges.symbols[0]))
    if kind == "truth":
        one, zero = graph.number(1), graph.number(0)
        return graph.make("eq", graph.make("at", graph.make("where", value, one, zero), place, zero), one)
    return graph.make("at", value, place, graph.number(0))


# cases ----------------------------------------------------------------------------------------------------------------


def _cases(ranges: Ranges, condition: int, wanted: bool) -> list[Case]:
    """Products that exclude each other, one of which holds exactly where the condition is as wanted."""
    graph = ranges.graph
    op, args = graph.op[condition], graph.args[condition]
    if op == "number":
        return [[]] if wanted == (graph.constant[condition] == 1) else []
    if op in ("i", "j"):
        return [[condition]] if wanted else [[graph.make(op, graph.make("not", args[0]))]]
    if op == "not":
        return _cases(ranges, args[0], not wanted)
    if op in ("and", "or"):
        one, other = (_cases(ranges, arg, wanted) for arg in args)
        if (op == "and") == wanted:
            found = [[*a, *b] for a, b in product(one, other)]
        else:
            found = [*one, *([*a, *b] for a, b in product(_cases(ranges, args[0], not wanted), other))]
    else:
        require(op in ("eq", "lt", "le"), "a condition that has no cases")
        found = _compared(ranges, condition, wanted)
    require(len(found) <= MOST, "a condition has too many cases")
    return found


def _compared(ranges: Ranges, condition: int, wanted: bool) -> list[Case]:
    graph = ranges.graph
    op, (left, right) = graph.op[condition], graph.args[condition]
    mine, other = (left, right) if graph.op[left] == "j" else (right, left)
    a, b = graph.args[mine][0], graph.args[other][0]
    order = 0 if op == "eq" else (-1 if mine == left else 1)
    held = {order} | ({0} if op == "le" else set())
    held = held if wanted else {-1, 0, 1} - held
    if held == {-1, 0} and graph.op[a] == graph.op[b] == "position":
        return [[graph.make("le", mine, other)]]
    found = [[graph.make("eq", mine, other)]] if 0 in held else []
    for sign in (-1, 1):
        found += _by_bits(ranges, a, b, sign) if sign in held else []
    return found


def _by_bits(ranges: Ranges, a: int, b: int, sign: int) -> list[Case]:
    """a_j < b_i (sign -1) or a_j > b_i: the first bit in which they differ decides."""
    graph = ranges.graph
    if ranges.of(a).kind == ranges.of(b).kind == "symbol":  # by their numbers
        numbers = [graph.number(k) for k, _ in enumerate(ranges.symbols)]
        a, b = (graph.make("table", value, numbers[0], *numbers) for value in (a, b))
    kinds = ranges.of(a), ranges.of(b)
    require(all(kind.whole for kind in kinds), "an order of real numbers in several cases")
    low = int(min(kind.low for kind in kinds))
    bits = int(max(kind.high for kind in kinds) - low).bit_length()

    def shifted(value: int, by: int) -> int:
        value = graph.make("sub", value, graph.number(low)) if low else value
        return graph.make("floordiv", value, graph.number(Fraction(2**by))) if by else value

    def bit(value: int, by: int, wanted: bool) -> int:
        return graph.make("eq", graph.make("mod", shifted(value, by), graph.number(2)), graph.number(int(wanted)))

    found = []
    for k in range(bits):
        case = []
        if k + 1 < bits:
            case = [graph.make("eq", graph.make("j", shifted(a, k + 1)), graph.make("i", shifted(b, k + 1)))]
        case += [graph.make("j", bit(a, k, sign > 0)), graph.make("i", bit(b, k, sign < 0))]
        found.append(case)
    return found


def _all_of(graph: Graph, parts: Case) -> int:
    found = parts[0] if parts else graph.number(1)
    for part in parts[1:]:
        found = graph.make("and", found, part)
    return found
