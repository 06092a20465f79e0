"""What a file claims, as the judges read it, and what they return.

A judge looks for an input at which the file errs by more than it claims. It returns the worst that it saw, as a share
of the bound: above 1 the file is false. What was found false is false; what was not may be true.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flint import arb, ctx

import softwright as sw

BITS = 200
ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24}
Json = Any


class CannotJudge(Exception):
    """The claim is about something that no judge here knows."""


@dataclass(frozen=True)
class Seen:
    """The worst that was seen: `share` of the bound, what is off there, and the numbers of the case."""

    share: float
    cause: str = ""
    detail: str = ""

    def __or__(self, other: Seen) -> Seen:
        return self if self.share >= other.share else other


NOTHING = Seen(0.0)


@dataclass(frozen=True)
class Known:
    """A target that is not in its file: points (n, d) and values (n, m) of a table, or the formula of a callable."""

    points: np.ndarray | None = None
    values: np.ndarray | None = None
    text: str = ""


@dataclass(frozen=True)
class Claim:
    """A file as it is read. `part`: the verdict speaks of the certificate's domain alone; `given`: what it rests on."""

    path: Path
    tensors: dict[str, np.ndarray]
    sections: dict[str, Json]
    part: bool = False
    known: Known | None = None
    given: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return self.sections["model"]["kind"]

    @property
    def said(self) -> dict[str, Json]:
        """The entries of the certificate side by side, whichever its schema."""
        certificate = self.sections["certificate"]
        if "claim" not in certificate:
            return certificate
        claim = certificate["claim"]
        parts = {"exact_part": claim["parts"]["exact"], "rounding_part": claim["parts"]["rounding"]}
        quantities = next((step["quantities"] for step in certificate["evidence"] if "quantities" in step), {})
        return {**claim, **parts, **claim["set"], "quantities": quantities}

    @property
    def target(self) -> dict[str, Json]:
        return self.sections["target"]

    @property
    def bound(self) -> float:
        return float(self.said["bound"])

    @property
    def dtype(self) -> str:
        return str(self.said["dtype"])

    @property
    def box(self) -> dict[str, list[float]]:
        """Where the verdict says that the bound holds."""
        return self.said["domain"] if self.part else self.sections["model"]["box"]

    def share(self, error: Any) -> float:
        """Of the bound; a ball counts by what it is at least."""
        if isinstance(error, arb):
            if not error.is_finite():
                return 0.0
            error = float(abs(error).lower())
        error = float(error)
        if np.isnan(error):
            return float("inf")
        if self.bound > 0:
            return error / self.bound
        return float("inf") if error > 0 else 0.0


@contextmanager
def bits(count: int) -> Iterator[None]:
    before, ctx.prec = ctx.prec, count
    try:
        yield
    finally:
        ctx.prec = before


def dot(numbers: Any, balls: Any) -> Any:
    return sum((arb(a) * b for a, b in zip(numbers, balls, strict=True)), arb(0))


def loaded(claim: Claim) -> sw.Built:
    return sw.load(claim.path)
