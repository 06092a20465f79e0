"""Rounding of sums in any order, and errors carried from layer to layer: attacked with orders and slopes on purpose."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from softwright.checker.transpiled.partial_sums import PartialSums, heaviest_tree
from softwright.checker.transpiled.slips import Slips
from softwright.transpiler.errors import Errors, Sums, _worst_tree

_UNIT = 2.0**-24


def _summed(terms: list[np.float32], rng: np.random.Generator, order: str) -> np.float32:
    """A sum in float32 in some order: largest positive terms first, by pairs, or any two at a time."""
    left = sorted(terms, reverse=True) if order == "falling" else list(terms)
    while len(left) > 1:
        i, j = (0, 1) if order == "falling" else rng.choice(len(left), size=2, replace=False)
        total = np.float32(left[i] + left[j])
        left = [term for k, term in enumerate(left) if k not in (i, j)]
        left.insert(0, total)
    return left[0]


@pytest.mark.parametrize("order", ["falling", "any"])
def test_no_order_of_a_sum_exceeds_its_bound(order: str) -> None:
    rng = np.random.default_rng(3)
    for n in (1, 2, 5, 24):
        weight, bias = (rng.normal(size=shape).astype(np.float32).astype(float) for shape in ((6, n), 6))
        low, high = -rng.random(n), rng.random(n)
        ends = [
            np.maximum(sign * np.stack([weight * low, weight * high]), 0).max(axis=0).sum(axis=1)
            + np.maximum(sign * bias, 0)
            for sign in (1.0, -1.0)
        ]
        slack = 4 * n * _UNIT * (ends[0] + ends[1])
        bound = Sums(weight, bias, low, high, slack, _UNIT).rounding((ends[0], ends[1]))
        again = PartialSums(weight, bias, low, high, _UNIT).rounding(ends[0], ends[1], slack)
        assert np.all(again <= bound) and np.all(bound <= 2 * n * _UNIT * sum(ends) * 1.01)
        worst = np.zeros(6)
        for _ in range(30):
            x = np.clip(rng.choice([low, high, rng.uniform(low, high)], axis=0), low, high).astype(np.float32)
            x = np.clip(x.astype(float), low, high).astype(np.float32)
            x = np.where((x >= low) & (x <= high), x, np.float32(0))
            for i in range(6):
                terms = [np.float32(w) * v for w, v in zip(weight[i].astype(np.float32), x, strict=True)]
                ran = _summed([*terms, np.float32(bias[i])], rng, order)
                exact = sum((Fraction(w) * Fraction(float(v)) for w, v in zip(weight[i], x, strict=True)), Fraction(0))
                worst[i] = max(worst[i], abs(float(Fraction(float(ran)) - exact - Fraction(bias[i]))))
        assert np.all(worst <= bound)
        assert n == 1 or worst.max() > 0.05 * bound.min()  # the attack is one


def _trees(leaves: int) -> list[list[int]]:
    """The sizes of the inner nodes of every binary tree."""
    if leaves == 1:
        return [[]]
    return [
        [leaves, *one, *other] for i in range(1, leaves // 2 + 1) for one in _trees(i) for other in _trees(leaves - i)
    ]


def test_the_worst_tree_is_the_worst_of_all_trees() -> None:
    """Nodes that are large at some sizes, with no order in them, and nodes that rise and fall."""
    rng = np.random.default_rng(7)
    for leaves in range(2, 10):
        rows = np.concatenate([rng.random((20, leaves + 1)), [np.minimum(np.arange(leaves + 1), [leaves // 2])]])
        rows[-1] = np.minimum(rows[-1], rows[-1][::-1])
        worst = [max(sum(row[size] for size in tree) for tree in _trees(leaves)) for row in rows]
        assert np.allclose(_worst_tree(rows[:, 1:]), worst, rtol=1e-14)
        assert np.allclose(heaviest_tree(rows.T), worst, rtol=1e-14)


def _turning(terms: list[np.float32], rng: np.random.Generator) -> np.float32:
    """A tree of blocks, each of which adds terms of one sign first, in its own order."""
    shuffled = [terms[i] for i in rng.permutation(len(terms))]
    cuts = sorted(rng.integers(0, len(terms) + 1, size=rng.integers(0, 3)))
    blocks = [shuffled[a:b] for a, b in zip([0, *cuts], [*cuts, len(terms)], strict=True) if b > a]
    sums = []
    for block in blocks:
        total = np.float32(0)
        for term in sorted(block, reverse=bool(rng.random() < 0.5)):
            total = np.float32(total + term)
        sums.append(total)
    return _summed(sums, rng, "any")


@pytest.mark.parametrize("n", [3, 12, 40])
def test_no_tree_exceeds_the_bound_where_the_sum_is_known(n: int) -> None:
    """At single inputs, where sums of positive and of negative terms are known and the whole is near 0."""
    rng = np.random.default_rng(n)
    closest, gained = 0.0, 1.0
    for _ in range(12):
        weight, x = (rng.normal(size=shape).astype(np.float32).astype(float) for shape in ((1, n), n))
        bias = np.float32(-(weight @ x)[0] + 0.1 * rng.normal()).astype(float).reshape(1)
        leaves = np.concatenate([weight[0] * x, bias])
        ends = [np.array([np.maximum(sign * leaves, 0).sum()]) for sign in (1.0, -1.0)]
        whole = np.array([leaves.sum() - 1e-12]), np.array([leaves.sum() + 1e-12])
        slack = 2 * (n + 2) * _UNIT * (ends[0] + ends[1])
        sums = Sums(weight, bias, x, x, slack, _UNIT)
        bound, free = sums.rounding((ends[0], ends[1]), whole), sums.rounding((ends[0], ends[1]))
        again = PartialSums(weight, bias, x, x, _UNIT).rounding(ends[0], ends[1], slack, whole)
        assert again <= bound <= free
        gained = min(gained, float((bound / free)[0]))
        exact = sum((Fraction(float(leaf)) for leaf in bias), Fraction(0))
        exact += sum((Fraction(float(w)) * Fraction(float(v)) for w, v in zip(weight[0], x, strict=True)), Fraction(0))
        terms = [np.float32(w) * np.float32(v) for w, v in zip(weight[0], x, strict=True)] + [np.float32(bias[0])]
        for _ in range(300):
            off = abs(float(Fraction(float(_turning(terms, rng))) - exact))
            assert off <= again[0]
            closest = max(closest, off / bound[0])
    assert 0.15 < closest <= 1.0  # the attack is one
    assert gained < 0.95 or n < 12


def test_partial_sums_are_charged_for_what_was_rounded_before_them() -> None:
    """1 + (1 - u), and a last term: a partial sum of less than 2 that runs as 2."""
    weight, one = np.array([[1.0, 1.0 - _UNIT, 2.0**-30]]), np.ones(3)
    total = np.array([2.0]), np.zeros(1)
    slack = np.array([4 * _UNIT])
    for sums in (
        Sums(weight, np.zeros(1), one, one, slack, _UNIT).rounding(total),
        PartialSums(weight, np.zeros(1), one, one, _UNIT).rounding(total[0], total[1], slack),
    ):
        assert sums[0] >= _UNIT * (3 * 2 + 1 + 0.5 + 2.0**-30)


@pytest.mark.parametrize("kind", [Errors, Slips])
def test_errors_of_a_chain_hold_for_the_worst_causes_and_slopes(kind: type) -> None:
    """Causes at +-1 and slopes at the ends of their ranges, which the error is linear and convex in."""
    rng = np.random.default_rng(5)
    first, second = rng.normal(size=(7, 9)), rng.normal(size=(3, 7))
    start, own = rng.random(9), rng.random(7)
    largest = [float(np.linalg.norm(w, 2)) * (1 + 1e-9) for w in (first, second)]
    least, most = np.array([0.0, 0, 0, -0.2, -0.2, 0.5, 1]), np.ones(7)
    if kind is Errors:
        state = Errors.of(start).through(first, largest[0]).sloped(least, most).plus(own).through(second, largest[1])
        found, size = state.error, state.norm
    else:
        slips = Slips.of(start).mapped(first).bent(least, most).with_own(own).mapped(second)
        found, size = slips.each, slips.norm
    worst, length = np.zeros(3), 0.0
    for _ in range(4000):
        one, two = (np.where(rng.random(n) < 0.5, -1.0, 1.0) for n in (9, 7))
        slope = np.where(rng.random(7) < 0.5, least, most)
        off = second @ (slope * (first @ (start * one)) + own * two)
        worst, length = np.maximum(worst, np.abs(off)), max(length, float(np.linalg.norm(off)))
    assert np.all(worst <= found) and length <= size
    plain = np.abs(second) @ (np.abs(first) @ start + own)
    assert np.all(found <= plain * (1 + 1e-9)) and np.any(found < 0.9 * plain)
