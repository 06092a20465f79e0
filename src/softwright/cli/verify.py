"""`softwright verify`: re-prove the certificate in a file.

The checker shares no code with the prover and needs no torch, so this command starts at once.
"""

from __future__ import annotations

import typer

from softwright.cli.delivery import AsJson, ModelFile
from softwright.cli.exits import CHECK_FAILED, exit_codes, print_json
from softwright.cli.screen import echo, spinner


def verify_command(
    file: ModelFile,
    as_json: AsJson = False,
) -> None:
    """Re-prove the certificate in a file; VERIFIED, or what fails and where."""
    with exit_codes(as_json):
        with spinner("reading the certificate", quiet=as_json) as say:
            from softwright.checker.verify import reprove
            from softwright.fileformat import read_model

            content = read_model(file)  # a file that cannot be read is a file error, not a failed proof
            verdict = reprove(content, progress=say)
        if as_json:
            said = {"ok": verdict.verified, "file": str(file), "status": verdict.status, "reason": verdict.reason}
            print_json({**said, "boxes": verdict.boxes, "seconds": verdict.seconds})
        else:
            echo(str(verdict))
    if not verdict:
        raise typer.Exit(CHECK_FAILED)
