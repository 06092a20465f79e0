"""Values of a graph as text, as the sentence of a claim names them."""

from __future__ import annotations

from softwright.checker.programs.functions import is_map
from softwright.checker.programs.graph_core import PLAIN, Graph

SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "**"}
SIGNS |= {"eq": "==", "lt": "<", "le": "<=", "and": "and", "or": "or"}


def shown(graph: Graph, value: int, side: str = "") -> str:
    """A value at token i, or at the token that `side` names."""
    op, args, constant = graph.op[value], graph.args[value], graph.constant[value]
    where = f"[{side}]" if side else ""
    if op == "number":
        return str(constant) if constant.denominator == 1 else f"{float(constant):.6g}"
    if op in ("symbol", "field"):
        return repr(constant) if op == "symbol" else f"{constant}{where}"
    if op == "position":
        return side or "i"
    if op == "length":
        return "n"
    if op in ("i", "j"):
        return shown(graph, args[0], op)
    if op in SIGNS:
        return f"({shown(graph, args[0], side)} {SIGNS[op]} {shown(graph, args[1], side)})"
    if op in ("neg", "not"):
        inner = shown(graph, args[0], side)
        return f"-{inner}" if op == "neg" else f"(not {inner})"
    if op == "at":
        item = f"{shown(graph, args[0])}[{shown(graph, args[1])}]"
        return f"({item}){where}" if where else item
    if op in ("sum", "mean", "max_of", "min_of"):
        when = "" if graph.is_number(args[1]) else f" for {shown(graph, args[1])}"
        if op == "sum" and graph.is_number(args[0]) and graph.constant[args[0]] == 1:
            return f"count({shown(graph, args[1])}){where}"
        return f"{op.removesuffix('_of')}({shown(graph, args[0])}{when}){where}"
    if op == "sort":
        return f"sorted({shown(graph, args[0])}, by={shown(graph, args[1])})[{side or 'i'}]"
    if op == "table":
        return f"table({shown(graph, args[0], side)}, {len(args) - 2} values)"
    plain = op in PLAIN or is_map(op)
    inside = ", ".join(shown(graph, arg, side if plain else "") for arg in args)
    return f"{op.removeprefix('map:')}({inside}){'' if plain else where}"
