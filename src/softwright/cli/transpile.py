"""`softwright transpile`: a feed-forward network in a file becomes an attention network, neuron by neuron."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from softwright.cli.delivery import AsJson, Certify, Explain, Output, Page, Plot, argument, delivery, option
from softwright.errors import InvalidInput


def transpile_command(
    file: Annotated[
        Path, argument("A .onnx file of Gemm, MatMul, Add and activations, or a .safetensors file written by save_mlp.")
    ],
    *,
    box: Annotated[str | None, option("Range of every input, for the bound: --box 0:1", metavar="LOW:HIGH")] = None,
    tol: Annotated[
        float | None, typer.Option(help="Largest deviation the proof may leave; the finest tokens unless given.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="float64 or float32; the file's own unless given.")] = None,
    certify: Certify = True,
    layout: Annotated[
        str | None,
        typer.Option(help="softmax, double, sdpa, multihead or sequence. Default: softmax; from 64 to 32 bits double."),
    ] = None,
    output: Output = None,
    plot: Plot = None,
    page: Page = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Turn a trained feed-forward network into softmax attention, with a bound."""
    with delivery(output, plot, as_json, page=page, explain=explain) as deliver:
        sides = None if box is None else _sides(box)
        from softwright.transpiler.verb import transpile

        deliver(transpile(file, sides, tol=tol, dtype=dtype, layout=layout, certify=certify, progress=deliver.say))


def _sides(text: str) -> tuple[float, float]:
    """LOW:HIGH"""
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError:
        raise InvalidInput("--box", [f"{text!r} is not LOW:HIGH; write for example --box -1:1"]) from None
    return low, high
