"""`softwright program`: the programs over sequences that come with softwright, by name."""

from __future__ import annotations

from typing import Annotated

import typer

from softwright.cli.delivery import AsJson, Certify, Dtype, Explain, Output, Plot, argument, delivery
from softwright.cli.exits import exit_codes, print_json
from softwright.cli.screen import print_facts


def program_command(
    name: Annotated[str, argument('A name, or "list" for all of them.')],
    *,
    length: Annotated[int | None, typer.Option(help="Longest sequence; the row's own unless given.")] = None,
    dtype: Dtype = "float64",
    certify: Certify = True,
    output: Output = None,
    plot: Plot = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """List the programs that come with softwright, or compile one of them."""
    from softwright.programs.library import LIBRARY, example

    if name == "list":
        with exit_codes(as_json):
            if as_json:
                rows = [{"name": row.name, "meaning": row.meaning, "program": row.text} for row in LIBRARY.values()]
                print_json({"ok": True, "programs": rows})
            else:
                print_facts("programs", [(row.name, f"{row.meaning}: {row.text}") for row in LIBRARY.values()])
        return
    with delivery(output, plot, as_json, explain=explain) as deliver:
        row = example(name)
        from softwright.programs.verb import compile as build

        deliver(build(row.text, row.tokens(length), tol=row.tol, dtype=dtype, certify=certify, progress=deliver.say))
