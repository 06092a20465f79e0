"""What a strategy is given and what it gives back.

A `Problem` is the target in the unit frame t in [-1, 1]^d with an absolute tolerance; a `Fit` is a list of heads
whose sum is the answer, with the sup error seen on the strategy's own check points (a sample, never called a bound).
Strategies subdivide: a sum of cliques or a ridge direction makes smaller problems from a larger one with `derived`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from softwright.attention.head import Head
from softwright.precision import precision_of
from softwright.work import Allowance

if TYPE_CHECKING:
    from softwright.approximation.train.gates import GateStack
    from softwright.compiler.build import Compiled

PROVED_TOGETHER = 8  # variables of a head that boxes cover, as `proof` has it
_KEPT = 100_000  # numbers of one set of probes, beyond which they are drawn anew
Values = Callable[[np.ndarray], np.ndarray]  # points (n, d) -> (n, m)
Scalar = Callable[[np.ndarray], np.ndarray]  # points (n, d) -> (n,)


class OutOfBudget(Exception):
    """The work, or the time, that was allowed is used up."""


@dataclass
class Budget:
    """How much may be spent: tokens in the result, work that is counted, and where progress is reported.

    Work is the same on every machine (`work.py`). `max_seconds` of the clock are a last resort: once they have ended
    something, `out_of_time` stays true, and whoever reports the result says so.
    """

    max_tokens: int = 100_000
    max_work: float = 60.0
    max_seconds: float = 600.0
    report: Callable[[str], None] = field(default=lambda message: None)
    started: float = field(default_factory=time.monotonic)
    out_of_time: bool = False
    answers: dict[bytes, np.ndarray] = field(default_factory=dict, repr=False)  # that a train was given, by point

    def __post_init__(self) -> None:
        self._allowed = Allowance(self.max_work)
        self._limit = self.max_work  # of the attempt under way: a share of the whole

    @property
    def out_of_work(self) -> bool:
        """Whether all of it is spent, not only the share of an attempt."""
        return self._allowed.spent

    @property
    def exhausted(self) -> bool:
        if time.monotonic() - self.started > self.max_seconds:
            self.out_of_time = True
        return self.out_of_time or self._allowed.taken > self._limit

    @contextmanager
    def share(self, part: float) -> Iterator[None]:
        """Within, `part` of what is left is all there is: what comes after keeps the rest."""
        outer, taken = self._limit, self._allowed.taken
        self._limit = taken + part * max(outer - taken, 0.0)
        try:
            yield
        finally:
            self._limit = outer

    def end_in(self, units: float) -> None:
        """From now on so much work, if that is less than is allowed."""
        self._allowed.units = self._limit = min(self._limit, self._allowed.taken + units)

    def end_after(self, times: float) -> None:
        """From now on, as much work in all as `times` what is done already, if that is less than is allowed."""
        self._allowed.units = self._limit = min(self._limit, times * self._allowed.taken)

    def check(self) -> None:
        if self.exhausted:
            raise OutOfBudget

    def say(self, message: str) -> None:
        self.report(message)


@dataclass(frozen=True)
class Problem:
    """A function of t in [-1, 1]^d, the tolerance in its own units, the dtype that will run, and known kinks.

    `kinks` are functions whose zero sets hold every point where smoothness breaks; None means that nothing is known (a
    black box), so kinks must be looked for.
    """

    function: Values
    dim: int
    outputs: int
    tolerance: float
    dtype: str = "float64"
    kinks: tuple[Scalar, ...] | None = None
    budget: Budget = field(default_factory=Budget)
    gap: float | None = None  # how far from a jump nothing is asked; None: everywhere
    saves_queries: bool = False  # whether values are few: a limit was given
    between: str = "auto"  # of a table on a grid: what the head does between the rows (`strategies/between.py`)
    suspects: tuple[float, ...] = ()  # of one variable: where a proof found an error that no sample had seen
    only_fewer: bool = False  # a network is proved already: what the budget's tokens do not meet is of no use

    def derived(self, function: Values, dim: int, tolerance: float, kinks: tuple[Scalar, ...] | None) -> Problem:
        return replace(self, function=function, dim=dim, tolerance=tolerance, kinks=kinks)

    def value_cap(self, scale: float, most: float = 1e4) -> float:
        """How large values may grow, relative to the target's scale, before rounding in the dtype shows."""
        # Proofs charge float32 kernels about a hundred roundings per weight: values must be smaller than runs ask for.
        share, least = (0.05, 10.0) if self.dtype == "float64" else (0.01, 4.0)
        return float(np.clip(share * self.tolerance / scale / precision_of(self.dtype).unit, least, most))


@dataclass(frozen=True)
class Fit:
    """Heads whose sum approximates the problem's function; `error` is what the strategy's own check points showed.

    A formula may also become a stack, `composed`, which has no such heads; `error` is then its proved bound. So may a
    callable, `gates`; its error is observed.

    `jumps` are those of the reasons that tell of a jump of the target, which no continuous network meets. With an
    `origin`, the heads read t - origin: next to a singularity at an end, coordinates measured from that end
    keep scores exact where they are large.
    """

    heads: list[Head]
    error: float
    strategy: str
    reasons: tuple[str, ...] = ()
    origin: tuple[float, ...] | None = None
    jumps: tuple[str, ...] = ()
    composed: Compiled | None = None  # a stack of layers instead of heads, with its own proof
    gates: GateStack | None = None  # a tensor train as a stack of layers, without a proof

    @property
    def tokens(self) -> int:
        if self.gates is not None:
            return self.gates.tokens
        return sum(head.tokens for head in self.heads) if self.composed is None else self.composed.heads.tokens

    def in_unit_frame(self) -> list[Head]:
        """The heads as functions of t itself."""
        if self.origin is None:
            return self.heads
        shift = -np.asarray(self.origin)
        return [head.along(np.eye(head.dim), shift) for head in self.heads]

    def because(self, *reasons: str) -> Fit:
        return replace(self, reasons=(*reasons, *self.reasons))


def best_of(fits: Sequence[Fit | None], tolerance: float) -> Fit:
    """The fit with fewest tokens among those that meet the tolerance, else the most accurate one."""
    there = [fit for fit in fits if fit is not None]
    good = [fit for fit in there if fit.error <= tolerance]
    return min(good, key=lambda fit: fit.tokens) if good else min(there, key=lambda fit: fit.error)


@dataclass(frozen=True)
class Scaling:
    """Midrange (m,) and half-range of sampled values: g = (f - middle) / scale lies in about [-1, 1]."""

    middle: np.ndarray
    scale: float


def scaling_of(values: np.ndarray) -> Scaling:
    low, high = values.min(axis=0), values.max(axis=0)
    return Scaling(0.5 * (low + high), float(max(0.5 * (high - low).max(), 1e-300)))


def probe_points(dim: int, count: int, seed: int) -> np.ndarray:
    """Points of [-1, 1]^d: uniform ones, ones drawn to the ends, and ones on faces, edges and corners.

    They are the same for every target, so those of a few variables are kept; nobody may write into them.
    """
    return _few_probes(dim, count, seed) if dim * count <= _KEPT else _probes(dim, count, seed)


@lru_cache(maxsize=12)
def _few_probes(dim: int, count: int, seed: int) -> np.ndarray:
    points = _probes(dim, count, seed)
    points.setflags(write=False)
    return points


def _probes(dim: int, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, (count, dim))
    third = count // 3
    points[:third] = np.sin(0.5 * np.pi * points[:third])
    snap = rng.uniform(size=(third, dim)) < 0.5
    points[third : 2 * third] = np.where(snap, np.sign(points[third : 2 * third]), points[third : 2 * third])
    corners = min(2**dim, max(2, count // 10)) if dim < 12 else 0
    bits = (np.arange(corners)[:, None] >> np.arange(dim)) & 1
    points[count - corners :] = 2.0 * bits - 1
    return points


def affine_fit(problem: Problem, points: np.ndarray, values: np.ndarray) -> Fit | None:
    """One token if the target is constant or affine to within a fraction of the tolerance."""
    A = np.hstack([np.ones((len(points), 1)), points])
    coefficients = np.linalg.lstsq(A, values, rcond=None)[0]  # (1 + d, m)
    error = float(np.abs(A @ coefficients - values).max())
    if error > 0.3 * problem.tolerance:
        return None
    d = problem.dim
    head = Head(np.zeros((1, d)), np.zeros(1), coefficients[:1], coefficients[1:].T[None])
    return Fit([head], error, "affine", ("the target is affine: one token whose value is the target itself",))


def head_of(keys: np.ndarray, biases: np.ndarray, values: np.ndarray, slopes: np.ndarray | None) -> Head:
    """A head of these tokens with scores as small as they can be: keys (N, d), biases (N,), values (N, m)."""
    return Head(keys, biases, values, slopes).centred()


def one_head_a_variable(fit: Fit) -> Fit:
    """One affine token as a sum of heads, one for each variable: proofs then have one variable each."""
    (head,) = fit.heads
    if head.slopes is None:
        return fit
    heads = []
    for i in range(head.dim):
        slopes = np.zeros_like(head.slopes)
        slopes[:, :, i] = head.slopes[:, :, i]
        heads.append(Head(head.keys, head.biases, head.values if i == 0 else np.zeros_like(head.values), slopes))
    return replace(fit, heads=heads)
