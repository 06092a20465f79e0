"""What a worker watches while it is under attack: time, memory, and what Python itself reports of code and files.

Python tells audit hooks of every exec, open, shell, process, socket and pickle. Counted are shells, processes, sockets,
classes looked up by a pickle, files opened for writing outside the worker's folder, and any code that is run and holds
the payloads' mark. Reading is not counted: a command reads what it is told to. Nor is parsing (NumPy reads the header
of an array as a literal), because text that is parsed and not run does nothing.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, ClassVar

from hostility.mutations import MARK

SECONDS = 10.0  # of CPU, for one input
MEMORY = 1 << 30  # bytes above what the imports take
_NEVER = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "socket.connect", "socket.bind",
          "pickle.find_class", "ftplib.connect", "urllib.Request", "webbrowser.open")  # fmt: skip
_HARMLESS = ("/dev/null", "/dev/tty")


class HangError(BaseException):
    """An input took too long; no handler of ordinary errors may swallow it."""


class Guard:
    """What is written down while inputs from this folder are tried."""

    watching_now: ClassVar[Guard | None] = None

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.seen: list[str] = []

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _NEVER:
            self.seen.append(f"{event} {arguments!r:.200}")
        elif event == "exec" and isinstance(arguments[0], CodeType) and _names(arguments[0]):
            self.seen.append(f"exec {arguments[0].co_filename}")
        elif event == "open" and self._writes_elsewhere(*arguments[:3]):
            self.seen.append(f"open {arguments!r:.200}")

    def _writes_elsewhere(self, path: Any, mode: Any, flags: Any) -> bool:
        writing = (flags or 0) & (os.O_WRONLY | os.O_RDWR) or any(c in str(mode or "") for c in "wxa+")
        if not writing or not isinstance(path, str | bytes):
            return False
        place = os.path.realpath(os.fsdecode(path))
        return not (place.startswith(self.folder) or place in _HARMLESS or "__pycache__" in place)

    @contextmanager
    def watching(self) -> Iterator[None]:
        _listen()
        before = signal.signal(signal.SIGPROF, _hang)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        Guard.watching_now = self
        try:
            yield
        finally:
            Guard.watching_now = None
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            signal.signal(signal.SIGPROF, before)


@cache
def _listen() -> None:
    """An audit hook stays for good: there is one for the process, and it tells whoever is watching."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if Guard.watching_now is not None:
            Guard.watching_now.note(event, arguments)

    sys.addaudithook(hook)


def _hang(*_: object) -> None:
    raise HangError


def _holds(source: Any) -> bool:
    if isinstance(source, str):
        return MARK in source
    return isinstance(source, bytes | bytearray) and MARK.encode() in source


def _names(code: CodeType) -> bool:
    return MARK in code.co_names or any(_holds(constant) for constant in code.co_consts)


def limit_memory() -> None:
    """No more address space than what is taken already and half as much again as is allowed."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY + MEMORY // 2
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def resident() -> float:
    """The most megabytes that this process has held at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
