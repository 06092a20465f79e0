"""What additions lose, in any order: prover and checker against trees drawn at random and trees that lose much."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from softwright.checker.transpiled.adding import lost_by_adding, summed_with
from softwright.transpiler.head_sums import mixed, tree

SINGLE = 2.0**-24


def drawn(rng: np.random.Generator, count: int) -> np.ndarray:
    """Numbers of float32, of one sign or two, of one size or many."""
    spread = rng.choice([0.1, 3.0, 12.0, 40.0])
    sizes = np.exp(-rng.uniform(0, spread, size=count))
    signs = rng.choice([-1.0, 1.0], size=count) if rng.random() < 0.3 else np.ones(count)
    return (sizes * signs).astype(np.float32)


def added(numbers: np.ndarray, rng: np.random.Generator, way: str) -> np.float32:
    """Their sum in float32, by a tree of this kind."""
    left = list(numbers[np.argsort(-np.abs(numbers))] if way == "largest first" else rng.permutation(numbers))
    while len(left) > 1:
        if way == "any":
            i, j = sorted(rng.choice(len(left), size=2, replace=False), reverse=True)
            left.append(np.float32(left.pop(int(i)) + left.pop(int(j))))
        else:
            left[:2] = [np.float32(left[0] + left[1])]
    return left[0]


@pytest.mark.parametrize("way", ["any", "one by one", "largest first"])
def test_no_tree_loses_more_and_both_say_the_same(way: str) -> None:
    rng = np.random.default_rng(len(way))
    closest = 0.0
    for _ in range(600):
        numbers = drawn(rng, int(rng.integers(1, 40)))
        exact = sum(Fraction(float(x)) for x in numbers)
        lost = float(abs(Fraction(float(added(numbers, rng, way))) - exact))
        sizes = np.abs(numbers.astype(float))[None]
        proved, checked = float(tree(sizes, SINGLE)[0]), float(lost_by_adding(sizes, SINGLE)[0])
        assert lost <= checked and lost <= proved and np.isclose(proved, checked, rtol=1e-5)
        closest = max(closest, lost / proved if proved > 0 else 0.0)
    assert closest > 0.1


def test_terms_without_weight_cost_what_they_are_and_not_a_rounding_each() -> None:
    heavy, light = np.full(3, 1 / 3), np.full(50, 1e-12)
    both = np.concatenate([heavy, light])[None]
    assert tree(both, SINGLE)[0] <= 1.01 * tree(heavy[None], SINGLE)[0]
    assert tree(np.full((1, 53), 1 / 53), SINGLE)[0] > 10 * tree(both, SINGLE)[0]


def test_a_term_that_is_half_an_ulp_of_the_sum_is_lost_whole() -> None:
    """The worst for additions of small to large: each is lost, and the bound says no less."""
    numbers = np.array([1.0, *[2.0**-24] * 20], dtype=np.float32)
    lost = 1.0 + 20 * 2.0**-24 - float(added(numbers, np.random.default_rng(0), "largest first"))
    assert lost == 20 * 2.0**-24 <= tree(numbers[None].astype(float), SINGLE)[0] <= 1.1 * lost


@pytest.mark.parametrize("count", [2, 16, 40])
def test_heads_in_float32_stay_within_both(count: int) -> None:
    """sum a x/sum a for exponentials a as they are, summed in any order, normalised before or after."""
    rng = np.random.default_rng(count)
    for _ in range(200):
        a, x = np.abs(drawn(rng, count)), rng.normal(size=count).astype(np.float32)
        weights, exact = np.array([Fraction(float(n)) for n in a]), [Fraction(float(n)) for n in x]
        share = weights / sum(weights)
        meant = float(sum(w * v for w, v in zip(share, exact, strict=True)))
        total = added(a, rng, "any")
        if rng.random() < 0.5:
            found = float(added((a / total).astype(np.float32) * x, rng, "any"))
        else:
            found = float(np.float32(added(a * x, rng, "any") * np.float32(np.float32(1.0) / total)))
        ran, sizes = share.astype(float)[None], np.abs(x.astype(float))[None]
        assert abs(found - meant) <= mixed(ran, [sizes], 7, SINGLE)[0] * (1 + 1e-9)
        assert abs(found - meant) <= summed_with([ran * sizes], ran, 6, SINGLE)[0]
