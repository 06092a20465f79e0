"""`Sequence`: which sequences a program is about: their lengths, and what every token brings.

    Sequence(length=(1, 128), x=(-1, 1), k=Integers(0, 9), s=Symbols("(){}"), t=Truths())

A field is a real number of a range, a whole number of a range, a symbol of a vocabulary or a truth value. Symbols are
whole numbers inside, their places in the union of all vocabularies, in the order in which they are given; truth values
are 0 and 1. So a token holds reals and whole numbers, and nothing else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from softwright.errors import Faults, InvalidInput

LONGEST = 4096  # tokens
WIDEST = 4096  # values of a whole number, symbols of a vocabulary
_WORDS = ("for", "if", "else", "and", "or", "not", "true", "false", "where", "by", "default")
RESERVED = frozenset(("i", "j", "n", "pi", "e", *_WORDS, "margin", "largest", "smallest"))
_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")


@dataclass(frozen=True)
class Symbols:
    """A vocabulary: a text, one symbol for each character, or a list of texts.

    `also` are symbols that the field never is, but that a program may speak of and give out.
    """

    symbols: tuple[str, ...]
    also: tuple[str, ...] = ()

    def __init__(self, symbols: str | Iterable[str], also: str | Iterable[str] = ()) -> None:
        object.__setattr__(self, "symbols", tuple(symbols))
        object.__setattr__(self, "also", tuple(also))


@dataclass(frozen=True)
class Integers:
    """Whole numbers from `low` to `high`, both included."""

    low: int
    high: int


@dataclass(frozen=True)
class Truths:
    """True or false."""


@dataclass(frozen=True)
class Field:
    """What a token brings under one name: kind is "real", "integer", "symbol" or "truth"."""

    name: str
    kind: str
    low: float
    high: float
    symbols: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    @property
    def values(self) -> range:
        """The whole numbers that it can be."""
        return range(int(self.low), int(self.high) + 1)


class Sequence:
    """Sequences of `length` (a pair, or the most) tokens with these fields."""

    def __init__(self, length: int | tuple[int, int] = (1, 64), /, **fields: Any) -> None:
        if "length" in fields:
            length = fields.pop("length")
        faults = Faults("Sequence")
        self.shortest, self.longest = _lengths(length, faults)
        faults.check(bool(fields), "a sequence needs a field, for example Sequence(length=(1, 64), x=(-1, 1))")
        vocabularies = [given for given in fields.values() if isinstance(given, Symbols)]
        groups = [given.symbols for given in vocabularies] + [given.also for given in vocabularies]
        self.symbols: tuple[str, ...] = tuple(dict.fromkeys(symbol for group in groups for symbol in group))
        self.fields: dict[str, Field] = {}
        for name, given in fields.items():
            usable = isinstance(name, str) and _NAME.match(name) and name not in RESERVED
            faults.check(
                bool(usable), f"{name!r} is no usable name of a field; use letters, digits and _, not {name!r}"
            )
            found = self._field(name, given, faults)
            if found is not None:
                self.fields[name] = found
        faults.raise_if_any()

    def _field(self, name: str, given: Any, faults: Faults) -> Field | None:
        if isinstance(given, Symbols):
            every = (*given.symbols, *given.also)
            good = given.symbols and all(isinstance(s, str) and s and s.isprintable() for s in every)
            if not faults.check(bool(good), f"{name}: a vocabulary is a text or a list of printable texts, none empty"):
                return None
            faults.check(len(set(every)) == len(every), f"{name}: a symbol stands there twice")
            faults.check(len(self.symbols) <= WIDEST, f"{name}: more than {WIDEST} symbols; use fewer")
            return Field(name, "symbol", 0, len(self.symbols) - 1, given.symbols, given.also)
        if isinstance(given, Integers):
            whole = all(isinstance(end, int) and not isinstance(end, bool) for end in (given.low, given.high))
            if not faults.check(whole and given.low <= given.high, f"{name}: {given} must be whole, low <= high"):
                return None
            small = given.high - given.low < WIDEST and max(abs(given.low), abs(given.high)) < 2**20
            faults.check(small, f"{name}: at most {WIDEST} values below 2^20 in size; give it as a real number")
            return Field(name, "integer", given.low, given.high)
        if isinstance(given, Truths) or given is bool:
            return Field(name, "truth", 0, 1)
        try:
            low, high = (float(end) for end in given)
        except (TypeError, ValueError):
            kinds = "(low, high), Integers(low, high), Symbols('abc') or Truths()"
            faults.add(f"{name}: {given!r} is no field; write {name}={kinds}")
            return None
        good = math.isfinite(low) and math.isfinite(high) and low < high and max(abs(low), abs(high)) < 2.0**60
        faults.check(good, f"{name}: ({low}, {high}) is no range of numbers below 2^60; write {name}=(low, high)")
        return Field(name, "real", low, high)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.fields)

    def codes(self, name: str) -> list[int]:
        """The whole numbers that a field can be; of symbols those of its own vocabulary."""
        field = self.fields[name]
        if field.kind == "symbol":
            return [self.symbols.index(symbol) for symbol in field.symbols]
        return list(field.values)

    def describe(self) -> dict[str, Any]:
        """Ready for JSON; `rebuilt` reads it."""
        entries: list[dict[str, Any]] = []
        for field in self.fields.values():
            entry: dict[str, Any] = {"name": field.name, "kind": field.kind}
            if field.kind == "symbol":
                entry["symbols"] = list(field.symbols)
                entry |= {"also": list(field.also)} if field.also else {}
            elif field.kind == "integer":
                entry |= {"low": int(field.low), "high": int(field.high)}
            elif field.kind == "real":
                entry |= {"low": field.low, "high": field.high}
            entries.append(entry)
        return {"length": [self.shortest, self.longest], "fields": entries}

    @classmethod
    def rebuilt(cls, data: Mapping[str, Any]) -> Sequence:
        makers = {
            "symbol": lambda entry: Symbols(entry["symbols"], entry.get("also", ())),
            "integer": lambda entry: Integers(entry["low"], entry["high"]),
            "real": lambda entry: (entry["low"], entry["high"]),
            "truth": lambda _: Truths(),
        }
        fields = {entry["name"]: makers[entry["kind"]](entry) for entry in data["fields"]}
        return cls(length=tuple(data["length"]), **fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(repr(self.describe()))

    def __repr__(self) -> str:
        shown = {
            "symbol": lambda f: f"Symbols({_vocabulary(f.symbols)}{f', also={_vocabulary(f.also)}' if f.also else ''})",
            "integer": lambda f: f"Integers({int(f.low)}, {int(f.high)})",
            "real": lambda f: f"({f.low:g}, {f.high:g})",
            "truth": lambda _: "Truths()",
        }
        fields = ", ".join(f"{f.name}={shown[f.kind](f)}" for f in self.fields.values())
        return f"Sequence(length=({self.shortest}, {self.longest}), {fields})"


def _vocabulary(symbols: tuple[str, ...]) -> str:
    return repr("".join(symbols)) if all(len(symbol) == 1 for symbol in symbols) else repr(list(symbols))


def as_sequence(given: Any) -> Sequence:
    """What a user may give for the tokens: a `Sequence`, or a mapping of its arguments."""
    if isinstance(given, Sequence):
        return given
    if isinstance(given, Mapping):
        return Sequence(**given)
    how = "give softwright.Sequence(length=(1, 64), x=(-1, 1)), or a mapping of its arguments"
    raise InvalidInput("tokens", [f"{given!r} does not say what the tokens are; {how}"])


def _lengths(length: Any, faults: Faults) -> tuple[int, int]:
    pair = (1, length) if isinstance(length, int) else length
    good = isinstance(pair, tuple | list) and len(pair) == 2 and all(type(end) is int for end in pair)
    if good and 1 <= pair[0] <= pair[1] <= LONGEST:
        return int(pair[0]), int(pair[1])
    faults.add(f"length {length!r} must be (shortest, longest) with 1 <= shortest <= longest <= {LONGEST}")
    return 1, 1
