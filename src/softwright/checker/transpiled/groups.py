"""Four neurons that share one softmax, in the layouts sdpa and multihead.

Each has two tokens, scores k s and k' s, values x and x' (times s, or not). The shared softmax has a token for each of
the 16 ways to take one token per neuron, with the sum of their scores, and for each neuron the value that its token
has. In real arithmetic the weights multiply, so that a neuron's two sums of weights are those of its own softmax.

Run, all 16 scores are sums of four products, wrong by gamma_4 K T, T = |s_1| + .. + |s_4|, K the larger |key|; by
gamma_3 K T where keys are 0 or powers of two; and where stock attention scales by roots by 4 roundings more. They are
lowered by the largest, which rounds a difference of at most 2 K T (1 + gamma), and exps are wrong by E. So each weight
is wrong by a factor between e^-t and e^t beside one that all share. Take two ways that differ in one neuron: their
ratio is wrong by e^{2t} at most, so the ratio of the neuron's two sums of weights is too. With theta = 2 t, sigma the
logistic function and z = |k - k'| |s|,

    |sigma(z + d) - sigma(z)| <= sigma(z) sigma(-z) (e^theta - 1)   for |d| <= theta, and z sigma(z) sigma(-z) < 0.224,
    z |sigma(z + d) - sigma(z)| <= z sigma(theta - z) <= theta + W0(1/e) < theta + 0.27847,

which bounds |s| times the change of a weight after division by |k - k'|; without s, sigma(z) sigma(-z) <= 1/4. A value
then passes a product with its weight, 15 sums above and below, a quotient, and the product with s: 2 16 + 4 roundings
at most, of sum_j w_j |x_j s|. That is the result itself where values have one sign: |phi| and its errors; else it is at
most max |x| |s|. Weights below the floor of exp may be lost, 16 of them.

Other runtimes run heads one by one: what that costs is charged too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from softwright.checker.refusal import require
from softwright.checker.transpiled.outward import expm1_up, gamma
from softwright.checker.transpiled.unit import Array, Run, Unit

TOGETHER = 4  # neurons
WAYS = 2**TOGETHER
SLACK = 1 + 1e-12


def grouped_unit(unit: Unit, run: Run) -> Unit:
    """The unit of neurons that share a softmax, from that of single ones."""
    require(run.layout in ("sdpa", "multihead"), f"heads do not share a softmax in the layout {run.layout}")
    require(unit.table.shape == (4, 2), "heads that share a softmax have two tokens each")
    k, b, v, u = unit.table
    require(not b.any() and k[0] != k[1], "heads that share a softmax have scores that are multiples of s")
    require(not v.any() or not u.any(), "heads that share a softmax have values of one kind")
    sloped = bool(v.any())
    x = v if sloped else u
    one_sign = bool((x >= 0).all() or (x <= 0).all())
    largest, apart = float(np.abs(x).max()), float(abs(x[1] - x[0])) * SLACK
    key, between = float(np.abs(k).max()), float(abs(k[1] - k[0])) / SLACK
    precision = run.precision
    sums = gamma(run.values(WAYS), precision.unit)
    whole = bool(((np.frexp(np.abs(k))[0] == 0.5) | (k == 0)).all())
    roundings = (3 if whole else 4) + (4 if run.layout == "multihead" else 0)
    score = gamma(roundings, precision.unit) + 2 * precision.unit * (1 + 32 * precision.unit)
    exps = run.exps / (1 - run.exps) * SLACK
    tiny = precision.smallest + precision.exp_floor

    def running(m: Array, top: Array) -> Array:
        size = top + unit.exact + unit.tilt * m if one_sign else largest * (m if sloped else np.ones_like(m))
        lost = 16 * WAYS * tiny * (1 + m) * (1 + largest)
        return (unit.run(m, top) + sums * size + lost) * SLACK

    def beside(total: Array) -> Array:
        theta = 2 * (score * key * total + exps) * SLACK
        grown = np.where(theta <= 1, expm1_up(np.minimum(theta, 1.0)), np.inf)
        most = np.minimum(0.224 * grown, theta + 0.27847) / between if sloped else np.minimum(0.25 * grown, 1.0)
        return apart * most * (1 + sums) * SLACK

    return replace(unit, run=running, beside=beside)


def shared_head(second: float, run: Run) -> Callable[[Array], Array]:
    """What a head {t: 1, c t: c} is off by where four share a softmax, of the sum of their |t|."""
    table = np.array([[1.0, second], [0.0, 0.0], [0.0, 0.0], [1.0, second]])
    unit = grouped_unit(Unit(table, 0.0, lambda m, top: np.zeros_like(m), 0.0), run)

    def off(total: Array) -> Array:
        one = np.ones_like(total)
        return unit.run(total, one) + (unit.beside(total) if unit.beside is not None else 0.0)

    return off


def group_totals(m: Array) -> Array:
    """For each neuron the sum over its group, neurons 4i to 4i + 3, of m."""
    starts = np.arange(0, len(m), TOGETHER)
    return np.repeat(np.add.reduceat(m, starts), TOGETHER)[: len(m)] * SLACK
