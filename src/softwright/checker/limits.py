"""How long a re-proof may take: a limit that everything which may run for long looks at.

A file decides how much work its proof is, so the work must be bounded by whoever checks it. `check_time` is called at
every box, every node of a formula and every block of a long sum; it costs a look at the clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from softwright.checker.refusal import NotProvedError

SECONDS = 600.0  # unless the caller says otherwise
_LIMIT: ContextVar[tuple[float, float] | None] = ContextVar("limit", default=None)  # when it ends, how long it is


class UndecidedError(NotProvedError):
    """The time was used up before the proof was done: nothing is wrong, but nothing is proved."""


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Everything within must be done in this time; None is no limit."""
    token = _LIMIT.set(None if seconds is None else (time.monotonic() + seconds, seconds))
    try:
        yield
    finally:
        _LIMIT.reset(token)


def check_time() -> None:
    """Stop if the time is used up."""
    limit = _LIMIT.get()
    if limit is not None and time.monotonic() > limit[0]:
        raise UndecidedError(f"undecided within {limit[1]:g} s; give more time (max_seconds)")


def time_left() -> float | None:
    """The seconds until the limit; None if there is none."""
    limit = _LIMIT.get()
    return None if limit is None else max(0.0, limit[0] - time.monotonic())
