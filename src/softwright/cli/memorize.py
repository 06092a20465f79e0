"""`softwright memorize`: texts and their labels, from a file, become a memory; a folder of arrays one by shards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from softwright.cli.delivery import (
    AsJson,
    Certify,
    Cluster,
    Dtype,
    Explain,
    Output,
    Page,
    Plot,
    Resume,
    Workers,
    argument,
    delivery,
    option,
)
from softwright.cli.exits import exit_codes, print_json
from softwright.cli.screen import print_facts, spinner
from softwright.errors import Faults, FileFormatError, InvalidInput


def memorize_command(
    data: Annotated[
        Path,
        argument("A .csv, .jsonl or .parquet file, one text per row; or a folder of .npz files, one piece each."),
    ],
    *,
    text: Annotated[str | None, option("The column that holds the texts.")] = None,
    label: Annotated[str | None, option("The column that holds the labels.")] = None,
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
    workers: Workers = None,
    cluster: Cluster = None,
    resume: Resume = None,
    plot: Plot = None,
    page: Page = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Store texts with their labels in one attention layer and a readout, for exact recall.

    A folder of .npz files, each with arrays `sequences` (rows of whole numbers) and `labels`, becomes the folder
    OUTPUT, piece by piece, by processes of this machine or the cluster named: no more than a piece is in memory.
    """
    if data.is_dir():
        with exit_codes(as_json):
            foreign = {"--text": text, "--label": label, "--plot": plot, "--page": page}
            _by_shards(data, output, shards, foreign, unordered, rank, dtype, workers, cluster, resume, as_json)
        return
    with delivery(output, plot, as_json, page=page, explain=explain, folder=shards is not None) as deliver:
        faults = Faults("memorize")
        faults.check(text is not None, "which column holds the texts? add --text COLUMN")
        faults.check(label is not None, "which column holds the labels? add --label COLUMN")
        alone = "is for a folder of .npz files; a file of texts is memorised by this process"
        faults.check(workers is None, f"--workers {alone}")
        faults.check(cluster is None, f"--cluster {alone}")
        faults.check(resume is None, f"--resume {alone}")
        faults.check(shards is None or output is not None, "--shards names the size of the files of -o; add -o FOLDER")
        faults.check(shards is None or shards >= 1, f"--shards {shards}: give at least 1")
        faults.raise_if_any()
        from softwright.cli.rows.text_rows import read_rows
        from softwright.memory.verb import memorize

        texts, labels = read_rows(data, [str(text), str(label)], lambda share: deliver.say(f"reading, {share:.0%}"))
        built = memorize(
            [str(one) for one in texts],
            _numbers(labels, str(label)) if values else labels,
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


def _by_shards(
    data: Path,
    output: Path | None,
    shards: int | None,
    foreign: dict[str, Any],
    unordered: bool,
    rank: int | None,
    dtype: str,
    workers: int | None,
    cluster: str | None,
    resume: Path | None,
    as_json: bool,
) -> None:
    """A folder of arrays into a folder of shards."""
    faults = Faults("memorize")
    pieces = sorted(str(path) for path in data.glob("*.npz"))
    faults.check(bool(pieces), f"{data} holds no .npz files; write some with numpy.savez(sequences=..., labels=...)")
    faults.check(output is not None, "where to? a folder of pieces becomes a folder: add -o FOLDER")
    for name, value in foreign.items():
        faults.check(value is None, f"{name} is for a file of texts; leave it out for a folder of arrays")
    faults.check(shards is None or shards >= 1, f"--shards {shards}: give at least 1")
    faults.raise_if_any()
    if output is None:
        raise RuntimeError("unreachable: a missing output is a fault")
    if output.exists():
        raise FileFormatError(f"{output}: exists already; remove it or choose another name")
    with spinner("memorizing", quiet=as_json) as say:
        from softwright.memory.large.verb import memorize_shards
        from softwright.scale import several

        stored = memorize_shards(
            pieces,
            output,
            positional=not unordered,
            rank=rank,
            dtype=dtype,
            rows=shards,
            cluster=cluster,
            workers=workers or (None if cluster is not None or len(pieces) == 1 else several()),
            resume=resume,
            progress=say,
        )
    if as_json:
        print_json({"ok": True, "file": str(output), **stored.summary()})
        return
    shown = {
        "gap": "smallest gap of ids",
        "bound": "proved error",
        "observed_error": "observed error",
        "asked": "asked",
    }
    print_facts("softwright", [(shown.get(name, name), str(value)) for name, value in stored.summary().items()])
