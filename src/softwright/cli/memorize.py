"""`softwright memorize`: texts and their labels, from a file, become a memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from softwright.cli.delivery import AsJson, Certify, Dtype, Explain, Output, Page, Plot, argument, delivery, option
from softwright.errors import Faults, InvalidInput


def memorize_command(
    data: Annotated[Path, argument("A .csv, .jsonl or .parquet file: one text per row.")],
    *,
    text: Annotated[str, option("The column that holds the texts.")],
    label: Annotated[str, option("The column that holds the labels.")],
    values: Annotated[bool, typer.Option("--values", help="Labels are real numbers, not classes.")] = False,
    tokenizer: Annotated[
        str, typer.Option(help="whitespace, bytes, or a file of the package tokenizers.")
    ] = "whitespace",
    unordered: Annotated[bool, typer.Option("--unordered", help="The order of tokens does not matter.")] = False,
    readout: Annotated[str, typer.Option(help="attention or feedforward.")] = "attention",
    rank: Annotated[int | None, option("Rank of W_V; the smallest that works.")] = None,
    dtype: Dtype = "float64",
    max_seconds: Annotated[float, typer.Option(help="Most seconds the search may take.")] = 300.0,
    certify: Certify = True,
    output: Output = None,
    shards: Annotated[int | None, option("Make OUTPUT a folder of files with this many rows each.")] = None,
    plot: Plot = None,
    page: Page = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Store texts with their labels in one attention layer and a readout, for exact recall."""
    with delivery(output, plot, as_json, page=page, explain=explain, folder=shards is not None) as deliver:
        faults = Faults("memorize")
        faults.check(shards is None or output is not None, "--shards names the size of the files of -o; add -o FOLDER")
        faults.check(shards is None or shards >= 1, f"--shards {shards}: give at least 1")
        faults.raise_if_any()
        from softwright.cli.rows.text_rows import read_rows
        from softwright.memory.verb import memorize

        texts, labels = read_rows(data, [text, label], lambda share: deliver.say(f"reading, {share:.0%}"))
        built = memorize(
            [str(one) for one in texts],
            _numbers(labels, label) if values else labels,
            label_kind="values" if values else "classes",
            tokenizer=tokenizer,
            positional=not unordered,
            readout=readout,
            rank=rank,
            dtype=dtype,
            max_seconds=max_seconds,
            certify=certify,
            progress=deliver.say,
        )
        deliver(built, save=lambda path: built.save(path, rows=shards))


def _numbers(labels: list[Any], name: str) -> list[float]:
    faults = Faults("memorize")
    found = []
    for row, label in enumerate(labels, 1):
        try:
            found.append(float(label))
        except (TypeError, ValueError, OverflowError):  # the last: a whole number beyond all floats
            spelt = repr(label)[:60]
            if faults.check(len(faults.found) >= 5, f"row {row}, column {name!r}: {spelt} is not a number; mend it"):
                break
    if faults.found:
        raise InvalidInput("memorize", faults.found)
    return found
