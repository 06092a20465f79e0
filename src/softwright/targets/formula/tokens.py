"""The formula's text as tokens, and the caret display that every message about a place in the text uses."""

from __future__ import annotations

import re
from typing import NamedTuple

from softwright.errors import Faults
from softwright.targets.formula.suggestions import letter_meant

LONGEST_TEXT = 10_000  # characters; longer input is more likely an accident or an attack than a formula
LONGEST_NUMBER = 400  # characters; float64 needs 17 digits, an exact decimal at most about 770
LARGEST_EXPONENT = 400  # float64 ends at 308; the bound keeps exact arithmetic on the literal affordable
MOST_FAULTS = 20
_WINDOW = 72  # characters of the formula shown round the caret

# ASCII only, on purpose: \d and str.isdigit accept digits of other scripts that read as different numbers.
_TOKEN = re.compile(
    r"(?P<space>[ \t\r\n]+)"
    r"|(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<symbol>\*\*|<=|>=|[-+*/(),<>])"
)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)\Z")

_ADVICE: dict[str, str] = {
    "^": "'^' is not a power here; write '**' for powers",
    "==": "'==' is not available: equality of reals holds on a set too thin to approximate; use '<=' and '>='",
    "!=": "'!=' is not available; use '<' and '>' in where(condition, a, b)",
    "=": "'=' has no meaning in a formula; give the right-hand side only",
    ".": "'.' is neither a number nor an operator; attributes and methods are not part of a formula, remove it",
    "[": "'[' has no meaning in a formula; name each variable on its own, such as x1, x2",
    "{": "'{' has no meaning in a formula; group with '(' and ')'",
    "%": "'%' is not available; write mod(a, b) for a remainder",
    "&": "'&' is not available; write 'and' between conditions",
    "|": "'|' is not available; write abs(x) for an absolute value, 'or' between conditions",
    "!": "'!' is not available; write 'not' before a condition, gamma(n + 1) for a factorial",
    "?": "'?' is not available; write a if condition else b",
    ":": "':' has no meaning in a formula; write where(condition, a, b) for cases",
    ";": "';' has no meaning in a formula; separate outputs with ','",
}


class Token(NamedTuple):
    kind: str  # "number", "name", "symbol" or "end"
    text: str
    position: int


class FormulaFaults(Faults):
    """Faults that point at a place in the formula's text."""

    def __init__(self, text: str) -> None:
        super().__init__("formula")
        self.text = text
        self._unlisted = 0

    def at(self, position: int, fault: str) -> None:
        """Record a fault with the formula shown and a caret under `position`."""
        if len(self.found) >= MOST_FAULTS:
            self._unlisted += 1
        else:
            self.add(f"{fault}\n{point_at(self.text, position)}")

    def raise_if_any(self) -> None:
        if self._unlisted:
            self.add(f"{self._unlisted} more faults are not listed")
        super().raise_if_any()


def point_at(text: str, position: int) -> str:
    """Two lines: the text round `position` on one line, and a caret under the position."""
    start = max(0, min(position - _WINDOW // 2, len(text) - _WINDOW))
    shown = "".join(c if c.isprintable() else " " for c in text[start : start + _WINDOW])
    before, after = ("..." if start else "", "..." if start + _WINDOW < len(text) else "")
    return f"    {before}{shown}{after}\n    {' ' * (len(before) + position - start)}^"


def tokenize(text: str, faults: FormulaFaults) -> list[Token]:
    """The tokens with an end mark; characters that belong to no token become faults."""
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            position = _skip_foreign(text, position, faults)
            continue
        kind = str(match.lastgroup)
        if kind == "number":
            _check_number(match.group(), position, faults)
        if kind != "space":
            tokens.append(Token(kind, match.group(), position))
        position = match.end()
    tokens.append(Token("end", "", len(text)))
    return tokens


def _skip_foreign(text: str, position: int, faults: FormulaFaults) -> int:
    character, pair = text[position], text[position : position + 2]
    if pair in _ADVICE:
        faults.at(position, _ADVICE[pair])
        return position + 2
    meant = letter_meant(character)
    if character in _ADVICE:
        faults.at(position, _ADVICE[character])
    elif meant is not None:
        faults.at(position, f"{character!r} is not known here; write {meant}")
    elif character.isdigit():
        faults.at(position, f"{character!r} is a digit of another script; write numbers with 0 to 9")
    elif character.isalpha():
        faults.at(position, f"{character!a} cannot be in a name; spell it out with the letters a to z, digits and _")
    else:
        faults.at(position, f"the character {character!a} has no meaning in a formula; remove it")
    return position + 1


def _check_number(literal: str, position: int, faults: FormulaFaults) -> None:
    if len(literal) > LONGEST_NUMBER:
        faults.at(position, f"a number of {len(literal)} characters; write at most {LONGEST_NUMBER}")
        return
    exponent = _EXPONENT.search(literal)
    is_zero = not re.search("[1-9]", literal[: exponent.start()] if exponent else literal)
    extreme = exponent is not None and abs(int(exponent.group(1))) > LARGEST_EXPONENT
    if extreme or not (is_zero or 0.0 < float(literal) < float("inf")):
        faults.at(position, f"{literal} is outside float64 (about 1e-308 to 1e308); rescale the formula")
