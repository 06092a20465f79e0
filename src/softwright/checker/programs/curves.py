"""Curves proved again: a function of one value by a head of fixed tokens that has keys of its own in the bank.

The head on [-1, 1] is proved by `boxes.py`, as tables of stacks are; what the run has besides is charged: tokens that
are shut out (each at most f, in numerator and denominator), rescalings at blocks of keys, and sup |F'| h times how far
the argument t is off, over all of the way to it, which must lie in [-1, 1].
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from flint import fmpq

from softwright.checker.claims import decode
from softwright.checker.composition.intervals import Interval
from softwright.checker.composition.kinds.table import Enclosed, Frame, prove_table
from softwright.checker.composition.statement import LARGEST_TREE, fraction
from softwright.checker.composition.weights import Table
from softwright.checker.programs.bounds import BLOCK
from softwright.checker.programs.functions import interval, tree
from softwright.checker.programs.lines import DEFAULT, NULL, ONE, HeadLine
from softwright.checker.programs.state import Held, State, times
from softwright.checker.refusal import require

GAP = 1600.0  # scores of tokens that are shut out, below the largest one
MOST_TOKENS = 512


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
    moved = state.off(form, times(state.combination(leaf), 1 / half, -center / half))
    kind = state.ranges.of(leaf)
    low, high = kind.low - half * moved, kind.high + half * moved
    require(center - half <= low and high <= center + half, "a curve is asked for what it is not proved for")
    function = tree(state.graph, line.value, leaf)
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
    enclosed = Enclosed(function)
    run = interval(low, high)
    _, slope, sure = enclosed.over(interval(kind.low, kind.high).meet(run), run)
    require(bool(sure.all()), "a curve may be undefined, or steep without bound")
    steep = _largest(slope)
    most, bounds = Fraction(float(np.abs(values).max())), state.bounds
    hidden = 4 * -(-bounds.all // BLOCK) * (bounds.e + 2 * bounds.u) * most + 4 * bounds.all * bounds.f * (1 + most)
    error = Fraction(frame.exact) + Fraction(frame.rounding) + hidden + steep * half * moved
    whole = state.ranges.of(line.value)
    state.held[column] = Held(whole.low, whole.high, False, error, head.layer)


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
    require(np.abs(keys).max() + np.abs(biases).max() < 2.0**40, "a curve's keys are too large")
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
