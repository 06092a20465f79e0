"""A question to the prover and its answer: everything that is checked before, and everything that is said after.

`pose` checks a question (network, target, domain, engine) and lists all its faults together; a domain on which a
formula is undefined is refused here, at once. `Certification` is the answer.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from torch import nn

from softwright.attention.network import AttentionNetwork
from softwright.domain import Box
from softwright.errors import Faults, InvalidInput
from softwright.proof.arithmetic.rounding import ASSUMPTIONS
from softwright.proof.arithmetic.series import Basis
from softwright.proof.arithmetic.taylor_model import TaylorModel
from softwright.proof.models.cells import narrowest_cell
from softwright.proof.models.exact_heads import check_network, dtype_name, exact_heads, float_values
from softwright.proof.models.mlp import MlpTarget
from softwright.proof.models.targets import models_of
from softwright.proof.search.cell_tree import CellTree
from softwright.proof.search.residual import ORDERS, Residual
from softwright.proof.search.search import BoxTree, Outcome
from softwright.proof.search.sum_prover import SumOutcome
from softwright.result.certificate import Certificate
from softwright.result.constructed import digest_of
from softwright.targets import Expression, Interpolant, Table, Target, as_target
from softwright.targets.mlp import DenseNetwork, GatedNetwork, read_module
from softwright.version import __version__

Status = Literal["proved", "refuted", "undecided"]
_NARROWEST_CELL = 1e-150  # products of widths must not underflow
_LOST_CELL = 1e-13  # of a cell's side against the size of its ends: smaller boxes are no longer in one cell for sure
_NARROWEST = 1e-10  # of a side against the size of its ends: below it leaves are lost in rounding


@dataclass
class Certification:
    """What `certify` found. `certificate` is there exactly when `status` is "proved".

    `bound` is what was asked (or, with `tightness`, what was found); `lower` is the largest error that is certain, seen
    at `witness`. An undecided search still proved something: `proved_bound` (infinite if it was cut off too early),
    with `weaker` the certificate of that. `leaf_upper` holds the proved error on every leaf, in the order of the tree.
    """

    status: Status
    bound: float
    lower: float
    witness: tuple[float, ...] = ()
    certificate: Certificate | None = None
    reason: str = ""
    boxes: int = 0
    evaluations: int = 0
    seconds: float = 0.0
    proved_bound: float = math.inf
    weaker: Certificate | None = None
    leaf_upper: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)

    @property
    def proved(self) -> bool:
        return self.status == "proved"

    def __str__(self) -> str:
        if self.status == "proved":
            return f"proved: {self.certificate}"
        at = ", ".join(f"{x:.17g}" for x in self.witness)
        if self.status == "refuted":
            return f"refuted: the error is at least {self.lower:.6g} > {self.bound:.6g} at ({at})"
        return f"undecided: {self.reason}; the error is between {self.lower:.4g} and {self.proved_bound:.4g}"


@dataclass(frozen=True)
class Problem:
    """A checked question: what is to be proved, on what, for which run."""

    network: AttentionNetwork
    target: Target
    domain: Box
    engine: str
    residual: Residual
    assumptions: tuple[str, ...]
    started: float

    def error(self, points: np.ndarray) -> np.ndarray:
        """|g - f| in plain float64, largest output; 0 where f is undefined. Only steers."""
        with np.errstate(all="ignore"):
            difference = np.abs(
                float_values(self.residual.heads, points) - self.target(points) - self.residual.constant
            )
        return np.nan_to_num(np.max(difference, axis=1), nan=0.0, posinf=0.0)

    def tree(self) -> BoxTree:
        """Where the search starts: the domain, or the cells of a table."""
        if isinstance(self.target, Interpolant):
            return CellTree(self.target, self.domain)
        return BoxTree(self.domain.lower, self.domain.upper)

    def certificate(
        self, bound: float, exact: float, rounding: float, outcome: Outcome | SumOutcome, method: str = "taylor"
    ) -> Certificate:
        """The statement; it must not say more than the search found, whatever way led here."""
        if not (outcome.exact <= exact and outcome.rounding <= rounding and exact + rounding <= bound * (1 + 2.0**-50)):
            raise RuntimeError(
                f"a certificate of {exact!r} + {rounding!r} <= {bound!r} was about to state more than was proved "
                f"({outcome.exact!r} and {outcome.rounding!r}); please report this"
            )
        return Certificate(
            norm="sup",
            bound=bound,
            exact_part=exact,
            rounding_part=rounding,
            domain={name: (low, high) for name, low, high in self.domain},
            dtype=dtype_name(self.network),
            engine=self.engine,
            method=method,
            order=self.residual.order,
            boxes=outcome.leaves,
            tree=outcome.parts if isinstance(outcome, SumOutcome) else (outcome.tree or None),
            weights_sha256=digest_of(self.network),
            target=self.target.describe(),
            version=__version__,
            seconds=time.perf_counter() - self.started,
            assumptions=self.assumptions,
            lower=outcome.lower,
            witness=as_point(outcome.witness),
        )


def as_point(witness: np.ndarray | None) -> tuple[float, ...]:
    return () if witness is None else tuple(float(x) for x in witness)


def pose(network: AttentionNetwork, target: Any, domain: Box | None, engine: str, order: int | None = None) -> Problem:
    """Check a question and bring it to the form the search needs; all faults at once."""
    started = time.perf_counter()
    faults = Faults("certify")
    if not isinstance(network, AttentionNetwork):
        raise InvalidInput("certify", [f"{type(network).__name__} is not an AttentionNetwork; build one first"])
    check_network(network, engine, faults)
    box = domain if domain is not None else network.box
    faults.check(
        box.names == network.names,
        f"the domain's sides are {', '.join(box.names)}, the network takes {', '.join(network.names)}; name them alike",
    )
    ends = np.maximum(np.abs(box.lower), np.abs(box.upper))
    faults.check(
        bool(np.all(box.upper - box.lower > np.maximum(_NARROWEST * ends, _NARROWEST_CELL))),
        f"the domain {box} has a side too narrow for float64 proofs; rescale the variable",
    )
    inside = bool(np.all(network.box.lower <= box.lower) and np.all(box.upper <= network.box.upper))
    faults.check(
        box.names != network.names or inside,
        f"the domain {box} leaves the network's box {network.box}; certify a part of it, or build for a larger box",
    )
    try:
        if isinstance(target, nn.Module):
            target = read_module(target)
        if isinstance(target, DenseNetwork | GatedNetwork):
            target = MlpTarget(target, network.names)
        wanted = as_target(target, network.box)
    except InvalidInput as error:
        faults.found += error.faults
        wanted = None
    if wanted is not None:
        faults.check(
            wanted.outputs == network.outputs,
            f"the target has {wanted.outputs} output(s), the network {network.outputs}; they must agree",
        )
        if isinstance(wanted, Expression) and box.names == network.names:
            faults.found += [report.text for report in wanted.undefined(box) if report.certain]
        if isinstance(wanted, Interpolant) and box.names == network.names:
            side, ratio = narrowest_cell(wanted, box)
            faults.check(
                side > _NARROWEST_CELL and ratio > _LOST_CELL,
                "the table's grid, or what the domain cuts off it, has cells too narrow for float64; rescale or merge",
            )
    faults.check(
        network.box.dim in ORDERS, f"{network.box.dim} variables are more than the {max(ORDERS)} that can be certified"
    )
    faults.raise_if_any()
    if wanted is None:
        raise InvalidInput("certify", ["no target given"])
    models, assumptions = (_nothing, ()) if isinstance(wanted, Table) else models_of(wanted, network.names, box)
    residual = Residual(
        heads=exact_heads(network, engine),
        target=models,
        dim=box.dim,
        outputs=network.outputs,
        order=order or ORDERS[box.dim],
        constant=np.zeros(network.outputs),
    )
    return Problem(network, wanted, box, engine, residual, (*assumptions, *ASSUMPTIONS[dtype_name(network)]), started)


def _nothing(shape: Basis, centers: np.ndarray, radii: np.ndarray) -> list[TaylorModel]:
    """A table has no models between its points; it is certified at them."""
    raise InvalidInput("certify", ["a table is certified at its points only"])


def below(bound: float, part: float) -> float:
    """The largest float whose exact sum with `part` does not exceed `bound`."""
    rest = bound - part
    while Fraction(rest) + Fraction(part) > Fraction(bound):
        rest = math.nextafter(rest, -math.inf)
    return rest
