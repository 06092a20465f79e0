"""What the condition of a choice says of signs inside its branches.

where(a < b, one, other) asks for `one` only at points with b - a > 0 and for `other` only where a - b >= 0. On a box
that holds points of both, sqrt(b - a) has no value at some of them, but these ask for the other branch: within `one` it
is the root of something that is not negative. A *fact* is a linear form over trees that is >= 0, or > 0 if it is
strict, at every point for which a branch is asked; an argument that is a positive multiple of one is known to be so.

    c log(c)   with c > 0 known is the function that continues it by 0 at c = 0, which has bounds on boxes that touch 0
"""

from __future__ import annotations

from typing import NamedTuple

from flint import fmpq

from softwright.checker.trees import Tree, rational_value

LOGARITHMS = ("log", "ln")
Form = dict[str, fmpq]  # coefficients of trees, by their spelling; "" is 1


class Fact(NamedTuple):
    """form >= 0, or > 0."""

    form: Form
    strict: bool


def linear(node: Tree) -> Form:
    """A tree as a linear form over trees that are not sums."""
    value = rational_value(node)
    if value is not None:
        return {"": value} if value != 0 else {}
    if node[0] == "sum":
        total: Form = {}
        for sign, child in node[1]:
            total = added(total, linear(child), sign)
        return total
    if node[0] == "product":
        factor, others = fmpq(1), []
        for sign, child in node[1]:
            value = rational_value(child)
            if value is None or (value == 0 and sign < 0):
                others.append((sign, child))
            else:
                factor = factor * value if sign > 0 else factor / value
        if len(others) == 1 and others[0][0] > 0:
            return {name: factor * c for name, c in linear(others[0][1]).items() if factor != 0}
        return {repr(("product", others)): factor} if factor != 0 else {}
    return {repr(node): fmpq(1)}


def added(a: Form, b: Form, factor: int) -> Form:
    total = dict(a)
    for name, c in b.items():
        total[name] = total.get(name, fmpq(0)) + factor * c
    return {name: c for name, c in total.items() if c != 0}


def facts_of(node: Tree, holds: bool) -> list[Fact]:
    """What is known where a condition holds, or where it does not."""
    kind = node[0]
    if kind == "not":
        return facts_of(node[1], not holds)
    if kind in ("and", "or"):  # all of them hold, or all of them fail
        return [fact for child in node[1] for fact in facts_of(child, holds)] if (kind == "and") == holds else []
    operands, symbols = node[1], node[2]
    if not holds and len(symbols) > 1:
        return []
    found = []
    for one, other, symbol in zip(operands, operands[1:], symbols, strict=False):
        more = added(linear(other), linear(one), -1)  # > 0 for one < other
        if (symbol[0] == ">") == holds:
            more = {name: -c for name, c in more.items()}
        found.append(Fact(more, (symbol in "<>") == holds))
    return found


def is_known(node: Tree, facts: tuple[Fact, ...], strict: bool = False) -> bool:
    """Whether facts say that a tree is not negative (with `strict`: positive) wherever it is asked for."""
    form = linear(node) if facts else {}
    for fact in facts:
        if form and form.keys() == fact.form.keys() and (fact.strict or not strict):
            factor = form[min(form)] / fact.form[min(form)]
            if factor > 0 and all(form[name] == factor * c for name, c in fact.form.items()):
                return True
    return False


def told(node: Tree, facts: tuple[Fact, ...]) -> Tree:
    """The tree, spelt as an absolute value where it is known not to be negative: so functions see that."""
    return ("abs", node) if is_known(node, facts) else node


def with_logarithms(factors: list[tuple[int, Tree]], facts: tuple[Fact, ...]) -> list[tuple[int, Tree]]:
    """The factors of a product, c log(c) as one wherever c > 0 is known; of c**q, q >= 1, one c is taken."""
    found = list(factors)
    for logarithm in [f for s, f in factors if s > 0 and f[0] in LOGARITHMS and is_known(f[1], facts, strict=True)]:
        c = logarithm[1]
        for n, (sign, factor) in enumerate(found):
            exponent = rational_value(factor[2]) if factor[0] == "pow" and factor[1] == c else None
            times = share(factor, c)
            if sign < 0 or factor is logarithm or (times == 0 and (exponent is None or exponent < 1)):
                continue
            rest = ("number", times) if exponent is None else ("pow", c, ("number", exponent - 1))
            found = [*found[:n], (1, rest), (1, ("xlogy", c, c)), *found[n + 1 :]]
            found.remove((1, logarithm))
            break
    return found


def share(node: Tree, other: Tree) -> fmpq:
    """k if node = k other for a number k, by their linear forms; else 0."""
    one, two = linear(node), linear(other)
    if not one or one.keys() != two.keys():
        return fmpq(0)
    factor = one[min(one)] / two[min(one)]
    return factor if all(c == factor * two[name] for name, c in one.items()) else fmpq(0)
