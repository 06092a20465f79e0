"""`smaller`: an equal sum that is made of smaller tables, for plain terms of more whole numbers than one table takes.

    where(c, a, b)          where(c, a, 0) + where(not c, b, 0)       each a token that looks at itself, or at nothing
    max(a, b), min(a, b)    where(a < b, b, a), where(a < b, a, b)    abs(a)    where(a < 0, -a, a)
    a b                     (a + b)^2 // 4 - (a - b)^2 // 4           for a + b and a - b are both even or both odd
    a // b, a % b           q + sum of (k b <= a) for q < k <= r, and a - b (a // b), where a // b is from q to r, few
    sum(v for c) / n        sum(v / n for c)                          for n is the same at all tokens

Of symbols the first stands for 0: a symbol is the number of its place.
"""

from __future__ import annotations

from collections.abc import Callable

from softwright.programs.linear import affine
from softwright.programs.terms import Pool, Term
from softwright.programs.types import Type

MOST_QUOTIENTS = 4
Sum = list[tuple[int, Term]]


def zero_of(pool: Pool, kind: Type, symbols: tuple[str, ...]) -> Term:
    """The term that is 0 among values of a kind."""
    return pool.make("symbol", value=symbols[0]) if kind.kind == "symbol" else pool.number(0)


def smaller(
    pool: Pool, term: Term, type_of: Callable[[Term], Type], symbols: tuple[str, ...], lengths: tuple[int, int]
) -> Sum | None:
    """The equal sum, as (factor, term); None if there is none."""
    op, args, kind = term.op, term.args, type_of(term)
    if op in ("floordiv", "mod") and args[1].op != "number" and type_of(args[1]).low >= 1:
        return _divided(pool, term, _quotients(term, type_of, lengths))
    if op in ("max", "min"):
        before = pool.make("lt", *args)
        return [(1, pool.make("where", before, *(args[::-1] if op == "max" else args)))]
    if op == "abs":
        negative = pool.make("lt", args[0], pool.number(0))
        return [(1, pool.make("where", negative, pool.make("neg", args[0]), args[0]))]
    if op == "mul" and args[0] is not args[1] and all(type_of(arg).kind in ("integer", "truth") for arg in args):
        return [(sign, _quarter(pool, pool.make(name, *args))) for sign, name in ((1, "add"), (-1, "sub"))]
    if op == "div" and args[0].op == "sum" and args[0].args[0].op in ("j", "number") and args[1].op == "length":
        value, condition = args[0].args
        value = value.args[0] if value.op == "j" else value
        return [(1, pool.make("sum", pool.make("j", pool.make("div", value, args[1])), condition))]
    if op == "where" and kind.kind in ("integer", "symbol"):
        condition, one, other = args
        zero = zero_of(pool, kind, symbols)
        gates = [(condition, one), (pool.make("not", condition), other)]
        if other is not zero:
            return [(1, pool.make("where", when, value, zero)) for when, value in gates if value is not zero]
    return None


def _quotients(term: Term, type_of: Callable[[Term], Type], lengths: tuple[int, int]) -> tuple[int, int]:
    """The least and largest a // b. (a n + b i + c) / n has its extremes at the ends of i and n."""
    above, below = term.args
    found = affine(above) if below.op == "length" else None
    if found is not None:
        a, b, c = found
        values = [a + (b * i + c) / n for n in lengths for i in (0, n - 1)]
    else:
        kinds = type_of(above), type_of(below)
        values = [x / y for x in (kinds[0].low, kinds[0].high) for y in (kinds[1].low, kinds[1].high)]
    return int(min(values) // 1), int(max(values) // 1)


def _divided(pool: Pool, term: Term, quotients: tuple[int, int]) -> Sum | None:
    (least, most), (above, below) = quotients, term.args
    if most - least > MOST_QUOTIENTS:
        return None
    tests = [pool.make("le", pool.make("mul", pool.number(k), below), above) for k in range(least + 1, most + 1)]
    if term.op == "floordiv":
        return [(least, pool.number(1)), *((1, test) for test in tests)]
    steps: Sum = [(-1, pool.make("where", test, below, pool.number(0))) for test in tests]
    return [(1, above), (-least, below), *steps]


def _quarter(pool: Pool, term: Term) -> Term:
    return pool.make("floordiv", pool.make("mul", term, term), pool.number(4))
