"""Files made to break a command: it ends with a message that names the file, and with exit code 2 or 4; no traceback.

The cases are those by which commands once ended in a traceback, or with the exit code of a failed check.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from typer.testing import CliRunner, Result

from softwright.cli import app, protect_formulas
from softwright.cli.exits import BAD_INPUT, FILE_ERROR


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, protect_formulas([str(argument) for argument in arguments]))


def refused(result: Result, *codes: int) -> str:
    """The message of a command that ended as it should."""
    assert result.exit_code in (codes or (BAD_INPUT, FILE_ERROR)), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.stderr.startswith("error: ") and "Traceback" not in result.output
    return result.stderr


DEEP = "[" * 200_000
TEXTS: dict[str, bytes] = {
    "deep": f'{{"t": {DEEP}'.encode(),
    "not an object": b"[1, 2]\n",
    "cut short": b'{"t": "a", "l"',
    "a huge number": b'{"t": "a", "l": ' + b"9" * 10_000 + b"}\n",
    "no text": b'{"t": "\xff\xfe", "l": 1}\n',
    "no such column": b'{"x": 1}\n',
    "a list for a label": b'{"t": "a", "l": [1]}\n',
    "an object for a label": b'{"t": "a", "l": {"b": 1}}\n',
    "nothing": b"",
}


@pytest.mark.parametrize("name", TEXTS)
def test_lines_of_json(tmp_path: Path, name: str) -> None:
    (tmp_path / "d.jsonl").write_bytes(TEXTS[name])
    refused(run("memorize", tmp_path / "d.jsonl", "--text", "t", "--label", "l"))


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    for content in (b"t,l\n" + b'"' + b"a" * 200_000 + b'",1\n', b"t,l\n\xff,1\n", b"", b"t\na\n", b"t,l\na\n"):
        path.write_bytes(content)
        assert "d.csv" in refused(run("memorize", path, "--text", "t", "--label", "l"))
    path.write_bytes(b"t,t,l\na,b,1\n")
    assert "2 columns 't'" in refused(run("memorize", path, "--text", "t", "--label", "l"))
    refused(run("memorize", tmp_path, "--text", "t", "--label", "l"))


def test_parquet(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "d.parquet"
    parquet.write_table(arrow.Table.from_arrays([arrow.array(["a"]), arrow.array(["b"])], ["t", "t"]), path)
    refused(run("memorize", path, "--text", "t", "--label", "t"), BAD_INPUT)
    rng = np.random.default_rng(0)
    texts = ["".join(map(chr, rng.integers(97, 123, 20))) for _ in range(2000)]
    parquet.write_table(arrow.table({"t": texts, "l": texts}), path)
    content = bytearray(path.read_bytes())
    content[100:5000] = b"\xff" * 4900
    path.write_bytes(content)
    assert "d.parquet" in refused(run("memorize", path, "--text", "t", "--label", "l"), FILE_ERROR)
    same = arrow.repeat(arrow.scalar("a"), 6_000_000).dictionary_encode()
    parquet.write_table(arrow.table({"t": same, "l": same}), path)
    assert "MB are read" in refused(run("memorize", path, "--text", "t", "--label", "l"), FILE_ERROR)


def test_archives_behind_commands(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.zeros(3))
    path = (tmp_path / "t.npy").rename(tmp_path / "t.npz")
    refused(run("approximate", "--table", path, "--inputs", "x", "--outputs", "y"), FILE_ERROR)
    refused(run("in-context", "ridge", "--data", path, "--target", "y", "--inputs", "x"), FILE_ERROR)


def test_tokenizers(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    (tmp_path / "d.csv").write_text("t,l\nnew words,1\n")
    vocabulary = {"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "[UNK]"}}
    for content in ("{", "[]", DEEP, json.dumps(vocabulary), "\x00"):
        (tmp_path / "t.json").write_text(content)
        command = ["memorize", tmp_path / "d.csv", "--text", "t", "--label", "l", "--tokenizer", tmp_path / "t.json"]
        refused(run(*command), FILE_ERROR)


MODELS: dict[str, dict[str, str]] = {
    "deep": {"softwright": "1", "model": DEEP},
    "deep plan": {"softwright": "1", "model": '{"kind": "approximation"}', "plan": DEEP},
    "no kind": {"softwright": "1", "model": "{}"},
    "a foreign kind": {"softwright": "1", "model": '{"kind": "frob"}', "plan": "{}"},
    "a list for a kind": {"softwright": "1", "model": '{"kind": []}', "plan": "{}"},
    "an empty plan": {"softwright": "1", "model": '{"kind": "memory"}', "plan": "[]"},
}


@pytest.mark.parametrize("command", ["info", "evaluate", "recall", "export"])
@pytest.mark.parametrize("name", MODELS)
def test_model_files(tmp_path: Path, command: str, name: str) -> None:
    path = tmp_path / "m.safetensors"
    save_file({"a": np.zeros(2)}, str(path), MODELS[name])
    more: dict[str, list[str | Path]] = {"evaluate": ["x=1"], "recall": ["a"], "export": ["-o", tmp_path / "e.npz"]}
    assert "m.safetensors" in refused(run(command, path, *more.get(command, [])))


@pytest.mark.parametrize("spoil", [{"files": 1}, {"tensors": {"readout.keys": [[10**12, 1], "float64"]}}, {"rows": []}])
def test_folders_of_shards(tmp_path: Path, spoil: dict[str, Any]) -> None:
    (tmp_path / "d.csv").write_text("t,l\na,1\nb,2\n")
    folder = tmp_path / "m"
    assert (
        run("memorize", tmp_path / "d.csv", "--text", "t", "--label", "l", "-o", folder, "--shards", "1").exit_code == 0
    )
    index = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps(index | spoil))
    if "rows" not in spoil:  # how many rows a file has is only said, never used
        refused(run("recall", folder, "a"), FILE_ERROR)
    (folder / "index.json").write_text(DEEP)
    refused(run("recall", folder, "a"), FILE_ERROR)


def outputs(folder: Path, name: str) -> list[list[str | Path]]:
    """Every command that writes, with `name` in each place where it can."""
    (folder / "d.csv").write_text("x,y\n0,1\n1,2\n2,4\n3,8\n4,9\n")
    assert run("approximate", "x", "x=0:1", "-o", folder / "net").exit_code == 0
    text = ["memorize", folder / "d.csv", "--text", "x", "--label", "y"]
    return [
        ["approximate", "x", "x=0:1", "-o", folder / name],
        ["approximate", "x", "x=0:1", "--plot", folder / f"{name}.png"],
        ["evaluate", folder / "net", "--csv", folder / "d.csv", "-o", folder / name],
        ["in-context", "ridge", "--data", folder / "d.csv", "--target", "y", "--predictions", folder / name],
        [*text, "-o", folder / name],
        [*text, "--plot", folder / f"{name}.svg"],
        ["export", folder / "net", "-o", folder / f"{name}.npz"],
        ["theorem", "C3", "--no-proofs", "-o", folder / name],
    ]


@pytest.mark.skipif(os.name != "posix", reason="pipes and links of POSIX")
def test_every_output_is_written_where_it_belongs(tmp_path: Path) -> None:
    def links(make: Callable[[Path], object]) -> None:
        for name in ("x", "x.png", "x.svg", "x.npz"):
            (tmp_path / name).unlink(missing_ok=True)
            make(tmp_path / name)

    links(os.mkfifo)
    for command in outputs(tmp_path, "x"):
        assert "ordinary file" in refused(run(*command), FILE_ERROR)
    assert stat.S_ISFIFO((tmp_path / "x").stat().st_mode)
    (tmp_path / "far").mkdir()
    links(lambda path: path.symlink_to(tmp_path / "far" / path.name))
    for command in outputs(tmp_path, "x"):
        done = run(*command)
        assert done.exit_code == 0, done.output
    assert sorted(path.name for path in (tmp_path / "far").iterdir()) == ["x", "x.npz", "x.png", "x.svg"]
    assert (tmp_path / "x").is_symlink()
    for command in outputs(tmp_path, "absent/x"):
        assert "create it first" in refused(run(*command), FILE_ERROR)


def test_a_figure_is_refused_before_the_work(tmp_path: Path) -> None:
    result = run("approximate", "x", "x=0:1", "-o", tmp_path / "net", "--plot", tmp_path / "figure.doc")
    assert "change the ending" in refused(result, BAD_INPUT)
    assert not (tmp_path / "net").exists()


def test_a_figure_that_fails_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    path = tmp_path / "figure.png"
    assert run("approximate", "x", "x=0:1", "--plot", path).exit_code == 0
    before = path.read_bytes()

    def full(figure: Figure, stream: Any, **options: Any) -> None:
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full)
    assert str(path) in refused(run("approximate", "x", "x=0:1", "--plot", path), FILE_ERROR)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1
