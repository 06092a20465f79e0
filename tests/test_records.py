"""What is written down of long work: found again by the same question, refused by others, not believed if damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

import softwright as sw
from softwright.errors import FileNotWritten
from softwright.records import Record

QUESTION = {"weights": "abc", "claim": {"bound": 1e-3}, "version": "1"}


def test_pieces_are_found_again_by_the_same_question(tmp_path: Path) -> None:
    first = Record(tmp_path / "new" / "folder", QUESTION)
    assert first.get("one") is None
    first.put("one", b"\n\x00 content\n")
    again = Record(tmp_path / "new" / "folder", dict(reversed(QUESTION.items())))
    assert (again.get("one"), again.get("two"), again.kept, again.damaged) == (b"\n\x00 content\n", None, 1, 0)


def test_another_question_is_refused_and_told_what_differs(tmp_path: Path) -> None:
    Record(tmp_path, QUESTION)
    with pytest.raises(sw.InvalidInput, match=r"another question \(claim, weights differ\)"):
        Record(tmp_path, {**QUESTION, "weights": "abd", "claim": {"bound": 1e-4}})
    (tmp_path / "question.json").write_text("{")
    with pytest.raises(sw.FileFormatError, match="not readable"):
        Record(tmp_path, QUESTION)


def test_a_damaged_piece_is_not_there_and_a_foreign_one_is_refused(tmp_path: Path) -> None:
    ours, theirs = Record(tmp_path / "a", QUESTION), Record(tmp_path / "b", {**QUESTION, "version": "2"})
    ours.put("one", b"content")
    (place,) = (tmp_path / "a").glob("??/*.piece")
    sound = place.read_bytes()
    for damaged in (sound[:-1], sound + b"x", sound.replace(b"content", b"c0ntent"), b"", b"\xff\xfe", sound[:40]):
        place.write_bytes(damaged)
        assert ours.get("one") is None
    assert ours.damaged == 6
    theirs.put("one", b"content")
    (other,) = (tmp_path / "b").glob("??/*.piece")
    place.write_bytes(other.read_bytes())
    with pytest.raises(sw.InvalidInput, match="belongs to another question"):
        ours.get("one")


def test_a_piece_under_another_name_is_damaged(tmp_path: Path) -> None:
    record = Record(tmp_path, QUESTION)
    record.put("one", b"content")
    (place,) = tmp_path.glob("??/*.piece")
    record.put("two", b"other")
    (second,) = (path for path in tmp_path.glob("??/*.piece") if path != place)
    second.write_bytes(place.read_bytes())
    assert record.get("two") is None and record.get("one") == b"content"


def test_what_is_believed_must_lie_in_a_folder_of_ones_own(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(sw.InvalidInput, match="others can write"):
        Record(folder, QUESTION, private=True)
    folder.chmod(0o755)
    Record(folder, QUESTION, private=True).put("one", b"content")


def test_a_disk_that_is_full_costs_the_piece_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = Record(tmp_path, QUESTION)
    record.put("one", b"content")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(FileNotWritten, match="No space left"):
            record.put("two", b"content")
    assert record.get("one") == b"content" and record.get("two") is None
