"""Gated units phi(a) b, a = W_g x + c_g, b = W_u x + c_u, as heads of two tokens {t: b, c t: c b}.

*A gate that is a softmax weight* (c = 0: sigmoid, c = -1: tanh) needs one head with t = a. Its weights run with two
exps and one rounding of a difference: w (1 - w) times 2 E/(1 - E) + 2 u |a| at most, and |a| w (1 - w) < 0.29; of tanh
twice that. With weights, products and a division it is off by E/(1 - E) + 12 u of |b|, at most.

*Any other gate* u = phi(a) is multiplied: heads of t = s_k u, c = -1, have b tanh(s_k u), and with shares a_k

    sum_k a_k tanh(s_k u) - u = sum_n t_n (sum_k a_k s_k^{2n+1}) u^{2n+1} - u,      |t_n| <= (2/pi)^{2n},

t_n the Taylor coefficients of tanh, as its poles nearest to 0 are at +-i pi/2 (tanh z = sum_i 8z/((2i-1)^2 pi^2 + 4
z^2)). In real arithmetic the shares are those of the steps, before they are rounded: the terms from u^3 to u^{2K-1}
vanish. The first ORDERS coefficients are rational numbers of what is stored; the rest are bounded one by one, for |u|
<= U with q_k = 2 s_k U/pi < 1, by |a_k| s_k q_k^{2 ORDERS}/(1 - q_k^2). Run, head k is off by E/(1 - E) + 12 u of |b|
as above (s_k u is rounded once more, which counts half), times |a_k|, and the sum of K heads by gamma_{K+4} |a_k
tanh(s_k u)|.

Where four units share a softmax, the weights of their heads are off by what `groups.py` says, besides.

    |product^ - u b| <= |b^| (the above + |u^ - u|) + |u| |b^ - b|
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import fmpq

from softwright.checker.refusal import require
from softwright.checker.transpiled.extents import Extent
from softwright.checker.transpiled.groups import group_totals, shared_head
from softwright.checker.transpiled.layers import Affine, Layer, State, affine_state, layer_state
from softwright.checker.transpiled.outward import LOST, gamma
from softwright.checker.transpiled.pieces import SLACK
from softwright.checker.transpiled.slips import Slips
from softwright.checker.transpiled.unit import Array, Run

ORDERS = 12


@dataclass(frozen=True)
class Gated:
    """Gate, value and output layer; `second` is c, `steps` s_k and `shares` a_k, as stored."""

    gate: Layer
    value: Affine
    down: Affine
    second: float
    steps: Array
    shares: Array
    shared: bool = False  # four units have one softmax

    @property
    def direct(self) -> bool:
        return self.gate.activation.name in ("sigmoid", "tanh")


@np.errstate(over="ignore", invalid="ignore")
def gated_errors(block: Gated, box: tuple[Array, Array] | None, run: Run | None) -> list[Array]:
    """The errors of the gate, of the products and of the output; without a box none, as a direct gate is exact."""
    if box is None:
        require(block.direct, "a product of heads says nothing for all inputs")
        return []
    start = State.exactly(*box)
    u = layer_state(block.gate, start, run)  # of a direct gate the number a
    b, _ = affine_state(block.value, start, run)
    error, size = _direct(block, u, b, run) if block.direct else _multiplied(block, u, b, run)
    require(np.isfinite(error).all(), "no bound is left for the products")
    error = np.where(error > 0, error * SLACK + LOST, 0.0)
    out, _ = affine_state(block.down, State(Extent.of(-size, size), Slips.of(error)), run)
    require(np.isfinite(out.error).all(), "no bound is left")
    return [u.error, error, out.error]


def _largest(state: State) -> Array:
    return state.extent.largest


def _head(run: Run) -> float:
    """What a head {t: b, -t: -b} is off when it runs, in parts of |b|."""
    return run.exps / (1 - run.exps) + 12 * run.precision.unit


def _direct(block: Gated, a: State, b: State, run: Run | None) -> tuple[Array, Array]:
    """Errors of the products, and their largest sizes."""
    gate = np.minimum(block.gate.activation.slope * a.error, 2.0)
    lost = 0.0
    if run is not None:
        gate, lost = gate + _head(run), 2 * run.precision.smallest
        if block.shared:
            total = group_totals(a.size)
            require((total <= run.precision.largest / 64).all(), f"scores could overflow in {run.precision.name}")
            gate = gate + shared_head(block.second, run)(total)
    return b.size * gate + b.error + lost, _largest(b)


def _multiplied(block: Gated, u: State, b: State, run: Run | None) -> tuple[Array, Array]:
    """The same where the gate is multiplied."""
    sizes, U, B = _largest(u), u.size, b.size
    s, a = ([fmpq(*float(x).as_integer_ratio()) for x in row] for row in (block.steps, block.shares))
    require(min(s) > 0 and len(set(s)) == len(s), "the steps of a product are not positive, or not all different")
    off = _series(s, _shares(s) if run is None else a, U)
    lost = 0.0
    shares = np.abs(block.shares)
    if run is not None:
        precision = run.precision
        largest, smallest = precision.largest / 8, precision.smallest
        normal = [np.abs(x) for x in (block.steps, block.shares)]
        require(all(((x >= smallest) & (x <= largest)).all() for x in normal), "steps and shares are no usual numbers")
        fits = (np.abs(block.steps).max() * U <= largest) & (shares.sum() * B <= largest)
        require(fits.all(), f"products could overflow in {precision.name}")
        tanh = np.minimum(np.abs(block.steps) * U[:, None], 1.0)  # (H, K)
        off = off + shares.sum() * _head(run) + gamma(len(shares) + 4, precision.unit) * (shares * tanh).sum(axis=1)
        lost = smallest * (len(shares) + B + shares.sum() * (2 + B))
        if block.shared:
            head, total = shared_head(block.second, run), group_totals(U) * (1 + precision.unit)
            for step, share in zip(np.abs(block.steps), shares, strict=True):
                off = off + share * head(step * total)
    return B * (off + u.error) + sizes * b.error + lost, sizes * _largest(b) * SLACK


def _shares(s: list[fmpq]) -> list[fmpq]:
    """The shares before they are rounded: sum_k a_k s_k = 1, sum_k a_k s_k^{2n+1} = 0 for 0 < n < K."""
    squares = [x * x for x in s]
    found = []
    for own, x in zip(squares, s, strict=True):
        factor = fmpq(1) / x
        for other in squares:
            factor *= other / (other - own) if other != own else 1
        found.append(factor)
    return found


def _series(s: list[fmpq], a: list[fmpq], U: Array) -> Array:
    """|sum_k a_k tanh(s_k u) - u| at most, for |u| <= U (H,)."""
    total, power = np.zeros(len(U)), U  # U^{2n+1}
    for n, coefficient in enumerate(_tanh(ORDERS)):
        moment = sum((a_k * s_k ** (2 * n + 1) for a_k, s_k in zip(a, s, strict=True)), fmpq(0)) * coefficient
        total = total + _up(abs(moment - 1 if n == 0 else moment)) * power
        power = power * U * U
    for a_k, s_k in zip(a, s, strict=True):
        q = 0.63662 * float(s_k) * U * (1 + 1e-15)  # 2/pi = 0.636619..
        power = np.ones(len(U))
        for _ in range(2 * ORDERS):
            power = power * q
        rest = np.where(q < 0.99, power / (1 - np.minimum(q, 0.99) ** 2), np.inf)
        total = total + _up(abs(a_k) * s_k) * rest * U
    return total * SLACK


def _up(number: fmpq) -> float:
    return 0.0 if number == 0 else math.nextafter(float(int(number.p) / int(number.q)), math.inf)


def _tanh(count: int) -> list[fmpq]:
    """The coefficients of z, z^3, z^5, .. in tanh z: t' = 1 - t^2."""
    odd = [fmpq(1)]
    for n in range(1, count):
        square = sum((odd[i] * odd[n - 1 - i] for i in range(n)), fmpq(0))
        odd.append(-square / (2 * n + 1))
    return odd
