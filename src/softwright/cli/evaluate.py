"""`softwright evaluate`: a stored network at one point, at every row of a CSV or Parquet file, or on one sequence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from softwright.cli.assignments import read_point, read_sequence, split_assignments
from softwright.cli.delivery import AsJson, ModelFile, argument, check_outputs, option
from softwright.cli.exits import exit_codes, print_json
from softwright.cli.screen import spinner, warn
from softwright.errors import Faults, InvalidInput

if TYPE_CHECKING:
    from softwright.cli.rows.evaluation import RowEvaluation
    from softwright.result.built import Built


def evaluate_command(
    file: ModelFile,
    point: Annotated[
        list[str] | None,
        argument(
            "One value for each variable: x=0.3 y=pi/4; of a program, sequences: s=abba x=0.1,0.2,0.3,1/2",
            metavar="NAME=VALUE...",
        ),
    ] = None,
    *,
    csv: Annotated[Path | None, option("Evaluate at the rows of this CSV file instead.")] = None,
    parquet: Annotated[Path | None, option("The same of a Parquet file, into one; with -o.")] = None,
    output: Annotated[Path | None, option("With --csv: write here, not to stdout.", "-o", "--output")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Points outside the box are an error.")] = False,
    engine: Annotated[str | None, option("Run by this engine (sdpa, factorised, double), not by its own.")] = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a stored network at a point, at the rows of a CSV or Parquet file, or a program on a sequence."""
    with exit_codes(as_json):
        faults = Faults("evaluate")
        others, assigned = split_assignments(point or [])
        if csv is None and parquet is None:
            faults.check(output is None, "-o writes the rows of --csv; add --csv FILE or leave -o out")
            faults.check(bool(point), "no point; give NAME=VALUE for each variable, or --csv FILE")
        else:
            faults.check(not point, "a point and --csv or --parquet; give one of the two")
            faults.check(csv is None or parquet is None, "--csv and --parquet; give one of the two")
            faults.check(output is not None or not as_json, "--json with --csv needs -o FILE for the rows")
            faults.check(output is not None or parquet is None, "--parquet needs -o FILE, which will be a Parquet file")
        for other in others:
            option = "--parquet" if other.endswith((".parquet", ".pq")) else "--csv"
            remedy = f"rows of a file are {option} {other}" if Path(other).is_file() else "write for example x=0.3"
            faults.add(f"{other!r} is not NAME=VALUE; {remedy}")
        faults.raise_if_any()
        check_outputs(output)
        done: RowEvaluation | None = None
        with spinner("loading", quiet=as_json) as say:
            from softwright.cli.rows.csv_rows import Evaluation
            from softwright.cli.rows.parquet_rows import ParquetEvaluation
            from softwright.result.built import load
            from softwright.result.kinds import kind_of

            built = load(file)
            command = kind_of(built.kind).command
            if command != "evaluate":
                other = f"softwright {command}" if command else "Python: softwright.load(file).network"
                raise InvalidInput("evaluate", [f"{file} holds a network of kind {built.kind!r}; use {other}"])
            if engine is not None:
                if built.kind != "approximation":
                    raise InvalidInput("evaluate", [f"a network of kind {built.kind!r} has one engine; leave it out"])
                built.network.engine = engine
            if built.kind == "program" and (csv or parquet) is not None:
                how = f"give its fields as sequences: {' '.join(f'{name}=...' for name in built.network.names)}"
                raise InvalidInput("evaluate", [f"rows of a table are no sequences, and {file} holds a program; {how}"])
            if csv is not None:
                done = Evaluation(built, csv, strict, say)
                done.write(output)
            if parquet is not None and output is not None:
                done = ParquetEvaluation(built, parquet, strict, say)
                done.write(output)
        if built.kind == "program":
            _one_sequence(built, assigned, faults, as_json)
            return
        if done is None:
            _one_point(built, read_point(assigned, built.network.names, faults), faults, strict, as_json)
            return
        if done.outside:
            box = built.network.box
            warn(f"{done.outside} of {done.rows} points lie outside the box {box}; nothing is claimed there")
        if as_json:
            print_json({"ok": True, "rows": done.rows, "outside": done.outside, "file": str(output)})


def _one_point(built: Built, point: dict[str, float], faults: Faults, strict: bool, as_json: bool) -> None:
    import numpy as np

    faults.raise_if_any()
    box = built.network.box
    x = np.array([[point[name] for name in box.names]])
    inside = bool(box.contains(x)[0])
    if not inside and strict:
        raise InvalidInput("evaluate", [f"the point lies outside {box}; move it or leave --strict out"])
    if not inside:
        warn(f"the point lies outside the box {box}; nothing is claimed there")
    values = built(x)[0].tolist()
    if as_json:
        print_json({"ok": True, "point": point, "inside": inside, "values": values})
    else:
        typer.echo(" ".join(repr(value) for value in values))


def _one_sequence(built: Built, assigned: list[tuple[str, str]], faults: Faults, as_json: bool) -> None:
    """A program's value at every token, one line each."""
    network = built.network
    texts = dict(assigned)
    faults.check(len(texts) == len(assigned), "a field is given twice; give each once")
    missing, unknown = set(network.names) - texts.keys(), sorted(texts.keys() - set(network.names))
    faults.check(not missing, f"no values for {', '.join(sorted(missing))}; give NAME=VALUES, such as x=0.1,0.2 s=ab")
    faults.check(not unknown, f"tokens have no field {', '.join(unknown)}; they have {', '.join(network.names)}")
    faults.raise_if_any()
    given = {field["name"]: read_sequence(field, texts[field["name"]], faults) for field in network.fields}
    faults.raise_if_any()
    values = network.evaluate(**given).tolist()
    if as_json:
        print_json({"ok": True, "sequence": given, "values": values})
        return
    for value in values:
        typer.echo(" ".join(str(part) for part in (value if isinstance(value, list) else [value])))
