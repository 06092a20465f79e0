"""Where one worker keeps its files, and how it calls the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from softwright.cli import app, protect_formulas
from softwright.cli.exits import (
    BAD_INPUT,
    CHECK_FAILED,
    FILE_ERROR,
    GIVEN,
    INTERRUPTED,
    OK,
    ON_A_PART,
    TOLERANCE_NOT_REACHED,
)

WORDS = {
    OK: "done",
    CHECK_FAILED: "check failed",
    BAD_INPUT: "bad input",
    TOLERANCE_NOT_REACHED: "tolerance not reached",
    FILE_ERROR: "file error",
    ON_A_PART: "verified on a part",
    GIVEN: "verified given",
    INTERRUPTED: "interrupted",
}


class Undocumented(Exception):
    """A command ended with an exit code that no page names, or said nothing that helps."""


@dataclass
class Folder:
    path: Path

    def write(self, name: str, content: bytes) -> Path:
        place = self.path / name
        place.write_bytes(content)
        return place

    def run(self, *arguments: str | Path) -> str:
        """The command line in this process: a word for its exit code, or the exception that it ended with."""
        result = CliRunner().invoke(app, protect_formulas([str(argument) for argument in arguments]))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        if result.exit_code not in WORDS:
            raise Undocumented(f"exit code {result.exit_code}")
        if "Traceback (most recent call last)" in result.output:
            raise Undocumented("a traceback was printed")
        return WORDS[result.exit_code]
