"""`softwright reproduce`: the papers' experiments rerun, constructed instead of trained; a CSV and a figure each."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from softwright.cli.exits import exit_codes, print_json
from softwright.cli.screen import print_facts, spinner
from softwright.errors import InvalidInput


def reproduce_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="points, heads, range, heatmap, sequence, memory; all unless named.",
            metavar="[EXPERIMENT]...",
            show_default=False,
        ),
    ] = None,
    *,
    folder: Annotated[Path, typer.Option("-o", "--output", help="Folder for the CSV files and figures.")] = Path(
        "reproduced"
    ),
    trained: Annotated[
        bool, typer.Option("--trained", help="Also train models of the paper's shape with the published settings.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Rerun the experiments of papers A and C with constructed weights."""
    with exit_codes(as_json):
        if find_spec("matplotlib") is None:
            raise InvalidInput("reproduce", ["matplotlib is missing; install it with: pip install 'softwright[plot]'"])
        from softwright.experiments.verb import PUBLISHED, reproduce

        with spinner("starting", quiet=as_json) as say:
            done = reproduce(names or None, folder, trained=trained, progress=say)
        if as_json:
            print_json({"ok": True, "experiments": [vars(each) for each in done]})
            return
        for each in done:
            print_facts(each.name, each.rows())
            typer.echo("")
        total = sum(each.seconds + each.trained_seconds for each in done)
        typer.echo(f"{len(done)} experiment(s) in {total:.1f} s")
        if trained:
            typer.echo(PUBLISHED)
