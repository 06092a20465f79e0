"""The recipes: `recipes.csv`, one row per model.

name      by which it is loaded
group     what it belongs to
verb      approximate, memorize, transpile, in_context, theorem or compile
what      the formula, the method, the activation, the label or the program of the library
box       sides as x=low:high, one after another; numbers, pi and -pi
tol       largest deviation, absolute
dtype     float64 or float32
options   further arguments of the verb, in JSON; approximate makes one layer unless a strategy is given here
says      one line for people
"""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from softwright.errors import InvalidInput

PLACE = Path(__file__).with_name("recipes.csv")
VERBS = ("approximate", "memorize", "transpile", "in_context", "theorem", "compile")


@dataclass(frozen=True)
class Recipe:
    """One row; `options` are as read."""

    name: str
    group: str
    verb: str
    what: str
    box: str
    tol: str
    dtype: str
    options: str
    says: str

    @property
    def sides(self) -> dict[str, tuple[float, float]]:
        """The box, by variable; a box without variables is the range of every input."""
        found = {}
        for side in self.box.split():
            name, _, ends = side.rpartition("=")
            low, high = ends.split(":")
            found[name] = (_number(low), _number(high))
        return found

    @property
    def arguments(self) -> dict[str, Any]:
        return json.loads(self.options) if self.options else {}

    def rows(self) -> list[tuple[str, str]]:
        """What there is to say, one line each."""
        given = [("name", self.name), ("group", self.group), ("verb", self.verb), ("of", self.what), ("box", self.box)]
        given += [("tolerance", self.tol), ("dtype", self.dtype), ("options", self.options), ("says", self.says)]
        return [(name, text) for name, text in given if text]


def _number(text: str) -> float:
    return {"pi": math.pi, "-pi": -math.pi}.get(text) or float(text)


@cache
def recipes() -> dict[str, Recipe]:
    """All recipes by name, in the order of the table."""
    with PLACE.open(encoding="utf-8", newline="") as stream:
        return {row["name"]: Recipe(**row) for row in csv.DictReader(stream)}


def groups() -> list[str]:
    """The groups, in the order of the table."""
    return list(dict.fromkeys(row.group for row in recipes().values()))


def names(group: str | None = None) -> list[str]:
    """The names of all models, or of one group."""
    if group is not None and group not in groups():
        raise InvalidInput("zoo", [f"no group {group!r}; choose from {', '.join(groups())}"])
    return [name for name, row in recipes().items() if group in (None, row.group)]


def recipe(name: str) -> Recipe:
    """The recipe of a model."""
    row = recipes().get(name)
    if row is None:
        near = get_close_matches(str(name), recipes(), 3)
        meant = f"; did you mean {', '.join(near)}?" if near else ";"
        raise InvalidInput("zoo", [f"no model {name!r} in the zoo{meant} `softwright zoo list` names them all"])
    return row
