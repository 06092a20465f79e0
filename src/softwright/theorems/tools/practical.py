"""`Practical`: the maps that a theorem is about, of any size, as programs over sequences.

The papers' networks grow with the inverse of the error, and some of their numbers leave float64 after a few tokens. The
same kind of map, written as a program, is built by `compile` for all lengths at once, with a proof to 1e-6:

    theorem("C5").compile("tanh(2*x + 3*mean(sin(3*x))) * mean(exp(x))", "length=1:128 x=-1:1")

What is beyond the theorem is refused: outputs that are no real numbers, and for C5 what depends on places.
`by_compile` puts the same map as a program beside a theorem's network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from softwright.errors import Faults, InvalidInput, ToleranceNotReached
from softwright.precision import Dtype
from softwright.progress import Progress
from softwright.theorems.tools.rivals import Bounds, Rival, Rivals

if TYPE_CHECKING:
    from softwright.attention.program import ProgramNetwork
    from softwright.programs.fields import Sequence
    from softwright.result.built import Built


@dataclass(frozen=True)
class Practical:
    """A theorem's kind of map as a program: an example, and whether others may depend on places."""

    program: str
    tokens: str  # as on the command line
    places: bool

    def compile(
        self, label: str, program: str | None, tokens: Sequence | dict[str, Any] | str | None, *,
        tol: float, dtype: Dtype, certify: bool, progress: Progress,
    ) -> Built[ProgramNetwork]:  # fmt: skip
        """The program's network, if it is of the theorem's kind; without a program, the row's own example."""
        from softwright.programs.reading.kinds import as_map
        from softwright.programs.verb import compile as build

        faults = Faults(f"theorem {label}")
        missing = program is not None and tokens is None
        faults.check(not missing, f"what does a token of this program bring? Give tokens, such as {self.tokens!r}")
        faults.raise_if_any()
        text = program or self.program
        where, found = as_map(text, self.tokens if tokens is None else tokens, self.places)
        for fault in found:
            faults.add(fault)
        faults.raise_if_any()
        return build(text, where, tol=tol, dtype=dtype, certify=certify, progress=progress)


def by_compile(program: str, length: int, sides: Mapping[str, Bounds]) -> Rivals:
    """A map as a program over sequences of one length, whose error is proved, rounding included."""
    from softwright.programs.verb import compile as build

    try:
        built = build(program, {"length": (length, length), **sides}, progress=False)
    except ToleranceNotReached as error:
        built = error.best
    except InvalidInput:  # what formulas have and programs refuse
        return {}
    if built.certificate is None:
        return {}
    return {"softwright compile (proved)": Rival(built.plan.tokens, built.certificate.bound, proved=True)}
