"""`theorem`: a paper's construction at given sizes, with the paper's bound, measured.

    label -> Theorem -> Construction (network, bound) -> sampled error -> Built

The certificate is a `ClosedForm`: the theorem's own formula, evaluated for these sizes and rounded up. Where the
theorem speaks of real arithmetic only, the certificate says so. `comparison` puts beside it what softwright's own
prover can show of the same function, and what softwright builds for the same target with no more tokens.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from typing import Any

from softwright.errors import InvalidInput
from softwright.result.built import Built
from softwright.result.closed_form import EXACT_ARITHMETIC, ClosedForm
from softwright.result.observed import Observed
from softwright.result.plan import Plan
from softwright.theorems import find_theorem
from softwright.theorems.tools.construction import Construction, float_above
from softwright.theorems.tools.rivals import Rivals
from softwright.theorems.tools.theorem import Theorem

_INPUTS = 200  # at how many inputs the error is sampled
_PROOF_SECONDS = 20.0


@dataclass(frozen=True)
class TheoremBuilder:
    """One theorem, ready to build: `theorem("A1").build(points=60)`."""

    theorem: Theorem

    label = property(attrgetter("theorem.label"))
    title = property(attrgetter("theorem.title"))
    statement = property(attrgetter("theorem.statement"))
    conditions = property(attrgetter("theorem.conditions"))
    options = property(attrgetter("theorem.options"))

    def construct(self, **sizes: Any) -> Construction:
        """The construction alone: nothing measured, nothing certified."""
        return self.theorem.build(**sizes)

    def build(self, **sizes: Any) -> Built:
        """The network at these sizes, with the theorem's bound as its certificate and a sampled error."""
        started = time.monotonic()
        return finish(self.theorem, self.theorem.build(**sizes), started)

    def __repr__(self) -> str:
        sizes = "\n".join(f"  {o.name} = {o.default!r:<10} {o.help}" for o in self.options)
        conditions = "\n".join(f"  {condition}" for condition in self.conditions)
        return f"theorem {self.label}: {self.title}\n{self.statement}\n{self.theorem.paper}\n{conditions}\n{sizes}"


def theorem(label: str) -> TheoremBuilder:
    """A theorem of the papers by its label, one of `softwright.theorems.LABELS`; `.build(...)` makes its network."""
    return TheoremBuilder(find_theorem(label))


def finish(stated: Theorem, made: Construction, started: float | None = None) -> Built:
    """A construction measured, with the theorem's bound as its certificate."""
    started = time.monotonic() if started is None else started
    error, count = made.observe(n=_INPUTS)
    target = {
        "kind": "theorem",
        "label": made.label,
        "text": f"theorem {made.label}: {stated.title}",
        "sizes": made.sizes,
    }
    rounding = 0.0 if made.rounding is None else float(made.rounding)
    certificate = ClosedForm.of(
        made.network,
        target,
        started,
        statement=made.statement,
        bound=float_above(Fraction(made.bound) + Fraction(rounding)),
        exact_part=float(made.bound),
        rounding_part=rounding,
        method=f"theorem {made.label}",
        quantities={name: float(value) for name, value in made.quantities.items()},
        assumptions=((EXACT_ARITHMETIC,) if made.rounding is None else ()) + tuple(made.assumptions),
        norm=made.norm,
    )
    plan = Plan.of(
        made.network,
        started,
        strategy=f"theorem {made.label}",
        heads=[{"layers": made.layers, "heads": made.heads, "tokens": made.tokens}],
        tokens=made.tokens,
        parameters=made.parameters,
        reasons=made.reasons,
    )
    return Built(
        network=made.network,
        plan=plan,
        target=target,
        observed=Observed(error, (), count),
        certificate=certificate,
        source=made,
    )


@dataclass(frozen=True)
class Row:
    """One line of a theorem's table; None where a column does not apply."""

    size: str
    layers: int
    heads: int
    tokens: int
    parameters: int
    bound: float
    proved: float | None
    observed: float
    softwright: Rivals
    rounding: float = 0.0  # proved beside the theorem's bound, which speaks of real arithmetic


def row(made: Construction, *, size: str = "", proofs: bool = True, rivals: bool = True) -> Row:
    """A construction as a line of a table, with our own proof and our own construction beside it if asked."""
    observed, _ = made.observe(n=_INPUTS)
    rival = find_theorem(made.label).rival if rivals else None
    return Row(
        size=size,
        layers=made.layers,
        heads=made.heads,
        tokens=made.tokens,
        parameters=made.parameters,
        bound=made.bound,
        proved=made.own_proof(_PROOF_SECONDS) if proofs else None,
        observed=observed,
        softwright={} if rival is None else rival(made),
        rounding=float(made.rounding or 0.0),
    )


def sweep_rows(stated: Theorem, sizes: dict[str, Any], *, proofs: bool = False, rivals: bool = False) -> list[Row]:
    """The rows along the theorem's sweep, other sizes as given."""
    if stated.sweep is None:
        return []
    name, values = stated.sweep
    rows = []
    for value in values:
        with suppress(InvalidInput):  # a size of the sweep that does not go with the others
            made = stated.build(**{**sizes, name: value})
            rows.append(row(made, size=f"{name} {value}", proofs=proofs, rivals=rivals))
    return rows
