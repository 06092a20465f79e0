"""C1, C2 and C3: separation of sets in ball arithmetic, rank-1 ids, and what hardmax cannot tell apart."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from flint import arb
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from softwright.errors import InvalidInput
from softwright.proof.arithmetic.balls import precision
from softwright.theorems import find_theorem
from softwright.theorems.boltzmann import bits_for, least_gap, least_separation, separation_bound
from softwright.theorems.contextual_mapping import contexts, exact_ids, float64_collisions, largest_float64
from softwright.theorems.hardmax import FIRST, SECOND, ids, layer, pair
from softwright.theorems.tools.ball_network import exact_forward
from tests.theorems.theorem_checks import change, check, is_caught

C1, C2, C3 = (find_theorem(label) for label in ("C1", "C2", "C3"))


@pytest.mark.parametrize("length", [2, 3, 4])
@pytest.mark.parametrize("more", [1, 2, 4])
def test_c1_all_pairs_of_sets(length: int, more: int) -> None:
    made = C1.build(values=length + more, length=length)
    check(made)
    assert made.quantities["sets"] == math.comb(length + more, length)


@given(st.integers(2, 4), st.integers(1, 3), st.floats(0, 2), st.integers(0, 10**6))
@settings(max_examples=50)
def test_c1_random_vocabularies(length: int, more: int, jitter: float, seed: int) -> None:
    made = C1.build(values=length + more, length=length, jitter=jitter, seed=seed)
    check(made)
    # The head is boltz: balls and float64 agree to rounding, and the network without values separates nothing.
    inputs = made.sample(np.random.default_rng(seed), 5)
    assert made.errors(inputs).max() <= 1e-12 * np.abs(inputs).max()
    change(made, "stages.1.W_V", (0, 0, 0), -1.0)
    is_caught(made)


def test_c1_value_off_by_twice_the_bound_is_outside_its_ball() -> None:
    made = C1.build(values=6, length=3)
    bits, row = made.bits, made.sets[4]
    value = exact_forward(made.network, row[None], bits)[0][0]
    with precision(bits + 64):
        off = 2 * separation_bound(3, 2 * made.quantities["r"])
        finer = exact_forward(made.network, row[None], bits + 64)[0][0]
        assert value.overlaps(finer)
        assert not (value + off).overlaps(finer)


def test_c1_sets_of_different_sizes() -> None:
    # What C6 rests on: prefixes have different lengths, the bound is the same.
    for n in (2, 3, 4):
        entries = (np.arange(n + 2) - 0.5 * (n + 1)) * least_separation(n) * (1 + 1e-9)
        spread = float(entries[-1] - entries[0]) * (1 + 1e-12)
        bits = bits_for(spread)
        with precision(bits):
            found = []
            for size in range(1, n + 1):
                for pick in combinations(entries.tolist(), size):
                    powers = [arb(a).exp() for a in pick]
                    found.append(sum(arb(a) * e for a, e in zip(pick, powers, strict=True)) / sum(powers))
            gap = least_gap(found)
            assert gap is not None
            assert gap > separation_bound(n, spread)


@pytest.mark.parametrize("scale", ["paper", "tight"])
@pytest.mark.parametrize(("length", "words", "dim"), [(2, 2, 1), (2, 3, 1), (2, 3, 2), (2, 4, 1), (3, 4, 3)])
def test_c2_ids_are_apart_and_matrices_have_rank_one(scale: str, length: int, words: int, dim: int) -> None:
    count = min(4, math.perm(words, length))  # no more exist
    made = C2.build(sequences=count, length=length, vocabulary=words, dim=dim, head_size=3, scale=scale)
    check(made)
    attention = made.network.stages[0]
    for W in (attention.W_K, attention.W_Q, attention.W_V, attention.W_O):
        assert np.linalg.matrix_rank(W[0].numpy()) == 1
    assert made.parameters == 4 * (3 + dim)
    assert (made.network.layers, made.network.heads) == (1, 1)
    assert made.shift <= made.quantities["largest_shift"]


def test_c2_says_how_few_pairs_many_sequences_hold() -> None:
    made = C2.build(sequences=12, vocabulary=4, length=2)
    assert len(np.unique(made.sequences, axis=0)) == 12
    assert len(made.places) == 12 and "12 sequences hold 12 different pairs (set of tokens, token)" in made.reasons


@given(st.integers(2, 3), st.integers(0, 2), st.integers(1, 3), st.integers(1, 5), st.booleans(), st.integers(0, 10**6))
@settings(max_examples=50)
def test_c2_random_sequences(length: int, more: int, dim: int, count: int, paper: bool, seed: int) -> None:
    words = min(length + more, 4)
    try:
        count = min(count, math.perm(words, length))
        made = C2.build(
            sequences=count, length=length, vocabulary=words, dim=dim, scale="paper" if paper else "tight", seed=seed
        )
    except InvalidInput as error:  # tokens drawn too close to each other
        assert "beta overflow" in str(error) or "no direction" in str(error)
        assume(False)
        return
    assume(made.bits < 40_000)
    check(made)
    ids_bits = exact_ids(made.network, made.sequences, made.places[:1], made.bits)
    shift = [abs(float(b.mid()) - x) for b, x in zip(ids_bits[0], _token(made), strict=True)]
    assert math.hypot(*shift) <= made.quantities["largest_shift"] * (1 + 1e-9)
    change(made, "stages.0.W_V", (0, 0, 0), -float(made.network.stages[0].W_V[0, 0, 0]))
    if dim == 1 and len({key[0] for key in contexts(made.head.vocabulary.index)}) > 1 and _shares(made):
        is_caught(made)  # without its value the head sees no context


def _token(made) -> list[float]:
    i, k = made.places[0]
    return made.sequences[i, :, k].tolist()


def _shares(made) -> bool:
    """Whether some token occurs in two different sets."""
    keys = list(contexts(made.head.vocabulary.index))
    return len({key[1] for key in keys}) < len(keys)


def test_c2_output_that_is_too_large_is_caught() -> None:
    made = C2.build(scale="tight")
    assert made.shift <= made.quantities["largest_shift"]
    change(made, "stages.0.W_O", (0, 0, 0), 2.0 * made.quantities["largest_shift"])
    out = made.network.evaluate(made.sequences) - made.sequences
    assert np.abs(out).max() > made.quantities["largest_shift"]


def test_c2_float64_loses_what_the_theorem_keeps() -> None:
    made = C2.build(sequences=6, length=2, vocabulary=4, scale="paper")
    check(made)
    assert float64_collisions(made.network, made.sequences, made.places) > 0
    assert made.bound > 1000  # digits
    assert largest_float64(2, "paper", most=4) == 2
    assert largest_float64(2, "tight", most=7) == 6


def test_c3_counterexample() -> None:
    made = C3.build()
    assert made.observe(n=100) == (0.0, 101)
    hard, soft = made.hard_ids, made.soft_ids
    assert hard[0].tobytes() == hard[1].tobytes()  # equal to the last bit
    assert np.abs(soft[0] - soft[1]).max() > 1e-3
    assert made.sample(np.random.default_rng(0), 2)[:, 0].tolist() == [list(FIRST), list(SECOND)]
    said = " ".join(made.reasons)
    assert "(1, 2, 5, 6)" in said
    assert "(1, 3, 4, 6)" in said


@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 4), st.integers(0, 10**6))
@settings(max_examples=50)
def test_c3_random_layers(dim: int, heads: int, size: int, seed: int) -> None:
    made = C3.build(dim=dim, heads=heads, head_size=size, seed=seed)
    check(made, seed=seed, n=5)
    soft = ids(layer(dim, heads, size, seed, hard=False), dim)
    assert not np.array_equal(soft[0], soft[1])
    # The theorem holds for all weights; what breaks it is softmax, and the same check sees that.
    made.network.stages[0].hard = False
    is_caught(made, seed=seed, n=1)


def test_c3_all_weights_zero_sees_the_mean() -> None:
    network = layer(1, 1, 1, 0, hard=True)
    tensors = network.state_dict()
    tensors["stages.0.W_K"].zero_()
    tensors["stages.0.W_V"].fill_(1.0)
    tensors["stages.0.W_O"].fill_(1.0)
    out = network.evaluate(pair(1))[:, 0, 0]
    assert out[0] == out[1] == 1.0 + 3.5
