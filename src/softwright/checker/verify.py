"""An independent checker: re-proves a certificate in ball arithmetic. Shares no code with the prover, needs no torch.

Written to be read: whoever believes this folder, python-flint and the file reader need not believe the rest of
softwright. A file is read once; what its certificate must be, by schema, about a network of that kind, is a row of
`REPROOFS`.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from flint import ctx

from softwright.checker.boxes import reprove_boxes
from softwright.checker.closed import reprove_recall, reprove_step, reprove_sums, reprove_theorem
from softwright.checker.limits import SECONDS, limited
from softwright.checker.parser import NotProvedError, require
from softwright.checker.statement import check_subject
from softwright.checker.verdict import NOT_VERIFIED, Verdict, scoped
from softwright.errors import FileFormatError
from softwright.fileformat import ModelFile, read_model

BITS = 128  # of the balls at first
BOXES, CLOSED = "softwright-certificate/1", "softwright-closed-form/1"
Progress = Callable[[int], None]  # called with the number of boxes done so far
Say = (
    Callable[[str], None] | Literal[False] | None
)  # what users give: a function that is told the same in words, or none

# (schema of the certificate, kind of the model) -> its re-proof, which returns the verdict or raises NotProvedError
REPROOFS: dict[tuple[str, str], Callable[[ModelFile, Progress], Verdict]] = {
    (BOXES, "approximation"): reprove_boxes,
    (CLOSED, "approximation"): reprove_sums,
    (CLOSED, "memory"): reprove_recall,
    (CLOSED, "transpiled"): reprove_sums,
    (CLOSED, "in_context"): reprove_step,
    (CLOSED, "theorem"): reprove_theorem,
}


def verify(path: str | Path, progress: Say = None, max_seconds: float = SECONDS) -> Verdict:
    """Re-prove the certificate in a model file. `progress`, if given, is told in words how far the proof has come.

    What is not proved within `max_seconds` is not verified: a file decides how much work it is, its reader how much of
    it is done.
    """
    try:
        return reprove(read_model(path), progress, max_seconds)
    except FileFormatError as error:
        return Verdict(NOT_VERIFIED, str(error))


def reprove(file: ModelFile, progress: Say = None, max_seconds: float = SECONDS) -> Verdict:
    """The same for a file that has been read."""
    started, before, boxes = time.monotonic(), (ctx.prec, ctx.cap), 0

    def report(done: int) -> None:
        nonlocal boxes
        boxes = done
        if callable(progress):
            progress(f"{done} boxes checked")

    try:
        ctx.prec, ctx.cap = BITS, 64
        with limited(max_seconds):
            verdict = scoped(_row(file)(file, report), file)
    except NotProvedError as error:
        verdict = Verdict(NOT_VERIFIED, str(error), boxes)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError, zlib.error) as error:
        reason = f"the statement is damaged ({type(error).__name__}: {error}); certify again"
        verdict = Verdict(NOT_VERIFIED, reason, boxes)
    finally:
        ctx.prec, ctx.cap = before
    return replace(verdict, seconds=time.monotonic() - started)


def _row(file: ModelFile) -> Callable[[ModelFile, Progress], Verdict]:
    """The re-proof that a file asks for, once the certificate is known to speak of the file's network."""
    require("certificate" in file.sections, "the file holds no certificate; certify the network and save it again")
    schema, kind = file.sections["certificate"]["schema"], file.sections["model"]["kind"]
    require(schema in {known for known, _ in REPROOFS}, f"unknown certificate schema {schema!r}")
    require((schema, kind) in REPROOFS, f"a certificate of schema {schema!r} says nothing about a {kind!r}")
    check_subject(file)
    return REPROOFS[schema, kind]
