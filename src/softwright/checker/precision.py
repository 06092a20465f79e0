"""What the checker assumes of a floating-point type, one row per type. The prover has a table of its own."""

from __future__ import annotations

from dataclasses import dataclass

from softwright.checker.refusal import NotProvedError


@dataclass(frozen=True)
class Precision:
    """Results of at least `smallest` are rounded to nearest with a relative error of at most `unit`."""

    name: str
    unit: float  # unit roundoff: half the distance from 1 to the next number
    exp_ulps: int  # accuracy of exp; torch's kernels are specified to 1 and, in float32 attention, 20
    smallest: float  # smallest normal number: what is below may be flushed to zero
    least: float  # smallest positive number
    largest: float  # largest number: what is above overflows
    exp_floor: float  # results of exp below this may be zero; torch's float32 attention kernel loses 1.66e-38

    @property
    def exp_error(self) -> float:
        """Relative error of exp: an ulp of a number in [1, 2) is two units."""
        return 2 * self.exp_ulps * self.unit

    @property
    def runtimes(self) -> tuple[str, ...]:
        """Which runs a bound of rounding in this type covers, and which not, as a certificate must say it."""
        elsewhere = {
            "float64": "not runtimes that compute float64 in float32, as OpenVINO does",
            "float32": "not runtimes that multiply float32 numbers in TF32 or bfloat16",
        }
        return (
            f"torch's CPU kernels in {self.name}, eager, any number of threads",
            "whatever autocast, default dtype and float32 matmul precision are outside the network",
            "not compiled graphs or other devices",
            elsewhere[self.name],
        )

    @property
    def hypotheses(self) -> tuple[str, ...]:
        """The ids of what every statement about a run in this type rests on."""
        return "ieee754", f"exp-ulp<={self.exp_ulps}"


PRECISIONS = {
    row.name: row
    for row in (
        Precision("float64", 2.0**-53, 4, 2.0**-1022, 2.0**-1074, (2 - 2.0**-52) * 2.0**1023, 2.0**-1022),
        Precision("float32", 2.0**-24, 32, 2.0**-126, 2.0**-149, (2 - 2.0**-23) * 2.0**127, 2.0**-125),
    )
}


def precision_of(name: object) -> Precision:
    """The row of a type that a file names."""
    row = PRECISIONS.get(name) if isinstance(name, str) else None
    if row is None:
        raise NotProvedError(f"unknown dtype {name!r}; known are {', '.join(PRECISIONS)}")
    return row
