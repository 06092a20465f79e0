"""The command line: what it prints, what it writes, and the exit code it ends with."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import softwright as sw
from softwright.cli import app, protect_formulas
from softwright.fileformat import read_model, write_model


def run(*arguments: str | Path) -> Result:
    """The command as `main` would run it, in this process."""
    return CliRunner().invoke(app, protect_formulas([str(argument) for argument in arguments]))


def content(result: Result) -> dict[str, Any]:
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def sine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "sine.safetensors"
    result = run("approximate", "sin(3*x)", "x=-1:1", "-o", path)
    assert result.exit_code == 0, result.output
    return path


# ------------------------------------------------------------------------------------------------ help and version


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["approximate", "--help"], ["verify", "-h"]])
def test_help_and_version_load_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom softwright.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit as leave:\n    code = leave.code\n"
        "heavy = [name for name in ('torch', 'numpy', 'scipy', 'matplotlib') if name in sys.modules]\n"
        "sys.exit(f'loaded {heavy}' if heavy else code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "softwright" in done.stdout


def test_help_documents_the_exit_codes() -> None:
    for arguments in (["--help"], ["approximate", "--help"], ["evaluate", "--help"], ["info", "-h"], ["verify", "-h"]):
        result = run(*arguments)
        assert result.exit_code == 0
        text = " ".join(result.stdout.split())
        assert "Exit codes: 0 ok" in text
        assert "130" in text


def test_version() -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout.strip()) == (0, f"softwright {sw.__version__}")


# ------------------------------------------------------------------------------------------------------ approximate


def test_approximate_prints_the_facts_and_the_reasons() -> None:
    result = run("approximate", "sin(3*x)", "x=-1:1", "--explain")
    assert result.exit_code == 0
    for expected in ("sin(3*x)", "x in [-1, 1]", "tokens", "tolerance", "error", "because"):
        assert expected in result.stdout


def test_approximate_json_names_files_and_is_true(tmp_path: Path) -> None:
    path = tmp_path / "f.safetensors"
    result = run("approximate", "exp(x)", "x=-1:1", "--tol", "1e-5", "-o", path, "--json")
    facts = content(result)
    assert result.exit_code == 0
    assert facts["ok"] is True
    assert facts["file"] == str(path)
    assert facts["box"] == {"x": [-1.0, 1.0]}
    assert facts["plan"]["tolerance"] == 1e-5
    x = np.linspace(-1, 1, 501)[:, None]
    built = sw.load(path)
    assert built.network.tokens == facts["tokens"]
    assert np.abs(built(x) - np.exp(x)).max() <= 1e-5


def test_formula_with_a_leading_minus_and_bounds_as_constants() -> None:
    result = run("approximate", "-cos(x)", "x=-pi/2:2*pi", "--tol", "1e-3", "--json")
    assert result.exit_code == 0, result.output
    assert content(result)["box"]["x"] == pytest.approx([-np.pi / 2, 2 * np.pi])


def test_relative_tolerance_float32_and_strategy() -> None:
    arguments = ["approximate", "100*sin(x)", "x=-1:1", "--tol", "1e-4", "--relative", "--dtype", "float32"]
    facts = content(run(*arguments, "--strategy", "spectral", "--json"))
    assert facts["plan"]["tolerance"] == pytest.approx(1e-4 * 100 * np.sin(1.0), rel=1e-3)
    assert (facts["plan"]["dtype"], facts["plan"]["strategy"]) == ("float32", "spectral")


def test_vector_valued_formula() -> None:
    facts = content(run("approximate", "sin(x), cos(x)", "x=-1:1", "--json"))
    assert facts["outputs"] == 2


def test_variables_keep_the_order_they_were_given_in(tmp_path: Path) -> None:
    path = tmp_path / "f.safetensors"
    facts = content(run("approximate", "y + 2*x", "y=0:1", "x=-1:1", "-o", path, "--json"))
    assert list(facts["box"]) == ["y", "x"]
    result = run("evaluate", path, "x=0.5", "y=0.25")
    assert float(result.stdout) == pytest.approx(1.25, abs=1e-6)


def test_plot_is_written(tmp_path: Path) -> None:
    path = tmp_path / "f.png"
    result = run("approximate", "abs(x)", "x=-1:1", "--plot", path)
    assert result.exit_code == 0, result.output
    assert path.read_bytes().startswith(b"\x89PNG")


def test_table_from_csv(tmp_path: Path) -> None:
    source = tmp_path / "data.csv"
    x = np.linspace(0, 2, 30)
    source.write_text("x,z,note\n" + "".join(f"{a},{np.cos(a)},ok\n" for a in x))
    facts = content(run("approximate", "--table", source, "--inputs", "x", "--outputs", "z", "--tol", "1e-4", "--json"))
    assert facts["ok"] is True
    assert facts["target"]["kind"] == "table"
    assert facts["observed"]["error"] <= 1e-4


def test_table_with_a_wider_box(tmp_path: Path) -> None:
    source = tmp_path / "data.csv"
    source.write_text("x,y,z\n0,0,0\n0,1,1\n1,0,1\n1,1,2\n")
    table = ["--table", source, "--inputs", "x,y", "--outputs", "z"]
    facts = content(run("approximate", *table, "y=-1:2", "--json"))
    assert facts["box"] == {"x": [0.0, 1.0], "y": [-1.0, 2.0]}


# ------------------------------------------------------------------------------------------------ bad input: exit 2

HOSTILE = [
    "__import__('os').system('id')",
    "x.__class__",
    "open(x)",
    "(" * 100_000 + "x" + ")" * 100_000,
    "9**9**9**9 * x",
    "lambda: x",
    "x; import os",
    "sin(",
    "",
]


@pytest.mark.parametrize("formula", HOSTILE, ids=[formula[:20] or "empty" for formula in HOSTILE])
def test_hostile_formulas_are_bad_input_without_a_traceback(formula: str) -> None:
    result = run("approximate", formula, "x=-1:1")
    assert result.exit_code == 2
    assert "error:" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["x", "x=1:-1"], ["low 1.0 exceeds high -1.0"]),
        (["x", "x=1:1"], ["empty"]),
        (["x"], ["no bounds"]),
        (["x", "x=1"], ["x=LOW:HIGH"]),
        (["x", "x=a:1"], ["'a' is not a number"]),
        (["x", "x=0:1/0"], ["x=0:1/0"]),
        (["x", "x=0:1", "x=0:2"], ["given twice"]),
        (["x=0:1"], ["no formula"]),
        (["sin", "(x)", "x=0:1"], ["2 formulas"]),
        (["x", "x=0:1", "--inputs", "x"], ["--table"]),
        (["y*x", "x=0:1"], ["y"]),
        (["sqrt(x)", "x=-1:1"], ["undefined"]),
        (["x", "x=0:1", "--strategy", "magic", "--dtype", "int8", "--tol", "0"], ["magic", "int8", "tol"]),
        (["frob(x)", "x=2:-2", "y=q:1"], ["frob", "low 2.0 exceeds high -2.0", "'q' is not a number"]),
        (["x", "x=0:1", "--unknown"], ["unknown"]),
    ],
)
def test_bad_input_lists_every_fault(arguments: list[str], expected: list[str]) -> None:
    result = run("approximate", *arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    for text in expected:
        assert text in result.stderr


def test_bad_input_as_json() -> None:
    result = run("approximate", "x", "x=1:-1", "--tol", "-1", "--json")
    error = content(result)["error"]
    assert (result.exit_code, error["exit_code"], len(error["faults"])) == (2, 2, 2)


def test_table_options_are_checked_together(tmp_path: Path) -> None:
    source = tmp_path / "data.csv"
    source.write_text("x,z\n0,1\n1,oops\n")
    result = run("approximate", "x", "--table", source)
    assert result.exit_code == 2
    for text in ("give one of the two", "--inputs", "--outputs"):
        assert text in result.stderr
    result = run("approximate", "--table", source, "--inputs", "x", "--outputs", "z")
    assert result.exit_code == 2
    assert "'oops' is not a number" in result.stderr


# ------------------------------------------------------------------------------------ exit 3, exit 4, interruption


def test_a_missed_tolerance_still_writes_the_best_network(tmp_path: Path) -> None:
    path = tmp_path / "jump.safetensors"
    result = run("approximate", "sign(x)", "x=-1:1", "--tol", "1e-3", "-o", path)
    assert result.exit_code == 3
    assert "tolerance not reached" in result.stderr
    assert "observed error" in result.stdout
    assert sw.load(path).observed_error > 0.5


def test_a_missed_tolerance_as_json() -> None:
    result = run("approximate", "sign(x)", "x=-1:1", "--tol", "1e-3", "--json")
    facts = content(result)
    assert (result.exit_code, facts["ok"], facts["error"]["kind"]) == (3, False, "tolerance not reached")
    assert facts["observed"]["error"] > 0.5


def test_file_errors(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.safetensors"
    foreign.write_bytes(b"not a model")
    for arguments in (
        ["info", tmp_path / "missing.safetensors"],
        ["info", foreign],
        ["evaluate", foreign, "x=0"],
        ["verify", foreign],
        ["approximate", "x", "x=0:1", "-o", tmp_path / "no" / "folder.safetensors"],
        ["approximate", "x", "x=0:1", "--plot", tmp_path / "no" / "folder.png"],
        ["approximate", "--table", tmp_path / "missing.csv", "--inputs", "x", "--outputs", "y"],
    ):
        result = run(*arguments)
        assert result.exit_code == 4, arguments
        assert result.stderr.startswith("error: ")
        as_json = run(*arguments, "--json")
        assert (as_json.exit_code, content(as_json)["error"]["kind"]) == (4, "file error")


def test_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("softwright.approximation.verb.approximate", interrupted)
    result = run("approximate", "x", "x=0:1")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr


# --------------------------------------------------------------------------------------------- evaluate, info, verify


def test_evaluate_one_point(sine: Path) -> None:
    result = run("evaluate", sine, "x=pi/10")
    assert result.exit_code == 0
    assert float(result.stdout) == pytest.approx(np.sin(0.3 * np.pi), abs=1e-6)
    facts = content(run("evaluate", sine, "x=-0.5", "--json"))
    assert facts["point"] == {"x": -0.5}
    assert facts["inside"] is True
    assert facts["values"] == pytest.approx([np.sin(-1.5)], abs=1e-6)


def test_evaluate_outside_the_box(sine: Path) -> None:
    result = run("evaluate", sine, "x=2")
    assert result.exit_code == 0
    assert "outside the box" in result.stderr
    assert float(result.stdout)
    assert run("evaluate", sine, "x=2", "--strict").exit_code == 2


@pytest.mark.parametrize("point", [["y=1"], ["x=1", "x=2"], ["x=one"], ["0.3"], [], ["x=0", "-o", "out.csv"]])
def test_evaluate_bad_points(sine: Path, point: list[str]) -> None:
    result = run("evaluate", sine, *point)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_evaluate_csv(sine: Path, tmp_path: Path) -> None:
    source, destination = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("name;x\na;0.25\nb;-0.5\n\nc;3\n")
    result = run("evaluate", sine, "--csv", source, "-o", destination, "--json")
    assert result.exit_code == 0
    assert content(result) | {"file": ""} == {"ok": True, "rows": 3, "outside": 1, "file": ""}
    assert "1 of 3 points lie outside" in result.stderr
    rows = list(csv.DictReader(destination.read_text().splitlines(), delimiter=";"))
    assert [row["name"] for row in rows] == ["a", "b", "c"]
    assert float(rows[0]["value"]) == pytest.approx(np.sin(0.75), abs=1e-6)
    to_stdout = run("evaluate", sine, "--csv", source)
    assert to_stdout.stdout == destination.read_text()


def test_evaluate_parquet_lets_go_of_what_it_has_read(sine: Path, tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    from softwright.cli.rows.parquet_rows import ParquetEvaluation

    held: list[int] = []
    source = tmp_path / "in.parquet"
    x = np.random.default_rng(0).uniform(-1, 1, 2_000_000)
    parquet.write_table(arrow.table({"x": x}), source, row_group_size=50_000)
    before = arrow.total_allocated_bytes()
    run = ParquetEvaluation(sw.load(sine), source, False, lambda _: held.append(arrow.total_allocated_bytes() - before))
    run.write(tmp_path / "out.parquet")
    assert run.rows == len(x) and len(held) == 40
    assert max(held) < held[1] + 2_000_000  # of the 16 MB that were read


def test_evaluate_parquet(sine: Path, tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    source, destination = tmp_path / "in.parquet", tmp_path / "out.parquet"
    x = np.linspace(-1, 1, 1001)
    parquet.write_table(arrow.table({"x": x, "name": [str(i) for i in range(1001)]}), source, row_group_size=300)
    result = run("evaluate", sine, "--parquet", source, "-o", destination, "--json")
    assert result.exit_code == 0 and content(result)["rows"] == 1001
    found = parquet.read_table(destination)
    assert found.column_names == ["x", "name", "value"] and found["name"][7].as_py() == "7"
    assert np.abs(found["value"].to_numpy() - np.sin(3 * x)).max() <= 1e-6
    destination.unlink()
    for column, expected in ((x * np.nan, "row 1, column x"), ([f"{i}" for i in x], "store real numbers")):
        parquet.write_table(arrow.table({"x": column}), source)
        result = run("evaluate", sine, "--parquet", source, "-o", destination)
        assert result.exit_code == 2 and expected in result.stderr and not destination.exists()
    assert run("evaluate", sine, "--parquet", source).exit_code == 2


def test_evaluate_csv_keeps_a_column_called_value(sine: Path, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("x,value\n0.5,kept\n")
    lines = run("evaluate", sine, "--csv", source).stdout.splitlines()
    assert lines[0] == "x,value,value_"
    assert lines[1].startswith("0.5,kept,0.99")


@pytest.mark.parametrize("rest", ["1_0", "nan", "-inf", "", "1e400", "0x1p3"])
def test_evaluate_csv_reads_cells_as_whole_columns_do(sine: Path, tmp_path: Path, rest: str) -> None:
    """Columns of plain numbers take a way of their own; a cell that is none is named as before, wherever it stands."""
    source = tmp_path / "rows.csv"
    numbers = [" 0.25 ", "-1e-3", "+.5", "0", "1e-400"]
    source.write_text("x,note\n" + "".join(f"{number},\n" for number in numbers))
    plain = [line.rsplit(",", 1)[1] for line in run("evaluate", sine, "--csv", source).stdout.splitlines()[1:]]
    for number, found in zip(numbers, plain, strict=True):
        assert float(run("evaluate", sine, f"x={float(number)!r}").stdout) == pytest.approx(float(found), abs=1e-13)
    source.write_text("x,note\n" + "".join(f"{number},\n" for number in [*numbers, rest]))
    result = run("evaluate", sine, "--csv", source)
    assert result.exit_code == 2
    assert f"line 7, column x: {rest!r}" in result.stderr


def test_evaluate_names_the_option_for_a_file(sine: Path, tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("x\n0.5\n")
    result = run("evaluate", sine, source)
    assert result.exit_code == 2
    assert "are --csv" in " ".join(result.stderr.split())


def test_evaluate_csv_faults_leave_nothing_behind(sine: Path, tmp_path: Path) -> None:
    source, destination = tmp_path / "in.csv", tmp_path / "out.csv"
    for text, expected in (("t\n1\n", "no column x"), ("x\n0\none\nnan\n", "line 3"), ("", "no column x")):
        source.write_text(text)
        result = run("evaluate", sine, "--csv", source, "-o", destination)
        assert result.exit_code == 2
        assert expected in result.stderr
    source.write_text("x\n0\n5\n")
    assert run("evaluate", sine, "--csv", source, "-o", destination, "--strict").exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
    assert run("evaluate", sine, "--csv", tmp_path / "missing.csv").exit_code == 4
    assert run("evaluate", sine, "x=0", "--csv", source).exit_code == 2


def test_info(sine: Path) -> None:
    result = run("info", sine)
    assert result.exit_code == 0
    for expected in ("sin(3*x)", "x in [-1, 1]", "tokens", "sha256", "because"):
        assert expected in result.stdout
    facts = content(run("info", sine, "--json"))
    assert facts["target"]["text"] == "sin(3*x)"
    assert len(facts["weights_sha256"]) == 64


def test_verify(sine: Path) -> None:
    result = run("verify", sine)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("VERIFIED")
    facts = content(run("verify", sine, "--json"))
    assert (facts["ok"], facts["status"]) == (True, "VERIFIED")
    assert "certificate" in run("info", sine).stdout
    assert content(run("info", sine, "--json"))["certificate"]["bound"] <= 1e-6


def test_certify_proves_a_stored_network_and_goes_on(sine: Path, tmp_path: Path) -> None:
    path, folder = tmp_path / "proved.safetensors", tmp_path / "record"
    asked = ["certify", sine, "--bound", "1e-6", "--order", "3", "--workers", "1", "--resume", folder]
    result = run(*asked, "-o", path)
    assert result.exit_code == 0 and result.stdout.startswith("proved: sup error <= 1e-06"), result.output
    assert content(run(*asked, "--json"))["status"] == "proved" and list(folder.glob("??/*.piece"))
    assert run("verify", path, "--resume", tmp_path / "checked").exit_code == 0
    result = run("certify", sine, "--bound", "1e-12", "--json")
    assert result.exit_code == 1 and content(result)["status"] == "refuted"
    result = run(*asked, "--bound", "2e-6")
    assert result.exit_code == 2 and "another question (claim differ)" in result.stderr
    result = run("verify", sine, "--workers", "1", "--cluster", "tcp://127.0.0.1:1")
    assert result.exit_code == 2 and "cluster and workers are given" in result.stderr


def test_verify_without_a_certificate_fails(tmp_path: Path) -> None:
    path = tmp_path / "bare.safetensors"
    result = run("approximate", "exp(x)", "x=0:1", "--no-certify", "-o", path)
    assert "none: not asked for" in result.stdout
    result = run("verify", path)
    assert result.exit_code == 1
    assert "NOT VERIFIED" in result.stdout
    facts = content(run("verify", path, "--json"))
    assert facts["ok"] is False
    assert facts["reason"]


def test_a_changed_weight_voids_the_certificate_visibly(sine: Path, tmp_path: Path) -> None:
    stored = read_model(sine)
    values = stored.tensors["layer.heads.0.values"].copy()
    values[0] += 1e-3
    path = tmp_path / "changed.safetensors"
    write_model(path, {**stored.tensors, "layer.heads.0.values": values}, stored.sections)
    result = run("verify", path)
    assert result.exit_code == 1
    assert "NOT VERIFIED" in result.stdout
    result = run("info", path)
    assert result.exit_code == 0
    assert "warning:" in result.stderr
    assert content(run("info", path, "--json"))["certificate"] is None


def test_arguments_of_one_method_are_set_by_name(tmp_path: Path) -> None:
    rows = [f"{t},{math.sin(0.7 * t) + 0.1 * math.cos(3.1 * t)!r}" for t in range(30)]
    (tmp_path / "d.csv").write_text("\n".join(["t,y", *rows]))
    (tmp_path / "q.csv").write_text("t\n28\n29\n30\n")
    asked = ["in-context", "kalman", "--data", tmp_path / "d.csv", "--target", "y", "--queries", tmp_path / "q.csv"]
    found = run(*asked, "--set", "noise=0.5", "--set", "process=0.1", "--predictions", tmp_path / "p.csv")
    assert found.exit_code == 0, found.output
    header, *answers = (tmp_path / "p.csv").read_text().split()
    assert header == "t,mean,variance" and len(answers) == 3
    for wrong, said in (
        ("noise", "NAME=VALUE"),
        ("lags=2", "takes no argument lags"),
        ("steps=2", "option of its own"),
    ):
        refused = run(*asked, "--set", wrong)
        assert refused.exit_code == 2 and said in refused.output
