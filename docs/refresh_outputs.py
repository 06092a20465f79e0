"""Run every example of the documentation and put its real output below it: python docs/refresh_outputs.py [PAGE ...]

Lists that are made from the library's tables (`lists.py`) are written anew as well.

A ```text block that follows a ```python block is the output of that block; the blocks of a page are one program. In a
```console block every line that begins with "$ softwright" is a command, and what follows is its output.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from lists import refresh_lists

from softwright.fileformat import write_atomically

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```\n(\n```text\n.*?^```\n)?", re.DOTALL | re.MULTILINE)
CONSOLE_BLOCK = re.compile(r"^```console\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
BORDER = "-- border between two blocks --"


def run(arguments: list[str], folder: str, messages: bool) -> str:
    """What a command prints: its results, and with `messages` what it says on stderr, as at a terminal."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "110", "OMP_NUM_THREADS": "1"}
    stderr = subprocess.STDOUT if messages else None
    return subprocess.run(
        arguments, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True, check=False
    ).stdout


def refresh_python(text: str, folder: str) -> str:
    blocks = [match.group(1) for match in PYTHON_BLOCK.finditer(text)]
    if not blocks:
        return text
    program = Path(folder) / "page.py"
    program.write_text(f"\nprint({BORDER!r}, flush=True)\n".join(blocks))
    outputs = run([sys.executable, str(program)], folder, messages=False).split(BORDER + "\n")
    if len(outputs) != len(blocks):
        raise SystemExit(f"a block failed:\n{outputs[-1]}")
    waiting = iter(outputs)

    def with_output(match: re.Match[str]) -> str:
        output = next(waiting).rstrip()
        source = f"```python\n{match.group(1)}```\n"
        return f"{source}\n```text\n{output}\n```\n" if match.group(2) else source

    return PYTHON_BLOCK.sub(with_output, text)


def refresh_console(text: str, folder: str) -> str:
    def with_output(match: re.Match[str]) -> str:
        commands = [line for line in match.group(1).splitlines() if line.startswith("$ ")]
        if not all(command.startswith("$ softwright ") for command in commands):
            return match.group(0)
        lines: list[str] = []
        for command in commands:
            start = [sys.executable, "-m", "softwright"]
            lines += [command, *run([*start, *shlex.split(command)[2:]], folder, messages=True).rstrip().splitlines()]
        return "```console\n" + "\n".join(lines) + "\n```\n"

    return CONSOLE_BLOCK.sub(with_output, text)


def main() -> None:
    pages = [Path(name) for name in sys.argv[1:]] or [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            text = page.read_text(encoding="utf-8")
            fresh = refresh_console(refresh_python(refresh_lists(text), folder), folder)
        if fresh != text:
            write_atomically(page, fresh.encode())
        print(("changed " if fresh != text else "same    ") + page.name)


if __name__ == "__main__":
    main()
