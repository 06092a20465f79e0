"""`softwright memorize`: texts and their labels, from a file, become a memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from softwright.cli.exits import exit_codes, print_json
from softwright.cli.facts import as_json_facts
from softwright.cli.screen import print_facts, spinner
from softwright.cli.text_rows import Step, read_rows
from softwright.errors import Faults, FileFormatError, InvalidInput


def memorize_command(
    data: Annotated[Path, typer.Argument(help="A .csv, .jsonl or .parquet file, one text a row.", show_default=False)],
    *,
    text: Annotated[str, typer.Option(help="The column that holds the texts.", show_default=False)],
    label: Annotated[str, typer.Option(help="The column that holds the labels.", show_default=False)],
    values: Annotated[bool, typer.Option("--values", help="Labels are real numbers, not classes.")] = False,
    tokenizer: Annotated[
        str, typer.Option(help="whitespace, bytes, or a file of the package tokenizers.")
    ] = "whitespace",
    unordered: Annotated[bool, typer.Option("--unordered", help="The order of tokens does not matter.")] = False,
    readout: Annotated[str, typer.Option(help="attention or feedforward.")] = "attention",
    rank: Annotated[int | None, typer.Option(help="Rank of W_V; the smallest that works.", show_default=False)] = None,
    dtype: Annotated[str, typer.Option(help="What the network runs in: float64 or float32.")] = "float64",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the memory to this file.", show_default=False)
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(help="Make OUTPUT a folder of files with this many rows each.", show_default=False),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write a figure to this file (.png, .svg, .pdf).", show_default=False)
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say why this construction was chosen.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Store texts with their labels in one attention layer and a readout, for exact recall."""
    with exit_codes(as_json):
        faults = Faults("memorize")
        for path in (output, plot):
            if path is not None and not path.parent.is_dir():
                raise FileFormatError(f"{path}: the folder {path.parent} does not exist; create it first")
        faults.check(shards is None or output is not None, "--shards names the size of the files of -o; add -o FOLDER")
        faults.check(shards is None or shards >= 1, f"--shards {shards}: give at least 1")
        missing = plot is not None and find_spec("matplotlib") is None
        faults.check(not missing, "--plot needs matplotlib; install it with: pip install 'softwright[plot]'")
        faults.raise_if_any()
        if shards is not None and output is not None and output.exists():
            raise FileFormatError(f"{output}: exists already; remove it or choose another name")
        with _reading_bar(quiet=as_json) as step:
            texts, labels = read_rows(data, [text, label], step)
        with spinner("loading", quiet=as_json) as say:
            from softwright.memory.verb import memorize

            built = memorize(
                [str(one) for one in texts],
                _numbers(labels, label) if values else labels,
                label_kind="values" if values else "classes",
                tokenizer=tokenizer,
                positional=not unordered,
                readout=readout,
                rank=rank,
                dtype=dtype,
                progress=say,
            )
            if output is not None:
                say("writing")
                if shards is None:
                    built.save(output)
                else:
                    from softwright.memory.shards import save_shards

                    save_shards(built, output, rows=shards)
            if plot is not None:
                say("drawing")
                built.plot(plot)
        written = {kind: str(path) for kind, path in (("file", output), ("plot", plot)) if path is not None}
        if as_json:
            print_json({"ok": True, **as_json_facts(built), **written})
            return
        print_facts("softwright", [*built.rows(), *written.items()])
        if explain:
            typer.echo(built.plan.explain())


def _numbers(labels: list[Any], name: str) -> list[float]:
    faults = Faults("memorize")
    found = []
    for row, label in enumerate(labels, 1):
        try:
            found.append(float(label))
        except (TypeError, ValueError):
            if faults.check(len(faults.found) >= 5, f"row {row}, column {name!r}: {label!r} is not a number; mend it"):
                break
    if faults.found:
        raise InvalidInput("memorize", faults.found)
    return found


@contextmanager
def _reading_bar(quiet: bool) -> Iterator[Step]:
    """A bar on stderr that fills while a file is read; nothing where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda share: None
        return
    columns = (TextColumn("reading"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("reading", total=1.0)
        yield lambda share: progress.update(task, completed=share)
