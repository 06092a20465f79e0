"""Parquet files: damaged pages and footers, columns of odd types, columns that are there twice."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from hostility.folder import Folder
from hostility.mutations import garbled, text


def written(table: Any, **options: Any) -> bytes:
    made = io.BytesIO()
    pyarrow.parquet.write_table(table, made, **options)
    return made.getvalue()


class ParquetFiles:
    def prepare(self, folder: Folder) -> None:
        numbers = pyarrow.table({"x": np.arange(8.0), "y": np.arange(8.0) ** 2})
        texts = pyarrow.table({"x": [f"text {i}" for i in range(6)], "y": list(range(6))})
        self.valid = [
            written(numbers),
            written(texts),
            written(numbers, compression="zstd"),
            written(texts, version="1.0"),
        ]

    def content(self, rng: np.random.Generator) -> bytes:
        valid = self.valid[rng.integers(len(self.valid))]
        match rng.integers(4):
            case 0 | 1:
                return garbled(rng, valid)
            case 2:  # the footer alone, where sizes and types stand
                size = int.from_bytes(valid[-8:-4], "little")
                footer = garbled(rng, valid[-8 - size : -8])
                return valid[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
            case _:
                odd = [
                    pyarrow.array([[1], [2, 3]]), pyarrow.array([{"a": 1}, {"a": 2}]), pyarrow.array([b"\xff", b""]),
                    pyarrow.array([None, None]), pyarrow.array([True, None]),
                    pyarrow.array([text(rng)[:40].encode("utf-8", "surrogatepass"), b"1"]),
                    pyarrow.array([1, 2], pyarrow.timestamp("ns")), pyarrow.array([float("nan"), float("inf")]),
                ]  # fmt: skip
                pick = rng.integers(0, len(odd), 2)
                names = ["x", str(rng.choice(["y", "x", "", "z"]))]
                return written(pyarrow.Table.from_arrays([odd[i] for i in pick], names))

    def attack(self, rng: np.random.Generator, folder: Folder) -> str:
        path = folder.write("d.parquet", self.content(rng))
        match rng.integers(3):
            case 0:
                quick = ("--max-seconds", "0.3", "--tol", "1", "--no-certify")
                return folder.run("approximate", "--table", path, "--inputs", "x", "--outputs", "y", *quick)
            case 1:
                return folder.run("memorize", path, "--text", "x", "--label", "y", "--no-certify")
            case _:
                return folder.run(
                    "in-context", "ridge", "--data", path, "--target", "y", "--inputs", "x", "--no-certify"
                )
