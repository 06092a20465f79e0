"""What the condition of a choice says of signs inside its branches.

where(a < b, one, other) asks for `one` only at points with b - a > 0 and for `other` only where a - b >= 0. On a box
that holds points of both, sqrt(b - a) has no value at some of them, but these ask for the other branch: within `one` it
is the root of something that is not negative. A *fact* is a linear form over trees that is >= 0, or > 0 if it is
strict, at every point for which a branch is asked; an argument that is a positive multiple of one is known to be so.
|u| < c is also u < c and -u < c. What facts leave of a box is in `regions.py`.

    c**q log(c)   with c > 0 known is the function that continues it by 0 at c = 0, which has bounds on boxes that touch
                  0: for q >= 1 it is c**(q-1) c log(c), for 0 < q < 1 it is y log(y)/q with y = c**q
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
        strict = (symbol in "<>") == holds
        found.append(Fact(more, strict))
        found += [Fact(form, strict) for node in (*moduli(one), *moduli(other)) for form in opened(more, node)]
    return found


def moduli(node: Tree) -> list[Tree]:
    """The absolute values in a tree that its linear form names."""
    if node[0] == "abs":
        return [node]
    return [found for _, child in node[1] for found in moduli(child)] if node[0] in ("sum", "product") else []


def opened(form: Form, modulus: Tree) -> list[Form]:
    """What form >= 0 says if it holds -k |u| with k > 0: the same with u, and with -u, in place of |u|."""
    name = repr(modulus)
    k = form.get(name, fmpq(0))
    if k >= 0:
        return []
    rest = {other: c for other, c in form.items() if other != name}
    inside = {other: -k * c for other, c in linear(modulus[1]).items()}
    return [added(rest, inside, sign) for sign in (1, -1)]


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
    """The factors of a product, c**q log(c) as xlogy wherever c > 0 is known; of c**q, q >= 1, one c is taken."""
    found = list(factors)
    for logarithm in [f for s, f in factors if s > 0 and f[0] in LOGARITHMS and is_known(f[1], facts, strict=True)]:
        c = logarithm[1]
        for n, (sign, factor) in enumerate(found):
            joined = None if sign < 0 or factor is logarithm else with_logarithm(factor, c)
            if joined is not None:
                found = [*found[:n], *((1, factor) for factor in joined), *found[n + 1 :]]
                found.remove((1, logarithm))
                break
    return found


def with_logarithm(node: Tree, c: Tree) -> tuple[Tree, Tree] | None:
    """Two factors of node*log(c), with bounds next to c = 0, if the node is a power of c or a multiple of it."""
    exponent = rational_value(node[2]) if node[0] == "pow" and node[1] == c else None
    exponent = fmpq(1, 2) if node == ("sqrt", c) else exponent
    if exponent is None:
        times = share(node, c)
        return None if times == 0 else (("number", times), ("xlogy", c, c))
    if exponent >= 1:
        return ("pow", c, ("number", exponent - 1)), ("xlogy", c, c)
    return (("number", 1 / exponent), ("xlogy", node, node)) if exponent > 0 else None


def share(node: Tree, other: Tree) -> fmpq:
    """k if node = k other for a number k, by their linear forms; else 0."""
    one, two = linear(node), linear(other)
    if not one or one.keys() != two.keys():
        return fmpq(0)
    factor = one[min(one)] / two[min(one)]
    return factor if all(c == factor * two[name] for name, c in one.items()) else fmpq(0)
