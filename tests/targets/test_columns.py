"""Tables as people have them: missing cells, repeated rows, categories, dates, truths; frames and files alike."""

from __future__ import annotations

import datetime
import gzip
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softwright as sw
from softwright.errors import FileFormatError, InvalidInput
from softwright.targets import Table, table_files

COLUMNS: dict[str, list[Any]] = {
    "size": [1.0, 2.0, None, 4.0, 2.0],
    "day": [datetime.datetime(2024, 1, 1 + i) for i in (0, 1, 2, 3, 1)],
    "wet": [True, False, True, True, False],
    "kind": ["oak", "ash", "oak", "elm", "ash"],
    "y": [1.0, 2.0, 3.0, 4.0, 2.5],
}
INPUTS = ["size", "day", "wet", "kind"]
DAY = (datetime.date(2024, 1, 1) - datetime.date(1970, 1, 1)).days


def expected() -> tuple[list[list[float]], list[float]]:
    # one row has no size, two rows share their point: 2 and 2.5
    return [[1, DAY, 1, 0, 0, 1], [2, DAY + 1, 0, 1, 0, 0], [4, DAY + 3, 1, 0, 1, 0]], [1.0, 2.25, 4.0]


def frames() -> list[Any]:
    found: list[Any] = [COLUMNS]
    arrow = pytest.importorskip("pyarrow")
    found.append(arrow.table(COLUMNS))
    found.append(arrow.table({**COLUMNS, "kind": arrow.array(COLUMNS["kind"]).dictionary_encode()}))
    for name in ("pandas", "polars"):
        try:
            found.append(importlib.import_module(name).DataFrame(COLUMNS))
        except ImportError:
            continue
    return found


def test_frames_of_all_kinds_become_the_same_table() -> None:
    points, values = expected()
    for frame in frames():
        table = Table.from_frame(frame, INPUTS, ["y"])
        assert table.names == ("size", "day", "wet", "kind_ash", "kind_elm", "kind_oak")
        assert table.points.tolist() == points and table.values[:, 0].tolist() == values
        assert table.encode(frame)[[0, 1, 3]].tolist() == points
        assert "1 of 5 rows left out: a number is missing" in table.notes
        assert "1 point(s) have several values: the mean of their rows is taken" in table.notes
        assert "wet: false is 0, true is 1" in repr(table)


def test_files_become_the_same_table(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table(COLUMNS), tmp_path / "t.parquet")
    rows = zip(*COLUMNS.values(), strict=True)
    text = "\n".join(",".join("NA" if cell is None else str(cell) for cell in row) for row in rows)
    (tmp_path / "t.csv").write_text(",".join(COLUMNS) + "\n" + text + "\n")
    arrays = {name: np.array(column) for name, column in COLUMNS.items()}
    arrays["size"] = np.array(COLUMNS["size"], dtype=float)
    arrays["day"] = arrays["day"].astype("datetime64[s]")
    np.savez(tmp_path / "t.npz", allow_pickle=False, **arrays)
    points, values = expected()
    for name in ("t.parquet", "t.csv", "t.npz"):
        table = Table.load(tmp_path / name, INPUTS, ["y"])
        assert table.points.tolist() == points and table.values[:, 0].tolist() == values


def test_both_readers_of_csv_give_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(5)
    numbers = rng.normal(size=(400, 2)) * 10.0 ** rng.integers(-300, 300, (400, 2))
    odd = ["1e-320", "-0", "+3.5", " 7 ", "4.9406564584124654e-324", "0.1000000000000000055511151231257827"]
    lines = [f"{x!r},{y!r}" for x, y in numbers.tolist()] + [f"{x},{i}" for i, x in enumerate(odd)] + ["NA,1", "", "5,"]
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "\n".join(lines) + "\n")
    quick = table_files.read_columns(path, ["x", "y"])
    monkeypatch.setattr(table_files, "_csv_by_arrow", lambda *arguments: None)
    slow = table_files.read_columns(path, ["x", "y"])
    for name in ("x", "y"):
        assert quick[name].numbers.tobytes() == slow[name].numbers.tobytes()


def test_policies_can_be_refusals_and_are_checked() -> None:
    with pytest.raises(InvalidInput, match="give missing='drop'"):
        Table([0.0, 1.0, np.nan], [1.0, 2.0, 3.0], missing="refuse")
    with pytest.raises(InvalidInput, match="give repeated='mean'"):
        Table([0.0, 1.0, 0.0], [1.0, 2.0, 3.0], repeated="refuse")
    assert Table([0.0, 1.0, 0.0], [1.0, 2.0, 3.0], repeated="first").values[:, 0].tolist() == [1.0, 2.0]
    with pytest.raises(InvalidInput, match="missing='ignore' is not known"):
        Table([0.0, 1.0], [1.0, 2.0], missing="ignore")
    spread = Table([0.0, 1.0, 0.0, 1.0], [1.0, 2.0, 3.0, 2.0]).spread
    assert spread is not None and spread[0] == pytest.approx(1.0)  # sqrt((1 + 1 + 0 + 0) / 2)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (np.array([1.0, 2.0, "three"], dtype=object), "mixes numbers"),
        (["1", "2", "three"], "row 2, column x: 'three' is not a number"),
        ([f"name {i}" for i in range(80)], "80 different texts"),
        ([1.0, np.inf, 2.0], "the value is infinite"),
        ([[1.0, 2.0], [3.0, 4.0]], "one value a row"),
        (np.array([2**60, 2**60 + 1]), "row 1, column x: 1152921504606846977 has more digits than float64 holds"),
        (["1152921504606846977", "2"], "row 0, column x: 1152921504606846977 has more digits"),
        (np.array([2**60 + 1, None], dtype=object), "row 0, column x: 1152921504606846977 has more digits"),
        (["0" * 5000 + "1152921504606846977", "2"], "row 0, column x: 1152921504606846977 has more digits"),
        (["9" * 5000, "2"], "the value is infinite"),
        (["2026-01-01T10:00", "2026-01-02T10:00Z"], "row 0, column x: a time without a zone, where row 1 has one"),
        (np.array([complex(1), None, 2j], dtype=object), "row 0, column 'x': a value is a complex"),
    ],
)
def test_columns_that_are_refused(column: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Table.from_frame({"x": column, "y": np.arange(len(column))}, ["x"], ["y"])


def test_masked_cells_are_missing() -> None:
    masked = np.ma.masked_array(np.arange(6.0), mask=np.arange(6) == 2)
    by_rows, by_name = Table(masked, np.arange(6.0)), Table.from_frame({"x": masked, "y": np.arange(6)}, ["x"], ["y"])
    assert len(by_rows.points) == len(by_name.points) == 5


def test_the_plan_says_what_was_done_to_the_rows() -> None:
    x = np.linspace(0, 1, 30)
    built = sw.approximate(Table(np.append(x, np.nan), np.append(np.sin(x), 0.0)), tol=1e-3)
    assert any("1 of 31 rows left out" in reason for reason in built.plan.reasons)


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        (["1,5", "2,5", "3,1"], "line 2, column x: '1,5' looks like a number"),
        (["1/31/2026", "2/1/2026", "2/2/2026"], "line 2, column x: '1/31/2026' looks like a number or a date"),
        (["2026-01-31", "late", "later"], "line 2, column x: '2026-01-31' is a date among texts"),
        (["0x10", "0x20", "1_000"], "line 2, column x: '0x10' looks like a number"),
        (["1", "inf", "3"], "line 3, column x: the value is infinite"),
        (["1", '2;9;7', "3"], "line 3: 4 cells under 2 columns, the first one too many is '7'"),
    ],
)  # fmt: skip
def test_cells_that_mean_something_else_are_named(cells: list[str], fault: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x;y\n" + "".join(f"{cell};{k}\n" for k, cell in enumerate(cells)))
    with pytest.raises(InvalidInput) as refused:
        Table.load(path, ["x"], ["y"])
    assert refused.value.faults[0].startswith(fault)


def test_a_column_of_lists_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'x' is no column of single values"):
        Table.from_frame({"x": [1.0, [2.0, 3.0], 4.0], "y": [1.0, 2.0, 3.0]}, ["x"], ["y"])


def test_names_that_no_variable_may_have_are_changed_and_told(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("T [K],T (K),1st,pi,\u03bb,v\n" + "".join(f"{k},{k * k},{k**3},{-k},{3**k},1\n" for k in range(6)))
    wanted = ["T [K]", "T (K)", "1st", "pi", "\u03bb"]
    table = Table.load(path, wanted, ["v"])
    assert table.names == ("T_K", "T_K_2", "x_1st", "pi_", "x5")
    assert table.notes[:2] == ("column 'T [K]' is called T_K", "column 'T (K)' is called T_K_2")
    assert table.encode(dict.fromkeys(wanted, 1.0)).tolist() == [[1.0] * 5]
    path.write_text("T [K],v\n1,2\n,3\n")
    with pytest.raises(InvalidInput, match=r"line 3 column T \[K\] is nan"):
        Table.load(path, ["T [K]"], ["v"], missing="refuse")


@pytest.mark.parametrize("quick", [True, False])
def test_a_quote_that_is_not_closed_is_named_where_it_opens(
    quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.csv"
    if not quick:
        monkeypatch.setattr(table_files, "_csv_by_arrow", lambda *arguments: None)
    begins = 'x,v,note\n1,2,"two\nlines"\n\n'  # lines 1 to 4
    for text, line in (
        (begins + '2,3,"b\n3,4,c\n', 5),
        (begins + '2,"3\n', 5),
        (begins + '2,3,b\n"3,4,c', 6),
        ('x,"v\n1,2\n', 1),
        (begins + '2,3,"b\n' + "3,4,some text\n" * 12_000, 5),  # beyond what a cell may hold
    ):
        path.write_text(text)
        with pytest.raises(FileFormatError, match=rf"t\.csv: line {line}: a quote opens .*; close it in that line"):
            Table.load(path, ["x"], ["v"])


def test_text_files_of_other_kinds(tmp_path: Path) -> None:
    text = "x\tv\n1\t2\n2\t4\n"
    for name, content in (
        ("t.tsv", text.encode()),
        ("t.txt", text.encode()),
        ("t.csv.gz", gzip.compress(text.replace("\t", ",").encode())),
    ):
        (tmp_path / name).write_bytes(content)
        assert Table.load(tmp_path / name, ["x"], ["v"]).points[:, 0].tolist() == [1.0, 2.0]
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode())[:20])
    with pytest.raises(FileFormatError, match=r"t\.csv\.gz is not a gzip file"):
        Table.load(tmp_path / "t.csv.gz", ["x"], ["v"])
    (tmp_path / "t.csv").write_text("x;v\n1,5;2\n2,5;4\n")
    with pytest.raises(InvalidInput, match=r"line 2, column x: '1,5' .* give decimal=','"):
        Table.load(tmp_path / "t.csv", ["x"], ["v"])
    assert Table.load(tmp_path / "t.csv", ["x"], ["v"], decimal=",").points[:, 0].tolist() == [1.5, 2.5]
    with pytest.raises(InvalidInput, match=r"from_frame\(pandas.read_excel\('t.xlsx'\), \['x'\], \['v'\]\)"):
        Table.load(tmp_path / "t.xlsx", ["x"], ["v"])


def test_coordinates_that_scaling_makes_equal_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"x: 3.0 and 4.0 are the same to float64 .* give the logarithm of x"):
        Table([3.0, 4.0, 1e19], [1.0, 2.0, 3.0])
