"""Polynomials in C as trees of products and sums: neighbouring terms first, then neighbours of those, with the powers
y, y^2, y^4, .. of the variable; and how many roundings a term meets in one."""

from __future__ import annotations

from collections.abc import Sequence


def folded(terms: Sequence[str], y: str = "y") -> str:
    """A polynomial in y of these coefficients, "" being 0; "" for 0. Powers have the names y2, y4, .."""
    power, terms = 1, list(terms)
    while len(terms) > 1:
        name = f"{y}{power}" if power > 1 else y
        pairs = [(terms[i], terms[i + 1] if i + 1 < len(terms) else "") for i in range(0, len(terms), 2)]
        terms = [
            f"({' + '.join([low] * bool(low) + [f'{name} * {high}'] * bool(high))})" if high else low
            for low, high in pairs
        ]
        power *= 2
    return terms[0]


def powers(count: int, y: str = "y", kind: str = "softwright_v") -> list[str]:
    """The lines that make the powers for so many terms."""
    made = [2**i for i in range(1, (count - 1).bit_length())]
    return [f"const {kind} {y}{m} = {y}{_half(m)} * {y}{_half(m)};" for m in made]


def _half(m: int) -> str:
    return str(m // 2) if m > 2 else ""


def met(count: int) -> list[int]:
    """How many sums, and products with powers of y, each term of such a polynomial meets."""
    found = []
    for m in range(count):
        place, left, many = m, count, 0
        while left > 1:
            many += (place % 2) + (place ^ 1 < left)
            place, left = place // 2, (left + 1) // 2
        found.append(many)
    return found


def held(count: int) -> float:
    """How many roundings of powers one of two terms holds and the other does not, for each step between them: y^(2^i)
    is made of two times those of the one before, and its own."""
    bits = range(1, count.bit_length())
    each = [[sum((m >> j & 1) << (j - i) for j in bits if j >= i) for i in bits] for m in range(count)]
    apart = (
        sum(abs(a - b) for a, b in zip(each[m], each[r], strict=True)) / (m - r) for m in range(count) for r in range(m)
    )
    return max(apart)
