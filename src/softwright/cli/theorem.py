"""`softwright theorem`: the papers' constructions, listed, built, measured and drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from softwright.cli.delivery import AsJson, Certify, Dtype, Output, Page, Plot, argument, delivery
from softwright.cli.exits import exit_codes, print_json
from softwright.cli.screen import print_facts
from softwright.errors import Faults
from softwright.theorems import LABELS, find_theorem, labels_in_words

if TYPE_CHECKING:
    from softwright.theorems.verb import Row

SETTINGS: dict[str, Any] = {
    "no_args_is_help": False,
    "context_settings": {
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "help_option_names": ["-h", "--help"],
    },
}


def _labels(incomplete: str) -> list[str]:
    return [label for label in LABELS if label.startswith(incomplete.upper())]


def theorem_command(
    context: typer.Context,
    label: Annotated[str | None, argument(f"{labels_in_words()}; none lists them all.", autocompletion=_labels)] = None,
    *,
    sweep: Annotated[bool, typer.Option("--sweep", help="One row for each size of the theorem's own sweep.")] = False,
    proofs: Annotated[
        bool, typer.Option("--proofs/--no-proofs", help="Ask softwright's own prover for its bound as well.")
    ] = True,
    program: Annotated[
        str | None, typer.Option(help="A map of the theorem's kind (A3, C5) of any size, built by compile.")
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(help='What a program\'s tokens bring: "length=1:128 x=-1:1"; else a size.')
    ] = None,
    tol: Annotated[float, typer.Option(help="Largest allowed deviation of the program.")] = 1e-6,
    dtype: Dtype = "float64",
    certify: Certify = True,
    sizes_help: Annotated[bool, typer.Option("--sizes", help="What the label says and the sizes it takes.")] = False,
    output: Output = None,
    plot: Plot = None,
    page: Page = None,
    as_json: AsJson = False,
) -> None:
    """Build a theorem's construction: `softwright theorem A2 --heads 16`; sizes are given as --name value."""
    if label is None or sizes_help:
        with exit_codes(as_json):
            _describe(label, as_json)
        return
    with delivery(output, plot, as_json, page=page) as deliver:
        from softwright.theorems.verb import row, sweep_rows, theorem

        builder = theorem(label)
        if program is not None:
            read_sizes(context.args, (), builder.label)
            deliver(builder.compile(program, tokens, tol=tol, dtype=dtype, certify=certify, progress=deliver.say))
            return
        sizes = [] if tokens is None else [f"--tokens={tokens}"]  # without a program, a theorem's own size
        given = read_sizes([*context.args, *sizes], builder.options, builder.label)
        built = builder.build(**given, dtype=dtype, certify=certify, progress=deliver.say)
        deliver.say("comparing")
        rows = [row(built.source, size="as asked", proofs=proofs)]
        if sweep:
            rows += sweep_rows(builder.theorem, given)
        table = [
            vars(line) | {"softwright": {k: [v.tokens, v.error] for k, v in line.softwright.items()}} for line in rows
        ]
        because = [("because", reason) for reason in built.plan.reasons]
        deliver(built, more={"table": table}, rows=because, lines=["", *table_lines(rows)])


def read_sizes(arguments: list[str], options: Any, label: str) -> dict[str, Any]:
    """The pairs --name value (or --name=value) that a label declares; everything else is a fault."""
    faults = Faults(f"theorem {label}")
    known = {option.name: option for option in options if option.type is not object}
    found: dict[str, Any] = {}
    rest = [argument.removeprefix(" ") if argument.startswith(" -") else argument for argument in arguments]
    while rest:
        text = rest.pop(0)
        if not text.startswith("--"):
            first = f", for example --{next(iter(known))}" if known else "; a program takes none"
            faults.add(f"{text!r} is not an option; sizes are given as --name value{first}")
            continue
        name, equals, value = text[2:].partition("=")
        name = name.replace("-", "_")
        if name not in known:
            taken = ", ".join(f"--{other.replace('_', '-')}" for other in known) or "none beside a program"
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


def _describe(label: str | None, as_json: bool) -> None:
    """All theorems, or what one of them says and the sizes it takes."""
    if label is not None:
        from softwright.theorems.verb import theorem

        typer.echo(repr(theorem(label)))
        return
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
        for name, rival in line.softwright.items():
            error = _number(rival.error)
            columns = [error, ""] if rival.proved else ["", error]  # a bound stands in the prover's column
            cells.append([name, "", "", str(rival.tokens), "", *columns])
    return header, cells


def table_lines(rows: list[Row]) -> list[str]:
    """The table as text, numbers right-aligned."""
    header, cells = table_of(rows)
    widths = [max(len(line[i]) for line in [header, *cells]) for i in range(len(header))]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in [header, *cells]
    ]
