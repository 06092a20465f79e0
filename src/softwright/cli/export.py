"""`softwright export`: a stored network in a format for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from softwright.cli.delivery import AsJson, ModelFile, check_outputs, option
from softwright.cli.exits import exit_codes, print_json
from softwright.cli.screen import print_facts, spinner


def export_command(
    file: ModelFile,
    *,
    output: Annotated[Path, option("Write here; the ending names the format.", "-o", "--output")],
    format: Annotated[str | None, option("The format, where the ending does not name it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a stored network in a format for other programs."""
    with exit_codes(as_json):
        if format == "hf" or (format is None and output.name.endswith(".hf")):
            from softwright.fileformat import new_folder

            new_folder(output)
        else:
            check_outputs(output)
        with spinner("loading", quiet=as_json) as say:
            from softwright.export import export
            from softwright.result.built import load

            built = load(file)
            say("writing")
            row = export(built, output, format)
        if as_json:
            print_json({"ok": True, "file": str(output), "format": row.name, "kind": built.kind})
        else:
            print_facts("softwright", [("file", str(output)), ("format", f"{row.name}: {row.summary}")])
