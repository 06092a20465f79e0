"""`softwright info`: what a file holds. Its network is read, not built, so this command needs no torch."""

from __future__ import annotations

import textwrap

from softwright.cli.delivery import AsJson, ModelFile
from softwright.cli.exits import exit_codes, print_json
from softwright.cli.facts import as_json_facts
from softwright.cli.screen import echo, print_facts, spinner


def info_command(
    file: ModelFile,
    as_json: AsJson = False,
) -> None:
    """Show target, domain, plan, size and error of a stored network."""
    with exit_codes(as_json):
        with spinner("loading", quiet=as_json):
            from softwright.result.described import described

            built, digest = described(file)
        if as_json:
            print_json({"ok": True, "file": str(file), "weights_sha256": digest, **as_json_facts(built)})
            return
        print_facts(str(file), [*built.rows(), ("weights", f"sha256 {digest}")])
        echo(built.plan.explain())
        if built.certificate is not None:
            echo("certificate:\n" + textwrap.indent(str(built.certificate), "  "))
