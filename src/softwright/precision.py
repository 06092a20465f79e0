"""`Precision`: what is known of a floating-point type, one row per type.

A number of the type is +-m 2^e with an m of `digits` binary digits. Rounding to nearest changes a result by at most
`unit` = 2^-digits of its size while that is at least `smallest`, the least normal number; below, numbers are multiples
of `least`. An ulp of a number in [1, 2) is 2 unit, so a function accurate to n ulp errs by at most 2 n unit times its
size. How far `exp` of torch's kernels may be off is an assumption of every proof about running networks; the sentences
that state it in certificates are written here, from the same numbers that the bounds are computed with. The accuracy
holds where e^x is at least `exp_floor`; a smaller result may be any number up to that, 0 above all. (The float32
attention kernel returns 0 from x = -86.98997 down, where e^x = 1.66e-38 is still a normal number.)

In float32 the constant is one that can be looked at: `attention/exp_accuracy.py` reads the exp of the kernels that run,
at every float32 if need be, and `softwright kernels` says what holds on a processor. 4 ulp hold where it was run. On a
processor where they do not, the environment variable SOFTWRIGHT_EXP_ULPS=32 makes proofs assume what they assumed
before anybody looked; certificates name the number that they rest on, and are checked with that number.

What is *known* of a type is here. What is *chosen* for one (a step size, an order) stays where it is used.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, Union

from softwright.errors import InvalidInput

if TYPE_CHECKING:
    import torch

# What every verb takes as `dtype`: the name of a type, or the type.
Dtype: TypeAlias = Union[str, "torch.dtype"]


@dataclass(frozen=True)
class Precision:
    """One floating-point type."""

    name: str  # as NumPy and torch call it
    digits: int  # binary digits of a number: whole numbers up to 2^digits are exact
    exp_ulps: int  # assumed accuracy of exp in torch's CPU kernels
    smallest: float  # smallest normal number: what underflow or flushing to zero can lose
    largest: float  # largest number
    exp_floor: float  # results of exp below this may be lost altogether: at least `smallest`
    shortcuts: str = ""  # products of lower precision that a kernel could take instead, and must not

    @property
    def unit(self) -> float:
        """Unit roundoff, half the distance from 1 to the next number."""
        return 2.0**-self.digits

    @property
    def exp_error(self) -> float:
        """Assumed relative error of exp."""
        return self.exp_ulps * 2 * self.unit

    @property
    def least(self) -> float:
        """The smallest positive (subnormal) number."""
        return self.smallest * 2 * self.unit

    @property
    def torch_dtype(self) -> torch.dtype:
        import torch

        return getattr(torch, self.name)


EXP_ULPS = (4, 32)  # what may be assumed of float32's exp: what was measured, and what was assumed before


def _assumed() -> int:
    asked = os.environ.get("SOFTWRIGHT_EXP_ULPS", str(EXP_ULPS[0]))
    if asked not in map(str, EXP_ULPS):
        known = " or ".join(map(str, EXP_ULPS))
        raise InvalidInput("SOFTWRIGHT_EXP_ULPS", [f"{asked!r} is no accuracy that proofs know; set it to {known}"])
    return int(asked)


PRECISIONS = {
    row.name: row
    for row in (
        Precision("float64", 53, 4, smallest=2.0**-1022, largest=(2 - 2.0**-52) * 2.0**1023, exp_floor=2.0**-1022),
        Precision(
            "float32",
            24,
            _assumed(),
            smallest=2.0**-126,
            largest=(2 - 2.0**-23) * 2.0**127,
            exp_floor=2.0**-125,
            shortcuts="TF32 or bfloat16 matrix products",
        ),
    )
}
FLOAT64, FLOAT32 = PRECISIONS["float64"], PRECISIONS["float32"]


def name_of(dtype: Dtype) -> str:
    """The name of any type, known here or not, as NumPy and torch call it: "float32" for torch.float32."""
    return str(dtype).removeprefix("torch.")


def precision_of(dtype: Dtype) -> Precision:
    """The row of a type given by name or as a torch.dtype; an `InvalidInput` that lists the rows for anything else."""
    row = PRECISIONS.get(name_of(dtype))
    if row is None:
        names = ", ".join(f"{name!r}" for name in PRECISIONS)
        raise InvalidInput("dtype", [f"unknown dtype {dtype!r}; choose from {names} or the torch.dtype of that name"])
    return row


def computing_in(dtype: Dtype, engine: str = "") -> Precision:
    """The type that a network of this dtype computes in: float64 if its engine is "double", else its own."""
    return FLOAT64 if engine == "double" else precision_of(dtype)


def assumptions(dtype: Dtype, engine: str = "", ulps: int | None = None) -> tuple[str, ...]:
    """What a proof about a network that runs in this type takes for granted, as its certificate says it; `ulps` is the
    accuracy of exp, that of the type unless given."""
    row, inside = precision_of(dtype), computing_in(dtype, engine)
    shortcuts = f", no {inside.shortcuts}" if inside.shortcuts else ""
    on, once = ("", "") if inside is row else (f" on {row.name} numbers", f", and once to {row.name} at the end")
    return (
        f"IEEE 754 {inside.name} arithmetic{on}, rounded to nearest{shortcuts}{once}; "
        f"exp in torch's CPU kernels accurate to {inside.exp_ulps if ulps is None else ulps} ulp",
        f"inputs are {row.name} numbers of the domain",
    )


def assumptions_of_all(ulps: int | None = None) -> tuple[str, ...]:
    """The same where a statement covers engines that compute in different types; `ulps` is that of float32's exp."""
    known = {row.name: row.exp_ulps for row in PRECISIONS.values()} | ({} if ulps is None else {FLOAT32.name: ulps})
    accuracy = ", ".join(f"{number} ulp in {name}" for name, number in known.items())
    return ("IEEE 754 arithmetic, rounded to nearest", f"exp accurate to {accuracy}")


def exp_ulps_of(dtype: str, engine: str, said: Sequence[str]) -> int:
    """The accuracy of exp that a certificate with these assumptions rests on: files may have been written with any."""
    inside = computing_in(dtype, engine)
    for ulps in EXP_ULPS if inside is FLOAT32 else ():
        if assumptions(dtype, engine, ulps)[0] in said or assumptions_of_all(ulps)[1] in said:
            return ulps
    return inside.exp_ulps
