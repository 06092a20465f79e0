"""Products of matrices as loops of C.

Of all axes the innermost loop takes one along which both factors and the result are neighbours or stay: rows, columns
or a batch; else the sum itself, as a sum of eight. A constant factor that is mostly zeros is written term by term: a
product with 0 is 0, and adding it changes nothing, so what is left out costs time alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from softwright.export.c_exp import LANES, lanes_of
from softwright.export.c_shapes import Shape, Size
from softwright.export.c_views import View, in_rows, letters_of, loops, run_over

MOST_TERMS = 1 << 10  # of a product that is written term by term
LEAST = 4  # entries of an axis that is worth a vector
AT_ONCE = 8  # terms of a sum in one expression
Known = Sequence[np.ndarray | None]


@dataclass(frozen=True)
class Plan:
    """How a product runs: axes of the result that are written out one by one, and the one that is innermost (-1:
    none)."""

    inner: int
    written: tuple[int, ...] | None = None  # None: no term is left out
    dot: bool = False


def product_place(array: str, one: View, two: View, shape: Shape, known: Known) -> View:
    """Where the result lies."""
    plan = _plan(one, two, shape, known)
    if plan.inner < 0:
        return in_rows(array, shape)
    return in_rows(array, shape, [a for a in range(len(shape)) if a != plan.inner] + [plan.inner])


def product_lines(one: View, two: View, out: View, known: Known, real: str) -> list[str]:
    """out = one two"""
    plan = _plan(one, two, out.shape, known)
    if plan.written is not None:
        return _by_terms(one, two, out, known, plan)
    rank = len(out.shape)
    letters = letters_of(out.shape)
    outer = [a for a in range(rank) if a != plan.inner and out.shape[a] != 1]
    head = loops([out.shape[a] for a in outer], [letters[a] for a in outer])
    K = one.shape[-1]
    if plan.dot:
        first, second = one.at(_left(letters, one, "")), two.at(_right(letters, two, ""))
        dot = f"softwright_dot_{lanes_of(real, K) if isinstance(K, int) else LANES}"
        return [f"  {head}{out.entry(letters)} = {dot}({one.array} + {first}, {two.array} + {second}, {K});"]

    def over(terms: Sequence[str], more: bool) -> str:
        def statement(letter: str) -> str:
            own = [letter if a == plan.inner else text for a, text in enumerate(letters)]
            place = out.entry(own)
            words = [f"{one.entry(_left(own, one, k))} * {two.entry(_right(own, two, k))}" for k in terms]
            return f"{place} = {' + '.join([*([place] if more else []), *words]) or '0'};"

        return statement("") if plan.inner < 0 else run_over(letters[plan.inner], out.shape[plan.inner], statement)

    if isinstance(K, str):
        return [f"  {head}{{ {over(['0'], False)}", f"    for (int k = 1; k < {K}; k++) {over(['k'], True)} }}"]
    if K <= AT_ONCE:
        return [f"  {head}{over([str(k) for k in range(K)], False)}"]
    four = ["k", "(k + 1)", "(k + 2)", "(k + 3)"]
    rest = [str(k) for k in range(K - K % 4, K)]
    return [
        f"  {head}{{ {over([str(k) for k in range(4)], False)}",
        f"    for (int k = 4; k + 4 <= {K}; k += 4) {over(four, True)}",
        *([f"    {over(rest, True)}"] if rest else []),
        "  }",
    ]


def _left(letters: Sequence[str], one: View, k: str) -> list[str]:
    """The index of the first factor, given that of the result."""
    lead = list(letters[:-2])
    return [*lead[len(lead) - (len(one.shape) - 2) :], letters[-2], k]


def _right(letters: Sequence[str], two: View, k: str) -> list[str]:
    lead = list(letters[:-2])
    return [*lead[len(lead) - (len(two.shape) - 2) :], k, letters[-1]]


def _count(size: Size) -> int:
    return size if isinstance(size, int) else 2 * LEAST


def _axis_steps(one: View, two: View, axis: int, rank: int) -> tuple[Size, Size]:
    """The steps of both factors along an axis of the result."""
    if axis == rank - 1:
        return 0, two.step(len(two.shape) - 1)
    if axis == rank - 2:
        return one.step(len(one.shape) - 2), 0
    places = [axis - (rank - len(view.shape)) for view in (one, two)]
    first, second = (view.step(a) if a >= 0 else 0 for view, a in zip((one, two), places, strict=True))
    return first, second


def _plan(one: View, two: View, shape: Shape, known: Known) -> Plan:
    rank, K = len(shape), one.shape[-1]
    sparse = _sparse(one, two, shape, known)
    free = [a for a in range(rank) if shape[a] != 1 and (sparse is None or a not in sparse)]
    fit = []
    for axis in free:
        steps = _axis_steps(one, two, axis, rank)
        if sparse is not None and isinstance(shape[axis], str):
            continue  # what is written out lies together
        if set(steps) <= {0, 1} and any(steps) and _count(shape[axis]) >= LEAST:
            fit.append((_count(shape[axis]), axis))
    best = max(fit)[1] if fit else -1
    if sparse is not None:
        return Plan(best, sparse)
    k_steps = one.step(len(one.shape) - 1), two.step(len(two.shape) - 2)
    if best < 0 and k_steps == (1, 1) and _count(K) >= AT_ONCE:
        return Plan(-1, dot=True)
    if best < 0 and free:  # no neighbours anywhere: the longest axis
        best = max((_count(shape[a]), a) for a in free)[1]
    return Plan(best)


def _sparse(one: View, two: View, shape: Shape, known: Known) -> tuple[int, ...] | None:
    """The axes of the result along which a constant factor with many zeros varies, or nothing."""
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
    return tuple(axes) if entries <= MOST_TERMS else None


def _by_terms(one: View, two: View, out: View, known: Known, plan: Plan) -> list[str]:
    which = 1 if known[1] is not None else 0
    array, rank = known[which], len(out.shape)
    letters = letters_of(out.shape)
    written = plan.written or ()
    outer = [a for a in range(rank) if a not in written and a != plan.inner and out.shape[a] != 1]
    head = loops([out.shape[a] for a in outer], [letters[a] for a in outer])
    statements = []
    for places in itertools.product(*(range(int(out.shape[a])) for a in written)):
        own = list(letters)
        for axis, place in zip(written, places, strict=True):
            own[axis] = str(place)
        index = (_left, _right)[which](own, (one, two)[which], "*")
        numbers = tuple(slice(None) if text == "*" else int(text or 0) for text in index)
        row = np.asarray(array)[numbers].ravel()
        ks = [str(k) for k in np.flatnonzero(row)]

        def statement(letter: str, own: list[str] = own, ks: list[str] = ks) -> str:
            now = [letter if a == plan.inner else text for a, text in enumerate(own)]
            words = [f"{one.entry(_left(now, one, k))} * {two.entry(_right(now, two, k))}" for k in ks]
            return f"{out.entry(now)} = {' + '.join(words) or '0'};"

        if plan.inner < 0:
            statements.append(statement(""))
        else:
            statements.append(run_over(letters[plan.inner], out.shape[plan.inner], statement))
    if not head:
        return [f"  {one}" for one in statements]
    return [f"  {head}{{", *(f"    {one}" for one in statements), "  }"]
