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
from typing import TYPE_CHECKING, Any

from softwright.errors import InvalidInput
from softwright.precision import FLOAT64, Dtype, precision_of
from softwright.progress import Progress, reporting
from softwright.result.built import Built
from softwright.result.closed_form import EXACT_ARITHMETIC, ClosedForm
from softwright.result.observed import Observed
from softwright.result.outcome import Outcome
from softwright.result.plan import Plan
from softwright.theorems import LABELS, find_theorem
from softwright.theorems.tools.construction import Construction, float_above
from softwright.theorems.tools.network import TheoremNetwork
from softwright.theorems.tools.rivals import Rivals
from softwright.theorems.tools.theorem import Theorem

if TYPE_CHECKING:
    from softwright.attention.program import ProgramNetwork

_INPUTS = 200  # at how many inputs the error is sampled
_PROOF_WORK = 20.0
_ROUNDED = "the theorem speaks of weights in float64, and these are rounded to float32; build it in float64"


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

    def build(
        self, *, dtype: Dtype = "float64", certify: bool = True, progress: Progress = None, **sizes: Any
    ) -> Built[TheoremNetwork]:
        """The network at these sizes, with the theorem's bound as its certificate and a sampled error.

        dtype      what the network runs in. Theorems speak of the numbers that were computed, in float64: rounded to
                   float32 the network is another, of which nothing is claimed
        certify    state the theorem's bound
        progress   a function that is given short messages; None reports by itself, False not at all
        sizes      see `options`
        """
        started = time.monotonic()
        precision = precision_of(dtype)
        with reporting(progress, f"theorem {self.label}") as say:
            say("constructing")
            made = self.theorem.build(**sizes)
            if precision is not FLOAT64:
                made.network.to(precision.torch_dtype)
            say("measuring")
            return finish(self.theorem, made, started, certify=certify)

    def compile(
        self, program: str | None = None, tokens: Any = None, *, tol: float = 1e-6, dtype: Dtype = "float64",
        certify: bool = True, progress: Progress = None,
    ) -> Built[ProgramNetwork]:  # fmt: skip
        """The theorem's kind of map in practice: a program over sequences, with `compile`'s proof for all of them.

        `tokens` is a `Sequence`, or a text such as "length=1:128 x=-1:1"; without a program, the row's own example.
        """
        row = self.theorem.practical
        if row is None:
            labels = [label for label in LABELS if find_theorem(label).practical is not None]
            how = f"{self.label} is not about programs over sequences; {' and '.join(labels)} are"
            raise InvalidInput(f"theorem {self.label}", [how])
        return row.compile(self.label, program, tokens, tol=tol, dtype=dtype, certify=certify, progress=progress)

    def __repr__(self) -> str:
        row = self.theorem.practical
        program = f"\n  program    its kind of map in practice: {row.program}\n  tokens     {row.tokens}" if row else ""
        sizes = "\n".join(f"  {o.name} = {o.default!r:<10} {o.help}" for o in self.options)
        conditions = "\n".join(f"  {condition}" for condition in self.conditions)
        head = f"theorem {self.label}: {self.title}\n{self.statement}\n{self.theorem.paper}"
        return f"{head}\n{conditions}\n{sizes}{program}"


def theorem(label: str) -> TheoremBuilder:
    """A theorem of the papers by its label, one of `softwright.theorems.LABELS`; `.build(...)` makes its network."""
    return TheoremBuilder(find_theorem(label))


def finish(
    stated: Theorem[Any], made: Construction, started: float | None = None, *, certify: bool = True
) -> Built[TheoremNetwork]:
    """A construction measured, with the theorem's bound as its certificate."""
    started = time.monotonic() if started is None else started
    error, count = made.observe(n=_INPUTS)
    target = {
        "kind": "theorem",
        "label": made.label,
        "text": f"theorem {made.label}: {stated.title}",
        "sizes": made.sizes,
        **({"drawn": made.drawn} if made.drawn else {}),
    }
    exact = precision_of(made.network.dtype) is FLOAT64
    return Built(
        network=made.network,
        plan=Plan.of(
            made.network,
            started,
            strategy=f"theorem {made.label}",
            heads=[{"layers": made.layers, "heads": made.heads, "tokens": made.tokens}],
            tokens=made.tokens,
            parameters=made.parameters,
            reasons=made.reasons,
        ),
        target=target,
        observed=Observed(error, (), count),
        certificate=_certificate(made, target, started) if certify and exact else None,
        unproved="" if certify and exact else _ROUNDED if certify else Outcome.NOT_ASKED.value,
        source=made,
    )


def _certificate(made: Construction, target: dict[str, Any], started: float) -> ClosedForm:
    """The theorem's own formula, evaluated for these sizes and rounded up."""
    rounding = 0.0 if made.rounding is None else float(made.rounding)
    return ClosedForm.of(
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
        proved=made.own_proof(_PROOF_WORK) if proofs else None,
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
