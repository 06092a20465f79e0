"""The contract of `Head`: formula (0), its freedoms, and the changes of variable that builders rely on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwright.attention import Axis, Head, evaluate
from softwright.errors import InvalidInput
from tests.attention.random_heads import grid_of, heads, rounding_slack, unit_points


def formula(head: Head, t: np.ndarray) -> np.ndarray:
    """Formula (0) in extended precision, a token at a time: slow, and hard to get wrong."""
    keys, biases = head.keys.astype(np.longdouble), head.biases.astype(np.longdouble)
    out = np.zeros((len(t), head.outputs), dtype=np.longdouble)
    for q, point in enumerate(t.astype(np.longdouble)):
        scores = keys @ point + biases
        weights = np.exp(scores - scores.max())
        values = head.values.astype(np.longdouble)
        if head.slopes is not None:
            values = values + head.slopes.astype(np.longdouble) @ point
        out[q] = weights @ values / weights.sum()
    return out.astype(np.float64)


@given(heads())
def test_evaluation_is_formula_0(head: Head) -> None:
    t = unit_points(head.dim)
    assert np.abs(head(t) - formula(head, t)).max() <= rounding_slack(head)


@given(heads(grid=True))
def test_grid_evaluation_equals_dense_evaluation(head: Head) -> None:
    t = unit_points(head.dim)
    dense = Head(head.keys, head.biases, head.values, head.slopes)
    assert dense.structure == "scattered"
    assert np.abs(head(t) - dense(t)).max() <= rounding_slack(head)


@given(heads())
def test_weights_are_a_softmax(head: Head) -> None:
    weights = head.weights(unit_points(head.dim))
    assert weights.shape == (40, head.tokens)
    assert np.all(weights >= 0)
    assert np.abs(weights.sum(axis=1) - 1).max() <= 1e-14


@given(heads())
def test_centred_is_the_same_function_with_smaller_scores(head: Head) -> None:
    t = unit_points(head.dim)
    centred = head.centred()
    shift = float(np.abs(head.keys).max() + np.abs(head.biases).max()) * head.dim
    assert np.abs(centred(t) - head(t)).max() <= rounding_slack(head) * (1 + shift)
    assert centred.structure == head.structure
    assert np.abs(centred.keys.max(axis=0) + centred.keys.min(axis=0)).max() <= 1e-12 * (1 + shift)
    assert centred.biases.max() <= 1e-12 * (1 + shift)


@given(heads(), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_along_substitutes_an_affine_map(head: Head, new_dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    directions, offset = rng.normal(size=(head.dim, new_dim)), rng.normal(size=head.dim)
    s = unit_points(new_dim)
    t = s @ directions.T + offset
    moved = head.along(directions, offset)
    reach = 1 + float(np.abs(t).max()) + float(np.abs(directions).sum()) + float(np.abs(offset).max())
    assert np.abs(moved(s) - head(t)).max() <= 4 * head.dim * reach**2 * rounding_slack(head)
    assert moved.dim == new_dim


@given(heads(grid=True))
def test_along_the_identity_keeps_a_grid(head: Head) -> None:
    same = head.along(np.eye(head.dim))
    assert same.structure == "grid"
    assert np.array_equal(same(unit_points(head.dim)), head(unit_points(head.dim)))


@given(heads(), st.integers(0, 2**32 - 1))
def test_plus_affine_adds_exactly_that(head: Head, seed: int) -> None:
    rng = np.random.default_rng(seed)
    constant, gradient = rng.normal(size=head.outputs), rng.normal(size=(head.outputs, head.dim))
    t = unit_points(head.dim)
    slack = rounding_slack(head, shift=10.0)
    assert np.abs(head.plus_affine(constant)(t) - (head(t) + constant)).max() <= slack
    wanted = head(t) + constant + t @ gradient.T
    assert np.abs(head.plus_affine(constant, gradient)(t) - wanted).max() <= slack
    assert head.plus_affine(constant, np.zeros_like(gradient)).affine == head.affine


@given(heads(), st.integers(0, 2**32 - 1))
def test_scaled_by_a_number_or_by_output(head: Head, seed: int) -> None:
    factors = np.random.default_rng(seed).normal(size=head.outputs)
    t = unit_points(head.dim)
    slack = 4 * rounding_slack(head)
    assert np.abs(head.scaled(factors)(t) - head(t) * factors).max() <= slack * (1 + np.abs(factors).max())
    assert np.abs(head.scaled(-2.5)(t) + 2.5 * head(t)).max() <= 2.5 * slack
    assert head.scaled(2.0).structure == head.structure


@given(heads(), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_embedded_reads_only_its_positions(head: Head, extra: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dim = head.dim + extra
    positions = rng.permutation(dim)[: head.dim].tolist()
    t = unit_points(dim)
    wide = head.embedded(dim, positions)
    assert wide.dim == dim
    if positions == sorted(positions):
        assert wide.structure == head.structure
    assert wide.tokens == head.tokens
    assert np.abs(wide(t) - head(t[:, positions])).max() <= 2 * rounding_slack(head)


@given(heads())
def test_chunks_change_nothing(head: Head) -> None:
    t = unit_points(head.dim)
    assert np.abs(head(t, chunk_elements=1) - head(t)).max() <= rounding_slack(head)


def test_sums_of_heads() -> None:
    rng = np.random.default_rng(0)
    parts = [grid_of(rng, [3, 2], 2, affine, 1.0) for affine in (True, False)]
    t = unit_points(2)
    assert np.abs(evaluate(parts, t) - (parts[0](t) + parts[1](t))).max() <= 1e-14


def test_axis_weights() -> None:
    axis = Axis(np.array([0.0, np.log(3.0)]), np.zeros(2))
    assert axis.tokens == 2
    assert np.allclose(axis.weights(np.array([0.0, 1.0])), [[0.5, 0.5], [0.25, 0.75]], atol=1e-15)


def test_parameters_count_what_describes_the_head() -> None:
    rng = np.random.default_rng(0)
    # grid 3 x 4: keys and biases axis by axis, values once, slopes along one axis once more
    assert grid_of(rng, [3, 4], 2, False, 1.0).parameters == 2 * 7 + 24
    assert grid_of(rng, [3, 4], 2, True, 1.0).parameters == 2 * 7 + 24 + 24
    scattered = Head(np.zeros((5, 2)), np.zeros(5), np.zeros((5, 3)), np.ones((5, 3, 2)))
    assert scattered.parameters == 10 + 5 + 15 + 30


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((np.zeros(3), np.zeros(3), np.zeros((3, 1))), r"keys must be \(tokens, inputs\)"),
        ((np.zeros((0, 1)), np.zeros(0), np.zeros((0, 1))), "at least one token"),
        ((np.zeros((3, 1)), np.zeros(2), np.zeros((3, 1))), r"biases must be \(3,\)"),
        ((np.zeros((3, 1)), np.zeros(3), np.zeros(3)), r"values must be \(3, outputs\)"),
        ((np.zeros((3, 1)), np.zeros(3), np.zeros((3, 2)), np.zeros((3, 1, 1))), r"slopes must be \(3, 2, 1\)"),
        ((np.full((3, 1), np.nan), np.zeros(3), np.zeros((3, 1))), "keys hold NaN"),
        ((np.zeros((3, 1)), np.zeros(3), np.full((3, 1), np.inf)), "values hold NaN or infinite"),
        ((np.zeros((3, 1)), np.zeros(3), np.zeros((3, 1)), None, "grid", ()), "needs 1 axes"),
    ],
)
def test_faulty_heads_are_refused(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Head(*arguments)


def test_all_faults_of_a_head_are_listed() -> None:
    with pytest.raises(InvalidInput) as caught:
        Head(np.full((3, 1), np.nan), np.zeros(2), np.zeros(3))
    assert len(caught.value.faults) == 3
