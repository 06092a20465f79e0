"""Curves proved again: a function of one value by a head of fixed tokens that has keys of its own in the bank.

The head on [-1, 1] is proved by `boxes.py`, as tables of stacks are; what the run has besides is charged: tokens that
are shut out (each at most f, in numerator and denominator), rescalings at blocks of keys, and sup |F'| h times how far
the argument t is off, over all of the way to it, which must lie in [-1, 1]. Where a slope is unbounded, at the centre
of the frame, moduli of continuity stand for it (`composition/kinds/singular.py`), or the slope along the root of a sum
of squares (`roots.py`).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from flint import fmpq

from softwright.checker.claims import decode
from softwright.checker.composition.intervals import Interval
from softwright.checker.composition.kinds.centred import on_side
from softwright.checker.composition.kinds.singular import Moduli
from softwright.checker.composition.kinds.table import Enclosed, Frame, prove_table
from softwright.checker.composition.program import substituted
from softwright.checker.composition.statement import LARGEST_TREE, fraction
from softwright.checker.composition.weights import Table
from softwright.checker.programs.bounds import BLOCK
from softwright.checker.programs.functions import interval, tree
from softwright.checker.programs.lines import DEFAULT, NULL, ONE, HeadLine
from softwright.checker.programs.roots import Root, sqrt_over
from softwright.checker.programs.state import Combination, Held, State, times
from softwright.checker.refusal import require
from softwright.checker.trees import Tree

GAP = 1600.0  # scores of tokens that are shut out, below the largest one
MOST_TOKENS = 512
ZERO = Fraction(0)


def prove_curve(state: State, head: HeadLine) -> None:
    """The column that a curve writes."""
    require(len(head.writes) == 1 and not head.where and not head.causal, "a curve is damaged")
    column, numbers = head.writes[0], head.numbers
    line = state.said[column]
    require(column not in state.held, "a column is written twice")
    require(line.kind == "real" and line.leaves is not None and len(line.leaves) == 1, "a curve of no one value")
    leaf = (line.leaves or (0,))[0]
    keys, biases, values = _tokens(state, head, column)
    center, half = _fraction(fraction(numbers["center"])), _fraction(fraction(numbers["halfwidth"]))
    require(half > 0, "the halfwidth of a frame is not positive")
    form = state.form(head.query[:, 0])
    require(state.layer_of(form) < head.layer, "a curve reads what is not there yet")
    wanted = times(state.combination(leaf), 1 / half, -center / half)
    moved = state.off(form, wanted)
    kind, side = state.ranges.of(leaf), numbers.get("side", 0)
    low, high = kind.low - half * moved, kind.high + half * moved
    require(center - half <= low and high <= center + half, "a curve is asked for what it is not proved for")
    function = tree(state.graph, line.value, leaf)
    if side:  # beyond its singular point, the centre, the function is what it is there
        there = kind.low >= center if side > 0 else kind.high <= center
        require(there, "a curve is asked for on both sides of its singular point")
        held = ("max" if side > 0 else "min", ("variable", 0), ("number", _rational(center)))
        function = substituted(function, {0: held})
    frame = Frame(
        _rational(center),
        _rational(half),
        float(numbers["exact"]),
        float(numbers["rounding"]),
        numbers["order"],
        decode(numbers["tree"], LARGEST_TREE),
    )
    table = Table((0,), np.zeros(1), keys, biases, values[:, None], len(keys), 0.0)
    prove_table(table, 0, function, frame, state.bounds.precision)
    if side:
        through = _towards(state, function, center, half, moved, form, wanted)
    else:
        run = interval(low, high)
        _, slope, sure = Enclosed(function).over(interval(kind.low, kind.high).meet(run), run)
        require(bool(sure.all()), "a curve may be undefined, or steep without bound")
        through = _largest(slope) * half * moved
    most, bounds = Fraction(float(np.abs(values).max())), state.bounds
    hidden = 4 * -(-bounds.all // BLOCK) * (bounds.e + 2 * bounds.u) * most + 4 * bounds.all * bounds.f * (1 + most)
    error = Fraction(frame.exact) + Fraction(frame.rounding) + hidden + through
    whole = state.ranges.of(line.value)
    state.held[column] = Held(whole.low, whole.high, False, error, head.layer)


def _root(state: State, form: dict[int, Fraction], wanted: Combination) -> Root | None:
    """Of a form that is a sum of squares; factors that differ by a share rho move the root by no more than that."""
    found, meant = state.root(form), state.meant(form)
    if found is None or meant.keys() != wanted.keys() or "" in wanted:
        return None
    rho = max((abs(meant[key] / wanted[key] - 1) for key in wanted), default=Fraction(1))
    if not all(factor > 0 for factor in wanted.values()) or rho > Fraction(1, 2**16):
        return None
    return replace(found, off=found.off + rho * (sqrt_over(found.top) + found.off))


def _towards(
    state: State,
    function: Tree,
    center: Fraction,
    half: Fraction,
    moved: Fraction,
    form: dict[int, Fraction],
    wanted: Combination,
) -> Fraction:
    """What errors of its argument do to a function that is singular at the centre: by a modulus of continuity; if the
    argument is a sum of squares, by the function's slope along the root; if it is a number of the input, by a share."""
    sides = [Enclosed(on_side(_rational(center), side).tree(function)) for side in (1, -1)]
    root, precision = _root(state, form, wanted), state.bounds.precision
    with np.errstate(all="ignore"):
        moduli = Moduli([(one.plain_values, one.plain_slopes) for one in sides], _float(half))
        found = [float(moduli.omega(np.array([_float(half * moved)]))[0])]
        flushed = 8 * _float(half) * precision.smallest + 2 * float(moduli.edges[-1])
        lost = float(moduli.omega(np.array([flushed]))[0])
    if root is not None and center == 0 and np.isfinite(moduli.by_root):
        along = Fraction(moduli.by_root) * sqrt_over(half) * root.distance() + Fraction(moduli.rest)
        found.append(_float(along))
    meant, ((column, _), *others) = state.meant(form), [*form.items()] or [(ONE, ZERO)]
    alone = center == 0 and not others and column != ONE and state.held[column].error == 0
    if alone and meant.keys() == wanted.keys() and len(wanted) == 1 and np.isfinite([moduli.relative, lost]).all():
        share = max(abs(meant[key] / wanted[key] - 1) for key in wanted) + 2 * state.bounds.u
        require(share < Fraction(1, 1000), "a curve's argument is another one")
        along = Fraction(moduli.relative) * share * Fraction(101, 100) + Fraction(moduli.rest) + Fraction(lost)
        found.append(_float(along))
    require(bool(np.isfinite(min(found))), "a curve is steep without bound")
    return Fraction(min(found))


def _float(x: Fraction) -> float:
    """A float that is no smaller."""
    near = float(x)
    return near if Fraction(near) >= x else float(np.nextafter(near, np.inf))


def _tokens(state: State, head: HeadLine, column: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys, biases and values of the fixed tokens that a curve looks at; all others are shut out and have no value."""
    beside: dict[str, list[int]] = {}
    for kind in ("key", "bias"):
        beside[kind] = [k for k, line in enumerate(state.said) if line.kind == kind and line.value == column]
        require(len(beside[kind]) == 1, "a curve has no keys of its own")
    keyed, biased = beside["key"][0], beside["bias"][0]
    bank, count = state.lines.bank, head.numbers["count"]
    rows = len(bank) - 1 - sum(line.kind == "mark" for line in state.said)
    require(count <= min(rows, MOST_TOKENS), "a curve has too many tokens")
    shut = -float(head.key[ONE, 1])
    query, key = np.zeros(head.query.shape), np.zeros(head.key.shape)
    require(head.query.shape[1] >= 2, "a curve's head is damaged")
    query[:, 0], query[ONE, 1] = head.query[:, 0], 1.0
    key[keyed, 0], key[biased, 1] = 1.0, 1.0
    key[[ONE, NULL, DEFAULT], 1] = -shut
    value, out = np.zeros(head.value.shape), np.zeros(head.out.shape)
    value[column, 0] = out[0, column] = 1.0
    good = np.array_equal(query, head.query) and np.array_equal(key, head.key)
    require(good and np.array_equal(value, head.value) and np.array_equal(out, head.out), "a curve's head is damaged")
    own, rest = slice(1, 1 + count), slice(1 + count, 1 + rows)
    keys, biases, values = bank[own, keyed], bank[own, biased], bank[own, column]
    require(not bank[rest, keyed].any() and not bank[rest, column].any(), "tokens beyond a curve are not empty")
    best = float((biases - np.abs(keys)).max())
    far = max([-shut, *bank[rest, biased].tolist()])
    # scores round by a few units of what keys, biases and the penalty are: far below 2^-10 of the penalty
    require(np.abs(keys).max() + np.abs(biases).max() <= shut < 2.0**80, "a curve's keys are too large")
    require(best - far >= GAP + 2.0**-10 * shut, "a curve does not shut out what it should")
    return keys, biases, values


def _fraction(q: fmpq) -> Fraction:
    return Fraction(int(q.p), int(q.q))


def _rational(x: Fraction) -> fmpq:
    return fmpq(x.numerator, x.denominator)


def _largest(slope: Interval) -> Fraction:
    found = max(abs(float(slope.lower[0])), abs(float(slope.upper[0])))
    require(np.isfinite(found), "a curve is steep without bound")
    return Fraction(found)
