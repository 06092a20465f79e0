"""Packing sequences, reading labels, finding equal items and conflicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwright.errors import Faults, InvalidInput
from softwright.memory.conflicts import first_equals, items_of, list_conflicts
from softwright.memory.labels import Labels, classes_as_bytes, read_as, read_labels
from softwright.memory.sequences import Packed, Reading, pack
from softwright.memory.tokenizer import Bytes, HuggingFace, Whitespace, read_tokenizer, tokenizer_from


def packed(sequences: Any) -> Packed:
    faults = Faults("test")
    found = pack(sequences, faults)
    faults.raise_if_any()
    assert found is not None
    return found


ROWS = st.lists(st.lists(st.integers(0, 3), max_size=5), min_size=1, max_size=12)


@settings(max_examples=60)
@given(ROWS)
def test_packing_keeps_every_token(rows: list[list[int]]) -> None:
    found = packed(rows)
    assert [found.content[i, : found.lengths[i]].tolist() for i in range(len(rows))] == rows
    assert found.flat().tolist() == [token for row in rows for token in row]


def _key(row: list[int], place: int, reading: Reading) -> Any:
    context = row[: place + 1] if reading.causal else row
    if reading.positional:
        return (tuple(context), place)
    return (tuple(sorted(context)), row[place] if place >= 0 else None)


@settings(max_examples=80)
@given(ROWS, st.booleans(), st.sampled_from([("sequence", False), ("token", False), ("token", True)]))
def test_first_equals_agrees_with_a_dictionary(rows: list[list[int]], positional: bool, how: tuple[str, bool]) -> None:
    reading = Reading(positional, *how)
    data = packed(rows)
    items = items_of(data, reading)
    seen: dict[Any, int] = {}
    wanted = [
        seen.setdefault(_key(rows[row], place, reading), i)
        for i, (row, place) in enumerate(zip(items.rows.tolist(), items.own.tolist(), strict=True))
    ]
    assert first_equals(data, reading).tolist() == wanted


def test_equal_vectors_are_found_and_signed_zeros_are_equal() -> None:
    x = np.array([[[0.0, 1.0]], [[-0.0, 1.0]], [[1.0, 0.0]]])
    assert first_equals(packed(x), Reading()).tolist() == [0, 0, 2]


def test_conflicts_name_the_rows_and_the_remedy() -> None:
    data = packed([[1, 2], [2, 1], [1, 2], [3]])
    labels = read_labels(["a", "b", "c", "d"], data, "sequence", None, Faults("test"))
    assert labels is not None
    faults = Faults("test")
    reading = Reading(positional=False)
    list_conflicts(data, labels, reading, first_equals(data, reading), faults)
    assert len(faults.found) == 2
    assert "rows 0 and 1 are permutations" in faults.found[0]
    assert "positional=True" in faults.found[0]
    assert "rows 0 and 2 are the same" in faults.found[1]
    assert "'a' and 'c'" in faults.found[1]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("text", "a list of rows"),
        ([["a"]], "map tokens to integers"),
        ([[1.5]], "map tokens to integers"),
        ([[True]], "map tokens to integers"),
        ([1, 2], "not a row of tokens"),
        (np.zeros((2, 2)), "integer tokens"),
        (np.full((1, 1, 1), np.nan), "infinite or undefined"),
        ([np.zeros((2, 3)), np.zeros((2, 4))], "same number of real numbers"),
        ([[2**70]], "64 bits"),
    ],
)
def test_bad_sequences_are_refused(bad: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        packed(bad)


def labels_of(labels: Any, rows: Any, mode: str = "sequence", kind: str | None = None) -> Labels:
    faults = Faults("test")
    found = read_labels(labels, packed(rows), mode, kind, faults)
    faults.raise_if_any()
    assert found is not None
    return found


def test_labels_are_classes_or_values() -> None:
    rows = [[1], [2], [3]]
    assert labels_of(["x", "y", "x"], rows).classes == ["x", "y"]
    assert labels_of([3, 1, 3], rows).classes == [3, 1]
    assert labels_of([(1, 2), None, (1, 2)], rows).classes == [(1, 2), None]
    assert labels_of([0.5, 1.5, 2.5], rows).kind == "values"
    assert labels_of(np.ones((3, 4)), rows).values.shape == (3, 4)
    assert labels_of(np.array([1, 2, 1]), rows).classes == [1, 2]
    assert labels_of([1, 2, 1], rows, kind="values").values[:, 0].tolist() == [1.0, 2.0, 1.0]


def test_next_tokens() -> None:
    found = labels_of("next", [[5, 6, 7], [9]], "token")
    assert found.classes is not None
    assert [found.classes[int(i)] for i in found.values[:, 0]] == [6, 7, None, None]


@pytest.mark.parametrize(
    ("labels", "mode", "said"),
    [
        (["a"], "sequence", "2 sequences but 1 labels"),
        ([float("nan"), 1.0], "sequence", "not finite"),
        ([{}, {}], "sequence", "cannot be a class"),
        (["a", float("nan")], "sequence", "is nan"),
        ([["a"], ["b"]], "token", "one label per token"),
        ("next", "sequence", "mode='token'"),
    ],
)
def test_bad_labels_are_refused(labels: Any, mode: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        labels_of(labels, [[1, 2], [3]], mode)


def test_new_classes_come_after_the_old() -> None:
    found = read_as(["b", "z"], packed([[1], [2]]), "sequence", ["a", "b"], Faults("test"))
    assert found is not None
    assert found.classes == ["a", "b", "z"]
    assert found.values[:, 0].tolist() == [1.0, 2.0]


def test_classes_that_json_would_change_have_no_bytes() -> None:
    assert classes_as_bytes([(1, 2)]) == b""
    assert classes_as_bytes([float("inf")]) == b""
    assert classes_as_bytes([None, "é", 1]) != b""


def test_tokenizers_come_back_from_bytes() -> None:
    text = ["a new york taxi", "new words"]
    words = Whitespace().learn(text)
    again = tokenizer_from("whitespace", words.to_bytes())
    assert again is not None
    assert again.encode(["new york", "never seen"]) == words.encode(["new york", "never seen"]) == [[1, 2], [-1, -1]]
    assert [row.tolist() for row in Bytes().encode(["é"])] == [[195, 169]]
    with pytest.raises(InvalidInput, match="neither one of"):
        read_tokenizer("nothing.json")
    with pytest.raises(ValueError, match="not a tokenizers file"):
        HuggingFace(b"{}")


def test_a_file_of_the_tokenizers_package(tmp_path: Any) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = {"new": 0, "york": 1, "?": 2}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "?"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    path = tmp_path / "t.json"
    inner.save(str(path))
    found = read_tokenizer(path)
    assert found.encode(["york new town"]) == [[1, 0, 2]]
