"""`Construction`: what a theorem's builder returns, before anything is measured or certified.

`bound` is the theorem's bound evaluated for these sizes, rounded up. `sample(rng, n)` draws n inputs of the theorem's
domain, some random, some where the error is largest; `target(inputs)` is what was asked at those inputs; both speak the
shapes of `network.evaluate`. `observe` puts the three together.

A theorem says error <= bound. One that says a gap is at least some number states it of -log10 of the gap instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

Rows = dict[str, tuple[int, float]]  # a name -> (tokens, error)


@dataclass(frozen=True)
class Construction:
    """A theorem's network at given sizes, with the theorem's bound.

    network          torch module that implements `attention.Constructed`
    bound            the theorem's bound for these sizes, rounded up (`up`)
    sizes            the options it was built with, ready for JSON
    layers, heads    attention layers, and heads of all of them together
    tokens           largest number of tokens that a layer attends to
    parameters       numbers stored (network.parameter_count unless the theorem counts otherwise)
    quantities       beta, eps0 and whatever else went into the bound
    statement        one sentence: what `bound` bounds, for which inputs
    norm             "sup", "L2", ...
    rounding         proved bound of the rounding error of the running network; None: the theorem ignores rounding
    assumptions      what the bound rests on besides real arithmetic
    measure          replaces the default way of observing: (rng, n) -> (value, number of inputs)
    softwright_rows  softwright's own construction beside it, or a function that builds it on demand
    provable         (AttentionNetwork, Expression): the same function as a question for `certify.prover`
    """

    label: str
    network: Any
    bound: float
    sizes: dict[str, Any]
    layers: int
    heads: int
    tokens: int
    parameters: int
    statement: str
    target: Callable[[Any], Any]
    sample: Callable[[np.random.Generator, int], Any]
    quantities: dict[str, float] = field(default_factory=dict)
    norm: str = "sup"
    rounding: float | None = None
    assumptions: tuple[str, ...] = ()
    measure: Callable[[np.random.Generator, int], tuple[float, int]] | None = None
    softwright_rows: Rows | Callable[[], Rows] | None = None
    provable: tuple[Any, Any] | None = None
    reasons: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)  # what the label's own figure or test wants to see

    def errors(self, inputs: Any) -> np.ndarray:
        """|network - target| at every input, the largest over all entries of an output: (n,)."""
        got = np.asarray(self.network.evaluate(inputs), dtype=float)
        gap = np.abs(got - np.asarray(self.target(inputs), dtype=float))
        gap = np.where(np.isnan(gap), np.inf, gap)  # a NaN is as wrong as can be
        return gap.reshape(len(gap), -1).max(axis=1)

    def observe(self, seed: int = 0, n: int = 200) -> tuple[float, int]:
        """The largest error seen, and at how many inputs: a sample, not a bound."""
        rng = np.random.default_rng(seed)
        if self.measure is not None:
            return self.measure(rng, n)
        errors = self.errors(self.sample(rng, n))
        return float(errors.max()), len(errors)

    def holds(self, observed: float, slack: float = 0.0) -> bool:
        """Whether what was observed agrees with the theorem; `slack` is for rounding that the theorem ignores."""
        return observed <= self.bound + slack

    def comparison(self) -> Rows:
        """softwright's own constructions beside the theorem's."""
        rows = self.softwright_rows
        return dict(rows() if callable(rows) else rows or {})


def up(value: Fraction | float) -> float:
    """The least float64 not below an exact number (a float is taken as it is)."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= Fraction(value) else math.nextafter(nearest, math.inf)
