"""`read_tokens`: what a token brings, as a line of text, for the command and the studio.

length=1:64 x=-1:1 k=0..9 s=abc t=truth        a real, a whole number, symbols, a truth value
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from softwright.errors import Faults, InvalidInput
from softwright.programs.fields import Integers, Sequence, Symbols, Truths

EXAMPLE = "length=1:64 x=-1:1 k=0..9 s=abc t=truth"
_ALSO = "=>"  # before symbols that a field never is, but that the program speaks of


def read_tokens(text: str) -> Sequence:
    """NAME=LOW:HIGH, NAME=LOW..HIGH, NAME=SYMBOLS and NAME=truth, with length=SHORTEST:LONGEST among them.

    Symbols are characters, or texts with commas between them; NAME=abc=>x,y lets the program speak of x and y, too.
    """
    faults, fields = Faults("tokens"), {}
    try:
        parts = shlex.split(text)
    except ValueError as error:
        raise InvalidInput("tokens", [f"{error}; write for example {EXAMPLE}"]) from None
    for part in parts:
        name, equals, value = part.partition("=")
        if not faults.check(bool(equals and value), f"{part!r} is no NAME=...; write for example {EXAMPLE}"):
            continue
        faults.check(name not in fields, f"{name} is given twice; give each field once")
        fields[name] = _field(name, value)
    faults.raise_if_any()
    return Sequence(**fields)


def _field(name: str, value: str) -> Any:
    pair = value.split(":")
    if len(pair) == 2 and all(_is_number(end) for end in pair):
        return (int(float(pair[0])), int(float(pair[1]))) if name == "length" else (float(pair[0]), float(pair[1]))
    whole = re.fullmatch(r"(-?[0-9]{1,7})\.\.(-?[0-9]{1,7})", value)
    if whole:
        return Integers(int(whole.group(1)), int(whole.group(2)))
    if value == "truth":
        return Truths()
    if name == "length" and value.isascii() and value.isdigit():
        return int(value)
    own, _, also = value.partition(_ALSO)
    return Symbols(own.split(",") if "," in own else own, also.split(",") if also else ())


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", text))
