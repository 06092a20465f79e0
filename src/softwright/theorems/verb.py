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
from typing import Any

import numpy as np

from softwright.errors import InvalidInput, ToleranceNotReached
from softwright.proof.prover import certify as prove
from softwright.result.built import Built
from softwright.result.closed_form import EXACT_ARITHMETIC, ClosedForm
from softwright.result.observed import Observed
from softwright.result.plan import Plan
from softwright.theorems import find_theorem
from softwright.theorems.tools.construction import Construction, up
from softwright.theorems.tools.theorem import Option, Theorem

_INPUTS = 200  # at how many inputs the error is sampled
_PROOF_SECONDS = 20.0


@dataclass(frozen=True)
class TheoremBuilder:
    """One theorem, ready to build: `theorem("A1").build(points=60)`."""

    theorem: Theorem

    @property
    def label(self) -> str:
        return self.theorem.label

    @property
    def title(self) -> str:
        return self.theorem.title

    @property
    def statement(self) -> str:
        return self.theorem.statement

    @property
    def conditions(self) -> tuple[str, ...]:
        return self.theorem.conditions

    @property
    def options(self) -> tuple[Option, ...]:
        return self.theorem.options

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
        bound=up(Fraction(made.bound) + Fraction(rounding)),
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
    softwright: dict[str, tuple[int, float]]
    rounding: float = 0.0  # proved beside the theorem's bound, which speaks of real arithmetic


def row(made: Construction, *, size: str = "", proofs: bool = True, rivals: bool = True) -> Row:
    """A construction as a line of a table, with our own proof and our own construction beside it if asked."""
    observed, _ = made.observe(n=_INPUTS)
    return Row(
        size=size,
        layers=made.layers,
        heads=made.heads,
        tokens=made.tokens,
        parameters=made.parameters,
        bound=made.bound,
        proved=_own_proof(made) if proofs else None,
        observed=observed,
        softwright={**made.comparison(), **_own_construction(made)} if rivals else {},
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


def _own_proof(made: Construction) -> float | None:
    """What softwright's prover can show of the same function, rounding included; None where it does not apply.

    An L_p error is enclosed by adaptive integration, in real arithmetic; its upper end is given.
    """
    if "integrable" in made.extra:
        from softwright.theorems.cell_error import enclose_lp_error

        return enclose_lp_error(made.extra["cells"], made.extra["integrable"], made.extra["p"]).upper
    if made.provable is None:
        return None
    network, target = made.provable
    found = prove(network, target, tightness=0.05, max_seconds=_PROOF_SECONDS)
    bound = found.certificate.bound if found.certificate is not None else found.proved_bound
    return float(bound) if np.isfinite(bound) else None


def _own_construction(made: Construction) -> dict[str, tuple[int, float]]:
    """The smallest error softwright reaches for the same target with no more tokens (observed)."""
    if "gradient_step" in made.extra:
        return _own_step(**made.extra["gradient_step"])
    if "mlp" in made.extra:
        return _own_network(**made.extra["mlp"])
    asked = made.extra.get("approximate")
    if asked is None:
        return {}
    from softwright.approximation.verb import approximate
    from softwright.domain import Box
    from softwright.targets import Expression

    target = Expression(asked["target"])
    bounds = asked["box"]
    box = Box(bounds) if isinstance(bounds, dict) else Box({target.names[0]: bounds})
    dtype = asked.get("dtype", "float64")
    tolerances = [asked["tol"]] if "tol" in asked else [10.0**-k for k in range(1, 6 if dtype == "float32" else 12)]
    best: dict[str, tuple[int, float]] = {}
    for tol in tolerances:
        try:
            built = approximate(
                target, box, tol=tol, dtype=dtype, max_tokens=made.tokens, max_seconds=5.0, certify=False
            )
        except ToleranceNotReached:
            break
        best = {f"softwright ({dtype})": (built.network.tokens, built.observed_error)}
    return best


def _own_step(features: int, step_size: float, rows: int, x: float, y: float, w: float) -> dict[str, tuple[int, float]]:
    """One gradient step by `in_context`, whose error is proved, rounding included."""
    from softwright.methods.verb import in_context

    bounds = {"x_bound": x, "y_bound": y, "w_bound": w, "max_rows": rows}
    built = in_context(
        "least_squares",
        features,
        solver="gradient",
        steps=1,
        step_size=step_size,
        intercept=False,
        sample=False,
        **bounds,
    )
    if built.certificate is None:
        return {}
    return {"softwright in_context, one step (proved)": (rows, built.certificate.bound)}


def _own_network(layers: Any, activation: str, slope: float, box: tuple[float, float]) -> dict[str, tuple[int, float]]:
    """The same feed-forward network by `transpile`: two tokens or three a unit (observed)."""
    from torch import nn, tensor

    from softwright.transpiler.verb import transpile

    kinds = {"relu": nn.ReLU(), "leaky_relu": nn.LeakyReLU(slope)}
    kinds |= {"hard_tanh": nn.Hardtanh(), "hard_sigmoid": nn.Hardsigmoid()}
    chain: list[nn.Module] = []
    for W, t in layers:
        linear = nn.Linear(W.shape[1], W.shape[0]).double()
        linear.load_state_dict({"weight": tensor(W), "bias": tensor(t)})
        chain += [linear, kinds[activation]]
    built = transpile(nn.Sequential(*chain[:-1]), box, dtype="float64")
    return {"softwright transpile (float64)": (built.plan.tokens, built.observed_error)}
