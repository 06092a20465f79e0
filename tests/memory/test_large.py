"""Memories by shards: the same as in one piece, the gap of a sorted merge, repeated and contradicting sequences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softwright as sw
from softwright.memory.large.merge import _closest


def drawn(piece: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(piece[0])
    return rng.integers(0, 50, (piece[1], 6)), rng.integers(0, 4, piece[1])


def given(piece: tuple[Any, Any]) -> tuple[Any, Any]:
    return piece


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("spread", ["even", "crowded", "on a line"])
def test_the_gap_of_a_shard_is_that_of_all_pairs(dimensions: int, spread: str) -> None:
    rng = np.random.default_rng(dimensions)
    keys = rng.normal(size=(300, dimensions))
    if spread == "crowded":
        keys = np.concatenate([keys[:150], keys[:150] + 1e-6 * rng.normal(size=(150, dimensions))])
    if spread == "on a line":
        keys[:, 0] = 0.25
        keys[::2, 0] += 1e-9
    apart = np.sqrt(((keys[:, None] - keys[None]) ** 2).sum(axis=2))[np.triu_indices(300, 1)]
    for window in (0.3 * apart.min() + 1e-300, 3.0 * apart.min(), np.sort(apart)[50]):
        gap, left, right, found = _closest(keys, window, 0.9 * window)
        least = apart.min()
        assert gap <= least and gap >= min(least, window) * (1.0 - 1e-11)
        if dimensions > 1:
            assert len(left) == len(right) == np.count_nonzero(apart * (1.0 - 1e-12) < 0.9 * window)
            assert np.allclose(np.sort(found), np.sort(apart)[: len(found)])


def test_a_memory_by_shards_is_an_ordinary_memory(tmp_path: Path) -> None:
    pieces = [(number, 150) for number in range(4)]
    stored = sw.memorize_shards(pieces, tmp_path / "memory", read=drawn, rows=170, ask=600)
    assert stored.observed == {"error": 0.0, "point": [], "points": 600}
    sequences, labels = (np.concatenate(parts) for parts in zip(*map(drawn, pieces), strict=True))
    whole = sw.load(tmp_path / "memory")
    whole.save(tmp_path / "one.safetensors")
    assert sw.verify(tmp_path / "one.safetensors", progress=False).status == "VERIFIED"
    strangers = np.random.default_rng(9).integers(0, 60, (20, 6))
    for asked in (sequences, strangers):
        one, other = whole.network.recall(asked), stored.recall(asked)
        assert one.labels == other.labels and np.array_equal(one.known, other.known)
        assert np.array_equal(one.index, other.index) and np.allclose(one.distance, other.distance)
    assert stored.recall(sequences).labels == labels.tolist()
    dense = stored.recall(sequences[::40], engine="dense")
    assert dense.labels == labels[::40].tolist() and dense.weight.min() == 1.0
    assert stored.recall(strangers, unknown="abstain").labels == [None] * 20


def test_rows_of_different_lengths_texts_as_labels_and_sparse_tokens(tmp_path: Path) -> None:
    pieces = [([[7, -3], [10**12]], ["a", "b"]), ([[7], [-3, 7], []], ["b", "a", "c"])]
    stored = sw.memorize_shards(pieces, tmp_path / "memory", read=given)
    assert stored.recall([[7, -3], [10**12], [7], [-3, 7], []]).labels == ["a", "b", "b", "a", "c"]
    vectors = np.random.default_rng(0).normal(size=(30, 2, 3))
    values = np.random.default_rng(1).normal(size=(30, 2))
    parts = [(vectors[:10], values[:10]), (vectors[10:], values[10:])]
    stored = sw.memorize_shards(parts, tmp_path / "vectors", read=given, dtype="float32", rows=8)
    assert np.array_equal(stored.recall(vectors.astype(np.float32)).labels, values.astype(np.float32))


def test_repeated_sequences_are_stored_once_and_contradictions_named(tmp_path: Path) -> None:
    one, two = ([[1, 2], [3, 4], [1, 2]], [0, 1, 0]), ([[3, 4], [5, 6]], [1, 2])
    stored = sw.memorize_shards([one, two], tmp_path / "memory", read=given)
    assert len(stored) == 3 and stored.recall([[1, 2], [3, 4], [5, 6]]).labels == [0, 1, 2]
    with pytest.raises(sw.InvalidInput, match=r"row 1 of piece .* row 0 of piece .* labelled differently"):
        sw.memorize_shards([one, ([[3, 4]], [2])], tmp_path / "other", read=given)
    with pytest.raises(sw.InvalidInput, match="labelled differently"):
        sw.memorize_shards([one, ([[2, 1]], [2])], tmp_path / "other", read=given, positional=False)
    assert not (tmp_path / "other").exists()


def test_pieces_that_do_not_fit_are_named(tmp_path: Path) -> None:
    for pieces, said in (
        ([], "no pieces"),
        ([([[1]], [0, 1])], "one for each of the rows"),
        ([([[1]], [0]), ([[2]], [0.5])], "some pieces have real labels"),
        ([([[1]], [0]), (np.zeros((1, 1, 2)), [1])], "numbers in a token"),
        ([([[2**70]], [0])], "integers"),
        ([([[1]], [np.nan])], "not finite"),
    ):
        with pytest.raises(sw.InvalidInput, match=said):
            sw.memorize_shards(pieces, tmp_path / "memory", read=given)
    with pytest.raises(sw.FileFormatError, match=r"numpy\.savez"):
        sw.memorize_shards([str(tmp_path / "missing.npz")], tmp_path / "memory")
    assert list(tmp_path.iterdir()) == []
