"""Why a certificate is not verified: the checker's own errors, and texts of a file made safe to print."""

from __future__ import annotations

from typing import Any

LONGEST_SHOWN = 2_000  # characters


class NotProvedError(Exception):
    """The first thing found that keeps a certificate from being verified."""


class UndefinedError(NotProvedError):
    """The formula may be undefined somewhere in a box; smaller boxes may show that it is not."""


def require(condition: Any, reason: str) -> None:
    if not condition:
        raise NotProvedError(reason)


def printable(text: str, longest: int = LONGEST_SHOWN) -> str:
    """One line without control characters, whatever a file says: a terminal must obey nothing that it shows.

    Everything that Unicode does not call printable becomes an escape: control characters, line ends, marks that change
    the direction of writing, lone surrogates. A file could otherwise draw a verdict of its own over the true one.
    What is printable and no longer than `longest` stays as it is.
    """
    if len(text) <= longest and text.isprintable():
        return text
    head = text[:longest]
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in head)
    return shown if max(len(text), len(shown)) <= longest else f"{shown[: longest - 3]}..."
