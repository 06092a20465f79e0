"""Arguments of the form NAME=LOW:HIGH, NAME=VALUE and NAME=VALUE,VALUE.

Numbers may be written as constants of a formula: x=-pi/2:2*pi. They are read by the library's own parser; nothing is
ever executed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from softwright.errors import Faults, InvalidInput

_ASSIGNMENT = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)(.*)\Z", re.DOTALL)


def split_assignments(arguments: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The arguments that are no assignment (a formula has no `=` of its own), and the (name, text) pairs."""
    others: list[str] = []
    assigned: list[tuple[str, str]] = []
    for argument in arguments:
        match = _ASSIGNMENT.match(argument)
        if match:
            assigned.append((match.group(1), match.group(2).strip()))
        else:
            others.append(argument.strip())
    return others, assigned


def read_bounds(assigned: Sequence[tuple[str, str]], faults: Faults) -> dict[str, Sequence[float]]:
    """Sides of a box from NAME=LOW:HIGH; whether the box makes sense is for `Box` to say."""
    sides: dict[str, Sequence[float]] = {}
    for name, text in assigned:
        ends = text.split(":")
        if len(ends) != 2:
            faults.add(f"{name}={text} is not a pair of bounds; write {name}=LOW:HIGH, for example {name}=-1:1")
            continue
        low, high = (_number(end, f"{name}={text}", faults) for end in ends)
        if name in sides:
            faults.add(f"bounds for {name} are given twice; give each variable once")
        elif low is not None and high is not None:
            sides[name] = (low, high)
    return sides


def read_point(assigned: Sequence[tuple[str, str]], names: Sequence[str], faults: Faults) -> dict[str, float]:
    """One number for each of `names` from NAME=VALUE."""
    point: dict[str, float] = {}
    for name, text in assigned:
        number = _number(text, f"{name}={text}", faults)
        if name in point:
            faults.add(f"{name} is given twice; give each variable once")
        if number is not None:
            point[name] = number
    given = {name for name, _ in assigned}
    missing = [name for name in names if name not in given]
    unknown = [name for name in dict.fromkeys(name for name, _ in assigned) if name not in names]
    faults.check(not missing, f"no value for {', '.join(missing)}; give NAME=VALUE for each variable")
    faults.check(not unknown, f"the network has no variable {', '.join(unknown)}; its variables are {', '.join(names)}")
    return point


def read_sequence(field: Mapping[str, Any], text: str, faults: Faults) -> str | list[str] | list[float]:
    """The values of one field, token by token: symbols as they stand, or with commas between; numbers, truth values."""
    name = field["name"]
    parts = [part.strip() for part in text.split(",")]
    if field["kind"] == "symbol":
        single = all(len(symbol) == 1 for symbol in field["symbols"]) and "," not in text
        return text if single else parts
    words = {"true": 1.0, "false": 0.0} if field["kind"] == "truth" else {}
    found = [
        words[part.lower()] if part.lower() in words else _number(part, f"{name}={text}", faults) for part in parts
    ]
    return [number for number in found if number is not None]


def _number(text: str, where: str, faults: Faults) -> float | None:
    """The value of a constant formula such as -1, 1e-3, pi/2 or sqrt(2); None after recording a fault."""
    import numpy as np

    from softwright.targets import Expression, parse

    try:
        value = Expression.from_nodes(parse(text, names=()), ["x"])(np.zeros((1, 1)))
    except InvalidInput:
        faults.add(f"{where}: {text!r} is not a number; write for example -1, 1e-3 or pi/2")
        return None
    if not faults.check(value.shape[1] == 1, f"{where}: {text!r} is several numbers; give one"):
        return None
    number = float(value[0, 0])
    return number if faults.check(np.isfinite(number), f"{where}: {text!r} is {number}; give a finite number") else None
