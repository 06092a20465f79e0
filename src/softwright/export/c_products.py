"""Products of matrices as loops of C.

Of all axes the innermost loop takes one along which both factors and the result are neighbours or stay: rows, columns
or a batch; else the sum itself, as a sum of as many as a vector has. A constant factor that is mostly zeros is written
term by term, and rows of zeros are left out of any: a product with 0 is 0, and adding it changes nothing, so what is
left out costs time alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from softwright.export.c_shapes import Shape, Size
from softwright.export.c_views import MOST_WRITTEN, View, in_rows, letters_of, loops, run_in_vectors, run_over

MOST_TERMS = 1 << 10  # of a product that is written term by term
LEAST = 4  # entries of an axis that is worth a vector
AT_ONCE = 8  # terms of a sum in one expression
IN_HALVES = 4  # products of them, from which on it is two sums
ACROSS = 7  # what a sum across a vector costs, in products of vectors
Known = Sequence[np.ndarray | None]


@dataclass(frozen=True)
class Plan:
    """How a product runs: axes of the result that are written out one by one, and the one that is innermost (-1:
    none)."""

    inner: int
    written: tuple[int, ...] | None = None  # None: no term is left out
    dot: bool = False
    neighbours: bool = False  # along the innermost axis everything is neighbours or stays


@dataclass(frozen=True)
class Factors:
    """Two factors, what is known of them, and which arrays are of another type than the result."""

    one: View
    two: View
    known: Known
    real: str
    lanes: int  # numbers in a vector
    foreign: frozenset[str] = frozenset()
    bias: View | None = None  # what the sum begins with, along the last axis of the result

    def axes(self, inner: int, rank: int) -> list[tuple[View, int | None]]:
        """Both factors, each with its axis that an axis of the result is, if it has one."""
        if inner == rank - 1:
            return [(self.one, None), (self.two, len(self.two.shape) - 1)]
        if inner == rank - 2:
            return [(self.one, len(self.one.shape) - 2), (self.two, None)]
        places = [(view, inner - (rank - len(view.shape))) for view in (self.one, self.two)]
        return [(view, axis if inner >= 0 and axis >= 0 else None) for view, axis in places]

    def term(self, own: Sequence[str], k: str, inner: int = -1) -> str:
        """A product of two numbers, or of vectors along an axis of the result."""
        (one, first), (two, second) = self.axes(inner, len(own))
        left, right = _left(own, one, k), _right(own, two, k)
        a, b = ((v.entry(i) if x is None else v.vector(i, x)) for v, i, x in ((one, left, first), (two, right, second)))
        return f"{a} * {b}"

    def terms(self, own: Sequence[str], ks: Sequence[str], inner: int = -1) -> str:
        """Such products as a sum, in halves that do not wait for each other, the bias first."""
        words = [self.term(own, k, inner) for k in ks]
        if self.bias is not None:
            last = len(self.bias.shape) - 1
            place = [""] * last + [own[-1]]
            along = inner == len(own) - 1
            words.insert(0, self.bias.vector(place, last) if along else self.bias.entry(place))
            if inner >= 0 and not along and not ks:
                return f"{words[0]} - (softwright_v){{0}}"
        if len(ks) < IN_HALVES:
            return " + ".join(words)
        half = (len(words) + 1) // 2
        return f"({' + '.join(words[:half])}) + ({' + '.join(words[half:])})"

    def fits(self, inner: int, rank: int, size: int) -> bool:
        """Whether so many entries along an axis of the result can be read in whole vectors."""
        if self.bias is not None and inner == rank - 1 and not self.bias.holds(len(self.bias.shape) - 1, size):
            return False
        return all(axis is None or view.holds(axis, size) for view, axis in self.axes(inner, rank))

    @property
    def filled(self) -> int:
        """To how many terms sums of neurons are filled up, in whole vectors: what lies beside them is finite, and zeros
        in a table. 0: they are not."""
        K = self.one.shape[-1]
        room = -(-K // self.lanes) * self.lanes if isinstance(K, int) and self.bias is not None else 0
        there = self.one.holds(len(self.one.shape) - 1, room) and self.two.holds(len(self.two.shape) - 2, room)
        return room if there and self.known[1] is not None else 0

    def own(self, inner: int, rank: int) -> bool:
        """Whether what is read as vectors is of the type of the result."""
        axes = self.axes(inner, rank)
        return all(axis is None or view.step(axis) == 0 or view.array not in self.foreign for view, axis in axes)


def by_columns(rows: int, columns: int, lanes: int) -> bool:
    """Whether a row times a matrix is better a sum across vectors for each column than one over its rows."""
    return columns * (-(-rows // lanes) + ACROSS) < 2 * rows * -(-columns // lanes)


def product_place(array: str, factors: Factors, shape: Shape) -> View:
    """Where the result lies."""
    plan = _plan(factors, shape)
    if plan.inner < 0:
        return in_rows(array, shape)
    return in_rows(array, shape, [a for a in range(len(shape)) if a != plan.inner] + [plan.inner])


def product_lines(factors: Factors, out: View, scale: str = "") -> tuple[list[str], bool]:
    """out = one two, times `scale` if there is one; and whether the room of its array is filled."""
    rank, plan = len(out.shape), _plan(factors, out.shape)
    if plan.written is not None:
        return _by_terms(factors, out, plan, scale)
    letters = letters_of(out.shape)
    outer = [a for a in range(rank) if a != plan.inner and out.shape[a] != 1]
    head = loops([out.shape[a] for a in outer], [letters[a] for a in outer])
    times = f" * {scale}" if scale else ""
    if plan.dot:
        empty = _zero_columns(factors, out.shape)
        if not empty:
            return [f"  {head}{_dot(factors, out, letters, times)}"], False
        columns = ([*letters[:-1], str(b)] for b in range(int(out.shape[-1])))
        return [f"  {_dot(factors, out, own, times, int(own[-1]) in empty)}" for own in columns], False

    def statement(letter: str, vector: bool) -> str:
        own = [letter if a == plan.inner else text for a, text in enumerate(letters)]
        place = f"softwright_out({out.array} + {out.at(own)})" if vector else out.entry(own)
        inner = plan.inner if vector else -1
        return _sum(factors, own, place, inner, times, "softwright_v" if vector else factors.real)

    if plan.inner < 0:
        return [f"  {head}{statement('', False)}"], False
    loop, filled = _run(factors, out, plan, letters[plan.inner], statement)
    return [f"  {head}{loop}"], filled


def _dot(factors: Factors, out: View, own: list[str], times: str, empty: bool = False) -> str:
    """An entry as a sum across vectors, or without it."""
    one, two, K = factors.one, factors.two, factors.one.shape[-1]
    first, second = one.at(_left(own, one, "")), two.at(_right(own, two, ""))
    K = max(K, factors.filled) if isinstance(K, int) else K
    known = isinstance(K, int) and MOST_WRITTEN * factors.lanes >= K
    dot = f"softwright_dot{'' if known else '_of'}({one.array} + {first}, {two.array} + {second}, {K}){times}"
    words = [word for word in (factors.terms(own, []), "" if empty else dot) if word]
    return f"{out.entry(own)} = {' + '.join(words) or '0'};"


def _zero_columns(factors: Factors, shape: Shape) -> set[int]:
    """Columns of a constant factor that are zeros, if one row is multiplied with few."""
    array = factors.known[1]
    if array is None or array.ndim != 2 or not 1 < array.shape[1] <= AT_ONCE or any(n != 1 for n in shape[:-1]):
        return set()
    return {int(b) for b in np.flatnonzero(~array.any(axis=0))}


def _run(
    factors: Factors, out: View, plan: Plan, letter: str, statement: Callable[[str, bool], str]
) -> tuple[str, bool]:
    """The innermost loop, and whether it fills the room of the array."""
    size, rank = out.shape[plan.inner], len(out.shape)
    neighbours = plan.neighbours and factors.own(plan.inner, rank) and out.step(plan.inner) == 1
    room = -(-size // factors.lanes) * factors.lanes if isinstance(size, int) else 0
    if neighbours and room and out.holds(plan.inner, room) and factors.fits(plan.inner, rank, room):
        return run_in_vectors(letter, room, factors.lanes, lambda at: statement(at, True)), True
    whole = neighbours and not (isinstance(size, int) and size < factors.lanes)
    vector = (lambda at: statement(at, True)) if whole else None
    return run_over(letter, size, lambda at: statement(at, False), vector), False


def _sum(factors: Factors, own: list[str], place: str, inner: int, times: str, kind: str) -> str:
    """place = sum over k, in parts that do not wait for each other."""

    def words(ks: Sequence[str]) -> str:
        return " + ".join(factors.term(own, k, inner) for k in ks)

    def first(ks: Sequence[str]) -> str:
        return factors.terms(own, ks, inner)

    K = factors.one.shape[-1]
    ks = _rows_read(factors)
    if isinstance(K, str):
        return (
            f"{{ {kind} t = {first(['0'])}; for (int k = 1; k < {K}; k++) t += {words(['k'])}; {place} = t{times}; }}"
        )
    if len(ks) <= AT_ONCE:
        return f"{place} = ({first(ks)}){times};" if times else f"{place} = {first(ks)};"
    if len(ks) < K:
        fours = " + ".join(f"({(words if i else first)(ks[i : i + 4])})" for i in range(0, len(ks), 4))
        return f"{place} = ({fours}){times};"
    rest = [str(k) for k in range(K - K % 4, K)]
    more = (
        f"for (int k = 4; k + 4 <= {K}; k += 4) t += ({words(['k', '(k + 1)'])}) + ({words(['(k + 2)', '(k + 3)'])});"
    )
    last = f" t += {words(rest)};" if rest else ""
    return f"{{ {kind} t = {first(['0', '1', '2', '3'])}; {more}{last} {place} = t{times}; }}"


def _rows_read(factors: Factors) -> list[str]:
    """The terms of a sum that are not zero everywhere; all where that is not known, or where none is left."""
    K = factors.one.shape[-1]
    if isinstance(K, str):
        return []
    read = np.ones(K, dtype=bool)
    for array, axis in zip(factors.known, (-1, -2), strict=True):
        if array is not None and array.size:
            read &= np.moveaxis(array, axis, 0).reshape(K, -1).any(axis=1)
    few = [str(k) for k in np.flatnonzero(read)]
    return few if 0 < len(few) <= 2 * AT_ONCE else [str(k) for k in range(K)]


def _left(letters: Sequence[str], one: View, k: str) -> list[str]:
    """The index of the first factor, given that of the result."""
    lead = list(letters[:-2])
    return [*lead[len(lead) - (len(one.shape) - 2) :], letters[-2], k]


def _right(letters: Sequence[str], two: View, k: str) -> list[str]:
    lead = list(letters[:-2])
    return [*lead[len(lead) - (len(two.shape) - 2) :], k, letters[-1]]


def _count(size: Size) -> int:
    return size if isinstance(size, int) else 2 * LEAST


def _axis_steps(factors: Factors, axis: int, rank: int) -> tuple[Size, Size]:
    """The steps of both factors along an axis of the result."""
    first, second = (0 if a is None else view.step(a) for view, a in factors.axes(axis, rank))
    return first, second


def _plan(factors: Factors, shape: Shape) -> Plan:
    one, two, rank, K = factors.one, factors.two, len(shape), factors.one.shape[-1]
    free = [a for a in range(rank) if shape[a] != 1]
    fit = []
    for axis in free:
        steps = _axis_steps(factors, axis, rank)
        room = -(-int(shape[axis]) // factors.lanes) * factors.lanes if isinstance(shape[axis], int) else 0
        enough = _count(shape[axis]) >= LEAST or (room > 0 and factors.fits(axis, rank, room))
        if set(steps) <= {0, 1} and any(steps) and enough:
            fit.append((_count(shape[axis]), axis))
    best = max(fit)[1] if fit else -1
    sparse = _sparse(factors, shape, best)
    if sparse is not None:
        inside = [(size, axis) for size, axis in fit if axis not in sparse and not isinstance(shape[axis], str)]
        return Plan(max(inside)[1] if inside else -1, sparse, neighbours=True)
    k_steps = one.step(len(one.shape) - 1), two.step(len(two.shape) - 2)
    if best < 0 and k_steps == (1, 1) and (_count(K) >= factors.lanes or (_count(K) >= LEAST and factors.filled)):
        return Plan(-1, dot=True)
    if best < 0 and free:  # no neighbours: an axis of free size, along which a softmax reads, or the longest
        return Plan(max((isinstance(shape[a], str), _count(shape[a]), a) for a in free)[2])
    return Plan(best, neighbours=best >= 0)


def _sparse(factors: Factors, shape: Shape, best: int) -> tuple[int, ...] | None:
    """The axes of the result along which a constant factor with many zeros varies, or nothing."""
    one, two, known = factors.one, factors.two, factors.known
    which = 1 if known[1] is not None else 0
    array, rank = known[which], len(shape)
    if array is None or array.size == 0 or 2 * np.count_nonzero(array) > array.size:
        return None
    view = (one, two)[which]
    if which and two.step(len(two.shape) - 2) == 1 and two.shape[-1] != 1:
        return None  # whole columns are read
    axes = [a for a in range(rank - 2) if (b := a - (rank - len(view.shape))) >= 0 and view.shape[b] != 1]
    own = rank - 1 if which else rank - 2
    axes += [own] if shape[own] != 1 else []
    if any(isinstance(shape[a], str) for a in axes) or isinstance(one.shape[-1], str):
        return None
    entries = np.count_nonzero(array) + math.prod(int(shape[a]) for a in axes)
    if best in axes and entries * factors.lanes > len(_rows_read(factors)) * array.size // int(one.shape[-1]):
        return None  # vectors along them are no more work
    return tuple(axes) if entries <= MOST_TERMS else None


def _by_terms(factors: Factors, out: View, plan: Plan, scale: str) -> tuple[list[str], bool]:
    which = 1 if factors.known[1] is not None else 0
    array, rank = factors.known[which], len(out.shape)
    letters = letters_of(out.shape)
    written = plan.written or ()
    outer = [a for a in range(rank) if a not in written and a != plan.inner and out.shape[a] != 1]
    head = loops([out.shape[a] for a in outer], [letters[a] for a in outer])
    times = f" * {scale}" if scale else ""
    statements, filled = [], plan.inner >= 0
    for places in itertools.product(*(range(int(out.shape[a])) for a in written)):
        own = list(letters)
        for axis, place in zip(written, places, strict=True):
            own[axis] = str(place)
        view = (factors.one, factors.two)[which]
        index = (_left, _right)[which](own, view, "*")
        numbers = tuple(slice(None) if text == "*" else int(text or 0) for text in index)
        row = np.asarray(array)[numbers].ravel()
        ks = [str(k) for k in np.flatnonzero(row)]

        def statement(letter: str, vector: bool, own: list[str] = own, ks: list[str] = ks) -> str:
            now = [letter if a == plan.inner else text for a, text in enumerate(own)]
            words = factors.terms(now, ks, plan.inner if vector else -1)
            words = f"({words}){times}" if words and times else words or ("(softwright_v){0}" if vector else "0")
            return f"{f'softwright_out({out.array} + {out.at(now)})' if vector else out.entry(now)} = {words};"

        if plan.inner < 0:
            statements.append(statement("", False))
            continue
        loop, whole = _run(factors, out, plan, letters[plan.inner], statement)
        statements.append(loop)
        filled = filled and whole
    if not head:
        return [f"  {one}" for one in statements], filled
    return [f"  {head}{{", *(f"    {one}" for one in statements), "  }"], filled
