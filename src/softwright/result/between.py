"""`Between`: what was proved about a table between its points.

A table on a grid means its multilinear interpolant there (`targets/table.py`). For every point x of the part of the
certificate's domain that lies in the table's box, with coordinates in the dtype,

    |fl(g)(x) - I(x)|  <=  |g(x) - I(x)| + |fl(g)(x) - g(x)|  <=  exact_part + rounding_part  <=  bound,

with I the interpolant. A network that meets a smooth table at its points leaves the chords between them by about
h^2/8 times its second derivative: a property of the interpolant rather than a fault of the network. `bound` is the
smallest that was proved in a short time; `lower` was seen at `witness`, so that it can be judged.

The numbers of a table are not in the file, so that `verify` cannot redo this proof; it names the table as a hypothesis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from softwright.errors import Faults, InvalidInput
from softwright.result.numbers import check_hex, check_types, is_count, is_number

_NUMBERS = ("bound", "exact_part", "rounding_part")
_KEYS = {**dict.fromkeys((*_NUMBERS, "lower", "seconds"), (int, float)), "witness": list, "boxes": int, "hex": dict}


@dataclass(frozen=True)
class Between:
    """The error of a network against a table's multilinear interpolant, over the whole box."""

    bound: float
    exact_part: float
    rounding_part: float
    lower: float
    witness: tuple[float, ...]
    boxes: int
    seconds: float

    def faults(self, dim: int) -> list[str]:
        """Everything that is wrong with the statement, in words."""
        faults, remedy = Faults(""), "certify the network again"
        numbers = [
            faults.check(
                is_number(getattr(self, name)) and getattr(self, name) >= 0,
                f"between: {name} = {getattr(self, name)!r} is not a finite number >= 0; {remedy}",
            )
            for name in (*_NUMBERS, "lower", "seconds")
        ]
        if all(numbers):
            faults.check(
                Fraction(self.exact_part) + Fraction(self.rounding_part) <= Fraction(self.bound),
                f"between: bound {self.bound!r} is below the sum of its parts; {remedy}",
            )
        faults.check(is_count(self.boxes), f"between: boxes = {self.boxes!r} is not a count; {remedy}")
        faults.check(
            len(self.witness) in (0, dim) and all(map(is_number, self.witness)),
            f"between: witness {self.witness!r} is not a point of {dim} coordinates",
        )
        return faults.found

    def summary(self) -> str:
        return f"<= {self.bound:.3g} against multilinear interpolation (seen {self.lower:.3g}, {self.boxes} boxes)"

    def to_json(self) -> dict[str, Any]:
        return {
            "bound": self.bound,
            "exact_part": self.exact_part,
            "rounding_part": self.rounding_part,
            "lower": self.lower,
            "witness": list(self.witness),
            "boxes": self.boxes,
            "seconds": self.seconds,
            "hex": {name: float(getattr(self, name)).hex() for name in _NUMBERS},
        }

    @classmethod
    def from_json(cls, data: Any) -> Between:
        """Read what `to_json` wrote; every fault found is listed in one error."""
        if not isinstance(data, Mapping):
            raise InvalidInput("Certificate", [f"between: expected an object, got {type(data).__name__}"])
        faults = Faults("Certificate")
        check_types(data, _KEYS, "between: ", faults)
        faults.raise_if_any()
        for name in _NUMBERS:
            check_hex(data[name], data["hex"].get(name), f"between: {name}", faults)
        faults.raise_if_any()
        return cls(
            **{name: float(data[name]) for name in (*_NUMBERS, "lower", "seconds")},
            witness=tuple(data["witness"]),
            boxes=data["boxes"],
        )

    def __str__(self) -> str:
        return (
            f"between the points, against multilinear interpolation: error <= {self.bound:.4g}, "
            f"seen at least {self.lower:.4g} ({self.boxes} boxes in {self.seconds:.2g} s)"
        )
