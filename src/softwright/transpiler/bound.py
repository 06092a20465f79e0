"""A bound for transpiled feed-forward networks: one closed formula per layer, no sampling.

The reference is the network of the source in real arithmetic, with exactly the weights that the source holds; what is
bounded is the attention network as it runs in its dtype, on inputs of the box that are numbers of that dtype. With
a_l = phi(s_l), s_l = W a_{l-1} + b and hats for what runs (W^ the weights as stored, U the unit of `unit_bounds.py`):

    |s^ - s| <= d = (a^ - a through W) + o,     o = |W^ - W| |a^| + |b^ - b| + (rounding of the sums)
    |a^ - a| <= e' = (a^ - a through W and slopes) + (slope times o, where s can be) + U.exact + U.rounding(|s| + d)

`errors.py` carries errors through weights and slopes, those over the neuron's own range (0 for a neuron that is off on
the whole box), and says what rounding does to sums in any order; `values.py` what s and a can be on the box, and
`joint.py` what the neurons of a layer come to at one input together.

In the layout double all of this is float64 arithmetic on float32 numbers, and outputs are rounded once more.

For one hidden layer and ReLU in real arithmetic this is sum_h |W2_oh| 0.2785/beta. A gated block adds |b| e_u + |u^|
d_b for its factors, of errors e and d, and that of its product heads (`gated_heads.py`). Without a box only real
arithmetic is bounded: e is then free of s, rounding is not. A network that could overflow for inputs of [-1, 1] already
has no such bound: it may run to no number wherever one looks.

All numbers are float64 with sums of non-negative terms rounded up. A bound demands that nothing overflows: where the
terms of a sum, the scores, values or products of a head could pass an eighth of the largest number of the dtype, it is
infinite, which is no bound. What is below the smallest normal number may be lost, and is charged with its factors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from softwright.precision import PRECISIONS
from softwright.proof.arithmetic.directed import TINY, up
from softwright.proof.arithmetic.rounding import Arithmetic, arithmetic_of
from softwright.result.numbers import sum_rounded_up
from softwright.targets.mlp import BETA, Activation, DenseLayer, DenseNetwork, GatedNetwork
from softwright.transpiler.errors import Errors, Parts, Sums, power_below
from softwright.transpiler.grouped_heads import GROUP, GROUPED_LAYOUTS, group_of
from softwright.transpiler.joint import Around
from softwright.transpiler.norms import spectral_norm
from softwright.transpiler.token_table import TokenTable
from softwright.transpiler.tokens import direct_gate
from softwright.transpiler.unit_bounds import Unit, shared_weights, unit_of
from softwright.transpiler.values import Terms, Values, activated, affine

_PARTS = 96  # of the range of a neuron
_LARGEST_PARTS = 1 << 24  # entries of W times parts that a bound is worth
_Ends = tuple[np.ndarray, np.ndarray]


@dataclass
class State:
    """What the exact values can be, and bounds of what runs minus them."""

    values: Values
    errors: Errors

    @property
    def error(self) -> np.ndarray:
        return self.errors.error

    @property
    def size(self) -> np.ndarray:
        """Largest |value| of what runs."""
        return self.values.size + self.errors.error


@dataclass(frozen=True)
class Bound:
    """Largest deviation over the outputs: in real arithmetic, and what rounding adds; the error after each layer."""

    exact: float
    rounding: float
    layers: list[float] = field(default_factory=list)

    @property
    def total(self) -> float:
        """Both parts together, rounded up; infinite where there is no bound."""
        known = math.isfinite(self.exact) and math.isfinite(self.rounding)
        return sum_rounded_up(self.exact, self.rounding) if known else math.inf


def stored(layer: DenseLayer, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Weight and bias as a network of that dtype holds them."""
    kind = np.dtype(dtype)
    return layer.weight.astype(kind).astype(np.float64), layer.bias.astype(kind).astype(np.float64)


def is_verbatim(network: DenseNetwork | GatedNetwork, dtype: str) -> bool:
    """Whether the dtype stores all weights as they are."""
    pairs = ((stored(layer, dtype), (layer.weight, layer.bias)) for layer in network.layers)
    return all(all(map(np.array_equal, ours, theirs)) for ours, theirs in pairs)


def is_stored_exactly(network: DenseNetwork | GatedNetwork, dtype: str) -> bool:
    """Whether the dtype stores all weights, and the slopes of unbounded pieces, as they are."""
    if not is_verbatim(network, dtype):
        return False
    for layer in network.layers:
        tokens = layer.activation.tokens(dtype)
        if tokens is not None and not layer.activation.bounded:
            table = TokenTable.of(*tokens)
            if not np.array_equal(table.slopes, table.rounded(dtype).slopes):
                return False
    return True


@dataclass(frozen=True)
class _Setting:
    """How a layer is run; `arithmetic` None means real arithmetic with the source's own weights."""

    arithmetic: Arithmetic | None
    dtype: str
    everywhere: bool = False  # all inputs: ranges of s mean nothing
    known: dict[int, tuple[Values, Terms, float]] = field(default_factory=dict)  # exact numbers, of another run too


@dataclass
class _Sum:
    """s = W a + b: exact values, errors that came with a, and those of running it, for all s or for a part of them."""

    values: Values
    inherited: Errors
    own: np.ndarray  # 0 in real arithmetic
    size: np.ndarray  # sum of the sizes of its terms as they run
    terms: Terms
    entries: int = 0  # of W
    running: Callable[[_Ends, _Ends], np.ndarray] | None = None  # `own` while terms add up to so much, s is between so

    @property
    def state(self) -> State:
        return State(self.values, self.inherited.plus(self.own))


def _affine(layer: DenseLayer, state: State, setting: _Setting) -> _Sum:
    """s = W a + b."""
    n, a = layer.inputs, state.values
    if id(layer) not in setting.known:
        largest = spectral_norm(layer.weight)
        setting.known[id(layer)] = *affine(layer, a, largest), largest
    s, terms, largest = setting.known[id(layer)]
    inherited = state.errors.through(layer.weight, largest)
    if setting.arithmetic is None:
        none = np.zeros(layer.outputs)
        return _Sum(s, inherited, none, none, terms)
    weight, bias = stored(layer, setting.dtype)
    changed = up(np.abs(weight - layer.weight) @ state.size + np.abs(bias - layer.bias), n + 8)
    total = np.abs(weight) @ state.size + np.abs(bias)
    # What runs has errors of its own, in its terms and in partial sums.
    slack = changed + up(np.abs(weight) @ state.error + setting.arithmetic.gamma(n + 2) * total, n + 8)
    sums = Sums(weight, bias, a.low - state.error, a.high + state.error, slack, setting.arithmetic.unit)
    # Inputs, weights, products and sums below the smallest normal number may be lost.
    lost = setting.arithmetic.smallest * (2 * n + 4 + np.abs(weight).sum(axis=1) + state.size.sum())
    rounded = up(sums.rounding((terms.plus, terms.minus)) + lost, n + 8)
    size = up(total + rounded, n + 8)
    finite = size <= PRECISIONS[setting.dtype].largest / 8

    def running(ends: _Ends, between: _Ends) -> np.ndarray:
        return changed + up(sums.rounding(ends, between) + lost, n + 8)

    return _Sum(s, inherited, np.where(finite, changed + rounded, np.inf), size, terms, weight.size, running)


def _bent(phi: Activation, s: _Sum, error: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the errors of running s are behind phi: (H,), on parts of the range of s (parts, H), and the edges of these.
    On a part it is what sums can have there times the slope there. At one input s = plus - minus, the sums of its
    positive and of its negative terms, so where s <= t plus is at most t above the largest minus, and where s >= t
    minus is at most t below the largest plus; and of two partial sums that make up s one is known by the other."""
    most = np.where(np.isfinite(s.own), up(slope * np.minimum(s.own, PRECISIONS["float64"].largest), 4), np.inf)
    low, high, terms = s.values.low, s.values.high, s.terms
    edges = low + (high - low) * (np.arange(_PARTS + 1)[:, None] / _PARTS)
    edges[-1] = high
    found = np.repeat(most[None], _PARTS, axis=0)
    if s.running is None or s.entries * _PARTS > _LARGEST_PARTS:
        return most, found, edges
    room = 1e-12 * (terms.plus + terms.minus + np.abs(low) + np.abs(high)) + TINY  # for the rounding of ends
    for i, (left, right) in enumerate(pairwise(edges)):
        ends = terms.between(left - room, right + room)
        steep = phi.local_slope(left - error - room, right + error + room)
        part = up(steep * s.running(ends, (left - room, right + room)), 4)
        found[i] = np.where(np.isfinite(part), np.minimum(part, most), most)
    return found.max(axis=0), found, edges


def _activated(layer: DenseLayer, before: State, s: _Sum, unit: Unit, setting: _Setting) -> State:
    """a = phi(s) by heads. An error of running s is one of its neuron alone, and still is one behind phi."""
    phi, state, joint = layer.activation, s.state, None  # what errors of all neurons are at one input
    low, high = s.values.low - state.error, s.values.high + state.error
    m, slope = state.size, phi.local_slope(low, high)
    if setting.everywhere:
        m, slope = np.full_like(m, np.inf), np.full_like(slope, phi.slope)
    own = unit.exact_for(m)
    if setting.arithmetic is not None:
        off = unit.sink & (slope == 0.0)
        running = unit.rounding(np.where(off, np.minimum(m, 1 / BETA), m))
        if unit.together is not None:
            own = own + unit.together(_group_sums(m))
        own = np.where(s.size <= unit.reach, own, np.inf)
        bent, parts, edges = _bent(phi, s, state.error, slope)
        if np.isfinite(own).all() and np.isfinite(running + bent).all():
            size = np.minimum(np.maximum(np.abs(edges[:-1]), np.abs(edges[1:])) + state.error, m)
            heads = np.array([np.minimum(unit.rounding(one), running) for one in size])
            a, whole = before.values, own + running + bent
            share = (own + heads + parts) * (1 + 1e-14) / np.maximum(whole, TINY)
            joint = Parts(Around.of(layer, a.low, a.high, a.centre, a.spread), edges, share)
        own = own + running + bent
    least = np.maximum(-slope, np.where(slope > 0, phi.least_slope, 0.0))
    own = np.where(np.isnan(own), np.inf, own)  # infinity times 0, or less itself: nothing is known
    errors = s.inherited.sloped(least, slope).plus(np.where(own > 0, up(own, 4), 0.0), joint)
    return State(activated(layer, before.values, s.values), errors)


def _group_sums(m: np.ndarray) -> np.ndarray:
    """For every neuron the sum of m over those that share a softmax with it."""
    rows = np.concatenate([m, np.zeros(-len(m) % GROUP)]).reshape(-1, GROUP)
    return np.repeat(up(rows.sum(axis=1), GROUP + 4), GROUP)[: len(m)]


def _layer(layer: DenseLayer, unit: Unit | None, state: State, setting: _Setting) -> State:
    s = _affine(layer, state, setting)
    return s.state if unit is None else _activated(layer, state, s, unit, setting)


def _start(low: np.ndarray, high: np.ndarray) -> State:
    return State(Values.box(low, high), Errors.none(len(low)))


def units_of(network: DenseNetwork, tables: Sequence[TokenTable | None], dtype: str, layout: str) -> list[Unit | None]:
    return [
        None if table is None else unit_of(layer.activation, table, dtype, layout, group_of(table, layout))
        for layer, table in zip(network.layers, tables, strict=True)
    ]


@np.errstate(all="ignore")  # a bound that overflows is infinite, or none at all
def bound_network(
    network: DenseNetwork,
    tables: Sequence[TokenTable | None],
    dtype: str,
    layout: str,
    box: tuple[np.ndarray, np.ndarray] | None,
) -> Bound:
    """The bound above. `tables` are the tokens as stored, None for a layer without heads; no box: real arithmetic."""
    units = units_of(network, tables, dtype, layout)
    reach = np.full(network.inputs, 1e30)
    low, high = (-reach, reach) if box is None else box
    known: dict[int, tuple[Values, Terms, float]] = {}

    def run(arithmetic: Arithmetic | None) -> list[np.ndarray]:
        state, found = _start(low, high), []
        for layer, unit in zip(network.layers, units, strict=True):
            state = _layer(layer, unit, state, _Setting(arithmetic, dtype, box is None, known))
            found.append(state.error)
        if arithmetic is not None and arithmetic.rounded:
            found[-1] = _rounded_once(state, arithmetic)
        return found

    exact = run(None)
    if box is None:
        near = bound_network(network, tables, dtype, layout, near_zero(network.inputs))
        if not math.isfinite(near.total):
            return Bound(np.inf, 0.0)
        return Bound(_cleared(exact[-1]), 0.0, [_cleared(error) for error in exact])
    return _parts(exact, run(arithmetic_of(dtype, layout)))


def _rounded_once(state: State, arithmetic: Arithmetic) -> np.ndarray:
    """Errors of outputs that are rounded to another type at the end: half a unit in the last place of the largest."""
    own = arithmetic.rounded * power_below(state.size * (1 + 1e-9)) + arithmetic.smallest
    return up(state.error + np.where(state.size <= arithmetic.largest / 8, own, np.inf), 4)


def near_zero(inputs: int) -> tuple[np.ndarray, np.ndarray]:
    """[-1, 1]^d, where a network that is bounded on all inputs must run without overflow."""
    return -np.ones(inputs), np.ones(inputs)


def _cleared(errors: np.ndarray) -> float:
    """The largest error; what `up` adds against underflow is no error where every unit is exact."""
    largest = float(errors.max())
    return 0.0 if largest < 1e-270 else largest


def _parts(exact: list[np.ndarray], total: list[np.ndarray]) -> Bound:
    most = float(total[-1].max())
    real = min(_cleared(exact[-1]), most)
    return Bound(real, max(most - real, 0.0) * (1 + 1e-14), [float(error.max()) for error in total])


@np.errstate(all="ignore")
def bound_gated(
    network: GatedNetwork,
    table: TokenTable | None,
    steps: np.ndarray,
    shares: np.ndarray,
    dtype: str,
    layout: str,
    box: tuple[np.ndarray, np.ndarray] | None,
) -> Bound:
    """The same for a gated block. Without a box only direct gates are bounded, and there the error is 0."""
    direct = direct_gate(network.gate.activation) is not None
    if box is None:
        if not direct:
            return Bound(np.inf, 0.0)
        near = bound_gated(network, table, steps, shares, dtype, layout, near_zero(network.gate.inputs))
        return Bound(0.0 if math.isfinite(near.total) else np.inf, 0.0)
    unit = None if table is None else unit_of(network.gate.activation, table, dtype, layout, group_of(table, layout))
    second = direct_gate(network.gate.activation) if direct else -1.0
    shared = shared_weights(float(second or 0.0), dtype, layout) if layout in GROUPED_LAYOUTS else None
    known: dict[int, tuple[Values, Terms, float]] = {}

    def run(arithmetic: Arithmetic | None) -> list[np.ndarray]:
        setting = _Setting(arithmetic, dtype, known=known)
        start = _start(*box)
        u = _layer(network.gate, unit, start, setting)  # of a direct gate: the score a itself
        b = _affine(network.value, start, setting).state
        slip = 0.0 if arithmetic is None else 2 * arithmetic.exp_error + arithmetic.gamma(24)
        if direct:
            scores = arithmetic.gamma(12) if arithmetic is not None else 0.0  # a w (1 - w) <= 0.28
            gate = np.minimum(network.gate.activation.slope * u.error, 2.0) + slip + scores
            if arithmetic is not None and shared is not None:
                total = _group_sums(u.size)
                gate = gate + np.where(total <= PRECISIONS[dtype].largest / 64, shared(total), np.inf)
            error = b.size * gate + b.error
            low, high = -b.size, b.size
        else:
            orders = np.arange(1.0, len(steps) + 1)
            delta = float(steps[0])
            q = 2 * orders * delta * u.size[:, None] / np.pi  # (H, K)
            weights = np.abs(shares) * delta
            series = np.where(q < 0.95, q ** (2 * len(steps)) / (1 - np.minimum(q, 0.95) ** 2), np.inf)
            truncation = (weights * orders * series).sum(axis=1) * u.size
            head = slip * np.abs(shares).sum() * (1 + delta * u.size * orders[-1])
            if arithmetic is not None and shared is not None:
                total = _group_sums(u.size) * (1 + 2 * arithmetic.unit)
                head = head + sum(abs(a) * shared(s * total) for s, a in zip(steps.tolist(), shares, strict=True))
            unit_roundoff = 2.0**-50 if arithmetic is None else max(8 * arithmetic.unit, 2.0**-50)
            stored_shares = unit_roundoff * np.abs(shares * steps).sum() * u.size  # c_k are rounded
            error = b.size * (truncation + head + stored_shares + u.error) + u.size * b.error
            if arithmetic is not None:
                lost = arithmetic.smallest * (4 + b.size + np.abs(shares).sum() * (2 + b.size))
                error = np.where(_fits(steps, shares, u, b, dtype), error + lost, np.inf)
            low, high = -b.size * u.size, b.size * u.size
        error = up(error, 16)
        product = State(Values.box(low, high), Errors.of(error))
        out = _affine(network.down, product, setting).state
        return [u.error, product.error, out.error]

    return _parts(run(None), run(arithmetic_of(dtype, layout)))


def _fits(steps: np.ndarray, shares: np.ndarray, u: State, b: State, dtype: str) -> np.ndarray:
    """Where the scores k delta u and the products c_k/delta b are numbers of the dtype, with their factors."""
    precision = PRECISIONS[dtype]
    largest = precision.largest / 8
    normal = all(np.all((np.abs(x) >= precision.smallest) & (np.abs(x) <= largest)) for x in (steps, shares))
    return normal & (np.abs(steps).max() * u.size <= largest) & (np.abs(shares).sum() * b.size <= largest)


def largest_gate(network: GatedNetwork, box: tuple[np.ndarray, np.ndarray]) -> float:
    """The largest |phi(a)| over the box, with room for the errors of what runs."""
    low, high = network.gate.activation.span(*_interval(network.gate, box))
    return float(np.maximum(np.abs(low), np.abs(high)).max()) * 1.01 + 1e-30


def _interval(layer: DenseLayer, box: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    s, _ = affine(layer, Values.box(*box), spectral_norm(layer.weight))
    return s.low, s.high
