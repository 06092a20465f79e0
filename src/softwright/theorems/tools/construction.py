"""`Construction`: what a theorem's builder returns, before anything is measured or certified.

`bound` is the theorem's bound evaluated for these sizes, rounded up. `sample(rng, n)` draws n inputs of the theorem's
domain, some random, some where the error is largest; `target(inputs)` is what was asked at those inputs; both speak the
shapes of `network.evaluate`. `observe` puts the three together.

A theorem says error <= bound. One that says a gap is at least some number states it of -log10 of the gap instead. What
the figure or the rival of one theorem needs besides is a field of its own subclass, in the theorem's file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.theorems.tools.network import TheoremNetwork

if TYPE_CHECKING:
    from softwright.attention import AttentionNetwork
    from softwright.targets import Expression


@dataclass(frozen=True, kw_only=True)
class Construction:
    """A theorem's network at given sizes, with the theorem's bound.

    network          its label, layers and heads are those of the construction
    bound            the theorem's bound for these sizes, rounded up (`float_above`)
    sizes            the options it was built with, ready for JSON
    drawn            what the bound speaks of and a seed or the user gave (weights, sequences, labels), ready for JSON:
                     whoever checks the file needs it
    tokens           largest number of tokens that a layer attends to
    statement        one sentence: what `bound` bounds, for which inputs
    quantities       beta, eps0 and whatever else went into the bound
    norm             "sup", "L2", ...
    rounding         proved bound of the rounding error of the running network; None: the theorem ignores rounding
    assumptions      what the bound rests on besides real arithmetic
    measure          replaces the default way of observing: (rng, n) -> (value, number of inputs)
    provable         the same function as a question for softwright's prover: a network of heads, and its target
    counted          the parameters as the theorem counts them; None: all numbers stored
    reasons          why it was built this way, in words
    """

    network: TheoremNetwork
    bound: float
    sizes: dict[str, Any]
    tokens: int
    statement: str
    target: Callable[[Any], Any]
    sample: Callable[[np.random.Generator, int], Any]
    drawn: dict[str, Any] = field(default_factory=dict)
    quantities: dict[str, float] = field(default_factory=dict)
    norm: str = "sup"
    rounding: float | None = None
    assumptions: tuple[str, ...] = ()
    measure: Callable[[np.random.Generator, int], tuple[float, int]] | None = None
    provable: tuple[AttentionNetwork, Expression] | None = None
    counted: int | None = None
    reasons: tuple[str, ...] = ()

    label = property(attrgetter("network.label"))
    layers = property(attrgetter("network.layers"))  # those that attend
    heads = property(attrgetter("network.heads"))  # of all layers together

    @property
    def parameters(self) -> int:
        """Numbers stored, unless the theorem counts otherwise."""
        return self.network.parameter_count if self.counted is None else self.counted

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

    def own_proof(self, max_work: float) -> float | None:
        """What softwright's prover can show of the same function, rounding included; None where it does not apply."""
        if self.provable is None:
            return None
        from softwright.proof.prover import certify

        network, target = self.provable
        found = certify(network, target, tightness=0.05, max_work=max_work)
        bound = found.certificate.bound if found.certificate is not None else found.proved_bound
        return float(bound) if np.isfinite(bound) else None


def float_above(value: Fraction | float) -> float:
    """The least float64 not below an exact number (a float is taken as it is)."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= Fraction(value) else math.nextafter(nearest, math.inf)


def in_full(number: float) -> str:
    """A number for a statement: in a few digits where these are all of it."""
    return f"{number:g}" if float(f"{number:g}") == number else repr(number)
