"""Errors carried through layers: a_l = phi(s_l), s_l = W a_{l-1} + b, hats for what runs, W^ for what the network
stores.

    |s^ - s| <= d  = min(|W| e, |W_i|_2 r) + |W^ - W| |a^| + |b^ - b| + gamma_n (|W^| |a^| + |b^|) + underflow
    |a^ - a| <= e' = L d + unit.exact + unit.run(|s| + d)

e bounds every coordinate of a^ - a and r its Euclidean norm; both are carried, by |W| and by |W|_2, and each neuron
takes what is less. L is the largest slope of phi over the neuron's own range, 0 where phi is constant there. Ranges
are those of interval arithmetic over the box. A sum of n products and a bias has n + 1 roundings. Stock attention
(multihead) forms s from weights times a root, rounded, and the values from v_j x: n + 4 for either, and since scores
and values then have an s each, 2 mixing gamma (|W^| |a^| + |b^|) + gamma offset more. Inputs, weights, products and
sums below the smallest normal number may be lost: smallest (2n + 2 + sum |W^| + sum |a^|). Nothing may reach an eighth
of the largest number.

In real arithmetic W^ = W, gammas are 0 and units have their exact errors alone; then s may be anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from softwright.checker.limits import check_time
from softwright.checker.refusal import require
from softwright.checker.transpiled.activations import Activation
from softwright.checker.transpiled.outward import LOST, gamma, length, product, spectral_norm, up
from softwright.checker.transpiled.unit import Array, Run, Unit

SAFE = 1 + 2.0**-50  # a few roundings of single numbers


@dataclass(frozen=True)
class Affine:
    """W a + b as the source has it, and as the network stores it."""

    weight: Array
    bias: Array
    stored_weight: Array
    stored_bias: Array

    @property
    def inputs(self) -> int:
        return self.weight.shape[1]


@dataclass(frozen=True)
class Layer:
    """An affine map and the activation after it; a linear layer has no unit."""

    affine: Affine
    activation: Activation
    unit: Unit | None = None


@dataclass(frozen=True)
class State:
    """The range of the exact values, and how far what runs is from them: each coordinate, and the Euclidean norm."""

    low: Array
    high: Array
    error: Array
    norm: float

    @classmethod
    def exactly(cls, low: Array, high: Array) -> State:
        return cls(low, high, np.zeros(len(low)), 0.0)

    @property
    def size(self) -> Array:
        """Largest |value| of what runs."""
        return (np.maximum(np.abs(self.low), np.abs(self.high)) + self.error) * SAFE


@dataclass(frozen=True)
class Sums:
    """What running s adds by rounding alone, and the sum of the sizes of its terms."""

    rounded: Array
    size: Array


def ranges(affine: Affine, state: State) -> tuple[Array, Array]:
    """An interval for every exact s."""
    n, size = affine.inputs, np.abs(affine.weight)
    middle = 0.5 * (state.low + state.high)
    radius = np.nextafter(np.maximum(state.high - middle, middle - state.low), np.inf)
    slip = gamma(n + 4) * up(size @ (np.abs(middle) + radius) + np.abs(affine.bias), n + 2)
    spread = up(size @ radius, n) + slip
    centre = affine.weight @ middle + affine.bias
    return centre - spread, centre + spread


def carried(affine: Affine, state: State, own: Array) -> tuple[Array, float]:
    """The errors of s from those of a, and `own`: each coordinate, and the norm."""
    if not state.error.any():
        return own, length(own)
    rows = np.sqrt(up((affine.weight**2).sum(axis=1), affine.inputs)) * SAFE
    error = np.minimum(product(np.abs(affine.weight), state.error), rows * state.norm * SAFE) + own
    error = np.where(error > 0, error * SAFE + LOST, 0.0)
    return error, min(length(error), (spectral_norm(affine.weight) * state.norm + length(own)) * SAFE)


def affine_state(affine: Affine, state: State, run: Run | None, roundings: int) -> tuple[State, Sums]:
    """s and what running it adds; `run` None is real arithmetic."""
    check_time()
    low, high = ranges(affine, state)
    own = np.zeros(len(affine.bias))
    sums = Sums(own, own)
    if run is not None:
        n, weight, size = affine.inputs, np.abs(affine.stored_weight), state.size
        moved = np.abs(affine.stored_weight - affine.weight) @ size + np.abs(affine.stored_bias - affine.bias)
        total = up(weight @ size + np.abs(affine.stored_bias), n + 2)
        lost = run.precision.smallest * up(2 * n + 2 + weight.sum(axis=1) + size.sum(), n + 4)
        rounded = (gamma(roundings, run.precision.unit) * total + lost) * SAFE
        sums = Sums(rounded, (total + rounded) * SAFE)
        require((sums.size <= run.precision.largest / 8).all(), f"sums could overflow in {run.precision.name}")
        own = (up(moved, n + 4) + rounded) * SAFE
    error, norm = carried(affine, state, own)
    return State(low, high, error, norm), sums


def layer_state(layer: Layer, state: State, run: Run | None, everywhere: bool = False) -> State:
    """phi(W a + b) by heads; `everywhere`: for all inputs, whose ranges mean nothing."""
    affine, unit = layer.affine, layer.unit
    twice = run is not None and run.layout == "multihead" and unit is not None
    s, sums = affine_state(affine, state, run, affine.inputs + (4 if twice else 1))
    if unit is None:
        return s
    activation = layer.activation
    slope, m = activation.local_slope(s.low - s.error, s.high + s.error), s.size
    if everywhere:
        slope, m = np.full_like(slope, activation.slope), np.full_like(m, np.inf)
        require(unit.tilt == 0, "a slope is stored rounded, which no bound on all inputs survives")
    own = unit.exact_for(m)
    if run is not None:
        least, most = activation.span(s.low - s.error, s.high + s.error)
        top = np.maximum(np.abs(least), np.abs(most))
        own = own + unit.run(m, top)
        if twice:
            weight = gamma(affine.inputs + 4, run.precision.unit)
            own = own + 2 * unit.mixing * sums.rounded + weight * unit.offset
        require(unit.fits(sums.size, run).all(), f"scores or values could overflow in {run.precision.name}")
        require(np.isfinite(own).all(), f"rounding in {run.precision.name} is too coarse for these numbers")
    own = np.where(own > 0, own * SAFE, 0.0)
    error = np.where(own + s.error > 0, (slope * s.error + own) * SAFE + LOST, 0.0)
    norm = min(length(error), (activation.slope * s.norm + length(own)) * SAFE)
    return State(*activation.span(s.low, s.high), error, norm)


@np.errstate(over="ignore", invalid="ignore")
def chain_errors(layers: list[Layer], box: tuple[Array, Array] | None, run: Run | None) -> list[Array]:
    """The error of every layer's outputs; without a box for all inputs, in real arithmetic."""
    reach = np.full(layers[0].affine.inputs, 1e30)
    state, found = State.exactly(*((-reach, reach) if box is None else box)), []
    for number, layer in enumerate(layers, 1):
        state = layer_state(layer, state, run, box is None)
        require(np.isfinite(state.error).all(), f"at layer {number} no bound is left")
        if box is None:
            state = replace(state, low=-np.full(len(state.low), 1e30), high=np.full(len(state.high), 1e30))
        found.append(state.error)
    return found
