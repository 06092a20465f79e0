"""`softwright transpile`: a feed-forward network in a file becomes an attention network, neuron by neuron."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softwright.cli.exits import TOLERANCE_NOT_REACHED, exit_codes, print_json
from softwright.cli.facts import as_json_facts
from softwright.cli.screen import print_facts, spinner, warn
from softwright.errors import FileFormatError, InvalidInput, ToleranceNotReached

if TYPE_CHECKING:
    from softwright.result.built import Built


def transpile_command(
    file: Annotated[
        Path,
        typer.Argument(
            help="A .onnx file of Gemm, MatMul, Add and activations, or a .safetensors file written by save_mlp.",
            show_default=False,
        ),
    ],
    *,
    box: Annotated[
        str | None,
        typer.Option(metavar="LOW:HIGH", help="Range of every input, for the bound: --box 0:1", show_default=False),
    ] = None,
    tol: Annotated[
        float | None, typer.Option(help="Largest deviation the proof may leave; the finest tokens unless given.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="float64 or float32; the file's own unless given.")] = None,
    layout: Annotated[str, typer.Option(help="softmax, sdpa, multihead or sequence.")] = "softmax",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the network to this file.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write a figure to this file (.png, .svg, .pdf).", show_default=False)
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say how each layer was made.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Turn a trained feed-forward network into softmax attention, with a bound."""
    failure: ToleranceNotReached | None = None
    with exit_codes(as_json):
        for path in (output, plot):
            if path is not None and not path.parent.is_dir():
                raise FileFormatError(f"{path}: the folder {path.parent} does not exist; create it first")
        if plot is not None and find_spec("matplotlib") is None:
            raise InvalidInput("--plot", ["matplotlib is missing; install it with: pip install 'softwright[plot]'"])
        sides = None if box is None else _sides(box)
        with spinner("loading", quiet=as_json) as say:
            from softwright.transpiler.verb import transpile

            try:
                built = transpile(file, sides, tol=tol, dtype=dtype, layout=layout, progress=say)
            except ToleranceNotReached as error:
                failure, built = error, error.best
            if output is not None:
                built.save(output)
            if plot is not None:
                say("drawing")
                built.plot(plot)
        _report(built, failure, {"file": output, "plot": plot}, explain, as_json)
    if failure is not None:
        raise typer.Exit(TOLERANCE_NOT_REACHED)


def _sides(text: str) -> tuple[float, float]:
    """LOW:HIGH"""
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError:
        raise InvalidInput("--box", [f"{text!r} is not LOW:HIGH; write for example --box -1:1"]) from None
    return low, high


def _report(
    built: Built, failure: ToleranceNotReached | None, files: dict[str, Path | None], explain: bool, as_json: bool
) -> None:
    written = {kind: str(path) for kind, path in files.items() if path is not None}
    if as_json:
        content: dict[str, Any] = {"ok": failure is None}
        if failure is not None:
            content["error"] = {
                "kind": "tolerance not reached",
                "message": str(failure),
                "faults": [],
                "exit_code": TOLERANCE_NOT_REACHED,
            }
        print_json(content | as_json_facts(built) | written)
        return
    print_facts("softwright", [*built.rows(), *written.items()])
    if explain:
        typer.echo(built.plan.explain())
    if failure is not None:
        warn(f"tolerance not reached: {failure}")
