"""Damaged and hostile tables: every fault is one of our errors, names the file, and takes no memory to find."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwright.errors import FileFormatError, InvalidInput, SoftwrightError
from softwright.targets.table_files import open_csv, read_columns, write_csv


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def claim(shape: str, dtype: str = "'<f8'", data: bytes = b"") -> bytes:
    """An .npy file whose header says what it likes."""
    header = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def archive(path: Path, members: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", method) as made:
        for name, content in members:
            made.writestr(name, content)


def write_with_method_99(path: Path) -> None:
    archive(path, [("x.npy", npy(np.zeros(3)))], zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    content[8:10] = struct.pack("<H", 99)
    central = content.index(b"PK\x01\x02")
    content[central + 10 : central + 12] = struct.pack("<H", 99)
    path.write_bytes(content)


def write_encrypted(path: Path) -> None:
    archive(path, [("x.npy", npy(np.zeros(3)))], zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)


def write_damaged(path: Path) -> None:
    archive(path, [("x.npy", npy(np.random.default_rng(0).normal(size=4000)))])
    content = bytearray(path.read_bytes())
    content[200:400] = b"\xff" * 200
    path.write_bytes(content)


BAD_ARCHIVES: dict[str, Callable[[Path], Any]] = {
    "an .npy file": lambda path: path.write_bytes(npy(np.zeros(3))),
    "method 99": write_with_method_99,
    "encrypted": write_encrypted,
    "damaged": write_damaged,
    "claims 8 TB": lambda path: archive(path, [("x.npy", claim("(1000000000000,)"))]),
    "claims more than it holds": lambda path: archive(path, [("x.npy", claim("(10,)", data=bytes(8)))]),
    "holds more than it claims": lambda path: archive(path, [("x.npy", claim("(1,)", data=bytes(80)))]),
    "a negative length": lambda path: archive(path, [("x.npy", claim("(-5,)"))]),
    "a length that is none": lambda path: archive(path, [("x.npy", claim("('a',)"))]),
    "code for a header": lambda path: archive(path, [("x.npy", claim("__import__('os').system('id')"))]),
    "a nested header": lambda path: archive(path, [("x.npy", claim("(" * 5000))]),
    "an unknown type": lambda path: archive(path, [("x.npy", claim("(1,)", "'frob'"))]),
    "objects": lambda path: archive(path, [("x.npy", claim("(1,)", "'|O'", b"cos\nsystem\n"))]),
    "no header at all": lambda path: archive(path, [("x.npy", b"")]),
    "another version": lambda path: archive(path, [("x.npy", b"\x93NUMPY\x09\x00" + bytes(80))]),
}


@pytest.mark.parametrize("name", BAD_ARCHIVES)
def test_bad_archives(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.npz"
    BAD_ARCHIVES[name](path)
    with pytest.raises(FileFormatError, match=r"t\.npz"):
        read_columns(path, ["x"])


def test_a_name_that_stands_twice_means_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    with pytest.warns(UserWarning, match="Duplicate"):
        archive(path, [("x.npy", npy(np.zeros(3))), ("x.npy", npy(np.ones(3)))])
    with pytest.raises(InvalidInput, match="2 columns 'x'"):
        read_columns(path, ["x"])
    (tmp_path / "t.csv").write_text("x,x\n1,2\n")
    with pytest.raises(InvalidInput, match="2 columns 'x'"):
        read_columns(tmp_path / "t.csv", ["x"])


def test_a_bomb_is_weighed_before_it_goes_off(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made, made.open("x.npy", "w", force_zip64=True) as stream:
        stream.write(claim("(40000000,)", "'|b1'"))  # 40 MB of zeros, which would be 320 MB of numbers
        for _ in range(40):
            stream.write(bytes(1_000_000))
    assert path.stat().st_size < 1_000_000
    tracemalloc.start()
    with pytest.raises(FileFormatError, match="at most 256 MB are read"):
        read_columns(path, ["x"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


def test_honest_archives_are_read_in_every_type(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    for dtype in (">f8", "<f4", "float16", "uint8", "int64", "bool"):
        column = np.array([0, 1, 1, 0], dtype=dtype)
        np.savez_compressed(path, x=column)
        assert read_columns(path, ["x"])["x"].numbers.tolist() == column.astype(float).tolist()


def test_parquet(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    parquet.write_table(arrow.Table.from_arrays([arrow.array([1.0]), arrow.array([2.0])], ["x", "x"]), path)
    with pytest.raises(InvalidInput, match="2 columns 'x'"):
        read_columns(path, ["x"])
    parquet.write_table(arrow.table({"x": np.random.default_rng(0).normal(size=5000)}), path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[60:2000] = b"\xff" * 1940
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"t\.parquet"):
        read_columns(path, ["x"])
    zeros = arrow.repeat(arrow.scalar(False), 40_000_000)
    parquet.write_table(arrow.table({"x": zeros}), path, compression="zstd")
    assert path.stat().st_size < 1_000_000
    with pytest.raises(FileFormatError, match="at most 256 MB are read"):
        read_columns(path, ["x"])


@settings(max_examples=150)
@given(st.binary(max_size=300), st.sampled_from([".csv", ".npz", ".parquet"]))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes, ending: str) -> None:
    path = tmp_path_factory.mktemp("any") / f"t{ending}"
    path.write_bytes(content)
    try:
        read_columns(path, ["x"])
    except SoftwrightError as error:
        assert path.name in str(error)


@given(st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=2, max_size=2), max_size=5))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    write_csv(path, [["a", "b"], *rows])
    with open_csv(path) as found:
        assert found.header == ["a", "b"]
        assert [cells for _, cells in found] == rows
