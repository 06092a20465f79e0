"""The tokens of the largest scores, one after the other: `value(y[j], where=smallest(score), margin=g, count=3)`.

    p_1 = the place of the largest score,   p_2 = that of the largest among all others,   ...

and the value is the mean of y[p_1], .., y[p_k]. Each p_r is a whole number, restored exactly, so errors do not pass
from one to the next. A head that looks for p_r has the scores B s_ij, and tokens that were taken before are shut out:
with marks of +1 and -1, h_k(p) = 1 where p = k, the sum over k of h_k(p) h_k(j) is L where j = p, else L - 4, so that

    B s_ij - P/4 sum_k h_k(p) h_k(j)

is lower by P for j = p and by nothing more for all others. P is larger than B times the range of s and the margin.

**Lemma.** If each of the k largest scores leads the next by g, and scores are off by at most delta, all other tokens
together weigh at most (n - 1) e^(-B g + 2 delta), and the place is near p_r to within n times that.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from typing import Protocol

from softwright.programs.columns import Column, Form, Head, Part
from softwright.programs.fields import Sequence
from softwright.programs.heads import Heads, NotPossible, Wanted
from softwright.programs.lemmas import above, ball
from softwright.programs.reals.attending import Attending
from softwright.programs.syntax import Syntax
from softwright.programs.terms import Pool, Term, shown
from softwright.programs.types import Refused

MOST = 16  # of the largest scores


class Reads(Protocol):
    """What reads a program."""

    pool: Pool
    tokens: Sequence

    def token(self, node: Syntax) -> Term:
        """The value of a node at token i."""
        ...

    def refused(self, reason: str) -> Refused:
        """An error at the place that is being read."""
        ...


def nearest(pool: Pool, value: Term, score: Term, margin: Term, count: int) -> Term:
    """The mean of a value at the tokens of the `count` largest scores."""
    places: list[Term] = []
    found: Term | None = None
    for _ in range(count):
        places.append(pool.make("place_of", score, margin, *places))
        part = pool.make("at", value, places[-1])
        found = part if found is None else pool.make("add", found, part)
    if found is None:
        raise AssertionError("at least one place")
    return pool.make("div", found, pool.number(count)) if count > 1 else found


def several(reader: Reads, node: Syntax, largest: bool, taken: tuple[str, Term], by: tuple[str, Term]) -> Term:
    """value(y[j], where=smallest(score), margin=g, count=k), as a program says it."""
    count, margin = reader.token(node.options["count"]), None
    if "margin" in node.options:
        margin = reader.token(node.options["margin"])
    (side, value), (other, score), most = taken, by, min(reader.tokens.shortest, MOST)
    if side not in ("j", "") or margin is None or margin.op != "number" or margin.value <= 0:
        raise reader.refused("write value(y[j], where=largest(score), margin=0.001, count=3)")
    if count.op != "number" or count.value not in range(1, most + 1):
        how = f"Sequence(length=({MOST}, 64), ...) has sequences that are long enough"
        raise reader.refused(f"count is a number from 1 to {most}, as many tokens as all sequences have; {how}")
    score = score if largest else reader.pool.make("neg", score)
    if other != "both" and score.op != "number":
        score = reader.pool.make(other or "j", score)
    return nearest(reader.pool, value, score, margin, int(count.value))


class Nearest(Part):
    """The part of a compiler that finds places of largest scores."""

    heads: Heads
    _signs: dict[int, Column]

    @abstractmethod
    def near(self, term: Term) -> tuple[Form, Fraction]:
        """A form near a whole number, and how near."""

    @abstractmethod
    def sign(self, term: Term) -> Column:
        """A truth value as 1 and -1."""

    def _marks(self, place: Term) -> list[Column]:
        """h_k of a place, for every k."""
        longest = self.board.longest
        tests = [self.pool.make("eq", place, self.pool.number(k)) for k in range(longest)]
        if place.op == "position":
            return [self.sign(test) for test in tests]
        if tests[0].number not in self._signs:
            wanted = [
                Wanted(shown(test), ["sign", test.number, [place.number]], lambda p, k=k: Fraction(1 if p == k else -1))
                for k, test in enumerate(tests)
            ]
            made = self.heads.table(self.near(place)[0], 0, longest - 1, wanted, f"which token is {shown(place)}")
            self._signs |= {test.number: column for test, column in zip(tests, made, strict=True)}
        return [self._signs[test.number] for test in tests]

    def place_of(self, term: Term) -> tuple[Form, Fraction]:
        """The place of the largest score among tokens that were not taken before."""
        board, (score, margin, *before) = self.board, term.args
        attending, kind = Attending(board, self.pool, self.value), self.type(score)
        place, longest = self.pool.make("position"), board.longest
        wanted = math.log(16 * longest * longest) + 12
        sharpness = Fraction(2 ** math.ceil(math.log2(wanted / float(margin.value))))
        dims, alone = attending.dimensions(score, sharpness)
        most = float(2 * sharpness * (kind.high - kind.low + margin.value) + 64)
        penalty = Fraction(2 ** math.ceil(math.log2(most)))
        for taken in before:
            for mine, other in zip(self._marks(taken), self._marks(place), strict=True):
                query = Form.of(0, {mine.number: -penalty / 4})
                dims.append((query, Form.of(0, {other.number: Fraction(1)})))
        delta = attending.score_error(dims, alone)
        lead = sharpness * margin.value - 2 * delta
        if lead <= 2:
            raise NotPossible(
                f"scores are known to {float(delta / sharpness):.2g} only; use float64 or a larger margin"
            )
        value = self.value(place)
        leaks = (longest - 1) * above((-ball(lead)).exp())
        error = board.arithmetic.mean(Fraction(longest), Fraction(0)) + leaks * longest + board.stray(value)
        layer = board.layer_of(value, alone, *(form for pair in dims for form in pair)) + 1
        name, ends = shown(term), (0, longest - 1)
        column = board.column(name, ["near", term.number], *ends, exact=False, layer=layer, error=error)
        writes = [(column.number, Fraction(1))]
        board.heads.append(Head("select", layer, writes, [value], [], False, alone, {"pairs": dims}, name))
        return Form.of(0, {column.number: Fraction(1)}), error
