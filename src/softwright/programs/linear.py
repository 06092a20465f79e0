"""Terms as sums: the number that one is, places as a n + b i + c, comparisons with each token on its own side."""

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
    return None


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
