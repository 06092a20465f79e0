"""What a forger does to the choices of a formula: the file is signed again, its network stays as it was.

A checker that reads a branch only where its condition asks for it must not believe what is false next to the border: a
condition turned round, a border moved by a little or by much, branches exchanged, a root whose argument is negative on
a sliver, a branch that is never asked for and one that is.
"""

from __future__ import annotations

import re

import numpy as np

from forgery.file import Forgery, Mutation, pick
from forgery.statements import set_text

NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?")
SYMBOL = re.compile(r"<=|>=|<|>")


def _replaced(text: str, match: re.Match[str], new: str) -> str:
    return text[: match.start()] + new + text[match.end() :]


def _turned(text: str, rng: np.random.Generator) -> str | None:
    """Another comparison in the place of one."""
    found = list(SYMBOL.finditer(text))
    if not found:
        return None
    match = pick(rng, found)
    return _replaced(text, match, pick(rng, [s for s in ("<", "<=", ">", ">=") if s != match[0]]))


def _moved(text: str, rng: np.random.Generator) -> str | None:
    """A number moved, by anything between the last digit and itself."""
    found = list(NUMBER.finditer(text))
    if not found:
        return None
    match = pick(rng, found)
    by = float(rng.choice([-1, 1])) * 10.0 ** rng.uniform(-17, 0)
    return _replaced(text, match, f"({match[0]} + {by!r})")


def _wrapped(text: str, rng: np.random.Generator, name: str, low: float, high: float) -> str:
    """The formula as one branch of a choice, with another beside it that is wrong, undefined or never asked for."""
    place = repr(float(rng.choice([low, high, (low + high) / 2, rng.uniform(low, high)])))
    small = repr(10.0 ** rng.uniform(-12, 2))
    other = pick(
        rng,
        [
            f"sqrt({name} - {place})",
            f"sqrt({place} - {name})",
            f"({text}) + {small}*sqrt({place} - {name})",
            f"({text}) + {small}*sqrt({name}**2 - {place}**2)",
            f"({text}) + {small}*({name} - {place})*log({name} - {place})",
            f"({text}) + {small}",
            f"({text})*acosh(1 + {small}*({name} - {place}))",
            f"({text}) + asin({small}*({place} - {name}) - 1)",
            f"1/({name} - {place})",
            f"({text}) + {small}*sqrt(abs({name}) - {place})",
        ],
    )
    condition = pick(rng, [f"{name} {s} {place}" for s in ("<", "<=", ">", ">=")] + [f"abs({name}) <= abs({place})"])
    one, two = (text, other) if rng.random() < 0.5 else (other, text)
    return f"where({condition}, {one}, {two})"


def _exchanged(text: str, rng: np.random.Generator) -> str | None:
    """The branches of a choice in the other order, or one of them in both places."""
    starts = [m.end() for m in re.finditer(r"where\(", text)]
    if not starts:
        return None
    start = pick(rng, starts)
    depth, commas, end = 0, [], len(text)
    for k in range(start, len(text)):
        depth += (text[k] == "(") - (text[k] == ")")
        if text[k] == "," and depth == 0:
            commas.append(k)
        if depth < 0:
            end = k
            break
    if len(commas) != 2:
        return None
    one, two = text[commas[0] + 1 : commas[1]], text[commas[1] + 1 : end]
    left, right = pick(rng, [(two, one), (one, one), (two, two)])
    return f"{text[: commas[0]]},{left},{right}{text[end:]}"


def change_guard(f: Forgery, rng: np.random.Generator, others: list[Forgery]) -> str | None:
    """Another choice in the formula, in target and certificate alike; in a third of the cases two changes."""
    if "certificate" not in f.sections or f.domain is None or f.target.get("kind") != "expression":
        return None
    before = text = f.target["text"]
    if "where" not in text and rng.random() < 0.5:
        return None
    for _ in range(1 + (rng.random() < 0.34)):
        name = pick(rng, f.domain)
        low, high = f.domain[name]
        way = int(rng.integers(4))
        changed = (
            _turned(text, rng) if way == 0
            else _moved(text, rng) if way == 1
            else _exchanged(text, rng) if way == 2
            else _wrapped(text, rng, name, low, high)
        )  # fmt: skip
        text = changed or text
    if text == before:
        return None
    set_text(f, text)
    return f"{before} -> {text}"


GUARDS: tuple[Mutation, ...] = (change_guard,)
