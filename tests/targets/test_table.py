"""Tables: grids and scattered points, files, and everything that can be wrong with them."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softwright.errors import FileFormatError, InvalidInput
from softwright.targets import Table
from softwright.targets import table_files as files

AXES = (np.linspace(-1, 1, 5), np.array([0.0, 0.5, 2.0]))
GRID = np.array(list(itertools.product(*AXES)))


def bilinear(points: np.ndarray) -> np.ndarray:
    x, y = points.T
    return np.stack([1 + 2 * x - y + 3 * x * y, x], axis=1)


def test_shuffled_grid_points_are_recognised() -> None:
    order = np.random.default_rng(0).permutation(len(GRID))
    table = Table(GRID[order], bilinear(GRID[order]), names=["x", "y"])
    assert table.axes is not None
    assert all(np.array_equal(a, b) for a, b in zip(table.axes, AXES, strict=True))
    assert np.array_equal(table.points, GRID)
    assert np.array_equal(table.values, bilinear(GRID))
    assert table.box.as_dict() == {"x": [-1.0, 1.0], "y": [0.0, 2.0]}
    assert table.describe()["grid"] == [5, 3]


def test_grid_values_are_exact_at_points_and_multilinear_between() -> None:
    table = Table.grid(AXES, bilinear(GRID).reshape(5, 3, 2))
    assert table.names == ("x1", "x2")
    assert np.array_equal(table(GRID), bilinear(GRID))
    between = table.box.sample(50)
    cell_bilinear = bilinear(between)  # the function is bilinear, so interpolation reproduces it
    assert np.allclose(table(between), cell_bilinear)
    outside = np.array([[5.0, 1.0]])
    assert np.allclose(table(outside), bilinear(np.array([[1.0, 1.0]])))


def test_one_dimension_is_always_a_grid() -> None:
    table = Table([3.0, 1.0, 2.0], [9.0, 1.0, 4.0])
    assert table.axes is not None
    assert table.axes[0].tolist() == [1, 2, 3]
    assert table(np.array([[1.5], [3.0], [7.0]])).tolist() == [[2.5], [9.0], [9.0]]


def test_scattered_points() -> None:
    generator = np.random.default_rng(0)
    points = generator.uniform(-1, 1, (40, 2))
    table = Table(points, points @ [1.0, 2.0] + 3)
    assert table.axes is None
    assert np.array_equal(table(points), table.values)
    inside = generator.uniform(-0.3, 0.3, (20, 2))
    assert np.allclose(table(inside)[:, 0], inside @ [1.0, 2.0] + 3)
    far = np.array([[9.0, 9.0]])
    assert table(far)[0] in table.values
    assert table(np.empty((0, 2))).shape == (0, 1)


def test_many_dimensions_take_the_nearest_point() -> None:
    points = np.random.default_rng(0).uniform(-1, 1, (30, 5))
    table = Table(points, np.arange(30))
    assert np.array_equal(table(points + 1e-9)[:, 0], np.arange(30))


def test_agreeing_duplicates_are_merged() -> None:
    table = Table([0.0, 1.0, -0.0], [5.0, 6.0, 5.0])
    assert len(table.points) == 2


def faults_of(*arguments: Any, **options: Any) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        Table(*arguments, **options)
    return caught.value.faults


def test_faults_are_listed_together() -> None:
    points, values = GRID.copy(), bilinear(GRID)
    points[3, 1] = np.nan
    values[[1, 2, 4, 5, 6, 7], 0] = np.inf
    faults = faults_of(points, values[:-1], names=["x", "x"], missing="refuse")
    assert any("15 points but 14 values" in fault for fault in faults)
    assert any("row 3 column 1 is nan" in fault for fault in faults)
    assert any("row 1 column 0 is inf" in fault and "and 1 more" in fault for fault in faults)
    assert any("repeat" in fault for fault in faults)


@pytest.mark.parametrize(
    ("points", "values", "message"),
    [
        ([0.0, 1.0, 0.0], [1.0, 2.0, 3.0], "row 0 and row 2 give different values at x=0"),
        ([1.0], [1.0], "1 distinct points"),
        ([[0, 0], [1, 0], [2, 0]], [1, 2, 3], "x2 is the same at every point"),
        ([[0, 0], [1, 1], [2, 2]], [1, 2, 3], "on a line or plane"),
        (["a", "b"], [1, 2], "not real numbers"),
        ([0, 1], [1j, 2], "not real numbers"),
        (np.zeros((2, 2, 2)), [1, 2], "have shape"),
        ([[0, 1], [2]], [1, 2], "not real numbers"),
    ],
)
def test_faults(points: Any, values: Any, message: str) -> None:
    assert any(message in fault for fault in faults_of(points, values, repeated="refuse"))


def test_grid_faults() -> None:
    with pytest.raises(InvalidInput) as caught:
        Table.grid([[0, 2, 1], [1], [0, np.nan]], np.zeros((3, 1, 2)))
    assert len(caught.value.faults) == 3
    assert "axis 0 does not increase at 2, 1; sort it" in caught.value.faults[0]
    with pytest.raises(InvalidInput, match=r"need \(2, 2\)"):
        Table.grid([[0, 1], [0, 1]], np.zeros((2, 3)))


# Files ------------------------------------------------------------------------------------------------------------

COLUMNS = {"time": GRID[:, 0], "load": GRID[:, 1], "out": bilinear(GRID)[:, 0], "more": bilinear(GRID)[:, 1]}


def write_csv(path: Path, delimiter: str = ",") -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(COLUMNS)
        writer.writerows(zip(*(column.tolist() for column in COLUMNS.values()), strict=True))


def write_npz(path: Path) -> None:
    np.savez(path, **COLUMNS)  # type: ignore[arg-type]


def write_parquet(path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table(COLUMNS), path)


@pytest.mark.parametrize(("name", "write"), [("t.csv", write_csv), ("t.npz", write_npz), ("t.parquet", write_parquet)])
def test_load_round_trip(tmp_path: Path, name: str, write: Any) -> None:
    write(tmp_path / name)
    table = Table.load(tmp_path / name, inputs=["time", "load"], outputs=["out", "more"])
    assert table.names == ("time", "load")
    assert np.array_equal(table.points, GRID)
    assert np.array_equal(table.values, bilinear(GRID))
    with pytest.raises(InvalidInput, match="did you mean 'time'"):
        Table.load(tmp_path / name, inputs=["tine"], outputs=["out"])


def test_semicolons_and_names(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", delimiter=";")
    assert Table.load(tmp_path / "t.csv", ["load", "time"], "out", names=["a", "b"]).names == ("a", "b")


def test_csv_faults_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("x,y\n1,2\n2,abc\n\n3\n4,1_000\n5,nan\n")
    with pytest.raises(InvalidInput) as caught:
        Table.load(path, ["x"], ["y"])
    assert [fault.split(";")[0] for fault in caught.value.faults] == [
        "line 3, column y: 'abc' is not a number",
        "line 6, column y: '1_000' is not a number",
        "line 5, column y: the line ends before it, after 1 cell(s)",
    ]
    path.write_text("x,y\n" + "a,b\n" * 10)
    with pytest.raises(InvalidInput, match="5 more cells of column y"):
        Table.load(path, ["x"], ["y"])
    path.write_text("x,y\n1,2\n2,nan\n")
    with pytest.raises(InvalidInput, match="line 3 column y is nan"):
        Table.load(path, ["x"], ["y"], missing="refuse")
    with pytest.raises(InvalidInput, match=r"line 1: there is no column 'z'; .* name one of them, or add it"):
        Table.load(path, ["x"], ["z"])
    for text in ("", "x,y\n"):
        path.write_text(text)
        with pytest.raises(InvalidInput, match=r"empty|no rows"):
            Table.load(path, ["x"], ["y"])
    path.write_bytes(b"x,y\n\xff\xfe,1\n")
    with pytest.raises(FileFormatError, match="line 2, character 1 is the byte 0xff, which is no UTF-8"):
        Table.load(path, ["x"], ["y"])


def test_npz_faults(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, x=np.zeros(3), y=np.zeros(4), z=np.zeros((3, 2)), t=np.array(["a"]))
    with pytest.raises(InvalidInput, match="different lengths"):
        Table.load(path, ["x"], ["y"])
    with pytest.raises(InvalidInput, match="2 faults"):
        Table.load(path, ["z"], ["t"])
    np.savez(path, x=np.array([object()], dtype=object), y=np.zeros(1))
    with pytest.raises(FileFormatError, match="plain arrays"):
        Table.load(path, ["x"], ["y"])
    path.write_bytes(b"not a zip file")
    with pytest.raises(FileFormatError, match="plain arrays"):
        Table.load(path, ["x"], ["y"])


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_module(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(files, "import_module", no_module)
    path = tmp_path / "t.parquet"
    path.write_bytes(b"")
    with pytest.raises(InvalidInput, match=r"softwright\[table\]"):
        Table.load(path, ["x"], ["y"])


def test_load_faults(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="are not read"):
        Table.load(tmp_path / "t.xls", ["x"], ["y"])
    with pytest.raises(InvalidInput, match="there is no file"):
        Table.load(tmp_path / "t.csv", ["x"], ["y"])
    with pytest.raises(InvalidInput) as caught:
        Table.load(tmp_path / "t.csv", [], [])
    assert len(caught.value.faults) == 2
    with pytest.raises(InvalidInput, match="named twice"):
        Table.load(tmp_path / "t.csv", ["x"], ["x"])
