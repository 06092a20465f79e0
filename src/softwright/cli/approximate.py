"""`softwright approximate`: a formula, or a table in a file, becomes an attention network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softwright.approximation.catalogue import names_in_words
from softwright.cli.assignments import read_bounds, split_assignments
from softwright.cli.delivery import AsJson, Certify, Dtype, Explain, Output, Page, Plot, argument, delivery, option
from softwright.cli.screen import Say
from softwright.errors import Faults, FileFormatError, InvalidInput

if TYPE_CHECKING:
    from softwright.result.built import Built
    from softwright.targets import Table


def approximate_command(
    arguments: Annotated[
        list[str] | None,
        argument(
            'The formula, in quotes, and the bounds of every variable: "sin(3*x)*exp(-y**2)" x=-pi:pi y=-2:2',
            metavar="FORMULA NAME=LOW:HIGH...",
        ),
    ] = None,
    *,
    tol: Annotated[float, typer.Option(help="Largest allowed deviation.")] = 1e-6,
    relative: Annotated[bool, typer.Option("--relative", help="Tolerance times half the range of the target.")] = False,
    dtype: Dtype = "float64",
    engine: Annotated[
        str, typer.Option(help="How it runs: auto, sdpa, factorised, or in float32 double (float64 inside).")
    ] = "auto",
    gap: Annotated[
        float | None, option("Allow jumps: proved where no comparison a < b has |b - a| below this.")
    ] = None,
    norm: Annotated[
        str, typer.Option(help="sup, or L1, L2, ...: bound the error in the mean, which allows jumps everywhere.")
    ] = "sup",
    strategy: Annotated[str, typer.Option(help=f"{names_in_words()}.")] = "auto",
    style: Annotated[str, typer.Option(help="plain, or readable: small values, and what each token adds.")] = "plain",
    max_tokens: Annotated[int, typer.Option(help="Most tokens the network may have.")] = 100_000,
    max_work: Annotated[float, typer.Option(help="Most work, counted: about a second of one core a unit.")] = 60.0,
    max_seconds: Annotated[float, typer.Option(help="Most seconds by the clock: a last resort.")] = 600.0,
    certify: Certify = True,
    tightness: Annotated[float, typer.Option(help="How far the stated bound may exceed a certain error.")] = 0.1,
    table: Annotated[
        Path | None, option("Approximate a table (.csv, .tsv, .txt, with or without .gz; .npz, .parquet).")
    ] = None,
    noise: Annotated[
        str | None, option("The table holds measurements: auto, or their standard deviation. A fit, without a bound.")
    ] = None,
    between: Annotated[
        str, typer.Option(help="Between the rows of a grid: smooth, linear, or auto, whichever is better.")
    ] = "auto",
    inputs: Annotated[str | None, option("Columns of the table that are variables: x,y")] = None,
    outputs: Annotated[str | None, option("Columns of the table that are values: z")] = None,
    decimal: Annotated[str, typer.Option(help='"," if numbers of a text file have decimal commas.')] = ".",
    output: Output = None,
    plot: Plot = None,
    page: Page = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Compute an attention network within a tolerance of a formula or a table."""
    with delivery(output, plot, as_json, page=page, explain=explain) as deliver:
        options: dict[str, Any] = {
            "tol": tol,
            "relative": relative,
            "dtype": dtype,
            "engine": engine,
            "strategy": strategy,
            "style": style,
            "gap": gap,
            "norm": norm,
            "max_tokens": max_tokens,
            "max_work": max_work,
            "max_seconds": max_seconds,
            "certify": certify,
            "tightness": tightness,
            "noise": _noise(noise),
            "between": between,
        }
        deliver(_build(arguments or [], table, inputs, outputs, decimal, options=options, say=deliver.say))


def _noise(given: str | None) -> float | str | None:
    """A number where it is one; `approximate` says what else it may be."""
    try:
        return given if given is None else float(given)
    except ValueError:
        return given


def _build(
    arguments: list[str],
    table: Path | None,
    inputs: str | None,
    outputs: str | None,
    decimal: str,
    *,
    options: dict[str, Any],
    say: Say,
) -> Built:
    """Check the arguments together, then build."""
    from softwright.domain import Box
    from softwright.targets import Expression

    faults = Faults("approximate")
    formulas, assigned = split_assignments(arguments)
    sides = read_bounds(assigned, faults)
    if table is None:
        _check_formula(formulas, faults)
        faults.check(bool(assigned), "no bounds; give them for every variable, for example x=-1:1")
        for option, value in (("--inputs", inputs), ("--outputs", outputs)):
            faults.check(value is None, f"{option} names columns of a table; add --table FILE or leave it out")
    else:
        faults.check(not formulas, f"a formula ({' '.join(formulas)}) and --table; give one of the two")
    if faults.found:
        # `approximate` would list these as well, but it will not be called: all faults belong in one message.
        _add_faults(faults, lambda: Box(sides) if sides else None)
        for formula in formulas[:1] if table is None else ():
            _add_faults(faults, lambda formula=formula: Expression(formula))
    target = None if table is None else _load_table(table, inputs, outputs, decimal, faults)
    faults.raise_if_any()

    from softwright.approximation.verb import approximate

    say("checking the input")
    if target is None:
        return approximate(formulas[0], sides, progress=say, **options)
    if sides:
        missing = [name for name in target.names if name not in sides]
        sides |= {name: (low, high) for name, low, high in target.box if name in missing}
        sides = {name: sides[name] for name in (*target.names, *(n for n in sides if n not in target.names))}
    return approximate(target, sides or None, progress=say, **options)


def _add_faults(faults: Faults, attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except InvalidInput as error:
        faults.found += error.faults


def _check_formula(formulas: list[str], faults: Faults) -> None:
    if not formulas:
        faults.add('no formula; give one in quotes, for example "sin(3*x)", or --table FILE')
    elif len(formulas) > 1:
        shown = ", ".join(repr(formula) for formula in formulas[:4])
        faults.add(f"{len(formulas)} formulas ({shown}); put one formula in quotes, as one argument")


def _load_table(path: Path, inputs: str | None, outputs: str | None, decimal: str, faults: Faults) -> Table | None:
    from softwright.targets import Table

    if not path.is_file():
        raise FileFormatError(f"{path}: no such file")
    faults.check(bool(inputs), "--table needs the columns that are variables: add for example --inputs x,y")
    faults.check(bool(outputs), "--table needs the columns that are values: add for example --outputs z")
    if not inputs or not outputs:
        return None
    columns = [[name.strip() for name in text.split(",") if name.strip()] for text in (inputs, outputs)]
    try:
        return Table.load(path, columns[0], columns[1], decimal=decimal)
    except InvalidInput as error:
        faults.found += [f"{path.name}: {fault}" for fault in error.faults]
        return None
