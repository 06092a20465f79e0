"""The file: exact bytes, a round trip, and clear words for every file that is not one of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import save_file

from softwright.errors import FileFormatError
from softwright.fileformat import DEEPEST_JSON, LARGEST_HEADER, READERS, SCHEMA, read_model, weights_sha256, write_model

TENSORS = {"keys": np.array([[1.5], [-2.0]]), "biases": np.array([0.25, 0.0])}
SECTIONS: dict[str, Any] = {"model": {"kind": "approximation"}, "plan": {"tokens": 2}, "observed": None}


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_model(path, TENSORS, SECTIONS)
    content = read_model(path)
    assert content.sections == {"model": {"kind": "approximation"}, "plan": {"tokens": 2}}
    assert set(content.tensors) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert content.tensors[name].dtype == tensor.dtype
        assert content.tensors[name].tobytes() == tensor.tobytes()
    assert content.weights_sha256 == weights_sha256(TENSORS)


def test_exact_bytes(tmp_path: Path) -> None:
    """The layout, byte for byte: header length, JSON header, then the numbers in little-endian order."""
    path = tmp_path / "m.safetensors"
    write_model(
        path, {"a": np.array([1.0, -2.0]), "b": np.array([3.0], dtype=np.float32)}, {"model": {"b": 1, "a": [2]}}
    )
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    assert header == {
        "__metadata__": {"softwright": "2", "model": '{"b": 1, "a": [2]}'},
        "a": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]},
        "b": {"dtype": "F32", "shape": [1], "data_offsets": [16, 20]},
    }
    assert content[8 + length :] == np.array([1.0, -2.0], "<f8").tobytes() + np.array([3.0], "<f4").tobytes()


def test_exact_digest() -> None:
    # Files and certificates out in the world carry this digest: it may never change.
    tensors = {"b": np.array([0.0, 1.0], dtype=np.float32), "a": np.array([[1.0], [2.5]])}
    assert weights_sha256(tensors) == "fc29467a6c274c02459d57e4a828df24c02f88fe399f3c53ede2e9fa999fad52"


def test_digest_sees_names_types_shapes_and_bits() -> None:
    base = {"a": np.array([0.0, 1.0])}
    others = [
        {"b": np.array([0.0, 1.0])},
        {"a": np.array([-0.0, 1.0])},
        {"a": np.array([[0.0, 1.0]])},
        {"a": np.array([0.0, 1.0], dtype=np.float32)},
        {"a": np.array([0.0, np.nextafter(1.0, 2.0)])},
    ]
    digests = {weights_sha256(tensors) for tensors in [base, *others]}
    assert len(digests) == 6
    assert weights_sha256({"a": np.array([0.0, 1.0], dtype=">f8")}) == weights_sha256(base)
    assert weights_sha256({"a": np.array([0.0, 9.0, 1.0])[::2]}) == weights_sha256(base)


@given(hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=4), elements=st.floats(width=64)))
def test_any_float64_survives(tmp_path_factory: pytest.TempPathFactory, array: np.ndarray) -> None:
    path = tmp_path_factory.mktemp("any") / "m.safetensors"
    write_model(path, {"a": array}, {"model": {}})
    assert read_model(path).tensors["a"].tobytes() == array.tobytes()


@pytest.mark.parametrize("keep", [0, 4, 8, 20, -1, -8])
def test_truncated_files_are_refused(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "m.safetensors"
    write_model(path, TENSORS, SECTIONS)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(FileFormatError, match="cut short"):
        read_model(path)


@pytest.mark.parametrize("content", [b"hello", b"\x80\x04pickle", b"\xff" * 64, b"PK\x03\x04" + bytes(60)])
def test_foreign_bytes_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="not a readable safetensors file"):
        read_model(path)


def _foreign(path: Path, metadata: dict[str, str] | None) -> Path:
    save_file({"a": np.zeros(2)}, str(path), metadata)
    return path


def test_a_safetensors_file_of_someone_else(tmp_path: Path) -> None:
    for metadata in (None, {"format": "pt"}):
        with pytest.raises(FileFormatError, match="not written by softwright"):
            read_model(_foreign(tmp_path / "other", metadata))


def test_an_unknown_schema_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"newer: file schema '99', this version reads .*; upgrade") as caught:
        read_model(_foreign(tmp_path / "newer", {"softwright": "99", "model": "{}"}))
    assert all(repr(version) in str(caught.value) for version in READERS)


def test_what_is_written_can_be_read() -> None:
    assert SCHEMA in READERS


def test_broken_sections(tmp_path: Path) -> None:
    for damaged in ("{", "[" * 100_000):
        with pytest.raises(FileFormatError, match="a: the section 'plan' is not valid JSON"):
            read_model(_foreign(tmp_path / "a", {"softwright": SCHEMA, "model": "{}", "plan": damaged}))
    with pytest.raises(FileFormatError, match="'model' is missing"):
        read_model(_foreign(tmp_path / "b", {"softwright": SCHEMA}))
    with pytest.raises(FileFormatError, match="'model' is missing"):
        read_model(_foreign(tmp_path / "c", {"softwright": SCHEMA, "model": "[1]"}))


def test_unknown_sections_are_refused(tmp_path: Path) -> None:
    for version in READERS:
        metadata = {"softwright": version, "model": "{}", "remark": "{}"}
        with pytest.raises(FileFormatError, match="unknown section 'remark'"):
            read_model(_foreign(tmp_path / "a", metadata))


def test_json_is_as_deep_as_allowed_and_no_deeper(tmp_path: Path) -> None:
    for depth, good in ((DEEPEST_JSON, True), (DEEPEST_JSON + 1, False)):
        path = _foreign(tmp_path / "a", {"softwright": SCHEMA, "model": "{}", "plan": "[" * depth + "]" * depth})
        if good:
            assert read_model(path).sections["plan"]
        else:
            with pytest.raises(FileFormatError, match="deep within each other"):
                read_model(path)


def test_headers_and_numbers_of_tensors_are_limited_on_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.safetensors"
    write_model(path, TENSORS, SECTIONS)
    with monkeypatch.context() as patch:
        patch.setattr("softwright.fileformat.MOST_TENSORS", 1)
        for act in (lambda: read_model(path), lambda: write_model(path, TENSORS, SECTIONS)):
            with pytest.raises(FileFormatError, match="tensors, more than 1"):
                act()
    monkeypatch.setattr("softwright.fileformat.LARGEST_HEADER", 40)
    for act in (lambda: read_model(path), lambda: write_model(path, TENSORS, SECTIONS)):
        with pytest.raises(FileFormatError, match=r"its header has .* bytes, more than 40"):
            act()


@pytest.mark.parametrize("size", [2**63, 2**31, LARGEST_HEADER + 8])
def test_a_header_that_is_said_to_be_larger_than_the_file_is_not_read(tmp_path: Path, size: int) -> None:
    path = tmp_path / "m"
    path.write_bytes(size.to_bytes(8, "little") + b"{" * 100)
    with pytest.raises(FileFormatError, match=f"a header of {size} bytes"):
        read_model(path)


def _with_offsets(path: Path, begin: int, end: int, size: int) -> Path:
    """A file of `size` bytes whose one tensor is said to lie from `begin` to `end`."""
    tensor = {"dtype": "F64", "shape": [(end - begin) // 8], "data_offsets": [begin, end]}
    header = json.dumps({"__metadata__": {"softwright": SCHEMA, "model": "{}"}, "a": tensor})
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(size))
    return path


@pytest.mark.parametrize(("begin", "end", "size"), [(0, 2**40, 16), (0, 24, 16), (8, 16, 16), (0, 8, 16), (8, 0, 16)])
def test_tensors_hold_what_the_file_holds(tmp_path: Path, begin: int, end: int, size: int) -> None:
    assert read_model(_with_offsets(tmp_path / "good", 0, 16, 16)).tensors["a"].shape == (2,)
    with pytest.raises(FileFormatError, match="not a readable safetensors file"):
        read_model(_with_offsets(tmp_path / "bad", begin, end, size))


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="no such file"):
        read_model(tmp_path / "absent")
    with pytest.raises(FileFormatError, match="is a folder; give a file in it"):
        read_model(tmp_path)
    with pytest.raises(FileFormatError, match="create it first"):
        write_model(tmp_path / "absent" / "m.safetensors", TENSORS, SECTIONS)


def test_what_json_cannot_hold_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_model(tmp_path / "m", TENSORS, {"model": {"x": float("nan")}})
    with pytest.raises(TypeError):
        write_model(tmp_path / "m", TENSORS, {"model": {"x": object()}})
    assert list(tmp_path.iterdir()) == []


def test_a_failing_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(OSError, match="No space"):
        write_model(tmp_path / "m.safetensors", TENSORS, SECTIONS)
    assert list(tmp_path.iterdir()) == []


def test_a_failing_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.safetensors"
    write_model(path, TENSORS, SECTIONS)
    before = path.read_bytes()

    def killed(handle: int) -> None:
        raise KeyboardInterrupt  # a killed process is no ordinary exception

    monkeypatch.setattr("softwright.fileformat.os.fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        write_model(path, {"a": np.zeros(1)}, SECTIONS)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.safetensors"]


def test_overwriting_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_model(path, TENSORS, SECTIONS)
    write_model(path, {"a": np.zeros(1)}, {"model": {"second": True}})
    assert read_model(path).sections["model"] == {"second": True}
    assert list(read_model(path).tensors) == ["a"]
