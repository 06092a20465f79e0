"""`softwright reproduce`: the papers' experiments rerun, constructed instead of trained; a CSV and a figure each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from softwright.cli.delivery import AsJson, argument
from softwright.cli.exits import exit_codes, print_json
from softwright.cli.screen import echo, print_facts, spinner

SETTINGS = {"no_args_is_help": False}


def reproduce_command(
    names: Annotated[
        list[str] | None,
        argument(
            "points, heads, range, heatmap, sequence, sequence-points, memory; all unless named.",
            metavar="[EXPERIMENT]...",
        ),
    ] = None,
    *,
    folder: Annotated[Path, typer.Option("-o", "--output", help="Folder for the CSV files and figures.")] = Path(
        "reproduced"
    ),
    trained: Annotated[
        bool, typer.Option("--trained", help="Also train models of the paper's shape with the published settings.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(help="Train with this many seeds at most; the published 11, 7 and 3 take hours.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rerun the experiments of papers A and C with constructed weights."""
    with exit_codes(as_json):
        from softwright.report.style import check_figure

        check_figure()
        from softwright.experiments.verb import PUBLISHED, reproduce

        with spinner("starting", quiet=as_json) as say:
            done = reproduce(names or None, folder, trained=trained, seeds=seeds, progress=say)
        if as_json:
            print_json({"ok": True, "experiments": [vars(each) for each in done]})
            return
        for each in done:
            print_facts(each.name, each.rows())
            echo("")
        total = sum(each.seconds + each.trained_seconds for each in done)
        echo(f"{len(done)} experiment(s) in {total:.1f} s")
        if trained:
            echo(PUBLISHED)
