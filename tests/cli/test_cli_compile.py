"""`softwright compile` and `softwright program`."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from softwright.cli import app


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.output


def test_compile_writes_a_file_that_is_verified(tmp_path: Path) -> None:
    path = tmp_path / "p.safetensors"
    tokens = "length=1:5 s=abc x=-1:1 k=0..3 t=truth"
    code, shown = run("compile", "count(s[j] == s[i]), x*t", "--tokens", tokens, "-o", path)
    assert (code, "observed error" in shown) == (0, True)
    assert run("verify", path)[0] == 0
    assert "1 to 5 tokens" in run("info", path)[1]


def test_faults_have_their_exit_code() -> None:
    code, shown = run("compile", "count(q[j] == q[i])", "--tokens", "length=1:5 s=abc")
    assert code == 2
    assert "unknown" in shown
    assert run("compile", "n", "--tokens", "length")[0] == 2
    assert run("program", "nothing")[0] == 2
    assert run("program", "build")[0] == 2
    assert run("program", "show", "nothing")[0] == 2
    assert run("program", "list", "nowhere")[0] == 2


def test_the_library_is_listed_and_compiled() -> None:
    code, shown = run("program", "list", "--json")
    names = [row["name"] for row in json.loads(shown)["programs"]]
    assert code == 0
    assert {"sort", "shuffle_dyck_2", "running_maximum"} <= set(names)
    assert run("program", "build", "parity", "--length", "5")[0] == 0


def test_a_program_shows_what_its_heads_look_at_and_write() -> None:
    code, shown = run("program", "show", "histogram", "--length", "9")
    assert code == 0
    assert "layer 1" in shown
    assert "s[j] == s[i]" in shown
    lines = json.loads(run("program", "show", "sort", "--json")[1])["mechanism"]
    assert sum(line.startswith("layer") for line in lines) >= 3


def test_tokens_may_name_symbols_that_only_outputs_are() -> None:
    text = "table(s, ['a'], ['yes'], default='no')"
    assert run("compile", text, "--tokens", "length=1:4 s=abc=>yes,no")[0] == 0
    assert run("compile", text, "--tokens", "length=1:4 s=abc")[0] == 2


def test_a_stored_program_is_run_on_a_sequence(tmp_path: Path) -> None:
    path = tmp_path / "p.safetensors"
    tokens = "length=1:4 s=abc=>yes,no x=-1:1 t=truth"
    assert run("compile", "x + count(s[j] == s[i]), t", "--tokens", tokens, "-o", path)[0] == 0
    assert run("evaluate", path, "s=aba", "x=0.25,-1,1/2", "t=true,0,1") == (0, "2.25 1.0\n0.0 0.0\n2.5 1.0\n")
    assert json.loads(run("evaluate", path, "s=b", "x=0", "t=1", "--json")[1])["values"] == [[1.0, 1.0]]
    assert run("compile", "'yes' if s == 'a' else 'no'", "--tokens", "length=1:4 s=abc=>yes,no", "-o", path)[0] == 0
    assert run("evaluate", path, "s=a,c") == (0, "yes\nno\n")
    for given in (["s=az"], ["x=1"], ["s=a", "s=b"], ["s=abcab"], ["--csv", str(path)], ["s="]):
        assert run("evaluate", path, *given)[0] == 2, given
