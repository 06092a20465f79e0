"""Numbers in certificates: exact sums, and what a reader demands of each entry.

Numbers that a statement rests on are stored in decimal and in hexadecimal; both must be the same floats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from softwright.errors import Faults


def sum_rounded_up(*parts: float) -> float:
    """The smallest float64 that is not below the exact sum of the parts."""
    exact = sum((Fraction(part) for part in parts), Fraction(0))
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def check_types(data: Mapping[str, Any], keys: Mapping[str, Any], where: str, faults: Faults) -> None:
    for key, kind in keys.items():
        if key not in data:
            faults.add(f"{where}{key!r} is missing; certify the network again")
        elif not isinstance(data[key], kind) or isinstance(data[key], bool):
            faults.add(f"{where}{key!r} is a {type(data[key]).__name__}, which is the wrong type; certify again")


def check_hex(decimal: Any, text: Any, what: str, faults: Faults) -> None:
    """The decimal and the hexadecimal form (numbers or lists of numbers) must be the same floats."""
    decimals = decimal if isinstance(decimal, list) else [decimal]
    texts = text if isinstance(text, list) else [text]
    try:
        same = len(decimals) == len(texts) and all(
            is_number(a) and float.fromhex(b) == a for a, b in zip(decimals, texts, strict=True)
        )
    except (TypeError, ValueError, OverflowError):
        same = False
    faults.check(same, f"{what}: decimal {decimal!r} and hexadecimal {text!r} are not the same numbers; certify again")
