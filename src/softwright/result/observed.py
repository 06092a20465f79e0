"""`Observed`: the largest deviation seen, where and at how many points: a sample, never a bound."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from softwright.result.numbers import is_count, is_number


@dataclass(frozen=True)
class Observed:
    """Largest deviation seen, where, and at how many points: a sample, not a bound.

    The error is no finite number where a network ran to none; files, which hold none, have null for it.
    """

    error: float
    point: tuple[float, ...]
    points: int

    def as_dict(self) -> dict[str, object]:
        return {
            "error": self.error if math.isfinite(self.error) else None,
            "point": list(self.point),
            "points": self.points,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Observed:
        """What a file tells of; a `ValueError` if that is no error, no point or no number of points."""
        error, point, points = data["error"], data["point"], data["points"]
        if not (
            (error is None or is_number(error))
            and isinstance(point, list)
            and all(map(is_number, point))
            and is_count(points)
        ):
            raise ValueError("what was observed cannot be read")
        return cls(math.nan if error is None else error, tuple(point), points)
