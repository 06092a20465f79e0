"""Exit codes, and the one place where errors become messages: no command ever ends in a traceback on bad input."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from softwright.cli.screen import echo
from softwright.errors import FileFormatError, InvalidInput, SoftwrightError

OK = 0
CHECK_FAILED = 1
BAD_INPUT = 2
TOLERANCE_NOT_REACHED = 3
FILE_ERROR = 4
ON_A_PART = 5
GIVEN = 6
INTERRUPTED = 130

EXIT_CODE_HELP = (
    "Exit codes: 0 ok; 1 the check failed (verify, certify); 2 bad input; 3 the tolerance was not reached "
    "(the best network is still written); 4 a file cannot be read or written; "
    "5 verified on a part of the model's box only (verify); 6 verified given hypotheses that only you can answer for "
    "(verify); 130 interrupted."
)


def print_json(content: dict[str, Any]) -> None:
    """One JSON object on standard output; nan has no place in JSON, so `allow_nan` is off."""
    sys.stdout.write(json.dumps(content, indent=2, allow_nan=False) + "\n")


def _fail(code: int, kind: str, message: str, faults: list[str], as_json: bool) -> NoReturn:
    if as_json:
        print_json({"ok": False, "error": {"kind": kind, "message": message, "faults": faults, "exit_code": code}})
    else:
        echo(f"error: {message}", err=True)
    raise typer.Exit(code)


@contextmanager
def exit_codes(as_json: bool) -> Iterator[None]:
    """Turn the errors of a command's body into a message on stderr (or JSON on stdout) and the exit code that fits."""
    try:
        yield
    except InvalidInput as error:
        _fail(BAD_INPUT, "bad input", str(error), error.faults, as_json)
    except BrokenPipeError:
        # The reader of the pipe has gone, as `head` does; Python would complain once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(FILE_ERROR) from None
    except (FileFormatError, OSError) as error:
        _fail(FILE_ERROR, "file error", str(error), [str(error)], as_json)
    except SoftwrightError as error:
        _fail(BAD_INPUT, "bad input", str(error), [str(error)], as_json)
    except KeyboardInterrupt:
        _fail(INTERRUPTED, "interrupted", "interrupted", [], as_json)
