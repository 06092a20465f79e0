"""`RULES`: what calls of functions over sequences mean, one row each.

prev(a, k, default=d)   at(a, i - k, d)                   first(a), last(a)    a[0], a[n - 1]
next(a, k, default=d)   at(a, i + k, d)
sorted(a, by=key)[e]    at(sort(a, key), e)               median(a)            sorted(a)[(n - 1) // 2]
clip(a, b, c)           min(max(a, b), c)
conv(a, [w0, .., w2c])  sum_k w_k a[i + c - k], 0 outside
value(a[j], where=largest(s), margin=g)                   a at the token of the largest score; `smallest`: of -s
value(.., count=k)      the mean of a at the tokens of the k largest scores
attend(a[j], s)         the mean of a with weights exp(s); attend(a[j], s for j <= i): over the tokens up to i
interp(q, t, y, spacing=h)                                y between the times t, linearly, at q; times are h apart
assume(a, low, high)    a, of which it is known that it lies between two numbers
at(a, e, default=d)     where(0 <= e and e < n, at(a, e), d) for a default d that is no constant
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from softwright.programs.conditions import CAUSAL, polynomial
from softwright.programs.linear import constant
from softwright.programs.pairs.nearest import several
from softwright.programs.reading.tables import table_of
from softwright.programs.syntax import Syntax
from softwright.programs.terms import Term

if TYPE_CHECKING:
    from softwright.programs.meaning import Meaning


def _last_place(meaning: Meaning) -> Term:
    return meaning.pool.make("sub", meaning.pool.make("length"), meaning.pool.number(1))


def _shift(meaning: Meaning, node: Syntax) -> Term:
    """prev and next."""
    meaning.allow(node, "default")
    pool, back = meaning.pool, node.value == "prev"
    if len(node.args) not in (1, 2):
        how = "back" if back else "ahead"
        raise meaning.refused(f"{node.value} takes a value and how far {how}: {node.value}(x, 1, default=0)")
    value = meaning.token(node.args[0])
    far = pool.number(1) if len(node.args) == 1 else meaning.token(node.args[1])
    return meaning.default_at(value, pool.make("sub" if back else "add", pool.make("position"), far), node)


def _at(meaning: Meaning, node: Syntax) -> Term:
    value, index = meaning.some(node, 2, "default")
    return meaning.default_at(value, index, node)


def _sorted(meaning: Meaning, node: Syntax) -> Term:
    value = meaning.one(node, "by")
    key = meaning.token(node.options["by"]) if "by" in node.options else value
    return meaning.pool.make("sort", value, key)


def _median(meaning: Meaning, node: Syntax) -> Term:
    value, pool = meaning.one(node), meaning.pool
    middle = pool.make("floordiv", _last_place(meaning), pool.number(2))
    return pool.make("at", pool.make("sort", value, value), middle)


def _conv(meaning: Meaning, node: Syntax) -> Term:
    meaning.allow(node)
    pool = meaning.pool
    good = len(node.args) == 2 and node.args[1].op == "list" and len(node.args[1].args) % 2 == 1
    if not good:
        raise meaning.refused("conv takes a value and an odd number of weights: conv(x, [1, -2, 1])")
    value, middle, found = meaning.token(node.args[0]), len(node.args[1].args) // 2, None
    for k, weight in enumerate(node.args[1].args):
        factor = constant(meaning.token(weight))
        if factor is None:
            raise meaning.refused("the weights of conv are numbers")
        if factor == 0:
            continue
        where = pool.make("position")
        if k != middle:
            where = pool.make("add", where, pool.number(middle - k))
        part = pool.make("mul", pool.number(factor), meaning.at(value, where, pool.number(0)))
        found = part if found is None else pool.make("add", found, part)
    return pool.number(0) if found is None else found


def _smooth(meaning: Meaning, node: Syntax) -> Term:
    value, alpha = meaning.some(node, 2)
    if alpha.op != "number" or not 0 < alpha.value < 1:
        raise meaning.refused("smooth takes a value and a number between 0 and 1: smooth(x, 0.3)")
    return meaning.pool.make("smooth", value, alpha)


def _clip(meaning: Meaning, node: Syntax) -> Term:
    value, low, high = meaning.some(node, 3)
    return meaning.pool.make("min", meaning.pool.make("max", value, low), high)


def _value(meaning: Meaning, node: Syntax) -> Term:
    meaning.allow(node, "where", "margin", "count")
    pool, how = meaning.pool, "write value(y[j], where=largest(score[j]), margin=0.001)"
    chosen = node.options.get("where")
    named = chosen is not None and chosen.op == "call" and chosen.value in ("largest", "smallest")
    if chosen is None or not named or len(chosen.args) != 1 or len(node.args) != 1:
        raise meaning.refused(f"value needs what to take and where; {how}")
    sides = [meaning.pair(part) for part in (node.args[0], chosen.args[0])]
    if "count" in node.options:
        return several(meaning, node, chosen.value == "largest", *sides)
    if sides[1][0] == "both" and sides[0][0] in ("j", "") and "margin" in node.options:
        margin, score = meaning.token(node.options["margin"]), sides[1][1]
        score = score if chosen.value == "largest" else pool.make("neg", score)
        if margin.op == "number" and margin.value > 0:
            return pool.make("select", sides[0][1], score, margin)
    if any(side not in ("j", "") for side, _ in sides):
        raise meaning.refused(f"value and score must be those of token j alone; {how}")
    margin = meaning.token(node.options["margin"]) if "margin" in node.options else pool.number(1)
    score = sides[1][1] if chosen.value == "largest" else pool.make("neg", sides[1][1])
    whole = meaning.types.of(score).whole
    if margin.op != "number" or margin.value <= 0 or ("margin" not in node.options and not whole):
        raise meaning.refused(f"reals need a margin, a positive number by which the largest leads; {how}")
    return pool.make("choose", sides[0][1], score, margin)


def _attend(meaning: Meaning, node: Syntax) -> Term:
    meaning.allow(node, condition=True)
    how = "write attend(y[j], -4*(x[j] - x[i])**2)"
    if len(node.args) != 2:
        raise meaning.refused(f"attend takes a value of token j and a score; {how}")
    (side, value), (other, score) = (meaning.pair(part) for part in node.args)
    if side not in ("j", ""):
        raise meaning.refused(f"what is averaged is that of token j; {how}")
    if node.condition is None:
        return meaning.pool.make("attend", value, meaning.sided(other, score))
    truth = meaning.sided(*meaning.pair(node.condition))
    if polynomial(truth) != {frozenset([CAUSAL]): 1}:
        raise meaning.refused("attend looks at all tokens, or at those with j <= i; add -60*(...) to the score instead")
    return meaning.pool.make("attend", value, meaning.sided(other, score), meaning.pool.number(1))


def _interp(meaning: Meaning, node: Syntax) -> Term:
    how = "write interp(q, t, y, spacing=0.01): y at q, linearly between the times t, which are at least that far apart"
    meaning.allow(node, "spacing")
    if len(node.args) != 3 or "spacing" not in node.options:
        raise meaning.refused(how)
    parts, spacing = [meaning.token(arg) for arg in node.args], constant(meaning.token(node.options["spacing"]))
    if spacing is None or spacing <= 0:
        raise meaning.refused(f"a spacing is a positive number; {how}")
    return meaning.pool.make("interp", *parts, meaning.pool.number(spacing))


def _assume(meaning: Meaning, node: Syntax) -> Term:
    value, *ends = meaning.some(node, 3)
    numbers = [constant(end) for end in ends]
    low, high = numbers
    if low is None or high is None or low > high:
        raise meaning.refused("assume takes a value and the two numbers that it lies between: assume(x, 0.1, 1)")
    return meaning.pool.make("assume", value, meaning.pool.number(low), meaning.pool.number(high))


RULES: dict[str, Callable[[Meaning, Syntax], Term]] = {
    "prev": _shift,
    "next": _shift,
    "at": _at,
    "first": lambda meaning, node: meaning.at(meaning.one(node), meaning.pool.number(0), None),
    "last": lambda meaning, node: meaning.at(meaning.one(node), _last_place(meaning), None),
    "sorted": _sorted,
    "median": _median,
    "conv": _conv,
    "smooth": _smooth,
    "value": _value,
    "attend": _attend,
    "interp": _interp,
    "assume": _assume,
    "abs": lambda meaning, node: meaning.pool.make("abs", meaning.one(node)),
    "clip": _clip,
    "where": lambda meaning, node: meaning.operation("where", meaning.some(node, 3), node.position),
    "table": lambda meaning, node: table_of(meaning, node, meaning.token(node.args[0]) if node.args else None),
}
