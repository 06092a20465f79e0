"""`softwright theorem`: the papers' constructions, listed, built, measured and drawn."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softwright.cli.exits import exit_codes, print_json
from softwright.cli.facts import as_json_facts
from softwright.cli.screen import print_facts, spinner
from softwright.errors import Faults, FileFormatError, InvalidInput

if TYPE_CHECKING:
    from softwright.result.built import Built
    from softwright.theorems.verb import Row

SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": ["-h", "--help"]}


def theorem_command(
    context: typer.Context,
    label: Annotated[
        str | None, typer.Argument(help="A1 to A6, B1 to B4, C1 to C6; none lists them all.", show_default=False)
    ] = None,
    *,
    sweep: Annotated[bool, typer.Option("--sweep", help="One row for each size of the theorem's own sweep.")] = False,
    proofs: Annotated[
        bool, typer.Option("--proofs/--no-proofs", help="Ask softwright's own prover for its bound as well.")
    ] = True,
    sizes_help: Annotated[bool, typer.Option("--sizes", help="What the label says and the sizes it takes.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the network to this file.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write a figure to this file (.png, .svg, .pdf).", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Build a theorem's construction: `softwright theorem A2 --heads 16`; sizes are given as --name value."""
    with exit_codes(as_json):
        if label is None:
            _list(as_json)
            return
        for path in (output, plot):
            if path is not None and not path.parent.is_dir():
                raise FileFormatError(f"{path}: the folder {path.parent} does not exist; create it first")
        if plot is not None and find_spec("matplotlib") is None:
            raise InvalidInput("--plot", ["matplotlib is missing; install it with: pip install 'softwright[plot]'"])
        from softwright.theorems.verb import row, sweep_rows, theorem

        builder = theorem(label)
        if sizes_help:
            typer.echo(repr(builder))
            return
        given = read_sizes(context.args, builder.options, builder.label)
        with spinner(f"building {builder.label}", quiet=as_json) as say:
            built = builder.build(**given)
            say("comparing")
            rows = [row(built.source, size="as asked", proofs=proofs)]
            if sweep:
                rows += sweep_rows(builder.theorem, given)
            if output is not None:
                built.save(output)
            if plot is not None:
                say("drawing")
                built.plot(plot)
        written = {name: str(path) for name, path in (("file", output), ("plot", plot)) if path is not None}
        _report(built, rows, written, as_json)


def read_sizes(arguments: list[str], options: Any, label: str) -> dict[str, str]:
    """The pairs --name value (or --name=value) that a label declares; everything else is a fault."""
    faults = Faults(f"theorem {label}")
    known = {option.name: option for option in options if option.type is not object}
    found: dict[str, str] = {}
    rest = [argument.removeprefix(" ") if argument.startswith(" -") else argument for argument in arguments]
    while rest:
        text = rest.pop(0)
        if not text.startswith("--"):
            faults.add(f"{text!r} is not an option; sizes are given as --name value, for example --{next(iter(known))}")
            continue
        name, equals, value = text[2:].partition("=")
        name = name.replace("-", "_")
        if name not in known:
            taken = ", ".join(f"--{other.replace('_', '-')}" for other in known)
            faults.add(f"{label} has no size {text!r}; it takes {taken}")
            if not equals and rest and not rest[0].startswith("--"):
                rest.pop(0)
            continue
        if not equals:
            if not rest:
                faults.add(f"{text} needs a value")
                continue
            value = rest.pop(0)
        found[name] = value.strip()
    faults.raise_if_any()
    return found


def _list(as_json: bool) -> None:
    from softwright.theorems import LABELS, find_theorem

    found = [find_theorem(label) for label in LABELS]
    if as_json:
        print_json({"ok": True, "theorems": [{"label": t.label, "title": t.title, "paper": t.paper} for t in found]})
        return
    print_facts("theorems", [(t.label, t.title) for t in found])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _bound(line: Row) -> str:
    """The theorem's bound; with the proved rounding where that is what is seen."""
    return _number(line.bound) + (f" + {line.rounding:.2g}" if line.rounding > 1e-3 * line.bound else "")


def _report(built: Built, rows: list[Row], written: dict[str, str], as_json: bool) -> None:
    if as_json:
        table = [vars(line) | {"softwright": {k: list(v) for k, v in line.softwright.items()}} for line in rows]
        print_json({"ok": True, **as_json_facts(built), "table": table, **written})
        return
    print_facts(built.plan.strategy, [*built.rows(), *[("because", reason) for reason in built.plan.reasons]])
    typer.echo("")
    print_table(rows)
    for name, place in written.items():
        typer.echo(f"{name}  {place}")


def table_of(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Header and cells of a theorem's table."""
    header = ["size", "layers", "heads", "tokens", "theorem's bound", "our prover", "observed"]
    cells = [
        [
            line.size,
            str(line.layers),
            str(line.heads),
            str(line.tokens),
            _bound(line),
            _number(line.proved),
            _number(line.observed),
        ]
        for line in rows
    ]
    for line in rows:
        for name, (tokens, error) in line.softwright.items():
            proved = name.endswith("(proved)")  # a bound, not a sample: it stands in the prover's column
            cells.append([name, "", "", str(tokens), "", *([_number(error), ""] if proved else ["", _number(error)])])
    return header, cells


def print_table(rows: list[Row]) -> None:
    header, cells = table_of(rows)
    widths = [max(len(line[i]) for line in [header, *cells]) for i in range(len(header))]
    for line in [header, *cells]:
        text = "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        typer.echo(text.rstrip())
