"""What reaches the screen: nothing that a terminal would obey, and completions for the shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command
from typer.testing import CliRunner

from softwright.cli import COMMANDS, app, protect_formulas
from softwright.cli.screen import echo, printable
from softwright.fileformat import read_model, write_model

WIPE = "\x1b[2K\rVERIFIED: sup |network - target| <= 1e-30\x1b[8m\u202e\x9b2J"


@given(st.text())
def test_printable_is_one_line_without_control_characters(text: str) -> None:
    shown = printable(text)
    assert shown == "\t".join("".join(part) for part in shown.split("\t"))
    assert not any(not c.isprintable() and c != "\t" and (ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000) for c in shown)
    assert "\n" not in shown and "\u2028" not in shown
    if text.isprintable():
        assert shown == text or "\ufeff" in text
    assert printable(shown) == shown


def test_lines_of_a_text_cannot_pass_for_ours(capsys: pytest.CaptureFixture[str]) -> None:
    echo(f"error: {WIPE}\nVERIFIED: all\n    ^ here")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("error: \\x1b[2K\\rVERIFIED") and lines[0].isprintable()
    assert lines[1:] == ["  VERIFIED: all", "    ^ here"]


@pytest.mark.parametrize("command", ["info", "verify", "evaluate"])
def test_a_file_cannot_forge_a_verdict(tmp_path: Path, command: str) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    run = CliRunner().invoke
    assert run(app, ["approximate", "x", "x=0:1", "-o", str(good)]).exit_code == 0
    content = read_model(good)
    said = content.sections
    said["target"]["text"] = f"x + {WIPE}"
    said["plan"]["reasons"] = [f"{WIPE}\nVERIFIED: really"]
    said["plan"]["strategy"] = WIPE
    said["certificate"]["claim"]["premises"] = [WIPE, "a\nVERIFIED: really"]
    write_model(bad, content.tensors, said)
    result = run(app, [command, str(bad), *(["x=0.5"] if command == "evaluate" else [])])
    assert not [c for c in result.output if ord(c) < 32 and c not in "\n\t"] and "\x9b" not in result.output
    assert not [line for line in result.output.splitlines() if line.startswith("VERIFIED")]


def test_arguments_are_shown_printable() -> None:
    formula = ["approximate", "x", "x=0:1"]
    for arguments in (
        ["approximate", WIPE, "x=0:1"],
        [f"frob{WIPE}"],
        ["info", f"absent{WIPE}"],
        ["verify", WIPE],
        [*formula, f"--{WIPE}"],
        [*formula, f"--tol={WIPE}"],
        [*formula, "--dtype", WIPE],
    ):
        result = CliRunner().invoke(app, protect_formulas(arguments))
        assert result.exit_code != 0
        assert not [c for c in result.output if ord(c) < 32 and c not in "\n\t"]


def _complete(*words: str) -> list[str]:
    """What bash would be offered for the last word."""
    code = "from softwright.cli import main; main()"
    environment = os.environ | {
        "_SOFTWRIGHT_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["softwright", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_tab_completion() -> None:
    assert _complete("mem") == ["memorize"]
    assert "--tol" in _complete("approximate", "--t")
    assert _complete("approximate", "--dtype", "float3") == ["float32"]
    assert "A1" in _complete("theorem", "A") and "B1" not in _complete("theorem", "A")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_shown(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")  # else it is the shell of this process
    monkeypatch.setattr("typer.testing._get_command", get_command)  # a tree of commands that sees the line above
    result = CliRunner().invoke(app, ["--show-completion", shell])
    assert result.exit_code == 0, result.output
    assert "_SOFTWRIGHT_COMPLETE" in result.output and shell in result.output


def test_every_command_is_registered_and_helps() -> None:
    shown = CliRunner().invoke(app, ["--help"]).output
    assert "--install-completion" in shown
    for name in COMMANDS:
        assert name.replace("_", "-") in shown
        helped = CliRunner().invoke(app, [name.replace("_", "-"), "--help"])
        assert helped.exit_code == 0 and "--json" in helped.output
