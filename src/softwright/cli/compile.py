"""`softwright compile`: a program over sequences becomes layers of attention."""

from __future__ import annotations

from typing import Annotated

import typer

from softwright.cli.delivery import AsJson, Certify, Dtype, Explain, Output, Plot, argument, delivery

_TOKENS = "length=1:64 x=-1:1 k=0..9 s=abc t=truth"


def compile_command(
    program: Annotated[str, argument('The program, in quotes: "sum(x[j] for j <= i)"')],
    *,
    tokens: Annotated[
        str, typer.Option(help=f'Lengths and fields: "{_TOKENS}" (a real, a whole number, symbols, a truth value).')
    ],
    tol: Annotated[float, typer.Option(help="Largest allowed deviation of real outputs.")] = 1e-6,
    dtype: Dtype = "float64",
    certify: Certify = True,
    output: Output = None,
    plot: Plot = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Compile a program over sequences into layers of attention, with a proof for all sequences."""
    with delivery(output, plot, as_json, explain=explain) as deliver:
        from softwright.programs.verb import compile as build
        from softwright.programs.written import read_tokens

        where = read_tokens(tokens)
        deliver(build(program.strip(), where, tol=tol, dtype=dtype, certify=certify, progress=deliver.say))
