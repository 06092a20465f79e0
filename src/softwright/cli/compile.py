"""`softwright compile`: a program over sequences becomes layers of attention."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softwright.cli.delivery import AsJson, Certify, Dtype, Explain, Output, Plot, argument, delivery
from softwright.errors import Faults, InvalidInput

if TYPE_CHECKING:
    from softwright.programs.fields import Sequence

_TOKENS = "length=1:64 x=-1:1 k=0..9 s=abc t=truth"
_ALSO = "=>"  # before symbols that a field never is, but that the program speaks of


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
        where = read_tokens(tokens)
        from softwright.programs.verb import compile as build

        deliver(build(program.strip(), where, tol=tol, dtype=dtype, certify=certify, progress=deliver.say))


def read_tokens(text: str) -> Sequence:
    """NAME=LOW:HIGH, NAME=LOW..HIGH, NAME=SYMBOLS and NAME=truth, with length=SHORTEST:LONGEST among them.

    Symbols are characters, or texts with commas between them; NAME=abc=>x,y lets the program speak of x and y, too.
    """
    from softwright.programs.fields import Integers, Symbols, Truths
    from softwright.programs.fields import Sequence as Tokens

    faults, fields = Faults("--tokens"), {}
    try:
        parts = shlex.split(text)
    except ValueError as error:
        raise InvalidInput("--tokens", [f"{error}; write for example {_TOKENS}"]) from None
    for part in parts:
        name, equals, value = part.partition("=")
        if not faults.check(bool(equals and value), f"{part!r} is no NAME=...; write for example {_TOKENS}"):
            continue
        faults.check(name not in fields, f"{name} is given twice; give each field once")
        fields[name] = _field(name, value, Integers, Symbols, Truths)
    faults.raise_if_any()
    return Tokens(**fields)


def _field(name: str, value: str, integers: Any, symbols: Any, truths: Any) -> Any:
    pair = value.split(":")
    if len(pair) == 2 and all(_is_number(end) for end in pair):
        return (int(float(pair[0])), int(float(pair[1]))) if name == "length" else (float(pair[0]), float(pair[1]))
    whole = re.fullmatch(r"(-?[0-9]{1,7})\.\.(-?[0-9]{1,7})", value)
    if whole:
        return integers(int(whole.group(1)), int(whole.group(2)))
    if value == "truth":
        return truths()
    if name == "length" and value.isascii() and value.isdigit():
        return int(value)
    own, _, also = value.partition(_ALSO)
    return symbols(own.split(",") if "," in own else own, also.split(",") if also else ())


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", text))
