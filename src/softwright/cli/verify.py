"""`softwright verify`: re-prove the certificate in a file.

The checker shares no code with the prover and needs no torch, so this command starts at once.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from softwright.cli.delivery import AsJson, Cluster, ModelFile, Resume, Workers
from softwright.cli.exits import CHECK_FAILED, GIVEN, OK, ON_A_PART, exit_codes, print_json
from softwright.cli.screen import echo, spinner
from softwright.errors import FileFormatError
from softwright.version import __version__

if TYPE_CHECKING:
    from softwright.records import Record

_CODES = {"VERIFIED": OK, "VERIFIED ON A PART": ON_A_PART, "VERIFIED GIVEN": GIVEN, "NOT VERIFIED": CHECK_FAILED}


def _record(folder: Path, file: Path) -> Record:
    """The record of this very file; others must not be able to write there, because it is believed."""
    from softwright.records import Record

    file = file / "index.json" if file.is_dir() else file  # which names the digests of the others
    if not file.is_file():
        raise FileFormatError(f"{file}: no such file")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return Record(folder, {"what": "verify", "file": digest, "version": __version__}, private=True)


def verify_command(
    file: ModelFile,
    max_seconds: Annotated[
        float, typer.Option(min=0.0, help="What is not proved in this time is not verified.")
    ] = 600.0,
    workers: Workers = None,
    cluster: Cluster = None,
    resume: Resume = None,
    as_json: AsJson = False,
) -> None:
    """Re-prove the certificate in a file, or in a folder of shards; VERIFIED, or what fails and where.

    A long proof is cut into pieces for the processes or the cluster named. What they return is believed, and so are
    pieces that an earlier run wrote into the folder of --resume.
    """
    with exit_codes(as_json):
        with spinner("reading the certificate", quiet=as_json) as say:
            from softwright.checker.verify import reprove_file
            from softwright.scale import crew, several

            record = None if resume is None else _record(resume, file)
            # A file that cannot be read is a file error, not a failed proof.
            who = workers or (None if cluster is not None else several())
            with crew(workers=who, cluster=cluster, record=record) as hands:
                apart = hands if hands.executor is not None or record is not None else None
                verdict = reprove_file(file, progress=say, max_seconds=max_seconds, executor=apart)
        earlier = 0 if record is None else record.kept
        if as_json:
            recorded = {} if record is None else {"pieces_recorded_earlier": earlier}
            print_json({"ok": verdict.verified, "file": str(file), **verdict.to_json(), **recorded})
        else:
            echo(str(verdict))
            if earlier:
                echo(f"{earlier} pieces were proved by an earlier run, as {resume} says")
    if not verdict:
        raise typer.Exit(_CODES[verdict.status])
