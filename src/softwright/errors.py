"""The errors softwright raises, and the collector that lets one error list every fault at once.

Every message names the remedy. `InvalidInput` is raised before any work starts and carries all faults found, so that a
user mends them in one go; `ToleranceNotReached` carries the best result found, so that no work is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Made = TypeVar("_Made")


class SoftwrightError(Exception):
    """Base of all errors that softwright raises on purpose."""


class InvalidInput(SoftwrightError, ValueError):
    """The input was wrong; `faults` lists everything that is wrong with it, each with its remedy."""

    def __init__(self, subject: str, faults: list[str]) -> None:
        self.subject = subject
        self.faults = list(faults)
        lines = [f"{subject}: {self.faults[0]}"] if len(self.faults) == 1 else [f"{subject}: {len(self.faults)} faults"]
        if len(self.faults) > 1:
            lines += [f"  {i}. {fault}" for i, fault in enumerate(self.faults, 1)]
        super().__init__("\n".join(lines))


class UndefinedFormula(InvalidInput):
    """A formula is undefined somewhere on the box, or may be.

    `places` holds, for each sub-expression at fault, what is known: `expression` (its text), `point` (a mapping of
    variables to numbers: there, or next to it, it is undefined) and `certain` (False: nothing could rule it out).
    """

    def __init__(self, subject: str, faults: list[str], places: list[dict[str, Any]]) -> None:
        super().__init__(subject, faults)
        self.places = places


class FileFormatError(SoftwrightError, ValueError):
    """A file is not what it claims to be: truncated, foreign, or of an unknown schema version."""


class ForeignFile(FileFormatError):
    """A readable file, but one that softwright did not write."""


class FileNotWritten(FileFormatError, OSError):
    """A file could not be written (a full disk, missing rights); what stood under its name is unchanged."""


class ToleranceNotReached(SoftwrightError):
    """The tolerance could not be met within the budget; `best` is the best result found, with its honest error."""

    def __init__(self, message: str, best: Any = None) -> None:
        super().__init__(message)
        self.best = best


class ContradictedProof(SoftwrightError):
    """A run contradicts what was proved: a fault of softwright, never of its user."""


class Faults:
    """Collects faults while input is checked, then raises them all together."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.found: list[str] = []

    def add(self, fault: str) -> None:
        self.found.append(fault)

    def check(self, condition: bool, fault: str) -> bool:
        """Record `fault` unless `condition` holds; returns the condition so that later checks can depend on it."""
        if not condition:
            self.found.append(fault)
        return condition

    def take(
        self, make: Callable[_Arguments, _Made], *given: _Arguments.args, **named: _Arguments.kwargs
    ) -> _Made | None:
        """What `make` makes of the arguments, or None if it raises `InvalidInput`, whose faults join these."""
        try:
            return make(*given, **named)
        except InvalidInput as error:
            self.found += error.faults
            return None

    def raise_if_any(self) -> None:
        if self.found:
            raise InvalidInput(self.subject, self.found)
