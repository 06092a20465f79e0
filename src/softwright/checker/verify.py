"""An independent checker: re-proves a certificate in ball arithmetic. Shares no code with the prover, needs no torch.

Written to be read: whoever believes this folder, python-flint and the file reader need not believe the rest of
softwright. A file is read once; every step of the evidence in its statement is a row of `STEPS`, and is proved again.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from flint import ctx

from softwright.checker.claims import Claim, read_claim
from softwright.checker.closed import (
    reprove_composition,
    reprove_program,
    reprove_recall,
    reprove_step,
    reprove_theorem,
    reprove_transpiled,
)
from softwright.checker.graphs.reading import read_graph, runs
from softwright.checker.limits import SECONDS, limited
from softwright.checker.memory.folder import read_folder
from softwright.checker.parts import Helper, helped, reprove_boxes
from softwright.checker.precision import as_run, assumed_by, precision_of
from softwright.checker.refusal import NotProvedError, require
from softwright.checker.subject import check_subject
from softwright.checker.transpiled.prompt import KIND, hypotheses_of, prove_prompt
from softwright.checker.trust import check_trust
from softwright.checker.verdict import NOT_VERIFIED, VERIFIED, Verdict, scoped
from softwright.errors import FileFormatError
from softwright.fileformat import ModelFile, read_model

BITS = 128  # of the balls at first
DAMAGED = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError, zlib.error)
Progress = Callable[[int], None]  # called with the number of boxes done so far
Say = (
    Callable[[str], None] | Literal[False] | None
)  # what users give: a function that is told the same in words, or none


@dataclass(frozen=True)
class Step:
    """A type of evidence: the kind of model it is about, and its re-proof: a verdict, or NotProvedError."""

    kind: str
    prove: Callable[[ModelFile, Progress], Verdict]


STEPS: dict[str, Step] = {
    **dict.fromkeys(("boxes", "gates", "points", "cells"), Step("approximation", reprove_boxes)),
    "memory": Step("memory", reprove_recall),
    "layers": Step("transpiled", reprove_transpiled),
    "solver": Step("in_context", reprove_step),
    "theorem": Step("theorem", reprove_theorem),
    "compose": Step("composition", reprove_composition),
    "columns": Step("program", reprove_program),
}


def verify(
    path: str | Path,
    progress: Say = None,
    max_seconds: float = SECONDS,
    *,
    executor: Helper | Executor | None = None,
) -> Verdict:
    """Re-prove the certificate in a model file. `progress`, if given, is told in words how far the proof has come.

    What is not proved within `max_seconds` is not verified: a file decides how much work it is, its reader how much of
    it is done. `executor` takes the pieces of a long proof: a `concurrent.futures.Executor`, or a crew
    (`softwright.scale`); what it returns is believed.
    """
    try:
        return reprove_file(path, progress, max_seconds, executor)
    except FileFormatError as error:
        return Verdict(NOT_VERIFIED, str(error))


def reprove_file(
    path: str | Path,
    progress: Say = None,
    max_seconds: float = SECONDS,
    executor: Helper | Executor | None = None,
) -> Verdict:
    """The same; a file that cannot be read is a `FileFormatError`. Of an ONNX file the graph itself is proved."""
    if (inside := Path(path) / "softwright.safetensors").is_file():  # beside what transformers reads
        raise FileFormatError(f"{path}: is a folder for Hugging Face; the model file in it is {inside}")
    if Path(path).is_dir():
        return _reproved_folder(path, progress, max_seconds)
    if Path(path).suffix.lower() != ".onnx":
        return reprove(read_model(path), progress, max_seconds, executor)
    try:
        file = read_graph(path)
    except NotProvedError as error:
        return Verdict(NOT_VERIFIED, str(error))
    verdict, said = reprove(file, progress, max_seconds, executor), file.sections["certificate"]
    with assumed_by(said):
        covered = (runs(as_run(verdict.dtype, said["claim"]["engine"])),) if verdict.runtimes else ()
    return replace(verdict, runtimes=covered)


def _reproved_folder(path: str | Path, progress: Say, max_seconds: float) -> Verdict:
    """A memory in shards. No more than a few of them are in memory at a time."""
    started = time.monotonic()
    try:
        with limited(max_seconds):
            if callable(progress):
                progress("reading the shards")
            file = read_folder(path)
    except NotProvedError as error:
        return Verdict(NOT_VERIFIED, str(error))
    except DAMAGED as error:
        return Verdict(NOT_VERIFIED, f"the index is damaged ({type(error).__name__}: {error}); save the memory again")
    verdict = reprove(file, progress, max(0.0, max_seconds - (time.monotonic() - started)))
    return replace(verdict, seconds=time.monotonic() - started)


def reprove(
    file: ModelFile,
    progress: Say = None,
    max_seconds: float = SECONDS,
    executor: Helper | Executor | None = None,
) -> Verdict:
    """The same for a file that has been read."""
    started, before, boxes = time.monotonic(), (ctx.prec, ctx.cap), 0

    def report(done: int) -> None:
        nonlocal boxes
        boxes = done
        if callable(progress):
            progress(f"{done} boxes checked")

    try:
        ctx.prec, ctx.cap = BITS, 64
        with limited(max_seconds), helped(executor), assumed_by(file.sections.get("certificate")):
            verdict = _at_prompt(file) if is_at_prompt(file) else _reproved(read_claim(file), report)
    except NotProvedError as error:
        verdict = Verdict(NOT_VERIFIED, str(error), boxes)
    except DAMAGED as error:
        reason = f"the statement is damaged ({type(error).__name__}: {error}); certify again"
        verdict = Verdict(NOT_VERIFIED, reason, boxes)
    finally:
        ctx.prec, ctx.cap = before
    return replace(verdict, seconds=time.monotonic() - started)


def is_at_prompt(file: ModelFile) -> bool:
    """Whether a file holds no network to load, but a proof at one prompt."""
    model = file.sections.get("model")
    return isinstance(model, dict) and model.get("kind") == KIND


def _at_prompt(file: ModelFile) -> Verdict:
    require("certificate" in file.sections, "the file holds no certificate")
    precision = precision_of(file.sections["model"]["dtype"])
    about = {"dtype": precision.name, "arithmetic": f"{precision.name} as run", "runtimes": precision.runtimes}
    reason, near = prove_prompt(file), file.sections["model"]["radius"]
    where = f"one prompt and all within {near:g} of it" if near else "one prompt"
    return Verdict(VERIFIED, reason, domain=where, hypotheses=hypotheses_of(precision), **about)


def _reproved(claim: Claim, progress: Progress) -> Verdict:
    """Every step of the evidence proved again, once the certificate is known to speak of the file's network."""
    kind, rows = claim.file.sections["model"]["kind"], []
    for step in claim.steps:
        require(step in STEPS, f"unknown step {step!r}; known are {', '.join(STEPS)}")
        require(STEPS[step].kind == kind, f"a step of type {step!r} says nothing about a {kind!r}")
        rows.append(STEPS[step].prove)
    require(len(set(rows)) == 1, "the steps do not belong to one proof")
    check_subject(claim.file)
    verdict = scoped(rows[0](claim.file, progress), claim.file)
    check_trust(claim, verdict)
    return verdict
