"""C4, C5 and C6: memorisation, universal approximation of permutation-equivariant maps, and the causal mask."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from softwright.errors import Faults, InvalidInput
from softwright.memory.network import paper_parameters
from softwright.theorems import find_theorem
from softwright.theorems.memorisation import exact_recall, random_labels
from softwright.theorems.permutation_equivariant import equivariant, grid_contexts, lattice_head
from softwright.theorems.tools.ball_network import exact_forward
from softwright.theorems.tools.network import Attention, FeedForward, Linear, TheoremNetwork
from softwright.theorems.tools.rank_one import rank_one, vocabulary_of
from tests.theorems.theorem_checks import change, check, is_caught

C4, C5, C6 = (find_theorem(label) for label in ("C4", "C5", "C6"))
BOTH = pytest.mark.parametrize("theorem", [C4, C6], ids=["C4", "C6"])


def free_parameters(network: TheoremNetwork) -> int:
    """The numbers that the two stages are made of, read off the tensors.

    A rank-1 matrix (a x b) is a + b numbers. The readout has one block of relus per output: one direction (its rows of
    W_1 are equal), a threshold and an output weight for each relu; all other entries of W_2 are zero.
    """
    attention, readout = network.stages[0], network.stages[1]
    if not isinstance(attention, Attention) or not isinstance(readout, FeedForward) or attention.W_O is None:
        raise TypeError("a memory is an attention stage and a feed-forward stage")
    total = 0
    for W in (attention.W_K, attention.W_Q, attention.W_V, attention.W_O):
        matrix = W[0].numpy()
        rank = int(np.linalg.matrix_rank(matrix))
        total += rank * sum(matrix.shape)
    W_1, W_2 = readout.W_1.numpy(), readout.W_2.numpy()
    d = W_2.shape[0]
    units = W_1.shape[0] // d
    for o in range(d):
        block = slice(o * units, (o + 1) * units)
        total += len(np.unique(W_1[block], axis=0)) * W_1.shape[1] + 2 * units
        outside = np.delete(W_2[o], np.arange(W_2.shape[1])[block])
        total += int(np.count_nonzero(outside))
    return total + int(np.count_nonzero(readout.b_2.numpy()))


@BOTH
@pytest.mark.parametrize(
    ("count", "length", "words", "dim", "size"),
    [(1, 2, 2, 1, 1), (3, 2, 3, 1, 2), (6, 2, 4, 1, 1), (4, 3, 4, 1, 3), (3, 2, 3, 2, 1), (3, 2, 3, 3, 4)],
)
def test_memory_over_a_grid_of_sizes(theorem, count: int, length: int, words: int, dim: int, size: int) -> None:
    made = theorem.build(sequences=count, length=length, vocabulary=words, dim=dim, head_size=size)
    check(made)
    assert made.bound == 0.0
    N, d, n = made.sequences.shape
    assert paper_parameters(size, d, n, N) == 4 * (size + d) + d * (2 * n * N + d)
    assert made.parameters == free_parameters(made.network) == paper_parameters(size, d, n, N)
    attention = made.network.stages[0]
    for W in (attention.W_K, attention.W_Q, attention.W_V):
        assert np.linalg.matrix_rank(W[0].numpy()) == 1
    assert (made.network.layers, made.network.heads) == (1, 1)
    assert attention.causal == (theorem is C6)


@BOTH
@given(st.integers(1, 6), st.integers(2, 3), st.integers(0, 1), st.integers(1, 2), st.integers(0, 10**6))
@settings(max_examples=50)
def test_memory_of_random_sequences(theorem, count: int, length: int, more: int, dim: int, seed: int) -> None:
    count = min(count, math.perm(length + more, length))  # no more exist
    try:
        made = theorem.build(sequences=count, length=length, vocabulary=length + more, dim=dim, seed=seed)
    except InvalidInput as error:  # said before anything is built: the ids are below float64's resolution
        assert "float64" in str(error)
        assume(False)
        return
    check(made)
    assert made.rounding is not None
    change(made, "stages.1.b_2", (0, 0), 2.0 * (made.bound + made.rounding))
    is_caught(made)


@BOTH
@pytest.mark.parametrize("scale", ["paper", "tight"])
@pytest.mark.parametrize(("words", "length"), [(3, 2), (4, 2), (4, 3)])
def test_memory_is_exact_in_ball_arithmetic_at_either_scale(theorem, scale: str, words: int, length: int) -> None:
    # At the paper's scale float64 cannot hold the ids (next test); balls can, and every label is met.
    rng = np.random.default_rng(5)
    tokens = 1.0 + np.arange(words) / words
    X = np.array([rng.permutation(tokens)[:length] for _ in range(4)])[:, None, :]
    faults = Faults("test")
    vocabulary = vocabulary_of(X, faults)
    assert vocabulary is not None
    head = rank_one(vocabulary, length, 1, scale, 0, faults)
    assert head is not None
    causal = theorem is C6
    labels = random_labels(vocabulary.index, 1, causal, 0)
    error, bits = exact_recall(head, X, labels, causal)
    assert error <= 1e-30
    assert bits > 150


def test_paper_scale_in_float64_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidInput, match="below what float64 resolves"):
        C4.build(sequences=3, length=2, vocabulary=3, scale="paper")
    check(C4.build(sequences=2, length=2, vocabulary=2, scale="paper"))  # the largest vocabulary that it holds


def test_labels_of_the_caller_are_met() -> None:
    X = np.array([[[1.0, 2.0]], [[2.0, 3.0]], [[3.0, 1.0]]])
    Y = np.array([[[0.5, -1.0]], [[2.0, 0.0]], [[7.0, 1.0]]])
    made = C4.build(data=X, labels=Y)
    np.testing.assert_allclose(made.network.evaluate(X), Y, atol=made.rounding or 0.0)
    causal = C6.build(data=X, labels=Y)
    np.testing.assert_allclose(causal.network.evaluate(X), Y, atol=causal.rounding or 0.0)


def test_causal_ids_do_not_see_what_follows() -> None:
    made = C6.build(sequences=3, length=3, vocabulary=4)
    X = made.sequences.copy()
    before = made.network.evaluate(X)
    X[:, :, -1] = 1.23
    np.testing.assert_array_equal(made.network.evaluate(X)[:, :, :-1], before[:, :, :-1])


@pytest.mark.parametrize(
    ("formula", "dim", "levels", "length"),
    [("sin(3*x) + m**2", 1, 3, 2), ("sin(3*x) + m**2", 1, 6, 2), ("x*m", 1, 5, 3), ("x1*m2, abs(x2 - m1)", 2, 2, 2)],
)
@pytest.mark.parametrize("p", [1, 2, 4])
def test_c5_over_a_grid_of_sizes(formula: str, dim: int, levels: int, length: int, p: int) -> None:
    made = C5.build(formula=formula, dim=dim, levels=levels, length=length, p=p)
    check(made, n=2000)
    centres = np.round(made.centres * 2.0**24) / 2.0**24
    gap = np.abs(made.network.evaluate(centres) - made.target(made.centres)).max()
    assert gap <= made.rounding  # on the grid, off the ramps, the values are those of the map
    assert [type(stage) for stage in made.network.stages] == [FeedForward, Attention, FeedForward]
    for W in (made.network.stages[1].W_K, made.network.stages[1].W_Q, made.network.stages[1].W_V):
        assert np.linalg.matrix_rank(W[0].numpy()) == 1


@given(
    st.tuples(*[st.floats(-2, 2).map(lambda a: round(a, 3))] * 3),
    st.integers(3, 5),
    st.sampled_from([1, 2]),
    st.integers(0, 10**6),
)
@settings(max_examples=50)
def test_c5_random_maps(numbers: tuple, levels: int, p: int, seed: int) -> None:
    a, b, c = (f"({x})" for x in numbers)
    made = C5.build(formula=f"{a}*sin(2*x + {b}*m) + {c}*abs(x - m)", levels=levels, p=p)
    check(made, seed=seed, n=2000)
    change(made, "stages.2.b_2", (0, 0), max(2.0 * made.bound, 1e-9))
    is_caught(made, seed=seed, n=2000)


def test_c5_is_permutation_equivariant() -> None:
    made = C5.build(levels=4, length=3, formula="exp(-x)*m")
    X = made.sample(np.random.default_rng(0), 50)
    order = [2, 0, 1]
    np.testing.assert_allclose(
        made.network.evaluate(X[:, :, order]), made.network.evaluate(X)[:, :, order], atol=2 * (made.rounding or 0.0)
    )


def test_balls_and_float64_agree_on_a_whole_network() -> None:
    made = C5.build(levels=4)
    X = made.sample(np.random.default_rng(2), 6)
    exact = np.array([[[float(b.mid()) for b in line] for line in exact_forward(made.network, x, 200)] for x in X])
    assert np.abs(exact - made.network.evaluate(X)).max() <= (made.rounding or 0.0)
    plain = TheoremNetwork("C5", [Linear([[2.0, 1.0]], [[0.5]])], (2, 3))
    assert [float(b) for b in exact_forward(plain, np.arange(6.0).reshape(2, 3), 80)[0]] == [3.5, 6.5, 9.5]


def test_c5_at_the_papers_scale_in_ball_arithmetic() -> None:
    faults = Faults("test")
    head = lattice_head(3, 1, 2, 1, "paper", faults)
    assert head is not None
    _, sequences, centres = grid_contexts(3, 1, 2, float(head.vocabulary.tokens[0, 0]))
    values = equivariant(C5.build(levels=3).expression, centres)
    error, _ = exact_recall(head, sequences, values)
    assert error <= 1e-30
