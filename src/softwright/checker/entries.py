"""What the entries of a file's JSON sections must be: exact names and exact types, before anything is made of them.

JSON tells 1, 1.0 and true apart, Python's == does not: a file that says True where a number belongs is refused here, as
it is by who loads it. Sections that no proof needs (`plan`, `observed`) must at least be such that the file loads.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from softwright.checker.refusal import require
from softwright.fileformat import ModelFile

Test = Callable[[Any], bool]


def is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def is_whole(value: Any) -> bool:
    return type(value) is int


def is_size(value: Any) -> bool:
    return type(value) is int and value >= 1


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def is_float(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)


def is_flag(value: Any) -> bool:
    return type(value) is bool


def is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def is_digest(value: Any) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(r"[0-9a-f]{64}", value))


def is_promise(value: Any) -> bool:
    """What a user may give as a bound of derivatives: nothing, a number, or one for each variable."""
    return value is None or is_number(value) or (list_of(is_number)(value) and len(value) > 0)


def is_object(value: Any) -> bool:
    return isinstance(value, dict)


def at_least_zero(value: Any) -> bool:
    return is_number(value) and value >= 0


def list_of(test: Test) -> Test:
    return lambda value: isinstance(value, list) and all(map(test, value))


def check_entries(data: Any, tests: Mapping[str, Test], what: str, optional: tuple[str, ...] = ()) -> None:
    """`data` is an object with exactly these entries, but for optional ones, each of which passes its test."""
    require(isinstance(data, dict), f"{what} is no object")
    unknown = sorted(data.keys() - tests.keys())
    require(not unknown, f"unknown entry {unknown[0] if unknown else ''!r} in {what}")
    missing = sorted(tests.keys() - data.keys() - set(optional))
    require(not missing, f"the entry {missing[0] if missing else ''!r} is missing in {what}")
    for name, value in data.items():
        require(tests[name](value), f"{name} in {what} is damaged: it is of the wrong type, or out of range")


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are written alike, whatever the order of their keys."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


# Of a planned head; a layer may have a number, too.
MEASURED = frozenset(("largest_score", "largest_value", "tokens", "structure", "values"))
WORDS = ("structure", "values", "activation", "readout", "computes", "layer")


def is_planned(value: Any) -> bool:
    """What is told of a head: words under some names, numbers under others; its largest score and value go together."""

    def good(name: str, entry: Any) -> bool:
        return is_text(entry) or (name == "layer" and is_count(entry)) if name in WORDS else is_number(entry)

    if not isinstance(value, dict) or not all(good(name, entry) for name, entry in value.items()):
        return False
    return value.keys().isdisjoint(("largest_score", "largest_value")) or value.keys() >= MEASURED


def is_noise(value: Any) -> bool:
    """What cross-validation said of noisy rows: rms by output, coverage, folds, and the sd that was given, or none."""
    if not isinstance(value, dict) or value.keys() != {"rms", "coverage", "folds", "sd"}:
        return False
    numbers = list_of(is_number)(value["rms"]) and is_number(value["coverage"]) and is_count(value["folds"])
    return numbers and (value["sd"] is None or is_number(value["sd"]))


PLAN: dict[str, Test] = {
    "strategy": is_text,
    "tolerance": at_least_zero,
    "heads": list_of(is_planned),
    "tokens": is_count,
    "parameters": is_count,
    "dtype": is_text,
    "seconds": at_least_zero,
    "reasons": list_of(is_text),
    "queries": is_count,
    "noise": is_noise,
}
_OPTIONAL = ("reasons", "queries", "noise")
OBSERVED: dict[str, Test] = {"error": at_least_zero, "point": list_of(is_number), "points": is_count}


def check_others(file: ModelFile) -> None:
    """Plan and observation: nothing is proved from them, but no file loads without the one or with a damaged other."""
    require("plan" in file.sections, "the section 'plan' is missing; the file cannot be rebuilt")
    for name, tests in (("plan", PLAN), ("observed", OBSERVED)):
        if name in file.sections:
            check_entries(file.sections[name], tests, f"the section {name!r}", _OPTIONAL)
