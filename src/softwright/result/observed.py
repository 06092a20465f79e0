"""`Observed`: the largest deviation seen, where and at how many points: a sample, never a bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Observed:
    """Largest deviation seen, where, and at how many points: a sample, not a bound."""

    error: float
    point: tuple[float, ...]
    points: int

    def as_dict(self) -> dict[str, object]:
        return {"error": self.error, "point": list(self.point), "points": self.points}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Observed:
        return cls(data["error"], tuple(data["point"]), data["points"])
