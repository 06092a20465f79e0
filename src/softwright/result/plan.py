"""`Plan`: what was chosen and why, in words and numbers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from softwright.precision import name_of

if TYPE_CHECKING:
    from softwright.result.constructed import Network


@dataclass(frozen=True)
class Plan:
    """The choice that led to a network: strategy, sizes, temperature, the tolerance asked for, and the reasons."""

    strategy: str
    tolerance: float
    heads: list[dict[str, Any]]
    tokens: int
    parameters: int
    dtype: str
    seconds: float
    reasons: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        network: Network,
        started: float,
        *,
        strategy: str,
        heads: list[dict[str, Any]],
        tokens: int,
        parameters: int,
        tolerance: float = 0.0,
        reasons: Sequence[str] = (),
    ) -> Plan:
        """The plan of this network; `started` is the `time.monotonic()` at which the verb was called."""
        return cls(
            strategy=strategy,
            tolerance=tolerance,
            heads=heads,
            tokens=tokens,
            parameters=parameters,
            dtype=name_of(network.dtype),
            seconds=time.monotonic() - started,
            reasons=list(reasons),
        )

    def explain(self) -> str:
        """Why this construction: one line for each reason, then one for each head."""
        size = f"{self.tokens} token(s), {self.parameters} parameters"
        lines = [f"strategy {self.strategy}: {size}, tolerance {self.tolerance:g}"]
        lines += [f"  because {reason}" for reason in self.reasons]
        for i, head in enumerate(self.heads, 1):
            if "largest_score" not in head:  # other constructions say what is worth saying of theirs
                lines.append(f"  head {i}: " + ", ".join(f"{name} {value}" for name, value in head.items()))
                continue
            lines.append(
                f"  head {i}: {head['tokens']} token(s), {head['structure']}, {head['values']} values, "
                f"largest score {head['largest_score']:.3g}, largest value {head['largest_value']:.3g}"
            )
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Plan:
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        return cls(**known)
