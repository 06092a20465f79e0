"""`softwright verify`: re-prove the certificate in a file.

The checker shares no code with the prover and needs no torch, so this command starts at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from softwright.cli.delivery import AsJson, ModelFile
from softwright.cli.exits import CHECK_FAILED, GIVEN, OK, ON_A_PART, exit_codes, print_json
from softwright.cli.screen import echo, spinner

_CODES = {"VERIFIED": OK, "VERIFIED ON A PART": ON_A_PART, "VERIFIED GIVEN": GIVEN, "NOT VERIFIED": CHECK_FAILED}


def verify_command(
    file: ModelFile,
    max_seconds: Annotated[
        float, typer.Option(min=0.0, help="What is not proved in this time is not verified.")
    ] = 600.0,
    as_json: AsJson = False,
) -> None:
    """Re-prove the certificate in a file; VERIFIED, or what fails and where."""
    with exit_codes(as_json):
        with spinner("reading the certificate", quiet=as_json) as say:
            from softwright.checker.verify import reprove_file

            # A file that cannot be read is a file error, not a failed proof.
            verdict = reprove_file(file, progress=say, max_seconds=max_seconds)
        if as_json:
            print_json({"ok": verdict.verified, "file": str(file), **verdict.to_json()})
        else:
            echo(str(verdict))
    if not verdict:
        raise typer.Exit(_CODES[verdict.status])
