"""What is shown of work in progress: nothing, one line, or whatever the caller does with the messages."""

from __future__ import annotations

import io
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from softwright.errors import InvalidInput
from softwright.progress import reporting


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_callable_gets_every_message() -> None:
    heard: list[str] = []
    with reporting(heard.append) as say:
        say("one")
        say("two")
    assert heard == ["one", "two"]


@pytest.mark.parametrize("progress", [None, False])
def test_nothing_is_shown_where_stderr_is_no_terminal(progress: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with reporting(progress, patience=0.0) as say:
        say("unheard")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("wrong", [True, "yes", 1])
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="False"), reporting(wrong):
        pass


def test_inner_work_joins_the_outer_one() -> None:
    heard: list[str] = []
    with reporting(heard.append), reporting(None) as inner:
        inner("inside")
    assert heard == ["inside"]
    with reporting(None) as after:
        after("nobody listens any more")
    assert heard == ["inside"]


def test_false_silences_inner_work(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with reporting(False), reporting(None, patience=0.0) as inner:
        inner("inside")
    assert terminal.getvalue() == ""


def test_a_terminal_shows_long_work_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with reporting(None) as say:
        say("over at once")
    assert terminal.getvalue() == ""
    with reporting(None, "first [words]", patience=0.05) as say:
        deadline = time.monotonic() + 10.0
        while "first [words]" not in terminal.getvalue() and time.monotonic() < deadline:
            time.sleep(0.02)
        say("then [these]")
        while "then [these]" not in terminal.getvalue() and time.monotonic() < deadline:
            time.sleep(0.02)
    shown = terminal.getvalue()
    assert "first [words]" in shown
    assert "then [these]" in shown
    assert shown.rstrip("\n").endswith("\x1b[2K")  # wiped away at the end


def test_a_notebook_shows_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(sys, "stderr", written)
    with reporting(None) as say:
        say("over at once")
    assert written.getvalue() == ""
    with reporting(None, "first words", patience=0.05) as say:
        deadline = time.monotonic() + 10.0
        while "first words" not in written.getvalue() and time.monotonic() < deadline:
            time.sleep(0.02)
        say("proving")
        while "proving" not in written.getvalue() and time.monotonic() < deadline:
            time.sleep(0.02)
    lines = written.getvalue().split("\r")
    assert lines[1].startswith("[#...........] 0 s  first words")
    assert any("proving" in line for line in lines)
    assert written.getvalue().endswith("\r")  # wiped away at the end
    with reporting(False, patience=0.0) as say:
        say("never shown")
    assert "never shown" not in written.getvalue()
