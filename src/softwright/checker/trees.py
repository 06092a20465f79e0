"""The checker's trees of formulas: tuples ("name", argument, ...), and what can be read off them without a box.

    ("number", q)   ("variable", i)   ("pi",)   ("e",)                        leaves; q is an exact rational
    ("sum", [(1 or -1, term), ...])                                           a - b is (1, a), (-1, b)
    ("product", [(1 or -1, factor), ...])                                     a / b is (1, a), (-1, b)
    ("pow", base, exponent)   ("sin", argument)   ("max", one, other, ...)    one form for every row of functions.py
    ("where", condition, one, other)
    ("compare", [a, b, c], ["<", "<="])   ("and", [..])   ("or", [..])   ("not", condition)

Sums and products are kept flat, and so are chains of comparisons, so that a long formula is not a deep tree and every
argument stands in the tree once: the work on a tree grows with the length of its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flint import fmpq

from softwright.checker.refusal import require

Tree = Any  # nested tuples and lists as above
LARGEST_POWER, LARGEST_DIGITS = 1_000, 20_000  # of constants in exact arithmetic: exponent, and bits of the result
MOST_FACTORS = 40  # that are compared with each other


def children(node: Tree) -> Iterator[Tree]:
    for item in node[1:]:
        if isinstance(item, tuple):
            yield item
        elif isinstance(item, list):
            for entry in item:
                if isinstance(entry, tuple):
                    yield entry[1] if isinstance(entry[0], int) else entry


def depth(node: Tree) -> int:
    """The number of levels; counted without recursion, since it is what later recursion is allowed by."""
    level, below = 0, [node]
    while below:
        level += 1
        below = [child for parent in below for child in children(parent)]
    return level


def additive_terms(node: Tree) -> list[tuple[int, Tree]]:
    """The signed terms that remain when sums and negations are taken apart at the top."""
    found, pending = [], [(1, node)]
    while pending:
        sign, term = pending.pop()
        if term[0] == "sum":
            pending += [(sign * s, child) for s, child in reversed(term[1])]
        else:
            found.append((sign, term))
    return found


def renamed(term: Any, columns: list[int]) -> Any:
    """The term with its variables numbered as the part numbers them; anything made of tuples and lists."""
    done: list[Any] = []
    pending: list[tuple[Any, bool]] = [(term, False)]
    while pending:
        item, opened = pending.pop()
        if opened:
            start = len(done) - len(item)
            done[start:] = [type(item)(done[start:])]
        elif isinstance(item, tuple) and item[:1] == ("variable",):
            require(item[1] in columns, "a part leaves out a variable that its terms need")
            done.append(("variable", columns.index(item[1])))
        elif isinstance(item, tuple | list):
            pending.append((item, True))
            pending += [(child, False) for child in reversed(item)]
        else:
            done.append(item)
    return done[0]


def rational_value(node: Tree) -> fmpq | None:
    """The value of a constant subtree that uses only numbers, + - * / and small powers; None for anything else."""
    kind = node[0]
    if kind == "number":
        return node[1] if isinstance(node[1], fmpq) else None
    if kind == "pow":
        base, exponent = rational_value(node[1]), rational_value(node[2])
        if base is None or exponent is None or exponent.q != 1 or abs(exponent.p) > LARGEST_POWER:
            return None
        power, bits = int(exponent.p), int(base.p).bit_length() + int(base.q).bit_length()
        return None if (base == 0 and power < 0) or bits * abs(power) > LARGEST_DIGITS else base**power
    if kind not in ("sum", "product"):
        return None
    result = fmpq(0) if kind == "sum" else fmpq(1)
    for sign, child in node[1]:
        value = rational_value(child)
        if value is None or (kind == "product" and sign < 0 and value == 0):
            return None
        result = result + sign * value if kind == "sum" else result * value if sign > 0 else result / value
    return result


def nonnegative(node: Tree) -> bool:
    """Whether the form alone shows that no value is below 0; x**2 + y**2 then keeps its root at the origin."""
    kind = node[0]
    if kind in ("pi", "e", "abs", "exp", "sqrt"):
        return True
    if kind in ("max", "min"):
        return (any if kind == "max" else all)(map(nonnegative, node[1:]))
    if kind == "number":
        return bool(node[1] >= 0)
    if kind == "pow":
        exponent = rational_value(node[2])
        # A power that is no whole number is defined for a base >= 0 alone.
        return (exponent is not None and (exponent.q != 1 or exponent.p % 2 == 0)) or nonnegative(node[1])
    if kind == "sum":
        return all(sign > 0 and nonnegative(child) for sign, child in node[1])
    if kind == "product":
        unsure = [child for _, child in node[1] if not nonnegative(child)]
        if len(unsure) > MOST_FACTORS:
            return False
        while unsure:
            factor = unsure.pop()
            if factor not in unsure:
                return False
            unsure.remove(factor)  # x*x and x/x are not below 0
        return True
    return False


def least_and_most(node: Tree) -> tuple[fmpq | None, fmpq | None]:
    """Numbers that no value is below, or above, as the form alone shows: 0 of x**2, -1 and 1 of clip(x, -1, 1)."""
    kind = node[0]
    if kind in ("sin", "cos", "tanh", "erf"):
        return fmpq(-1), fmpq(1)
    if kind == "number":
        return node[1], node[1]
    if kind not in ("max", "min"):
        return (fmpq(0) if nonnegative(node) else None), None
    pairs = [least_and_most(child) for child in node[1:]]
    lows, highs = [low for low, _ in pairs if low is not None], [high for _, high in pairs if high is not None]
    if kind == "max":
        return max(lows, default=None), max(highs) if len(highs) == len(pairs) else None
    return min(lows) if len(lows) == len(pairs) else None, min(highs, default=None)
