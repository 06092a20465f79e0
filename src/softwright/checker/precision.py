"""What the checker assumes of a floating-point type, one row per type. The prover has a table of its own.

A statement names the accuracy of exp that it rests on. That of float32 was 32 ulp before it was measured and is 4 ulp
since: a file is checked with the one that it names, and what it says must be what follows from that one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from softwright.checker.refusal import NotProvedError


@dataclass(frozen=True)
class Precision:
    """Results of at least `smallest` are rounded to nearest with a relative error of at most `unit`."""

    name: str
    unit: float  # unit roundoff: half the distance from 1 to the next number
    exp_ulps: int  # accuracy of exp; in torch's float32 kernels 3.86 at most were measured
    smallest: float  # smallest normal number: what is below may be flushed to zero
    least: float  # smallest positive number
    largest: float  # largest number: what is above overflows
    exp_floor: float  # results of exp below this may be zero; torch's float32 attention kernel loses 1.66e-38
    rounded: float = 0.0  # unit roundoff of the one rounding at the end, where numbers inside are float64; else none
    inside: str = ""  # the type that is computed in, where it is not this one

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
        computed = f"{self.inside} on {self.name} numbers, rounded once" if self.inside else self.name
        return (
            f"torch's CPU kernels in {computed}, eager, any number of threads",
            "whatever autocast, default dtype and float32 matmul precision are outside the network",
            "not compiled graphs or other devices",
            elsewhere[self.inside or self.name],
        )

    @property
    def words(self) -> str:
        """The premise that a statement about a run in this type makes."""
        shortcuts = {"float64": "", "float32": ", no TF32 or bfloat16 matrix products"}[self.inside or self.name]
        on = f" on {self.name} numbers" if self.inside else ""
        once = f", and once to {self.name} at the end" if self.inside else ""
        return (
            f"IEEE 754 {self.inside or self.name} arithmetic{on}, rounded to nearest{shortcuts}{once}; "
            f"exp in torch's CPU kernels accurate to {self.exp_ulps} ulp"
        )

    @property
    def hypotheses(self) -> tuple[str, ...]:
        """The ids of what every statement about a run in this type rests on."""
        return "ieee754", f"exp-ulp<={self.exp_ulps}"


PRECISIONS = {
    row.name: row
    for row in (
        Precision("float64", 2.0**-53, 4, 2.0**-1022, 2.0**-1074, (2 - 2.0**-52) * 2.0**1023, 2.0**-1022),
        Precision("float32", 2.0**-24, 4, 2.0**-126, 2.0**-149, (2 - 2.0**-23) * 2.0**127, 2.0**-125),
    )
}
BEFORE = 32  # ulp of float32's exp, in statements from before it was measured
_FLOAT32_EXP: ContextVar[int] = ContextVar("float32_exp", default=PRECISIONS["float32"].exp_ulps)


@contextmanager
def assumed_by(certificate: Any) -> Iterator[None]:
    """Everything within assumes of exp what this certificate does, in whichever schema it is written."""
    said = certificate if isinstance(certificate, dict) else {}
    claim = said.get("claim")
    words = claim.get("premises") if isinstance(claim, dict) else said.get("assumptions")
    named = [text for text in words if isinstance(text, str)] if isinstance(words, list) else []
    weaker = any(f" {BEFORE} ulp" in text for text in named)
    token = _FLOAT32_EXP.set(BEFORE if weaker else PRECISIONS["float32"].exp_ulps)
    try:
        yield
    finally:
        _FLOAT32_EXP.reset(token)


def rows() -> tuple[Precision, ...]:
    """All types, as they are assumed at the moment."""
    return tuple(map(precision_of, PRECISIONS))


def as_run(dtype: object, engine: object) -> Precision:
    """What is assumed of a run: engine "double" computes float32 networks in float64 and rounds their outputs once.

    Numbers are float32 numbers when they are read, and at the end: `smallest` and `largest` are those of float32.
    """
    row = precision_of(dtype)
    if engine != "double":
        return row
    if row.name != "float32":
        raise NotProvedError("engine 'double' is one of float32 networks")
    wide = PRECISIONS["float64"]
    return replace(
        row, unit=wide.unit, exp_ulps=wide.exp_ulps, exp_floor=wide.exp_floor, rounded=row.unit, inside=wide.name
    )


def precision_of(name: object) -> Precision:
    """The row of a type that a file names."""
    row = PRECISIONS.get(name) if isinstance(name, str) else None
    if row is None:
        raise NotProvedError(f"unknown dtype {name!r}; known are {', '.join(PRECISIONS)}")
    ulps = _FLOAT32_EXP.get()
    return replace(row, exp_ulps=ulps) if row.name == "float32" and row.exp_ulps != ulps else row
