"""Errors carried through layers: a_l = phi(s_l), s_l = W a_{l-1} + b, hats for what runs, W^ for what the network
stores.

    |s^ - s| <= d  = (errors of a^, through W) + o,   o = |W^ - W| |a^| + |b^ - b| + (rounding of the sum) + underflow
    |a^ - a| <= e' = (errors of a^, through W and slopes of phi) + (o behind phi) + unit.exact + unit.run(|s| + d)

What o is behind phi: the range of s is cut into PARTS. Where t <= s <= t', positive terms add up to what negative ones
can and t' at most, negative ones to what positive ones can less t, since s is their difference; partial sums are no
larger, and those of nearly all terms are s less a few. The slope is that over the part, wider by d. The largest product
over the parts counts where a neuron is looked at alone; where many are, they are at one input, and each part of the
range of s has its own product and its own unit.run(|s| + d) (`together.py`).

`slips.py` carries errors through W and through slopes, those over the neuron's own range, 0 where phi is constant
there. `extents.py` says what exact numbers can be on the box, `partial_sums.py` what rounding does to a sum of n
products and a bias in any order. Stock heads of single neurons (files of before) form s from weights times a root,
rounded, and values v_j s + u_j as one sum: gamma_{n+4} (|W^| |a^| + |b^|) for either, and since scores and values then
have an s each, 2 mixing times that + gamma_{n+4} offset more. Inputs, weights, products and sums below the smallest
normal number may be lost: smallest (2n + 2 + sum |W^| + sum |a^|). Nothing may reach an eighth of the largest number.

In the layout double this is float64 arithmetic, and outputs are rounded once more, by half a unit in the last place.

In real arithmetic W^ = W, gammas are 0 and units have their exact errors alone; then s may be anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from softwright.checker.limits import check_time
from softwright.checker.refusal import require
from softwright.checker.transpiled.activations import Activation
from softwright.checker.transpiled.extents import SAFE, Extent, Terms, activated_extent, affine_extent
from softwright.checker.transpiled.groups import group_totals
from softwright.checker.transpiled.outward import LOST, UNIT, gamma, up
from softwright.checker.transpiled.partial_sums import PartialSums, power_of_two
from softwright.checker.transpiled.slips import AtOnce, Slips
from softwright.checker.transpiled.together import Together
from softwright.checker.transpiled.unit import Array, Run, Unit

PARTS = 128  # of the range of s
LARGE = 1 << 19  # weights beyond which the range is not cut


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
    twice: bool = False  # s is formed once for scores and once in values


@dataclass(frozen=True)
class State:
    """Where the exact values are, and how far what runs is from them."""

    extent: Extent
    slips: Slips

    @classmethod
    def exactly(cls, low: Array, high: Array) -> State:
        return cls(Extent.of(low, high), Slips.nothing(len(low)))

    @property
    def error(self) -> Array:
        return self.slips.each

    @property
    def size(self) -> Array:
        """Largest |value| of what runs."""
        return (self.extent.largest + self.error) * SAFE


@dataclass(frozen=True)
class Sums:
    """What running s adds by rounding alone, the sum of the sizes of its terms, and what its errors are made of."""

    rounded: Array
    size: Array
    inherited: Slips
    own: Array
    terms: Terms
    within: Callable[[Array, Array, Array, Array], Array] | None = None  # `own` while terms and s are up to so much


def affine_state(affine: Affine, state: State, run: Run | None, twice: bool = False) -> tuple[State, Sums]:
    """s and what running it adds; `twice`: once for scores and once in values. `run` None is real arithmetic."""
    check_time()
    extent, terms = affine_extent(affine.weight, affine.bias, state.extent)
    slips = state.slips.mapped(affine.weight)
    own = np.zeros(len(affine.bias))
    if run is None:
        return State(extent, slips), Sums(own, own, slips, own, terms)
    n, unit, size = affine.inputs, run.precision.unit, state.size
    weight, bias = affine.stored_weight, affine.stored_bias
    moved = up(np.abs(weight - affine.weight) @ size + np.abs(bias - affine.bias), n + 4)
    total = up(np.abs(weight) @ size + np.abs(bias), n + 2)
    beyond = (moved + up(np.abs(weight) @ state.error, n + 2) + gamma(n + 1, unit) * total) * SAFE
    low, high = state.extent.low - state.error * SAFE, state.extent.high + state.error * SAFE
    lost = run.precision.smallest * up(2 * n + 2 + np.abs(weight).sum(axis=1) + size.sum(), n + 4)
    partial = PartialSums(weight, bias, low, high, unit)

    def within(plus: Array, minus: Array, left: Array, right: Array) -> Array:
        return (moved + partial.rounding(plus, minus, beyond, (left, right)) + lost) * SAFE

    if twice:
        rounded, own = gamma(n + 4, unit) * total + lost, None
    else:
        rounded, own = partial.rounding(terms.plus, terms.minus, beyond) + lost, within
    changed = (moved + rounded * SAFE) * SAFE
    sums = Sums(rounded * SAFE, (total + rounded) * SAFE, slips, changed, terms, own)
    require((sums.size <= run.precision.largest / 8).all(), f"sums could overflow in {run.precision.name}")
    return State(extent, slips.with_own(changed)), sums


def layer_state(layer: Layer, state: State, run: Run | None, everywhere: bool = False) -> State:
    """phi(W a + b) by heads; `everywhere`: for all inputs, whose ranges mean nothing."""
    affine, unit = layer.affine, layer.unit
    twice = run is not None and layer.twice
    s, sums = affine_state(affine, state, run, twice)
    if unit is None:
        return s
    activation = layer.activation
    low, high = s.extent.low - s.error * SAFE, s.extent.high + s.error * SAFE
    slope, m = activation.local_slope(low, high), s.size
    if everywhere:
        slope, m = np.full_like(slope, activation.slope), np.full_like(m, np.inf)
        require(unit.tilt == 0, "a slope is stored rounded, which no bound on all inputs survives")
    own = unit.exact_for(m)
    if run is not None:
        least, most = activation.span(low, high)
        top = np.maximum(np.abs(least), np.abs(most))
        own = own + unit.run(m, top)
        if unit.beside is not None:
            own = own + unit.beside(group_totals(m))
        if twice:
            weight = gamma(affine.inputs + 4, run.precision.unit)
            own = own + 2 * unit.mixing * sums.rounded + weight * unit.offset
        require(unit.fits(sums.size, run).all(), f"scores or values could overflow in {run.precision.name}")
        require(np.isfinite(own).all(), f"rounding in {run.precision.name} is too coarse for these numbers")
    own = np.where(own > 0, own * SAFE, 0.0)
    falling = np.where(slope > 0, np.maximum(activation.least_slope, -slope), 0.0)
    extent = activated_extent(activation, affine.weight, affine.bias, state.extent, s.extent)
    if sums.within is None or run is None:
        return State(extent, s.slips.bent(falling, slope).with_own(own))
    behind, parts, edges = _behind(activation, s, sums, slope, affine.weight.size)
    alone, own = own, (own + behind) * SAFE
    require(np.isfinite(own).all() and np.isfinite(parts).all(), f"rounding in {run.precision.name} has no bound here")
    in_part = np.array([_unit_in(unit, activation, run, *_wider(*ends, s.error)) for ends in pairwise(edges)])
    whole = _unit_in(unit, activation, run, low, high)
    in_parts = (alone - np.maximum(whole - in_part, 0.0) + parts + 8 * UNIT * (alone + whole)) * SAFE
    before = state.extent
    share = np.minimum(in_parts / np.maximum(own, LOST) * SAFE, 1.0)
    box, ball = (before.low, before.high), (before.centre, before.radius)
    at_once = AtOnce(
        *(Together.of(affine.weight, affine.bias, box, ball, [(edges, part)]) for part in (share, share**2 * SAFE))
    )
    return State(extent, sums.inherited.bent(falling, slope).with_own(np.where(own > 0, own, 0.0), at_once))


def _wider(left: Array, right: Array, error: Array) -> tuple[Array, Array]:
    return left - error * SAFE - LOST, right + error * SAFE + LOST


def _unit_in(unit: Unit, activation: Activation, run: Run, low: Array, high: Array) -> Array:
    """What running heads adds where s as it runs is between these."""
    least, most = activation.span(low, high)
    return unit.run(np.maximum(np.abs(low), np.abs(high)) * SAFE, np.maximum(np.abs(least), np.abs(most)))


def _behind(activation: Activation, s: State, sums: Sums, slope: Array, entries: int) -> tuple[Array, Array, Array]:
    """What running s adds, behind phi; on parts of the range of s; and the edges of these."""
    whole = slope * sums.own * SAFE
    low, high, terms = s.extent.low, s.extent.high, sums.terms
    edges = np.array([low + (high - low) * (part / PARTS) for part in range(PARTS)] + [high])
    found = np.tile(whole, (PARTS, 1))
    if sums.within is None or entries > LARGE:
        return whole, found, edges
    room = 64 * UNIT * (terms.plus + terms.minus + np.abs(low) + np.abs(high)) + LOST
    for part in range(PARTS):
        left, right = edges[part] - room, edges[part + 1] + room
        steep = activation.local_slope(left - s.error, right + s.error)
        found[part] = np.minimum(whole, steep * sums.within(*terms.within(left, right), left, right) * SAFE)
    return found.max(axis=0), found, edges


@np.errstate(over="ignore", invalid="ignore")
def chain_errors(layers: list[Layer], box: tuple[Array, Array] | None, run: Run | None) -> list[Array]:
    """The error of every layer's outputs; without a box for all inputs, in real arithmetic."""
    reach = np.full(layers[0].affine.inputs, 1e30)
    state, found = State.exactly(*((-reach, reach) if box is None else box)), []
    for number, layer in enumerate(layers, 1):
        state = layer_state(layer, state, run, box is None)
        require(np.isfinite(state.error).all(), f"at layer {number} no bound is left")
        if box is None:
            reach = np.full(len(state.error), 1e30)
            state = replace(state, extent=Extent.of(-reach, reach))
        found.append(state.error)
    if run is not None and run.precision.rounded:
        found[-1] = narrowed(state, run)
    return found


def narrowed(state: State, run: Run) -> Array:
    """The errors of outputs that were float64 numbers until they are rounded to the type of the network."""
    require((state.size <= run.precision.largest / 8).all(), f"outputs could overflow in {run.precision.name}")
    own = run.precision.rounded * power_of_two(state.size * (1 + 1e-12)) + run.precision.smallest
    return (state.error + own) * SAFE
