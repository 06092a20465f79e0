"""What every verb takes as `progress`, and the one way in which work in progress is shown.

None      automatic: work that takes longer than about two seconds shows one line on stderr, with the seconds gone and
          what is being done, if stderr is a terminal or the code runs in a notebook; nothing is shown otherwise
False     nothing is shown
callable  is given every message, a string, at once; those of a proof are `Settled`

Work inside other work joins it: an automatic report within another one goes wherever the outer one goes, so that there
is never more than one line, and False of the outer call silences all of it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, TextIO, TypeAlias

from softwright.errors import InvalidInput

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

Say = Callable[[str], None]


class Settled(str):
    """A message of a proof that tells besides which boxes it has settled last.

    `boxes` holds rows (left, right, below, above) in shares of the domain, of its first two variables or, in one, with
    0 and 1 in the last two places; `first` says that a proof begins here. A picture may be drawn from it, no more.
    """

    boxes: list[list[float]]
    first: bool

    def __new__(cls, text: str, boxes: list[list[float]], first: bool) -> Settled:
        self = super().__new__(cls, text)
        self.boxes, self.first = boxes, first
        return self


Progress: TypeAlias = Say | Literal[False] | None  # the type of the argument `progress` of every verb

PATIENCE = 2.0  # seconds of work before anything is shown
_PACE = 0.25  # seconds between two lines in a notebook
_BAR = 12  # places of the bar in a notebook
_outer: ContextVar[Say | None] = ContextVar("softwright_progress", default=None)


@contextmanager
def reporting(progress: Progress = None, first: str = "working", patience: float = PATIENCE) -> Iterator[Say]:
    """`with reporting(progress) as say: ... say("proving")`: the one thing a verb does with its argument `progress`."""
    line: _TerminalLine | _NotebookLine | None = None
    outer = _outer.get()
    if callable(progress):
        say = progress
    elif progress is False:
        say = _silent
    elif progress is not None:
        remedy = "leave it out (automatic), or give False (nothing is shown) or a function that takes a string"
        raise InvalidInput("progress", [f"progress = {progress!r}; {remedy}"])
    elif outer is not None:
        say = outer
    else:
        line = _line(first, patience)
        say = _silent if line is None else line.say
    token = _outer.set(say)
    try:
        yield say
    finally:
        _outer.reset(token)
        if line is not None:
            line.close()


def _silent(message: str) -> None:
    """Say nothing."""


def _line(first: str, patience: float) -> _TerminalLine | _NotebookLine | None:
    if _is_notebook():
        return _NotebookLine(first, sys.stderr, patience)
    stream = sys.stderr
    return _TerminalLine(first, patience) if stream is not None and stream.isatty() else None


def _is_notebook() -> bool:
    """Whether the code runs in a Jupyter kernel; asks only modules that are loaded already."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class _TerminalLine:
    """A spinner with the seconds gone; it appears when the patience is used up and leaves no trace."""

    def __init__(self, first: str, patience: float) -> None:
        self._message, self._started = first, time.monotonic()
        self._lock, self._closed = threading.Lock(), False
        self._bar: Bar | None = None
        self._timer = threading.Timer(patience, self._show)  # a timer, because the first message may be the only one
        self._timer.daemon = True
        if patience > 0:
            self._timer.start()
        else:
            self._show()

    def _show(self) -> None:
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import Progress as Bar
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        with self._lock:
            if self._closed:
                return
            columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task(escape(self._message), total=None)
            self._bar.tasks[0].start_time = self._bar.get_time() - (time.monotonic() - self._started)
            self._bar.start()

    def say(self, message: str) -> None:
        with self._lock:
            self._message = message
            if self._bar is not None:
                from rich.markup import escape

                self._bar.update(self._bar.task_ids[0], description=escape(message))

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._bar is not None:
                self._bar.stop()


class _NotebookLine:
    """One line of plain text, a bar that wanders, the seconds gone and what is being done; it appears when the patience
    is used up, moves by itself, and the end wipes it away. No widget: every notebook shows it."""

    def __init__(self, first: str, stream: TextIO, patience: float) -> None:
        self._stream, self._started, self._message = stream, time.monotonic(), first
        self._lock, self._over, self._width, self._shown = threading.Lock(), threading.Event(), 0, 0
        self._thread = threading.Thread(target=self._run, args=(patience,), daemon=True)
        self._thread.start()

    def say(self, message: str) -> None:
        with self._lock:
            self._message = message

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        if self._width:
            self._write("")
            self._write("")

    def _run(self, patience: float) -> None:
        wait = patience
        while not self._over.wait(wait):
            with self._lock:
                message = self._message
            place = self._shown % (2 * _BAR)
            place = place if place < _BAR else 2 * _BAR - 1 - place
            bar = "[" + "." * place + "#" + "." * (_BAR - 1 - place) + "]"
            self._write(f"{bar} {time.monotonic() - self._started:.0f} s  {message}")
            self._shown, wait = self._shown + 1, _PACE

    def _write(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)
