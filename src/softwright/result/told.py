"""Texts of a file that could act on a terminal: control characters are refused when it is read and when it is written.

What a file tells is shown. A text with control characters could wipe a line and write a verdict of its own there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def unprintable(sections: Mapping[str, Any]) -> str:
    """In which section a text has control characters, in words; empty if none has."""
    for name, section in sections.items():
        if not "".join(_texts(section)).isprintable():
            return f"a text in the section {name!r} has control characters"
    return ""


def _texts(content: Any) -> Iterator[str]:
    """All texts of a JSON value, keys included."""
    pending = [content]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            pending += [*value, *value.values()]
        elif isinstance(value, list | tuple):
            pending += value
