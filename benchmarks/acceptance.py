"""What a benchmark claims, line by line: what was measured, what is allowed, and whether that holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    job: str
    measured: str
    allowed: str
    holds: bool


def printed(lines: Iterable[Line]) -> bool:
    """Print the table; whether all of it holds."""
    found = list(lines)
    print("\n| job | measured | at most | holds |\n|---|---|---|---|")
    for line in found:
        print(f"| {line.job} | {line.measured} | {line.allowed} | {'yes' if line.holds else 'NO'} |", flush=True)
    return all(line.holds for line in found)
