"""What a program says, by Python's own parser and plain recursion: a reading that shares nothing with softwright's.

The language is Python's but for "for" inside calls, which becomes an argument of that name here. Numbers are fractions,
symbols their places in the vocabulary; a value is computed at one token, or at two tokens i and j inside an aggregate.
"""

from __future__ import annotations

import ast
import math
import re
from fractions import Fraction
from typing import Any

AGGREGATES = ("sum", "mean", "max", "min", "count", "any", "all")
OPERATORS: dict[type, Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: Fraction(a) / Fraction(b),
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a ** int(b) if b == int(b) else Fraction(float(a) ** float(b)),
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}


FUNCTIONS = {name: getattr(math, name) for name in ("sin", "cos", "tan", "exp", "log", "sqrt", "tanh", "cbrt", "acos")}
FUNCTIONS |= {"sigmoid": lambda x: 1 / (1 + math.exp(-x)), "relu": lambda x: max(x, 0.0)}
FUNCTIONS |= {"normcdf": lambda x: math.erfc(-x / math.sqrt(2)) / 2}
OVER_ALL = ("softmax", "logsumexp", "var")


class Plain:
    """The outputs of a program on one sequence: `fields` are lists of numbers, symbols by their places."""

    def __init__(self, text: str, fields: dict[str, list[Any]], symbols: tuple[str, ...]) -> None:
        tree = ast.parse(re.sub(r"\bfor\b", ", FOR =", text.strip()))
        self.fields, self.symbols = fields, symbols
        self.n = len(next(iter(fields.values())))
        self.names = {node.targets[0].id: node.value for node in tree.body[:-1]}  # pyright: ignore
        last: Any = tree.body[-1]
        outputs = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
        self.known: dict[tuple[int, int], Any] = {}
        self.outputs = [[self.at(node, p) for node in outputs] for p in range(self.n)]

    def at(self, node: Any, p: int) -> Any:
        """The value of a node at token p."""
        key = id(node), p
        if key not in self.known:
            self.known[key] = self.compute(node, (p,))
        return self.known[key]

    def compute(self, node: Any, tokens: tuple[int, ...]) -> Any:
        """At one token, or at the pair (i, j): a bare name is then that of j."""
        if isinstance(node, ast.Constant):
            value = node.value
            return self.symbols.index(value) if isinstance(value, str) else Fraction(str(value))
        if isinstance(node, ast.Name):
            return self.name(node.id, tokens)
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](self.compute(node.left, tokens), self.compute(node.right, tokens))
        if isinstance(node, ast.UnaryOp):
            value = self.compute(node.operand, tokens)
            return (not value) if isinstance(node.op, ast.Not) else -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BoolOp):
            values = [bool(self.compute(part, tokens)) for part in node.values]
            return all(values) if isinstance(node.op, ast.And) else any(values)
        if isinstance(node, ast.Compare):
            values = [self.compute(part, tokens) for part in (node.left, *node.comparators)]
            return all(OPERATORS[type(op)](a, b) for op, a, b in zip(node.ops, values, values[1:], strict=False))
        if isinstance(node, ast.IfExp):
            return self.compute(node.body if self.compute(node.test, tokens) else node.orelse, tokens)
        if isinstance(node, ast.Subscript):
            index = node.slice
            if isinstance(index, ast.Name) and index.id in ("i", "j"):
                return self.at(node.value, tokens[0] if index.id == "i" else tokens[-1])
            return self.at(node.value, int(self.compute(index, tokens)))
        if isinstance(node, ast.Call):
            return self.call(node, tokens)
        raise TypeError(ast.dump(node))

    def name(self, name: str, tokens: tuple[int, ...]) -> Any:
        if name in ("i", "j"):
            return tokens[0] if name == "i" else tokens[-1]
        if name == "n":
            return self.n
        if name in ("true", "false"):
            return name == "true"
        if name == "pi":
            return Fraction(math.pi)
        return self.at(self.names[name], tokens[-1]) if name in self.names else self.fields[name][tokens[-1]]

    def call(self, node: Any, tokens: tuple[int, ...]) -> Any:
        name, args = node.func.id, node.args
        options = {key.arg: key.value for key in node.keywords}
        if name in AGGREGATES and not (name in ("max", "min") and len(args) > 1):
            return self.aggregate(name, args[0], options.get("FOR"), tokens[-1])
        if name in FUNCTIONS:
            return Fraction(FUNCTIONS[name](float(self.compute(args[0], tokens))))
        if name == "clip":
            value, low, high = (self.compute(arg, tokens) for arg in args)
            return min(max(value, low), high)
        if name == "assume":
            return self.compute(args[0], tokens)
        if name == "interp":
            return self.between(args, tokens[-1])
        if name in ("abs", "where", "max", "min"):
            values = [self.compute(arg, tokens) for arg in args]
            if name == "where":
                return values[1] if values[0] else values[2]
            return abs(values[0]) if name == "abs" else (max if name == "max" else min)(values)
        if name in OVER_ALL or name in ("smooth", "conv", "attend", "value"):
            return self.weighted(name, args, options, tokens[-1])
        default = self.compute(options["default"], tokens) if "default" in options else 0
        if name == "table":
            index, lists = (
                self.compute(args[0], tokens),
                [[self.compute(v, tokens) for v in arg.elts] for arg in args[1:]],
            )
            keys = lists[0] if len(lists) == 2 else list(range(len(lists[0])))
            return lists[-1][keys.index(index)] if index in keys else default
        p = tokens[-1]
        if name in ("prev", "next", "at"):
            far = self.at(args[1], p) if len(args) > 1 else 1
            where = int({"prev": p - far, "next": p + far, "at": far}[name])
            return self.at(args[0], where) if 0 <= where < self.n else default
        if name in ("first", "last"):
            return self.at(args[0], 0 if name == "first" else self.n - 1)
        values = [self.at(args[0], q) for q in range(self.n)]
        if name == "median":
            return sorted(values)[(self.n - 1) // 2]
        by = options.get("by", args[0])
        return [values[q] for q in sorted(range(self.n), key=lambda q: self.at(by, q))][p]

    def between(self, args: list[Any], p: int) -> Fraction:
        """y at q, on the line of the two times around it; constant outside."""
        asked, times = Fraction(self.at(args[0], p)), [Fraction(self.at(args[1], q)) for q in range(self.n)]
        values = [Fraction(self.at(args[2], q)) for q in range(self.n)]
        for k in range(1, self.n):
            if times[k - 1] <= asked <= times[k]:
                share = (asked - times[k - 1]) / (times[k] - times[k - 1])
                return values[k - 1] + share * (values[k] - values[k - 1])
        return values[0] if asked <= times[0] else values[-1]

    def weighted(self, name: str, args: list[Any], options: dict[str, Any], p: int) -> Any:
        """What is a sum over all tokens with weights of its own."""
        if name in ("attend", "value"):
            where = [q for q in range(self.n) if "FOR" not in options or self.compute(options["FOR"], (p, q))]
            score = options["where"].args[0] if name == "value" else args[1]
            scores = [float(self.compute(score, (p, q))) for q in where]
            if "count" in options:
                many = int(self.compute(options["count"], (p,)))
                order = sorted(
                    range(len(where)), key=lambda k: scores[k], reverse=options["where"].func.id == "largest"
                )
                taken = [Fraction(self.compute(args[0], (p, where[k]))) for k in order[:many]]
                return sum(taken, Fraction(0)) / many
            if name == "value":
                best = max(scores) if options["where"].func.id == "largest" else min(scores)
                return self.compute(args[0], (p, where[scores.index(best)]))
            weights = [math.exp(s - max(scores)) for s in scores]
            total = sum(w * float(self.compute(args[0], (p, q))) for w, q in zip(weights, where, strict=True))
            return Fraction(total / sum(weights))
        values = [Fraction(self.at(args[0], q)) for q in range(self.n)]
        if name == "smooth":
            keep = 1 - self.compute(args[1], (p,))
            weights = [keep ** (p - q) for q in range(p + 1)]
            return sum((w * v for w, v in zip(weights, values, strict=False)), Fraction(0)) / sum(weights)
        if name == "conv":
            kernel = [self.compute(w, (p,)) for w in args[1].elts]
            places = [p + len(kernel) // 2 - k for k in range(len(kernel))]
            return sum((w * values[q] for w, q in zip(kernel, places, strict=True) if 0 <= q < self.n), Fraction(0))
        if name == "var":
            middle = sum(values, Fraction(0)) / self.n
            return sum(((v - middle) ** 2 for v in values), Fraction(0)) / self.n
        total = math.fsum(math.exp(v) for v in values)
        return Fraction(math.log(total) if name == "logsumexp" else math.exp(values[p]) / total)

    def aggregate(self, name: str, value: Any, condition: Any, i: int) -> Any:
        pairs = [(i, j) for j in range(self.n) if condition is None or self.compute(condition, (i, j))]
        values = [self.compute(value, pair) for pair in pairs]
        if name in ("count", "any", "all"):
            truths = [bool(value) for value in values]
            return {"count": sum(truths), "any": any(truths), "all": all(truths)}[name]
        if name == "sum":
            return sum(values)
        if not values:
            return 0
        return sum(values, Fraction(0)) / len(values) if name == "mean" else (max if name == "max" else min)(values)
