"""A question to the prover and its answer: everything that is checked before, and everything that is said after.

`pose` checks a question (network, target, domain, engine) and lists all its faults together; a domain on which a
formula is undefined is refused here, at once. `Certification` is the answer.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from torch import nn

from softwright.attention.network import AttentionNetwork
from softwright.domain import Box, as_box
from softwright.errors import Faults, InvalidInput
from softwright.precision import assumptions
from softwright.proof.models.exact_heads import check_network, dtype_name, exact_heads, float_values
from softwright.proof.models.targets import NARROWEST_CELL, check_provable, models_of
from softwright.proof.search.cell_tree import tree_of
from softwright.proof.search.probe import worst_points
from softwright.proof.search.residual import ORDERS, Residual, order_for
from softwright.proof.search.search import BoxTree, SearchResult
from softwright.proof.search.sum_prover import SumResult
from softwright.result.certificate import Certificate
from softwright.result.constructed import digest_of
from softwright.result.outcome import Outcome
from softwright.targets import Expression, Node, Target, as_target
from softwright.version import __version__

Status = Literal["proved", "refuted", "undecided"]
MOST_VARIABLES = max(ORDERS)  # of boxes; closed forms, sums of few variables each and points of tables have no limit
_NARROWEST = 1e-10  # of a side against the size of its ends: below it leaves are lost in rounding


@dataclass
class Certification:
    """What `certify` found. `certificate` is there exactly when `status` is "proved".

    `bound` is what was asked (or, with `tightness`, what was found); `lower` is the largest error that is certain, seen
    at `witness`. An undecided search still proved something: `proved_bound` (infinite if it was cut off too early),
    with `weaker` the certificate of that; `outcome` says what stopped it, `detail` with which numbers. `leaf_upper`
    holds the proved error on every leaf, in the order of the tree.
    """

    outcome: Outcome
    bound: float
    lower: float
    witness: tuple[float, ...] = ()
    certificate: Certificate | None = None
    detail: str = ""
    boxes: int = 0
    evaluations: int = 0
    seconds: float = 0.0
    proved_bound: float = math.inf
    weaker: Certificate | None = None
    leaf_upper: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)

    @property
    def status(self) -> Status:
        if not self.outcome.decided:
            return "undecided"
        return "proved" if self.proved else "refuted"

    @property
    def proved(self) -> bool:
        return self.outcome is Outcome.PROVED

    @property
    def reason(self) -> str:
        """Why the question is still open, in words; empty if it is not."""
        return "" if self.outcome.decided else self.detail or self.outcome.value

    def __str__(self) -> str:
        if self.proved:
            return f"proved: {self.certificate}"
        at = ", ".join(f"{x:.17g}" for x in self.witness)
        if self.outcome is Outcome.REFUTED:
            return f"refuted: the error is at least {self.lower:.6g} > {self.bound:.6g} at ({at})"
        return f"undecided: {self.reason}; the error is between {self.lower:.4g} and {self.proved_bound:.4g}"


@dataclass(frozen=True)
class Question:
    """A checked question: what is to be proved, on what, for which run."""

    network: AttentionNetwork
    target: Target
    domain: Box
    engine: str
    residual: Residual
    assumptions: tuple[str, ...]
    started: float

    @property
    def formula(self) -> tuple[Node, ...] | None:
        """The syntax trees of the target, which show its structure to a proof; None if it is no formula."""
        return self.target.nodes if isinstance(self.target, Expression) else None

    @cached_property
    def weights_sha256(self) -> str:
        return digest_of(self.network)

    def error(self, points: np.ndarray) -> np.ndarray:
        """|g - f| in plain float64, largest output; 0 where f is undefined. Only steers."""
        with np.errstate(all="ignore"):
            difference = np.abs(
                float_values(self.residual.heads, points) - self.target(points) - self.residual.constant
            )
        largest = difference[:, 0] if difference.shape[1] == 1 else difference.max(axis=1)
        largest[~np.isfinite(largest)] = 0.0
        return largest

    @cached_property
    def _seen(self) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        return {}

    def worst(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Points (k, d) where the error is largest, best first, and their errors, by a look at so many; asked for a
        bound, and then for a smaller one, the same points answer."""
        if count not in self._seen:
            sides = self.domain.lower, self.domain.upper
            self._seen[count] = worst_points(self.error, self.residual.heads, *sides, count)
        points, errors = self._seen[count]
        return points.copy(), errors.copy()

    def tree(self) -> BoxTree:
        """Where the search starts."""
        return tree_of(self.target, self.domain)

    def certificate(
        self, bound: float, exact: float, rounding: float, found: SearchResult | SumResult, method: str = "taylor"
    ) -> Certificate:
        """The statement; it must not say more than the search found, whatever way led here."""
        if not (found.exact <= exact and found.rounding <= rounding and exact + rounding <= bound * (1 + 2.0**-50)):
            raise RuntimeError(
                f"a certificate of {exact!r} + {rounding!r} <= {bound!r} was about to state more than was proved "
                f"({found.exact!r} and {found.rounding!r}); please report this"
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
            boxes=found.leaves,
            tree=found.parts if isinstance(found, SumResult) else (found.tree or None),
            weights_sha256=self.weights_sha256,
            target=self.target.describe(),
            version=__version__,
            seconds=time.monotonic() - self.started,
            assumptions=self.assumptions,
            lower=found.lower,
            witness=as_point(found.witness),
        )


def as_point(witness: np.ndarray | None) -> tuple[float, ...]:
    return () if witness is None else tuple(float(x) for x in witness)


def pose(network: AttentionNetwork, target: Any, domain: Any, engine: str, order: int | None = None) -> Question:
    """Check a question and bring it to the form the search needs; all faults at once."""
    started = time.monotonic()
    faults = Faults("certify")
    if not isinstance(network, AttentionNetwork):
        raise InvalidInput("certify", [f"{type(network).__name__} is not an AttentionNetwork; build one first"])
    check_network(network, engine, faults)
    box = network.box if domain is None else faults.take(as_box, domain, network.names)
    alike = box is not None and _check_domain(box, network.box, faults)
    wanted = faults.take(_target, target, network.box)
    if wanted is not None:
        faults.check(
            wanted.outputs == network.outputs,
            f"the target has {wanted.outputs} output(s), the network {network.outputs}; they must agree",
        )
        if box is not None and alike:
            check_provable(wanted, box, faults)
    faults.raise_if_any()
    if wanted is None or box is None:
        raise RuntimeError("unreachable: a missing target or domain is a fault")
    models, assumed = models_of(wanted, network.names, box)
    heads = exact_heads(network, engine)
    residual = Residual(
        heads=heads,
        target=models,
        dim=box.dim,
        outputs=network.outputs,
        order=order or order_for(heads, box.dim),
        constant=np.zeros(network.outputs),
    )
    return Question(network, wanted, box, engine, residual, (*assumed, *assumptions(network.dtype, engine)), started)


def _target(target: Any, box: Box) -> Target:
    if not isinstance(target, str | Target | tuple):  # readers of networks are only loaded for what may be one
        from softwright.proof.models.mlp import MlpTarget
        from softwright.targets.mlp import DenseNetwork, GatedNetwork, network_of

        if isinstance(target, nn.Module):
            target = network_of(target, (box.lower, box.upper))
        if isinstance(target, DenseNetwork | GatedNetwork):
            target = MlpTarget(target, box.names)
    return as_target(target, box)


def _check_domain(domain: Box, box: Box, faults: Faults) -> bool:
    """Record what is wrong with the domain for a network on this box; whether its sides have the right names."""
    alike = faults.check(
        domain.names == box.names,
        f"the domain's sides are {', '.join(domain.names)}, the network takes {', '.join(box.names)}; name them alike",
    )
    ends = np.maximum(np.abs(domain.lower), np.abs(domain.upper))
    faults.check(
        bool(np.all(domain.upper - domain.lower > np.maximum(_NARROWEST * ends, NARROWEST_CELL))),
        f"the domain {domain} has a side too narrow for float64 proofs; rescale the variable",
    )
    inside = alike and bool(np.all(box.lower <= domain.lower) and np.all(domain.upper <= box.upper))
    faults.check(
        not alike or inside,
        f"the domain {domain} leaves the network's box {box}; certify a part of it, or build for a larger box",
    )
    return alike


def rest_below(bound: float, part: float) -> float:
    """The largest float whose exact sum with `part` does not exceed `bound`; -inf beside an infinite part."""
    if not math.isfinite(part):
        return -math.inf
    rest = bound - part
    while Fraction(rest) + Fraction(part) > Fraction(bound):
        rest = math.nextafter(rest, -math.inf)
    return rest
