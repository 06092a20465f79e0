"""Memories by shards: the same as in one piece, the gap of a sorted merge, repeated and contradicting sequences."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import softwright as sw
from softwright.checker.memory import spacing
from softwright.fileformat import read_model, weights_sha256, write_model
from softwright.memory.large import merge
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stored") / "memory"
    sw.memorize_shards([(number, 150) for number in range(4)], place, read=drawn, rank=2, rows=170, ask=0)
    return place


def forged(folder: Path, copy: Path, change: Callable[[list[dict[str, np.ndarray]], dict[str, Any]], None]) -> str:
    """What the checker says of a folder whose shards and index were changed and whose digests were all made again."""
    shutil.copytree(folder, copy)
    index = json.loads((copy / "index.json").read_text())
    names = [entry["name"] for entry in index["files"]]
    shards = [load_file(str(copy / name)) for name in names[1:]]
    change(shards, index)
    for entry, name, shard in zip(index["files"][1:], names[1:], shards, strict=True):
        save_file(shard, str(copy / name))
        entry["sha256"] = hashlib.sha256((copy / name).read_bytes()).hexdigest()
    file = read_model(copy / names[0])
    rows = {name: np.concatenate([shard[name] for shard in shards]) for name in index["tensors"]}
    file.sections["certificate"]["claim"]["subject"]["sha256"] = weights_sha256({**file.tensors, **rows})
    write_model(copy / names[0], file.tensors, file.sections)
    index["files"][0]["sha256"] = hashlib.sha256((copy / names[0]).read_bytes()).hexdigest()
    (copy / "index.json").write_text(json.dumps(index))
    return str(sw.verify(copy, progress=False))


def test_a_folder_is_proved_shard_by_shard(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spacing, "KEYS_AT_ONCE", 50)
    monkeypatch.setattr(spacing, "MOST_KEYS", 200)  # no more than that are in memory
    assert sw.verify(folder, progress=False).status == "VERIFIED"
    sw.load(folder).save(tmp_path / "other", rows=7)  # without ranges in its index
    assert sw.verify(tmp_path / "other", progress=False).status == "VERIFIED"

    def move(shards: list[dict[str, np.ndarray]], index: dict[str, Any]) -> None:
        """The last key of a shard stands next to the first of another one."""
        shards[0]["readout.keys"][-1] = shards[1]["readout.keys"][0] + [1e-9, 0.0]
        shards[0]["readout.halves"] = 0.5 * (shards[0]["readout.keys"] ** 2).sum(axis=1)
        index["files"][1]["to"] = float(shards[0]["readout.keys"][:, 0].max())

    assert "two keys are closer" in forged(folder, tmp_path / "moved", move)
    assert forged(folder, tmp_path / "same", lambda shards, index: None).startswith("VERIFIED")
    changes: dict[str, Callable[[list[dict[str, np.ndarray]], dict[str, Any]], Any]] = {
        "half square": lambda shards, index: shards[2]["readout.halves"].__imul__(1.001),
        "a class is not there": lambda shards, index: shards[2]["readout.values"].__iadd__(9),
        "the index says": lambda shards, index: shards.reverse(),
        "than those of its range": lambda shards, index: index["files"][2].update({"to": 9.0}),
        "the index says 9": lambda shards, index: index["files"][2].update({"rows": 9}),
        "as the index says": lambda shards, index: index["tensors"]["readout.keys"][0].__setitem__(0, 599),
        "in order": lambda shards, index: index["files"][1].update({"name": "../memory/keys-00000.safetensors"}),
        "unknown entry": lambda shards, index: index.update({"more": 1}),
        "a shard in the index is damaged": lambda shards, index: index["files"][1].update({"rows": True}),
    }
    for number, (said, change) in enumerate(changes.items()):
        verdict = forged(folder, tmp_path / str(number), change)
        assert verdict.startswith("NOT VERIFIED") and said in verdict, verdict


def test_a_folder_whose_files_were_changed_is_refused(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "memory"
    shutil.copytree(folder, place)
    one, two, index = (place / name for name in ("keys-00000.safetensors", "keys-00001.safetensors", "index.json"))
    said, first, second = index.read_text(), one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    assert "keys-00000.safetensors is not the one of the index" in str(sw.verify(place, progress=False))
    swapped = json.loads(said)
    entries = swapped["files"][1:3]
    swapped["files"][1:3] = [entries[1] | {"name": one.name}, entries[0] | {"name": two.name}]
    index.write_text(json.dumps(swapped))
    assert "SHA-256" in str(sw.verify(place, progress=False))  # that of the certificate
    one.write_bytes(first)
    two.unlink()
    index.write_text(said)
    assert "missing" in str(sw.verify(place, progress=False))
    index.write_text('{"schema": "softwright-memory-shards/1", "files": [3], "tensors": [], "rows": 1}')
    assert sw.verify(place, progress=False).status == "NOT VERIFIED"
    index.unlink()
    assert sw.verify(place, progress=False).status == "NOT VERIFIED"


def test_a_killed_client_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces, calls = [(number, 100) for number in range(4)], {"write_run": 0, "write_shard": 0}
    pieces.append((0, 100))  # the first piece again: all five shards are written twice
    limit = {"write_shard": 7}

    def counted(name: str) -> Callable[[Any, Any], Any]:
        function = getattr(merge, name)

        def work(shared: Any, item: Any) -> Any:
            calls[name] += 1
            if calls[name] > limit.get(name, 1000):
                raise KeyboardInterrupt
            return function(shared, item)

        return work

    whole = sw.memorize_shards(pieces, tmp_path / "whole", read=drawn, rows=110, ask=0)
    for name in calls:
        monkeypatch.setattr(merge, name, counted(name))
    asked: dict[str, Any] = {"read": drawn, "rows": 110, "ask": 0, "resume": tmp_path / "kept"}
    with pytest.raises(KeyboardInterrupt):
        sw.memorize_shards(pieces, tmp_path / "memory", **asked)
    done = dict(calls)
    assert done == {"write_run": 5, "write_shard": 8} and not (tmp_path / "memory").exists()
    (tmp_path / "kept" / "runs" / "keys-00000.safetensors").write_bytes(b"cut")
    limit["write_shard"] = 1000
    stored = sw.memorize_shards(pieces, tmp_path / "memory", **asked)
    assert calls == {"write_run": 5, "write_shard": 8 + 4}  # the one that was cut, and three that were not there
    assert len(stored) == len(whole) == 400 and not (tmp_path / "kept" / "runs").exists()
    for path in (tmp_path / "whole").glob("keys-*"):
        assert path.read_bytes() == (tmp_path / "memory" / path.name).read_bytes()
    with pytest.raises(sw.InvalidInput, match="seed differ"):
        sw.memorize_shards(pieces, tmp_path / "other", seed=1, **asked)


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
        ([([[1]], [0.5]), ([[2]], [1e308])], "scale them down"),
    ):
        with pytest.raises(sw.InvalidInput, match=said):
            sw.memorize_shards(pieces, tmp_path / "memory", read=given)
    with pytest.raises(sw.FileFormatError, match=r"numpy\.savez"):
        sw.memorize_shards([str(tmp_path / "missing.npz")], tmp_path / "memory")
    assert list(tmp_path.iterdir()) == []
