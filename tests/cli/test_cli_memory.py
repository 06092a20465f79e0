"""`softwright memorize` and `softwright recall`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from softwright.cli import app, protect_formulas

ROWS = [("a new york taxi", "yellow"), ("london bus", "red"), ("bus london", "odd"), ("a, b", "x")]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, protect_formulas([str(argument) for argument in arguments]))


def content(result: Result) -> dict[str, Any]:
    return json.loads(result.stdout)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "d.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("words", "colour"), *ROWS])
    return path


def memory(table: Path, *more: str | Path) -> Path:
    path = table.parent / "m.safetensors"
    done = run("memorize", table, "--text", "words", "--label", "colour", "-o", path, *more)
    assert done.exit_code == 0, done.output
    return path


@pytest.mark.parametrize("more", [(), ("--tokenizer", "bytes"), ("--dtype", "float32"), ("--readout", "feedforward")])
def test_what_is_stored_is_recalled(table: Path, more: tuple[str, ...]) -> None:
    path = memory(table, *more)
    result = run("recall", path, *[text for text, _ in ROWS])
    assert result.stdout.split() == [label for _, label in ROWS]
    dense = run("recall", path, "london bus", "--engine", "dense", "--json")
    assert content(dense)["answers"][0]["label"] == "red"
    assert run("verify", path).exit_code == 0
    info = content(run("info", path, "--json"))
    assert info["kind"] == "memory"
    assert info["certificate"]["quantities"]["margin"] > 1


def test_texts_never_stored(table: Path) -> None:
    path = memory(table)
    assert "never stored" in run("recall", path, "london taxi").stdout
    answer = content(run("recall", path, "london taxi", "-x new", "--unknown", "nearest", "--json"))["answers"]
    assert [a["known"] for a in answer] == [False, False]
    assert answer[0]["label"] in {label for _, label in ROWS}
    assert answer[1]["text"] == "-x new"


def test_rows_of_a_file(table: Path, tmp_path: Path) -> None:
    path = memory(table)
    done = run("recall", path, "--from", table, "--text", "words", "-o", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    with (tmp_path / "out.csv").open() as file:
        assert [(row["text"], row["label"], row["known"]) for row in csv.DictReader(file)] == [
            (text, label, "True") for text, label in ROWS
        ]


def test_other_formats_and_real_labels(tmp_path: Path) -> None:
    lines = [json.dumps({"t": text, "v": i / 3}) for i, (text, _) in enumerate(ROWS)]
    (tmp_path / "d.jsonl").write_text("\n".join(lines))
    path = tmp_path / "m.safetensors"
    done = run("memorize", tmp_path / "d.jsonl", "--text", "t", "--label", "v", "--values", "-o", path, "--json")
    assert content(done)["ok"], done.output
    assert content(run("recall", path, "bus london", "--json"))["answers"][0]["label"] == 2 / 3
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"t": [text for text, _ in ROWS], "c": [label for _, label in ROWS]}
    parquet.write_table(arrow.table(columns), tmp_path / "d.parquet")
    assert run("memorize", tmp_path / "d.parquet", "--text", "t", "--label", "c", "-o", path).exit_code == 0
    assert run("recall", path, "a, b").stdout.strip() == "x"


def test_a_folder_of_shards(table: Path) -> None:
    path = table.parent / "shards"
    command = ["memorize", table, "--text", "words", "--label", "colour", "-o", path, "--shards", "2"]
    assert run(*command).exit_code == 0
    assert run("recall", path, "london bus").stdout.strip() == "red"
    again = run(*command)
    assert again.exit_code == 4
    assert "exists already" in again.output


def test_errors_have_their_exit_codes(table: Path, tmp_path: Path) -> None:
    missing = run("memorize", table, "--text", "word", "--label", "colour")
    assert missing.exit_code == 2
    assert "did you mean 'words'" in missing.output
    (tmp_path / "c.csv").write_text("t,l\na b,x\na b,y\n")
    clash = run("memorize", tmp_path / "c.csv", "--text", "t", "--label", "l")
    assert clash.exit_code == 2
    assert "rows 0 and 1 are the same" in clash.output
    (tmp_path / "r.csv").write_text("t,l\na b,x\nb\n")
    assert "line 3: no value in column 'l'" in run("memorize", tmp_path / "r.csv", "--text", "t", "--label", "l").output
    assert "not a number" in run("memorize", tmp_path / "c.csv", "--text", "t", "--label", "l", "--values").output
    (tmp_path / "huge.jsonl").write_text('{"t": "a", "l": 1' + "0" * 400 + "}\n", "utf-8")  # beyond all floats
    huge = run("memorize", tmp_path / "huge.jsonl", "--text", "t", "--label", "l", "--values")
    assert huge.exit_code == 2 and "not a number" in huge.output
    assert run("memorize", tmp_path / "none.csv", "--text", "t", "--label", "l").exit_code == 4
    assert run("memorize", tmp_path / "x.txt", "--text", "t", "--label", "l").exit_code == 2
    (tmp_path / "bad.jsonl").write_text("{")
    assert run("memorize", tmp_path / "bad.jsonl", "--text", "t", "--label", "l").exit_code == 4
    (tmp_path / "bad.parquet").write_text("{")
    assert run("memorize", tmp_path / "bad.parquet", "--text", "t", "--label", "l").exit_code == 4
    path = memory(table)
    assert run("recall", path).exit_code == 2
    assert run("recall", path, "x", "--unknown", "guess").exit_code == 2
    assert run("recall", tmp_path / "none.safetensors", "x").exit_code == 4
    path.write_bytes(path.read_bytes()[:-9])
    assert run("recall", path, "london bus").exit_code == 4
