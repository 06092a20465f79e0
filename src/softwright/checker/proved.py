"""`Proved`: what a re-proof found, and the comparison of what a certificate states with it.

A re-proof reads the model, the target and the tensors of a file, never the numbers that the certificate states. What
it returns is compared here: the sentence must be the same, the stated parts at least what was proved, and every number
beside them what it is called, or, where it is called a bound, at least what was proved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flint import arb, fmpq

from softwright.checker.entries import at_least_zero, is_number
from softwright.checker.refusal import require

SAME = 1e-6  # relative: numbers that are told, and that nothing rests on


@dataclass(frozen=True)
class Proved:
    """A sentence, upper bounds of the two parts of the error it speaks of, and the numbers they are made of.

    `rounding` is None where the sentence is about real arithmetic alone, and where it is not bounded apart: `total` is
    then what both parts come to. `quantities` are told as they are, `at_most` as bounds. `assumptions` are those that
    the certificate must name, in these words; `hypotheses` the ids of those that nobody but the user can answer for.
    """

    statement: str
    exact: arb
    rounding: arb | None
    method: str
    norm: str = "sup"
    engine: str = "any"
    quantities: dict[str, arb] = field(default_factory=dict)
    at_most: dict[str, arb] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    hypotheses: tuple[str, ...] = ()
    total: arb | None = None


def compare(said: dict[str, Any], proved: Proved) -> None:
    """What is stated follows from what was proved."""
    for name in ("statement", "method", "norm", "engine"):
        require(said[name] == getattr(proved, name), f"the {name} should read: {getattr(proved, name)}")
    require(tuple(said["assumptions"]) == proved.assumptions, f"the assumptions should be {list(proved.assumptions)}")
    require(all(at_least_zero(said[name]) for name in ("bound", "exact_part", "rounding_part")), "a part is damaged")
    bound, exact, rounding = (
        fmpq(*float(said[name]).as_integer_ratio()) for name in ("bound", "exact_part", "rounding_part")
    )
    require(exact + rounding <= bound, "the bound is below the sum of its parts")
    rounded = arb(0) if proved.rounding is None else proved.rounding
    for name, least, stated in (("exact", proved.exact, exact), ("rounding", rounded, rounding)):
        require(
            least <= arb(stated),
            f"{name} part: {float(least.abs_upper()):.6g} can be proved, {float(arb(stated)):.6g} is stated",
        )
    if proved.total is not None:
        least, stated = float(proved.total.abs_upper()), float(arb(exact + rounding))
        require(proved.total <= arb(exact + rounding), f"{least:.6g} can be proved, the parts add up to {stated:.6g}")
    given, known = said["quantities"], {**proved.quantities, **proved.at_most}
    require(set(given) == set(known), f"the quantities should be {', '.join(known) or 'none'}")
    require(all(map(is_number, given.values())), "a quantity is no number")
    for name, value in proved.at_most.items():
        require(value <= given[name], f"{name}: {float(value):.6g} can be proved, {given[name]:.6g} is stated")
    for name, value in proved.quantities.items():
        near = abs(value - given[name]) <= SAME * abs(value) + arb(2) ** -900
        require(near, f"{name} should be {float(value.mid()):.6g}, {given[name]:.6g} is stated")
