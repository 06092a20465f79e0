"""Work, counted: what budgets measure, so that the same call gives the same network on a busy machine.

Every costly step says how large it is, in nominal nanoseconds: what it takes one core of an ordinary machine, by a
formula of its sizes (rows, columns, boxes, tokens) that was fitted once to measured times. Nothing here reads a clock,
so counts are the same wherever and whenever they are made; they are a unit of effort, not a prediction of time. Each
thread has its own count.
"""

from __future__ import annotations

import threading

SECOND = 1_000_000_000  # units of work in what options call one unit: about a second of one core


class _Here(threading.local):
    done = 0


_here = _Here()


def count(nanoseconds: float) -> None:
    """Add a step that takes about so long."""
    _here.done += int(nanoseconds)


def done() -> int:
    """All work that this thread has counted; differences of it are what a step took."""
    return _here.done


class Allowance:
    """So much work from now on, in units of `SECOND`."""

    def __init__(self, units: float) -> None:
        self.units = units
        self._start = done()

    @property
    def taken(self) -> float:
        return (done() - self._start) / SECOND

    @property
    def left(self) -> float:
        return self.units - self.taken

    @property
    def spent(self) -> bool:
        return self.taken > self.units
