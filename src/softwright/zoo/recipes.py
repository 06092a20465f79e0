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
        meant = _meant(group)
        use = meant if meant and group in recipes() else f"{meant}; choose from {', '.join(groups())}"
        raise InvalidInput("zoo", [f"no group {group!r}{use}"])
    return [name for name, row in recipes().items() if group in (None, row.group)]


def recipe(name: str) -> Recipe:
    """The recipe of a model."""
    row = recipes().get(name) if isinstance(name, str) else None
    if row is None:
        use = _meant(name) or "; `softwright zoo list` names them all"
        raise InvalidInput("zoo", [f"no model {name!r} in the zoo{use}"])
    return row


def _meant(name: Any) -> str:
    """What a wrong name may have been meant for: a group where a model is asked for, a model where a group is, and
    names that are spelled alike."""
    text = str(name)
    if text in groups():
        return f"; it is a group: `softwright zoo list {_quoted(text)}` names its models"
    if text in recipes():
        return f"; it is a model: `softwright zoo show {text}`"
    near = get_close_matches(text.strip().lower().replace(" ", "-").replace("_", "-"), recipes(), 3)
    like = get_close_matches(text.strip().lower(), groups(), 1)
    said = [*near, *(f"the group {_quoted(one)}" for one in like)]
    return f"; did you mean {', '.join(said)}? `softwright zoo list` names them all" if said else ""


def _quoted(group: str) -> str:
    return f"'{group}'" if " " in group else group
