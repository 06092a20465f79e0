"""What a file tells beside its proof: plan and observation must be of the right types, and all texts printable.

Nothing is proved from them, but they are shown. A text with control characters could wipe a line of a terminal and
write a verdict of its own there; a word where a number belongs would end in a traceback. Both are refused at the door.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from softwright.result.numbers import is_count, is_number

Test = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_head(value: Any) -> bool:
    """Words and numbers by name; sizes are numbers."""
    if not isinstance(value, dict) or not all(_is_text(entry) or is_number(entry) for entry in value.values()):
        return False
    return all(is_number(value[name]) for name in ("largest_score", "largest_value") if name in value)


def _list_of(test: Test) -> Test:
    return lambda value: isinstance(value, list) and all(map(test, value))


_PLAN: dict[str, Test] = {
    **dict.fromkeys(("strategy", "dtype"), _is_text),
    **dict.fromkeys(("tolerance", "seconds"), is_number),
    **dict.fromkeys(("tokens", "parameters"), is_count),
    "heads": _list_of(_is_head),
    "reasons": _list_of(_is_text),
}
_OBSERVED: dict[str, Test] = {"error": is_number, "point": _list_of(is_number), "points": is_count}


def check_told(sections: Mapping[str, Any]) -> None:
    """A ValueError that names the first entry of plan or observation that cannot be shown, or the section of a text."""
    for name, tests in (("plan", _PLAN), ("observed", _OBSERVED)):
        section = sections.get(name)
        if section is not None and not isinstance(section, dict):
            raise ValueError(f"the section {name!r} is no object")
        for entry, value in (section or {}).items():
            if entry not in tests or not tests[entry](value):
                raise ValueError(f"{entry!r} in the section {name!r} is unknown or of the wrong type")
    if fault := unprintable(sections):
        raise ValueError(fault)


def unprintable(sections: Mapping[str, Any]) -> str:
    """In which section a text has control characters, in words; empty if none has."""
    for name, section in sections.items():
        if not all(text.isprintable() for text in _texts(section)):
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
