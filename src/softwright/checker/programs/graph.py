"""`Meaning`: what a program means, as values of a graph, read from the text a second time.

A value is a number, its place in the graph: its operation, its arguments, a constant. It is at token i, unless it is
the value or condition of a sum, mean, max_of or min_of, where i(t) and j(t) are t at either token.
"""

from __future__ import annotations

from fractions import Fraction

from softwright.checker.programs.cases import over_cases, over_window
from softwright.checker.programs.functions import DEFINED, MAPS
from softwright.checker.programs.graph_core import PLAIN, Graph
from softwright.checker.programs.language import Reader, Tree
from softwright.checker.programs.pairs.reading import MOST, nearest
from softwright.checker.programs.places import is_place
from softwright.checker.programs.polynomials import CAUSAL, polynomial
from softwright.checker.programs.ranges import Range, Ranges
from softwright.checker.refusal import require

COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
SCOPES = (
    "sum",
    "mean",
    "max",
    "min",
    "count",
    "any",
    "all",
    "value",
    "attend",
)  # where i and j get a meaning of their own
PI = Fraction(314159265358979323846264338327950288419716939937510582097494459230781640628620899862803, 10**86)
MOST_VALUES = 256  # of a table
SUPPOSED = ("choose", "select", "place_of", "interp", "assume")  # what rests on a hypothesis
Sided = tuple[str, int]


class Meaning:
    """The values of a program's outputs in a graph of their own."""

    def __init__(self, text: str, fields: dict[str, Range], symbols: list[str], lengths: tuple[int, int]) -> None:
        self.graph, self.fields, self.symbols, self.lengths = Graph(), fields, symbols, lengths
        self.ranges = Ranges(self.graph, fields, symbols, lengths)
        self.names: dict[str, int] = {}
        reader = Reader(text)
        for name, tree in reader.names:
            taken = name in fields or name in self.names or name in ("i", "j", "n", "pi", "true", "false")
            require(not taken, f"the name {name!r} has two meanings")
            self.names[name] = self.token(tree)
        self.outputs = [self.token(tree) for tree in reader.outputs]

    def supposed(self) -> list[int]:
        """The values of the program that rest on hypotheses, in order."""
        seen, pending = set[int](), list(self.outputs)
        while pending:
            value = pending.pop()
            if value not in seen:
                seen.add(value)
                pending += self.graph.args[value]
        return [value for value in sorted(seen) if self.graph.op[value] in SUPPOSED]

    # at one token ------------------------------------------------------------------------------------------------

    def token(self, tree: Tree) -> int:
        graph = self.graph
        if tree.op == "number":
            return graph.number(Fraction(tree.word))
        if tree.op == "text":
            require(tree.word in self.symbols, f"{tree.word!r} is no symbol of the fields")
            return graph.make("symbol", constant=tree.word)
        if tree.op == "name":
            return self._name(tree.word)
        if tree.op == "item":
            return self.at(self.token(tree.parts[0]), self.token(tree.parts[1]))
        if tree.op == "call":
            return self._call(tree)
        require(tree.op != "list", "a list stands where no list belongs")
        return self.operation(tree.op, [self.token(part) for part in tree.parts])

    def _name(self, name: str) -> int:
        graph = self.graph
        if name in self.names:
            return self.names[name]
        if name in self.fields:
            return graph.make("field", constant=name)
        if name == "pi":
            return graph.number(PI)
        if name in ("true", "false"):
            return graph.make("eq", graph.number(0), graph.number(0 if name == "true" else 1))
        require(name in ("i", "n"), f"the name {name!r} has no meaning")
        return graph.make("position" if name == "i" else "length")

    def operation(self, op: str, args: list[int]) -> int:
        graph = self.graph
        if op in ("gt", "ge"):
            op, args = {"gt": "lt", "ge": "le"}[op], args[::-1]
        if op in ("lt", "le"):
            for place, join in ((0, "and"), (1, "or")):
                if graph.op[args[place]] == "abs" and self._of_both(args[place]):
                    return self._without_abs(op, args, place, join)
        if op == "ne":
            return graph.make("not", graph.make("eq", *args))
        if op == "pow" and graph.is_number(args[1]) and graph.constant[args[1]] == 2:
            return graph.make("mul", args[0], args[0])
        if op in MAPS:
            require(len(args) == 1, f"{op} has a wrong number of values")
            return graph.make(f"map:{op}", *args)
        require(op in PLAIN, f"unknown operation {op!r}")
        return graph.make(op, *args)

    def _of_both(self, value: int) -> bool:
        """Whether a value is of both tokens."""
        sides, pending = set(), [value]
        while pending:
            last = pending.pop()
            sides |= {self.graph.op[last]} & {"i", "j"}
            pending += self.graph.args[last] if self.graph.op[last] in PLAIN else ()
        return sides == {"i", "j"}

    def _without_abs(self, op: str, args: list[int], place: int, join: str) -> int:
        """|a| < b says a < b and -a < b; b < |a| says b < a or b < -a."""
        inner, other = self.graph.args[args[place]][0], args[1 - place]
        parts = []
        for one in (inner, self.graph.make("neg", inner)):
            sides = self.apart(one, other) if place == 0 else self.apart(other, one)
            parts.append(self.graph.make(op, *sides))
        return self.graph.make(join, *parts)

    def at(self, value: int, place: int, default: int | None = None) -> int:
        if self.graph.op[place] == "position":
            return value
        if default is None:
            require(is_place(self.graph, place, self.lengths), "a place may lie outside the sequence")
            return self.graph.make("at", value, place)
        return self.graph.make("at", value, place, default)

    # calls --------------------------------------------------------------------------------------------------------

    def _call(self, tree: Tree) -> int:
        name, graph = tree.word, self.graph
        if name in ("max", "min") and len(tree.parts) > 1 and tree.condition is None:
            found = self.token(tree.parts[0])
            for part in tree.parts[1:]:
                found = graph.make(name, found, self.token(part))
            return found
        if name in ("sum", "mean", "max", "min", "count", "any", "all"):
            return self._aggregate(tree)
        require(tree.condition is None or name == "attend", f"{name} takes no condition")
        options = {
            "prev": {"default"},
            "next": {"default"},
            "at": {"default"},
            "sorted": {"by"},
            "value": {"where", "margin", "count"},
        }
        options |= {"table": {"default"}, "interp": {"spacing"}}
        require(tree.options.keys() <= options.get(name, set()), f"{name} has an unknown option")
        if name == "value":
            return self._value(tree)
        if name == "attend":
            require(len(tree.parts) == 2, "attend cannot be read")
            (side, value), other = self.pair(tree.parts[0]), self.pair(tree.parts[1])
            require(side in ("", "j"), "attend averages what is not that of token j")
            if tree.condition is None:
                return graph.make("attend", value, self.sided(*other))
            truth = self.sided(*self.pair(tree.condition))
            require(polynomial(graph, truth) == {frozenset([CAUSAL]): 1}, "attend under a condition other than j <= i")
            return graph.make("attend", value, self.sided(*other), graph.number(1))
        if name == "conv":
            return self._conv(tree)
        if name == "table":
            require(tree.parts, "a table cannot be read")
            return self._table(tree, self.token(tree.parts[0]))
        parts = [self.token(part) for part in tree.parts]
        sizes = {
            "prev": (1, 2),
            "next": (1, 2),
            "at": (2,),
            "first": (1,),
            "last": (1,),
            "sorted": (1,),
            "median": (1,),
        }
        sizes |= {
            "smooth": (2,),
            "abs": (1,),
            "where": (3,),
            "clip": (3,),
            "interp": (3,),
            "assume": (3,),
        } | dict.fromkeys([*DEFINED, *MAPS], (1,))
        require(name in sizes, f"{name!r} is no function")
        require(len(parts) in sizes[name], f"{name} has a wrong number of values")
        last = graph.make("sub", graph.make("length"), graph.number(1))
        if name in ("prev", "next"):
            far = parts[1] if len(parts) > 1 else graph.number(1)
            place = graph.make("sub" if name == "prev" else "add", graph.make("position"), far)
            return self._or_default(parts[0], place, tree)
        if name == "at":
            return self._or_default(parts[0], parts[1], tree)
        if name == "first":
            return self.at(parts[0], graph.number(0))
        if name == "last":
            return self.at(parts[0], last)
        if name == "sorted":
            return graph.make("sort", parts[0], self.token(tree.options["by"]) if tree.options else parts[0])
        if name == "median":
            middle = graph.make("floordiv", last, graph.number(2))  # 0 <= (n - 1) // 2 <= n - 1
            return graph.make("at", graph.make("sort", parts[0], parts[0]), middle)
        if name in DEFINED:
            return DEFINED[name](graph, parts[0])
        if name in ("interp", "assume"):
            return self._supposed(name, parts, tree)
        if name == "clip":
            return graph.make("min", graph.make("max", *parts[:2]), parts[2])
        if name == "smooth":
            require(graph.is_number(parts[1]) and 0 < graph.constant[parts[1]] < 1, "smooth needs a rate in (0, 1)")
            return graph.make("smooth", *parts)
        return self.operation(name, parts)

    def _supposed(self, name: str, parts: list[int], tree: Tree) -> int:
        """interp(q, t, y, spacing=h) and assume(a, low, high): their numbers are hypotheses."""
        graph = self.graph
        if name == "interp":
            require("spacing" in tree.options, "an interpolation without a spacing")
            spacing = graph.quotient(self.token(tree.options["spacing"]))
            require(spacing is not None and spacing > 0, "a spacing is no positive number")
            return graph.make("interp", *parts, graph.number(spacing or 1))
        low, high = (graph.quotient(part) for part in parts[1:])
        require(low is not None and high is not None and low <= high, "what is assumed cannot be read")
        found = graph.make("assume", parts[0], graph.number(low or 0), graph.number(high or 0))
        self.ranges.granted.add(found)
        return found

    def _or_default(self, value: int, place: int, tree: Tree) -> int:
        """A value at a place; outside a constant, or what the token has."""
        graph, given = self.graph, tree.options.get("default")
        other = graph.number(0) if given is None else self.token(given)
        if graph.quotient(other) is not None or graph.op[other] == "symbol":
            return self.at(value, place, self._default(tree))
        zero = graph.number(0)
        inside = graph.make("and", graph.make("le", zero, place), graph.make("lt", place, graph.make("length")))
        symbol = self.ranges.of(value).kind == "symbol"
        usual = graph.make("symbol", constant=self.symbols[0]) if symbol else zero
        return graph.make("where", inside, self.at(value, place, usual), other)

    def _default(self, tree: Tree) -> int:
        given = tree.options.get("default")
        return self.graph.number(0) if given is None else self._constant(given)

    def _constant(self, tree: Tree) -> int:
        found = self.token(tree)
        number = self.graph.quotient(found)
        if number is not None:
            return self.graph.number(number)
        require(self.graph.op[found] == "symbol", "a default, or a value of a table, is no constant")
        return found

    def _table(self, tree: Tree, index: int) -> int:
        """Values by number; by keys, those between filled up with the default."""
        graph, lists = self.graph, tree.parts[1:]
        good = len(lists) in (1, 2) and all(part.op == "list" for part in lists)
        require(good and tree.options.keys() <= {"default"}, "a table cannot be read")
        values = [self._constant(part) for part in lists[-1].parts]
        default = self._default(tree) if tree.options else None
        if len(lists) == 2:
            keys = [self._constant(part) for part in lists[0].parts]
            symbols = [graph.op[key] == "symbol" for key in keys]
            require(
                len(set(keys)) == len(keys) == len(values) and len(set(symbols)) == 1, "keys of a table are damaged"
            )
            places = [self.symbols.index(graph.constant[key]) if symbols[0] else graph.constant[key] for key in keys]
            require(all(Fraction(place).denominator == 1 for place in places), "a key of a table is not whole")
            first = 0 if symbols[0] else int(min(places))
            require(max(places) - first < MOST_VALUES, "the keys of a table are too far apart")
            held = {int(place): value for place, value in zip(places, values, strict=True)}
            between = values[0] if default is None else default
            values = [held.get(k, between) for k in range(first, int(max(places)) + 1)]
            index = graph.make("sub", index, graph.number(first)) if first else index
        require(1 <= len(values) <= MOST_VALUES, "a table has too many values")
        return graph.make("table", index, values[0] if default is None else default, *values)

    def _conv(self, tree: Tree) -> int:
        good = len(tree.parts) == 2 and tree.parts[1].op == "list" and len(tree.parts[1].parts) % 2 == 1
        require(good and not tree.options, "conv cannot be read")
        graph, value, found = self.graph, self.token(tree.parts[0]), None
        weights = tree.parts[1].parts
        for k, part in enumerate(weights):
            weight, shift = graph.quotient(self.token(part)), len(weights) // 2 - k
            require(weight is not None, "a weight of conv is no number")
            if not weight:
                continue
            place = graph.make("position")
            place = graph.make("add", place, graph.number(shift)) if shift else place
            term = graph.make("mul", graph.number(weight), self.at(value, place, graph.number(0)))
            found = term if found is None else graph.make("add", found, term)
        return graph.number(0) if found is None else found

    def _value(self, tree: Tree) -> int:
        chosen = tree.options.get("where")
        good = chosen is not None and chosen.op == "call" and chosen.word in ("largest", "smallest")
        require(good and len(tree.parts) == 1, "value(..., where=largest(...)) cannot be read")
        if chosen is None:
            return 0
        require(len(chosen.parts) == 1 and not chosen.options and chosen.condition is None, "largest cannot be read")
        (side, value), (other, score) = self.pair(tree.parts[0]), self.pair(chosen.parts[0])
        require({side, other} <= {"", "j"} or (side != "i" and other == "both"), "value is not that of token j")
        require(side != "both" and (other != "both" or "margin" in tree.options), "a margin is missing")
        margin = self.graph.number(1)
        if "margin" in tree.options:
            margin = self.token(tree.options["margin"])
            require(self.graph.is_number(margin) and self.graph.constant[margin] > 0, "a margin is no positive number")
        score = score if chosen.word == "largest" else self.graph.make("neg", score)
        if "count" in tree.options:
            count = self.graph.quotient(self.token(tree.options["count"]))
            good = count is not None and count.denominator == 1 and 1 <= count <= min(MOST, self.lengths[0])
            require(good and "margin" in tree.options, "count is no number of tokens that there are, or has no margin")
            return nearest(self.graph, value, self.sided(other, score), margin, int(count or 1))
        return self.graph.make("select" if other == "both" else "choose", value, score, margin)

    # at two tokens ------------------------------------------------------------------------------------------------

    def _aggregate(self, tree: Tree) -> int:
        name, graph = tree.word, self.graph
        require(len(tree.parts) == 1 and not tree.options, f"{name} cannot be read")
        side, value = self.pair(tree.parts[0])
        if name in ("count", "any", "all"):
            require(tree.condition is None, f"{name} takes its condition as a value")
            truth = self.sided(side, value)
            truth = graph.make("not", truth) if name == "all" else truth
            count = graph.make("sum", graph.number(1), truth)
            if name == "count":
                return count
            zero = graph.number(0)
            return graph.make("lt", zero, count) if name == "any" else graph.make("eq", count, zero)
        require(side in ("", "j") or name in ("sum", "mean"), f"the value of {name} is not that of token j")
        given = tree.condition
        everywhere = given is None or (given.op == "name" and given.word == "j")
        truth = graph.number(1) if given is None or everywhere else self.sided(*self.pair(given))
        inner = self.sided(side, value)
        if name == "sum":
            return over_window(self.ranges, inner, truth)
        return over_cases(self.ranges, {"max": "max_of", "min": "min_of"}.get(name, name), inner, truth)

    def sided(self, side: str, value: int) -> int:
        if side == "both" or self.graph.is_number(value):
            return value
        return self.graph.make(side or "j", value)

    def pair(self, tree: Tree) -> Sided:
        """Of which token a tree speaks ("" if of none, "both"), and its value there."""
        if tree.op in ("number", "text"):
            return "", self.token(tree)
        if tree.op == "name":
            if tree.word in ("i", "j"):
                return tree.word, self.graph.make("position")
            value = self.token(tree)
            return "" if tree.word == "n" or self.graph.quotient(value) is not None else "j", value
        if tree.op == "item":
            index = tree.parts[1]
            if index.op == "name" and index.word in ("i", "j"):
                return index.word, self.token(tree.parts[0])
            side, place = self.pair(index)
            require(side != "both", "a place of two tokens")
            return side or "j", self.at(self.token(tree.parts[0]), place)
        if tree.op == "call" and tree.word == "table":
            require(tree.parts and tree.condition is None, "a table cannot be read")
            side, index = self.pair(tree.parts[0])
            require(side != "both", "a table looked up with two tokens")
            return side, self._table(tree, index)
        if tree.op == "call" and not at_one_place(tree):
            require(tree.word in SCOPES or not speaks_of_token(tree), f"{tree.word} inside an aggregate names a token")
            return "j", self.token(tree)
        found = [self.pair(part) for part in tree.parts]
        sides = {side for side, _ in found} - {""}
        together = len(sides) == 2 or "both" in sides
        values = [self.sided(*one) if together else one[1] for one in found]
        op = tree.word if tree.op == "call" else tree.op
        if op in COMPARED and "both" in sides:
            values = self.apart(*values)
        value = self.operation(op, values[:2] if op in ("max", "min") else values)
        for other in values[2:] if op in ("max", "min") else ():
            value = self.operation(op, [value, other])
        return "both" if together else (sides.pop() if sides else ""), value

    def apart(self, left: int, right: int) -> list[int]:
        """The sides of a comparison: what token j has, and what token i has less the rest."""
        graph = self.graph
        mine: list[tuple[Fraction, int]] = []
        other: list[tuple[Fraction, int]] = []
        rest, pending = Fraction(0), [(Fraction(-1), right), (Fraction(1), left)]
        while pending:
            factor, value = pending.pop()
            op, args = graph.op[value], graph.args[value]
            numbers = [graph.quotient(arg) for arg in args] if op == "mul" else []
            if op in ("add", "sub"):
                pending += [(factor if op == "add" else -factor, args[1]), (factor, args[0])]
            elif op == "neg":
                pending.append((-factor, args[0]))
            elif numbers and numbers[0] is not None:
                pending.append((factor * numbers[0], args[1]))
            elif numbers and numbers[1] is not None:
                pending.append((factor * numbers[1], args[0]))
            elif op == "number":
                rest -= factor * graph.constant[value]
            elif op in ("i", "j"):
                (mine if op == "j" else other).append((factor if op == "j" else -factor, args[0]))
            else:
                return [left, right]
        return [graph.make("j", self._added(mine, Fraction(0))), graph.make("i", self._added(other, rest))]

    def _added(self, parts: list[tuple[Fraction, int]], rest: Fraction) -> int:
        graph, found = self.graph, None
        for factor, value in parts:
            piece = value
            if factor != 1:
                piece = graph.make("neg", value) if factor == -1 else graph.make("mul", graph.number(factor), value)
            found = piece if found is None else graph.make("add", found, piece)
        if found is None:
            return graph.number(rest)
        return graph.make("add", found, graph.number(rest)) if rest != 0 else found


def at_one_place(tree: Tree) -> bool:
    """Whether a call is a function of its values at the same token."""
    several = tree.word in ("max", "min") and len(tree.parts) > 1
    return tree.condition is None and (several or tree.word in ("abs", "where") or tree.word in MAPS)


def speaks_of_token(tree: Tree) -> bool:
    """Whether i or j stands in a tree, aggregates of their own left out."""
    if tree.op == "name":
        return tree.word in ("i", "j")
    if tree.op == "call" and tree.word in SCOPES and not at_one_place(tree):
        return False
    return any(speaks_of_token(part) for part in (*tree.parts, *tree.options.values()))
