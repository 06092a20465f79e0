"""`softwright recall`: what a memory says to texts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from softwright.cli.delivery import AsJson, argument, check_outputs, option
from softwright.cli.exits import exit_codes, print_json
from softwright.cli.screen import printable, spinner
from softwright.errors import Faults, InvalidInput


def recall_command(
    file: Annotated[Path, argument("A memory written by softwright memorize.")],
    texts: Annotated[list[str] | None, argument("Texts, each in quotes.", metavar="TEXT...")] = None,
    *,
    data: Annotated[Path | None, option("Ask for the rows of a .csv, .jsonl or .parquet file.", "--from")] = None,
    text: Annotated[str | None, option("With --from: the column of texts.")] = None,
    output: Annotated[Path | None, option("With --from: write a CSV file here.", "-o", "--output")] = None,
    unknown: Annotated[
        str, typer.Option(help="For texts never stored: nearest, the label of the nearest, or abstain.")
    ] = "abstain",
    engine: Annotated[str, typer.Option(help="pruned, or dense: attention over all that is stored.")] = "pruned",
    as_json: AsJson = False,
) -> None:
    """Recall the labels of texts from a memory."""
    with exit_codes(as_json):
        faults = Faults("recall")
        faults.check(bool(texts) != (data is not None), "give texts, or --from FILE with --text COLUMN; one of the two")
        faults.check(data is None or text is not None, "--from needs the column of texts; add --text COLUMN")
        faults.check(output is None or data is not None, "-o writes the rows of --from; add --from or leave -o out")
        faults.raise_if_any()
        check_outputs(output)
        with spinner("loading", quiet=as_json):
            from softwright.cli.rows.text_rows import read_rows

            asked = (
                _asked(texts or []) if data is None else [str(x) for x in read_rows(data, [text or ""], _no_step)[0]]
            )
            network = _memory(file)
            found = network.recall(_tokens(asked, network), unknown=unknown, engine=engine)
        answers = found.nested() if found.lengths is not None else list(found.labels)
        if output is not None:
            _write(output, asked, answers, found)
            if as_json:
                print_json({"ok": True, "rows": len(asked), "known": int(found.known.sum()), "file": str(output)})
            return
        if as_json:
            rows = [_row(x, y, found, i) for i, (x, y) in enumerate(zip(asked, answers, strict=True))]
            print_json({"ok": True, "answers": rows})
            return
        for i, answer in enumerate(answers):
            if found.lengths is not None or found.known[i]:
                typer.echo(printable(str(_plain(answer))))
            else:
                guess = "" if unknown == "abstain" else f"{printable(str(_plain(answer)))}  "
                far = found.distance[i]  # a folder of shards is not searched for the nearest unless that is asked for
                apart = f"; distance {far:.3g} from the nearest" if math.isfinite(far) else ""
                typer.echo(f"{guess}(never stored{apart})")


def _no_step(share: float) -> None:
    """Reading to ask is not worth a bar."""


def _asked(texts: list[str]) -> list[str]:
    """The command line puts a blank before what looks like an option; texts may begin with a dash."""
    return [text[1:] if text.startswith(" -") else text for text in texts]


def _tokens(asked: list[str], network: Any) -> Any:
    """Texts, or for a memory without a tokenizer the whole numbers that they spell."""
    if network.tokenizer is not None:
        return asked
    try:
        return [[int(word) for word in text.replace(",", " ").split()] for text in asked]
    except ValueError as error:
        fault = f"this memory holds whole numbers and no texts ({error}); ask for rows like '3 14 15'"
        raise InvalidInput("recall", [fault]) from error


def _memory(file: Path) -> Any:
    from softwright.result.built import load

    if file.is_dir():
        from softwright.memory.large.stored import open_shards, shard_by_shard

        if shard_by_shard(file):
            return open_shards(file)
    built = load(file)
    if built.kind != "memory":
        raise InvalidInput("recall", [f"{file} holds a network of kind {built.kind!r}, not a memory; use evaluate"])
    return built.network


def _plain(answer: Any) -> Any:
    return answer.tolist() if hasattr(answer, "tolist") else answer


def _number(value: Any) -> Any:
    """JSON has no nan and no infinity: an abstention is null."""
    if isinstance(value, list):
        return [_number(x) for x in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _row(asked: str, answer: Any, found: Any, i: int) -> dict[str, Any]:
    row = {"text": asked, "label": _number(_plain(answer))}
    if found.lengths is None:
        row |= {
            "known": bool(found.known[i]),
            "distance": _number(float(found.distance[i])),
            "weight": float(found.weight[i]),
        }
    return row


def _write(output: Path, asked: list[str], answers: list[Any], found: Any) -> None:
    from softwright.targets.table_files import write_csv

    rows: list[list[Any]] = [["text", "label", "known", "distance"]]
    for i, (x, y) in enumerate(zip(asked, answers, strict=True)):
        known = found.lengths is not None or bool(found.known[i])
        distance = "" if found.lengths is not None else repr(float(found.distance[i]))
        rows.append([x, _plain(y), known, distance])
    write_csv(output, rows)
