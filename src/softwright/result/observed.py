"""`Observed`: the largest deviation seen, where and at how many points: a sample, never a bound."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Observed:
    """Largest deviation seen, where, and at how many points: a sample, not a bound."""

    error: float
    point: tuple[float, ...]
    points: int

    def as_dict(self) -> dict[str, object]:
        return {"error": self.error, "point": list(self.point), "points": self.points}
