"""Layer 1 and the readouts of a memory: what runs is the formula, padding counts for nothing, engines agree."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from softwright.memory.codes import Alphabet, draw_head
from softwright.memory.context_head import ContextHead
from softwright.memory.nearest_keys import NearestKeys
from softwright.memory.readouts import ReluReadout, SoftmaxLookup
from softwright.memory.sequences import Packed, Reading
from softwright.memory.verb import memorize

READINGS = [
    Reading(p, m, c) for p in (True, False) for m, c in (("sequence", False), ("token", False), ("token", True))
]
NONE = np.zeros(0, dtype=np.int64)


def head(reading: Reading, rank: int = 3, places: str = "products", dtype: torch.dtype = torch.float64) -> ContextHead:
    return draw_head(Alphabet(20, NONE), 9, reading, rank, places, False, dtype, 0)


def rows(count: int, seed: int = 0) -> Packed:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 10, count)
    lengths[0] = 9
    return Packed(rng.integers(0, 20, (count, 9)), lengths)  # what stands in the padding is arbitrary


def by_hand(layer: ContextHead, tokens: np.ndarray) -> np.ndarray:
    """Ids of one sequence, straight from F(X) = X + W_O W_V X softmax((W_K X)^T W_Q X), columns for tokens."""
    e, n = layer.code_size, len(tokens)
    x = np.zeros((layer.W_Q.shape[1], n + 1))
    x[:e, 1:] = layer.codes.numpy()[tokens].T
    if len(layer.place_codes):
        x[:e, 1:] *= layer.place_codes.numpy()[:n].T
    x[e, 0] = float(layer.sentinel)
    x[e, 1:] = layer.log_weights.numpy()[:n]
    x[e + 1] = 1
    w_q, w_k, w_v, w_o = (w.numpy() for w in (layer.W_Q, layer.W_K, layer.W_V, layer.W_O))
    scores = (w_k @ x).T @ (w_q @ x)  # (keys, queries)
    if layer.reading.causal:
        scores[np.tril_indices(n + 1, -1)] = -np.inf
    weights = np.exp(scores) / np.exp(scores).sum(axis=0)
    ids = (layer.W_I.numpy() @ (x + w_o @ w_v @ x @ weights)).T
    return ids[:1] if layer.reading.mode == "sequence" else ids[1:]


@pytest.mark.parametrize("reading", READINGS, ids=str)
@pytest.mark.parametrize("places", ["weights", "products"])
def test_both_engines_are_the_formula(reading: Reading, places: str) -> None:
    layer, data = head(reading, places=places), rows(40)
    wanted = np.concatenate([by_hand(layer, data.content[i, : data.lengths[i]]) for i in range(len(data))])
    assert np.abs(layer.ids(data) - wanted).max() < 1e-14
    literal = layer(torch.from_numpy(data.content), torch.from_numpy(data.lengths)).numpy()
    literal = literal if reading.mode == "sequence" else literal[data.real()]
    assert np.abs(literal - wanted).max() < 1e-14


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("reading", READINGS, ids=str)
def test_padding_changes_no_bit(reading: Reading, dtype: torch.dtype) -> None:
    layer, data = head(reading, dtype=dtype), rows(30)
    other = Packed(np.where(data.real(), data.content, (data.content + 7) % 20), data.lengths)
    assert np.array_equal(layer.ids(data), layer.ids(other))
    one, two = (layer(torch.from_numpy(x.content), torch.from_numpy(x.lengths)) for x in (data, other))
    if reading.mode == "token":
        one, two = one[torch.from_numpy(data.real())], two[torch.from_numpy(data.real())]
    assert torch.equal(one, two)


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_ranks_are_those_of_the_theorem(rank: int) -> None:
    layer = head(Reading(), rank)
    found = [int(np.linalg.matrix_rank(w.numpy())) for w in (layer.W_Q, layer.W_K, layer.W_V)]
    assert found == [1, 1, rank]


def test_without_the_sentinel_repeats_would_be_equal() -> None:
    layer = head(Reading(positional=False))
    ids = layer.ids(Packed(np.array([[1, 2, 0, 0], [1, 2, 1, 2]]), np.array([2, 4])))
    assert np.abs(ids[0] - ids[1]).max() > 1e-3


def test_unknown_tokens_and_lengths_are_foreign() -> None:
    layer = head(Reading())
    data = Packed(np.array([[1, 2, 3], [1, 99, 3], [1, -1, 3], [1, 2, 99]]), np.array([3, 3, 3, 2]))
    assert layer.foreign(data).tolist() == [False, True, True, False]
    long = Packed(np.zeros((1, 12), dtype=np.int64), np.array([12]))
    assert layer.foreign(long).tolist() == [True]


def test_the_lookup_is_a_softmax_over_all_keys() -> None:
    rng = np.random.default_rng(3)
    keys, values = rng.normal(size=(50, 3)), rng.normal(size=(50, 2))
    layer = SoftmaxLookup(
        keys=torch.from_numpy(keys),
        halves=torch.from_numpy(0.5 * (keys**2).sum(axis=1)),
        values=torch.from_numpy(values),
        beta=torch.tensor(16.0, dtype=torch.float64),
    )
    ids = rng.normal(size=(30, 3))
    squares = ((ids[:, None] - keys) ** 2).sum(axis=2)
    weights = np.exp(-8 * squares)
    weights /= weights.sum(axis=1, keepdims=True)
    assert np.abs(layer(torch.from_numpy(ids)).numpy() - weights @ values).max() < 1e-13
    pruned = layer.pruned(ids, NearestKeys(keys))
    assert (np.abs(pruned["values"] - weights @ values).max(axis=1) <= 2 * 3.5 * pruned["mass"] + 1e-13).all()
    top, weight = layer.winners(torch.from_numpy(ids))
    assert np.array_equal(top, weights.argmax(axis=1))
    assert np.abs(weight - weights.max(axis=1)).max() < 1e-12


def test_the_relus_give_exactly_the_value_of_a_key_and_a_mean_between() -> None:
    keys = np.array([[0.0], [1.0], [3.0]])
    layer = ReluReadout(
        keys=torch.from_numpy(keys),
        slopes=torch.tensor([2.0, 1.0], dtype=torch.float64),
        offsets=torch.tensor([-0.5, -1.5], dtype=torch.float64),
        values=torch.tensor([[5.0], [7.0], [-1.0]], dtype=torch.float64),
    )
    ids = np.array([[-9.0], [0.0], [0.5], [1.0], [2.0], [3.0], [40.0]])
    assert layer(torch.from_numpy(ids))[:, 0].tolist() == [5.0, 5.0, 6.0, 7.0, 3.0, -1.0, -1.0]
    assert layer.pruned(ids, NearestKeys(keys))["values"][:, 0].tolist() == [5.0, 5.0, 6.0, 7.0, 3.0, -1.0, -1.0]


def test_the_search_finds_the_nearest_key_within_the_radius() -> None:
    rng = np.random.default_rng(1)
    keys, ids = rng.uniform(size=(200, 2)), rng.uniform(size=(300, 2))
    index, distance = NearestKeys(keys).within(ids, 0.04)
    all_distances = np.sqrt(((ids[:, None] - keys) ** 2).sum(axis=2))
    near = all_distances.min(axis=1) <= 0.04
    assert np.array_equal(index >= 0, near)
    assert np.array_equal(index[near], all_distances.argmin(axis=1)[near])
    assert np.allclose(distance[near], all_distances.min(axis=1)[near])


def test_recall_takes_the_tensors_that_were_memorised() -> None:
    rows = torch.tensor([[1, 2], [3, 4]])
    assert list(memorize(rows, ["a", "b"]).network.recall(rows).labels) == ["a", "b"]
