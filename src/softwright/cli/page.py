"""`softwright page`: a stored network as a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from softwright.cli.delivery import AsJson, ModelFile, check_outputs, option
from softwright.cli.exits import exit_codes, print_json
from softwright.cli.screen import print_facts, spinner


def page_command(
    file: ModelFile,
    *,
    output: Annotated[Path, option("Write the page to this file (.html).", "-o", "--output")],
    as_json: AsJson = False,
) -> None:
    """Write a page that evaluates a stored network, shows what it attends to and says what is proved of it."""
    with exit_codes(as_json):
        check_outputs(output)
        with spinner("loading", quiet=as_json) as say:
            from softwright.result.built import load

            built = load(file)
            say("writing")
            built.page(output, file=file.name)
        size = output.stat().st_size
        if as_json:
            print_json({"ok": True, "page": str(output), "bytes": size, "kind": built.kind})
        else:
            print_facts("softwright", [("page", str(output)), ("bytes", str(size)), ("kind", built.kind)])
