"""`Plan`: what was chosen and why, in words and numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from softwright.precision import name_of
from softwright.result.numbers import is_count, is_number

if TYPE_CHECKING:
    from softwright.result.constructed import Network


def _is_head(head: Any) -> bool:
    """A head as `explain` shows it: its own way, or with its largest score and value as numbers."""
    if not isinstance(head, dict):
        return False
    measured = {"largest_score", "largest_value"}
    return not measured & head.keys() or (
        {"tokens", "structure", "values"} <= head.keys() and all(is_number(head.get(name)) for name in measured)
    )


def _is_noise(given: Any) -> bool:
    """What cross-validation said: rms by output, coverage, folds, and sd or none."""
    if not isinstance(given, dict) or given.keys() != {"rms", "coverage", "folds", "sd"}:
        return False
    numbers = isinstance(given["rms"], list) and all(map(is_number, given["rms"])) and is_number(given["coverage"])
    return numbers and is_count(given["folds"]) and (given["sd"] is None or is_number(given["sd"]))


_ENTRIES: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("strategy", "dtype"), lambda given: isinstance(given, str)),
    **dict.fromkeys(("tolerance", "seconds"), is_number),
    **dict.fromkeys(("tokens", "parameters", "queries"), is_count),
    "heads": lambda given: isinstance(given, list) and all(map(_is_head, given)),
    "noise": _is_noise,
    "reasons": lambda given: isinstance(given, list) and all(isinstance(reason, str) for reason in given),
}


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
    queries: int | None = None  # how many points a callable was asked for, all in all
    noise: dict[str, Any] | None = None  # of a fit to noisy rows: rms by output, coverage, folds, sd if it was given

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
        if self.queries is not None:
            lines.append(f"  the callable was asked for {self.queries} points")
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
        """Ready for JSON; `queries` and `noise` only where there were any."""
        return {name: given for name, given in asdict(self).items() if given is not None}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Plan:
        """The plan that a file tells of; a `ValueError` that names the entries which are not what they should be."""
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        wrong = [name for name, given in known.items() if not _ENTRIES[name](given)] + sorted(
            data.keys() - known.keys()
        )
        if wrong:
            raise ValueError(f"the plan's {', '.join(wrong)} cannot be read")
        return cls(**known)
