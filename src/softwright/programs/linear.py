"""Terms as sums: the number that one is, places as a n + b i + c, comparisons with each token on its own side.

Of a condition, whether every token meets it with itself: then something always meets it, and nothing is empty. Of a
place, whether it is one of the sequence: 0 <= place and place <= n - 1, each by what it is made of.
"""

from __future__ import annotations

from fractions import Fraction

from softwright.programs.terms import Pool, Term

Parts = list[tuple[Fraction, Term]]


def constant(term: Term) -> Fraction | None:
    """The number that a term is, signs and fractions such as 1/3 included."""
    if term.op == "number":
        return term.value
    if term.op == "neg":
        inner = constant(term.args[0])
        return None if inner is None else -inner
    if term.op == "div":
        above, below = (constant(arg) for arg in term.args)
        return above / below if above is not None and below else None
    return None


def affine(term: Term) -> tuple[Fraction, Fraction, Fraction] | None:
    """(a, b, c) of a n + b i + c, if a term is of this form."""
    if term.op == "number":
        return Fraction(0), Fraction(0), term.value
    if term.op == "length":
        return Fraction(1), Fraction(0), Fraction(0)
    if term.op == "position":
        return Fraction(0), Fraction(1), Fraction(0)
    if term.op in ("add", "sub", "neg"):
        parts = [affine(arg) for arg in term.args]
        if any(part is None for part in parts):
            return None
        signs = {"add": (1, 1), "sub": (1, -1), "neg": (-1,)}[term.op]
        sums = [sum((s * part[k] for s, part in zip(signs, parts, strict=True) if part), Fraction(0)) for k in range(3)]
        return sums[0], sums[1], sums[2]
    if term.op == "mul":
        for one, other in (term.args, term.args[::-1]):
            inner = affine(other) if one.op == "number" else None
            if inner is not None:
                return one.value * inner[0], one.value * inner[1], one.value * inner[2]
    return None


def affine_ends(term: Term, shortest: int, longest: int) -> tuple[Fraction, Fraction] | None:
    """The least and largest a n + b i + c: it is linear in i and, at the ends of i, in n."""
    found = affine(term)
    if found is None:
        return None
    a, b, c = found
    values = [a * n + b * i + c for n in (shortest, longest) for i in (0, n - 1)]
    return min(values), max(values)


def summands(term: Term, factor: Fraction = Fraction(1)) -> Parts:
    """A term as a sum of multiples: sums, differences, signs and products with numbers written out."""
    if term.op in ("add", "sub"):
        second = factor if term.op == "add" else -factor
        return summands(term.args[0], factor) + summands(term.args[1], second)
    if term.op == "neg":
        return summands(term.args[0], -factor)
    if term.op == "mul":
        for one, other in (term.args, term.args[::-1]):
            number = constant(one)
            if number is not None:
                return summands(other, factor * number)
    return [(factor, term)]


def set_apart(pool: Pool, left: Term, right: Term) -> tuple[Term, Term] | None:
    """Of a comparison that mixes both tokens, what token j has and what token i has: a_j + b_i < c is a_j < c - b_i."""
    parts = summands(left) + summands(right, Fraction(-1))
    if any(part.op not in ("i", "j", "number") for _, part in parts):
        return None
    mine = [(factor, part.args[0]) for factor, part in parts if part.op == "j"]
    other = [(-factor, part.args[0]) for factor, part in parts if part.op == "i"]
    number = -sum((factor * part.value for factor, part in parts if part.op == "number"), Fraction(0))
    return pool.make("j", _sum(pool, mine, Fraction(0))), pool.make("i", _sum(pool, other, number))


def _sum(pool: Pool, parts: Parts, number: Fraction) -> Term:
    found = None
    for factor, part in parts:
        piece = part
        if factor != 1:
            piece = pool.make("neg", part) if factor == -1 else pool.make("mul", pool.number(factor), part)
        found = piece if found is None else pool.make("add", found, piece)
    if found is None:
        return pool.number(number)
    return pool.make("add", found, pool.number(number)) if number else found


def always_at_itself(condition: Term) -> bool | None:
    """Whether a condition holds for j = i, at all tokens (True), at none (False), or at some (None)."""
    op, args = condition.op, condition.args
    if op == "number":
        return condition.value == 1
    if op == "not":
        inner = always_at_itself(args[0])
        return None if inner is None else not inner
    if op in ("and", "or"):
        found = [always_at_itself(arg) for arg in args]
        decides = op == "or"
        if decides in found:
            return decides
        return None if None in found else not decides
    if op in ("eq", "lt", "le") and {args[0].op, args[1].op} == {"i", "j"}:
        one, other = args[0].args[0], args[1].args[0]
        if one is other:
            return op != "lt"
        places = affine(one), affine(other)
        if places[0] is not None and places[1] is not None and places[0][:2] == places[1][:2]:
            a, b = places[0][2], places[1][2]
            return {"eq": a == b, "lt": a < b, "le": a <= b}[op]
    return None


def is_inside(term: Term, shortest: int, longest: int) -> bool:
    """Whether a whole number is a place of the sequence, for certain."""
    return _not_negative(term, shortest, longest) and _below_length(term, shortest, longest)


def _corners(term: Term, shortest: int, longest: int) -> list[tuple[Fraction, int]] | None:
    """A place a n + b i + c at the least and largest n and i, where its extremes are; and n."""
    found = affine(term)
    if found is None:
        return None
    a, b, c = found
    return [(a * n + b * i + c, n) for n in (shortest, longest) for i in (0, n - 1)]


def _positive(term: Term) -> bool:
    return term.op == "number" and term.value >= 1


def _not_negative(term: Term, shortest: int, longest: int) -> bool:
    def good(part: Term) -> bool:
        return _not_negative(part, shortest, longest)

    op, args, corners = term.op, term.args, _corners(term, shortest, longest)
    if corners is not None:
        return all(value >= 0 for value, _ in corners)
    if op == "sum":
        return args[0].op == "number" and args[0].value >= 0
    if op in ("max_of", "min_of"):
        return good(_at_token(args[0]))
    if op == "mod":
        return args[1].op == "length" or _positive(args[1])
    if op == "floordiv":
        return good(args[0]) and (args[1].op == "length" or _positive(args[1]))
    if op == "max":
        return any(good(arg) for arg in args)
    if op == "where":
        return good(args[1]) and good(args[2])
    return op in ("min", "add", "mul") and all(good(arg) for arg in args)


def _below_length(term: Term, shortest: int, longest: int) -> bool:
    def good(part: Term) -> bool:
        return _below_length(part, shortest, longest)

    op, args, corners = term.op, term.args, _corners(term, shortest, longest)
    if corners is not None:
        return all(value <= n - 1 for value, n in corners)
    if op in ("max_of", "min_of"):
        return good(_at_token(args[0]))
    if op == "mod":
        return args[1].op == "length" or (_positive(args[1]) and args[1].value <= shortest)
    if op == "floordiv":
        # half of n, or less than that, is at most n - 1
        corners = _corners(args[0], shortest, longest) if _positive(args[1]) and args[1].value >= 2 else None
        halved = corners is not None and all(value <= n for value, n in corners)
        return (halved or good(args[0])) and _positive(args[1]) and _not_negative(args[0], shortest, longest)
    if op == "sub":
        one = args[0].op == "sum" and args[0].args[0].op == "number" and args[0].args[0].value == 1
        return (one and _positive(args[1])) or (good(args[0]) and _not_negative(args[1], shortest, longest))
    if op == "min":
        return any(good(arg) for arg in args)
    if op == "where":
        return good(args[1]) and good(args[2])
    return op == "max" and all(good(arg) for arg in args)


def _at_token(value: Term) -> Term:
    return value.args[0] if value.op == "j" else value
