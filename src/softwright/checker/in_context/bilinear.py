"""Groups of attention heads that stand for a covariance or a mean: how far off they are, in balls.

A head with scores s t_j, t_j = q.k_j, gives a softmax mean of values v_j; a group adds up heads with scales s_h and
output weights o_h. |t_j| <= rho and |v_j| <= B for every key. E_m = sum_h o_h s_h^m is a rational number, taken
exactly.

**Covariances.** With weights p_j that sum to 1 and F(s) = sum p_j e^{s t_j} v_j / sum p_j e^{s t_j} = sum_m a_m s^m, a
group gives sum_m a_m E_m, and a_1 = cov(t, v). Let |s| rho <= R < pi/2. Every w_j = p_j e^{s t_j} lies in the cone
|arg| <= R, and so do A = sum w_j (B + v_j) and A' = sum w_j (B - v_j). F = B (A - A')/(A + A') = B (1 - z)/(1 + z) with
z = A'/A, |arg z| <= 2R; hence |F| <= B where |arg z| <= pi/2, and |F| <= B tan(|arg z|/2) otherwise, so that always
|F| <= B max(1, tan R). By Cauchy |a_m| <= B max(1, tan R) (rho/R)^m, with another R for every m, and |a_1| <= rho B by
Schwarz. Thus

    |group - c cov(t, v)| <= |E_0| B + |E_1 - c| rho B + sum_{m >= 2} |E_m| B max(1, tan R_m) (rho/R_m)^m.

**Means.** n counting tokens with score m0 (the sink) and value 0 stand beside n keys. With M(s) = mean e^{s t_j} v_j,
N(s) = mean e^{s t_j} and eps = e^-m0 a head gives eps H(s), H = M/(1 + eps N) = sum_k b_k s^k. Coefficient by
coefficient M is at most B e^{rho s} and N at most e^{rho s}, so |b_k| <= B rho^k/k! S_k(eps), where S_k(x) is the sum
of x^i (i+1)^k over i >= 0; and b_1 is off M'(0) = mean(t v) by at most 2 eps rho B. With E_k times eps

    |group - c mean(t v)| <= |E_0| B + |E_1 - c| |b_1| + 2 |c| eps rho B + sum_{k >= 2} |E_k| |b_k|.

Beyond MOST terms both series are bounded by sum_h |o_h| and a geometric or exponential series.

**Rounding.** u is the unit roundoff, tau the smallest normal number (all that an underflow can lose), gamma_k =
k u/(1 - k u). A score is a sum of c products of a rounded number s q_a with a k_a <= kappa that is stored as it is:

    |error| <= Delta = (u + gamma_c (1 + u)) |s| rho + 3 c tau (1 + kappa).

The computed weight of a key is e^{score - largest} times e^{+-lambda}. With scores that lie at most L apart and K keys
read in blocks of at least BLOCK, b = 1 + K/BLOCK of them, lambda adds up Delta; the rounding of the differences that
exp takes, u L for the key and, telescoping, u L for the changes of the largest score between blocks; and b + 1 times
exp's own error and the rounding of a product. A sum over the keys has at most K + 1 roundings whichever way it is
bracketed, one more with the products, and a quotient two. With |v_j| known up to e_v

    psi = e^lambda (1 + gamma_{K+1}) - 1,   |head - exact| <= P ((B + e_v)(1 + psi)(1 + u) - B + B psi)/(1 - psi) + ..,

where P = 1, or e^{|s| rho - m0} beside counting tokens: the data's share of the weights. Excluded tokens have scores
OMEGA below: their weights underflow. That loses at most 8 K f (1 + V), f the floor of exp, V the largest value. The
heads are added up in at most gamma_H, and the residual stream adds one more rounding. Nothing may overflow on the way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from flint import arb, fmpq

from softwright.checker.in_context.stack import OMEGA
from softwright.checker.precision import Precision
from softwright.checker.refusal import require

MOST = 64  # terms of the series that are added up one by one
BLOCK = 128  # keys; torch takes 512 and more at a time


@dataclass(frozen=True)
class Group:
    """The free numbers of a group of heads, what they stand for, and the range they are asked about."""

    scales: tuple[fmpq, ...]
    outputs: tuple[fmpq, ...]
    wanted: fmpq  # c
    reach: arb  # rho
    value: arb  # B
    value_error: arb  # e_v
    products: int  # c: products that a score adds up
    key: arb  # kappa
    sink: fmpq | None = None  # m0

    def exact(self) -> arb:
        """The error in exact arithmetic."""
        return covariance_error(self) if self.sink is None else mean_error(self)

    @property
    def largest_change(self) -> arb:
        return abs(arb(self.wanted)) * self.reach * self.value


def moments(group: Group, count: int) -> list[fmpq]:
    """E_0, .., E_{count-1}."""
    found, powers = [], list(group.outputs)
    for _ in range(count):
        found.append(sum(powers, fmpq(0)))
        powers = [power * scale for power, scale in zip(powers, group.scales, strict=True)]
    return found


def largest_score(group: Group) -> arb:
    most = max(abs(scale) for scale in group.scales)
    require(arb(most) * group.reach < 1.5, "scores of a group of heads reach beyond 1.5, where it is not bilinear")
    return arb(most) * group.reach


@cache
def best_radius(m: int) -> arb:
    """A number near the R < pi/2 that makes tan R/R^m least; any R gives a true bound."""
    low, high = 0.8, 1.57
    for _ in range(80):  # the logarithm's slope, 2/sin 2R - m/R, changes its sign once beyond pi/4
        middle = 0.5 * (low + high)
        low, high = (middle, high) if 2 * middle < m * math.sin(2 * middle) else (low, middle)
    return arb(low)


def covariance_error(group: Group) -> arb:
    largest_score(group)
    rho, B = group.reach, group.value
    E = moments(group, MOST + 1)
    error = abs(arb(E[0])) * B + abs(arb(E[1] - group.wanted)) * rho * B
    for m in range(2, MOST + 1):
        if E[m] != 0:
            R = best_radius(m)
            error += abs(arb(E[m])) * B * arb.max(arb(1), R.tan()) * (rho / R) ** m
    R = arb(3) / 2
    for o, s in zip(group.outputs, group.scales, strict=True):
        ratio = abs(arb(s)) * rho / R
        require(ratio < 1, "the series of a head does not converge")
        error += abs(arb(o)) * B * R.tan() * ratio ** (MOST + 1) / (1 - ratio)
    return error


def power_sums(x: arb, most: int) -> list[arb]:
    """S_0(x), .., S_most(x) for 0 <= x < 1 by Euler's numbers: S_k = sum_i A(k, i) x^i / (1 - x)^(k+1)."""
    require(x < 1, "counting tokens weigh too little")
    found, row = [1 / (1 - x)], [1]
    for k in range(1, most + 1):
        row = [(k - i) * (row[i - 1] if i > 0 else 0) + (i + 1) * (row[i] if i < len(row) else 0) for i in range(k)]
        polynomial = arb(0)
        for coefficient in reversed(row):
            polynomial = polynomial * x + coefficient
        found.append(polynomial / (1 - x) ** (k + 1))
    return found


def mean_error(group: Group) -> arb:
    require(group.sink is not None and group.sink >= 4, "counting tokens have no score to count with")
    rho, B, c = group.reach, group.value, abs(arb(group.wanted))
    eps = (-arb(group.sink)).exp()
    S, E = power_sums(eps, MOST), [eps * arb(e) for e in moments(group, MOST + 1)]
    error = abs(E[0]) * B + abs(E[1] - arb(group.wanted)) * rho * B * S[1] + 2 * c * eps * rho * B
    factorial = arb(1)
    for k in range(2, MOST + 1):
        factorial *= k
        error += abs(E[k]) * B * rho**k / factorial * S[k]
    # sum_{k > MOST} y^k/k! <= y^(MOST+1) e^y/(MOST+1)! at y = (i + 1) x, and both grow with x
    x, factorial = largest_score(group), factorial * (MOST + 1)
    tail = x ** (MOST + 1) / factorial * x.exp() * power_sums(eps * x.exp(), MOST + 1)[-1]
    return error + sum((abs(arb(o)) for o in group.outputs), arb(0)) * eps * B * tail


def gamma(count: int, precision: Precision) -> arb:
    require(count * precision.unit < 0.1, f"{count} roundings are too many for {precision.name}")
    return count * arb(precision.unit) / (1 - count * arb(precision.unit))


def weight_error(delta: arb, apart: arb, keys: int, precision: Precision) -> arb:
    """lambda, from the error of a score and how far scores lie apart."""
    blocks = 1 + keys // BLOCK
    u, exp = arb(precision.unit), arb(precision.exp_error)
    return delta + 2 * u * (apart + 2 * delta) + (blocks + 1) * (exp / (1 - exp) + 2 * u + arb(precision.smallest))


def run_error(
    groups: Sequence[Group],
    precision: Precision,
    *,
    exact: arb,
    keys: int,
    heads: int,
    slot: arb,
    values: arb,
    largest: arb,
) -> arb:
    """What running the groups of one layer adds to their `exact` error, for a token whose slot is at most `slot`.

    `values` bounds the values of all keys, those that a group excludes too, `largest` every number that the layer reads
    from any token; `heads` counts all heads that write the slot.
    """
    u, tau = arb(precision.unit), arb(precision.smallest)
    room = arb(precision.largest) / 4
    total, size = arb(0), arb(0)
    for group in groups:
        for o, s in zip(group.outputs, group.scales, strict=True):
            score = abs(arb(s)) * group.reach
            delta = (u + gamma(group.products, precision) * (1 + u)) * score
            delta += 3 * group.products * tau * (1 + group.key)
            sink = arb(0) if group.sink is None else arb(group.sink)
            lam = weight_error(delta, sink + 2 * score, keys, precision)
            require(lam < 0.5, f"{precision.name} is too coarse for so many rows")
            psi = lam.exp() * (1 + gamma(keys + 1, precision)) - 1
            share = arb(1) if group.sink is None else (score - sink).exp()
            B, seen = group.value, group.value + group.value_error
            error = share * (seen * (1 + psi) * (1 + u) - B + B * psi) / (1 - psi)
            error += 8 * keys * arb(precision.exp_floor) * (1 + values)
            error += gamma(2, precision) * (share * B + error) + 2 * tau
            total += abs(arb(o)) * error
            size += abs(arb(o)) * (share * B + error)
            require(abs(arb(s)) * largest < room, "a score may overflow")
    total += gamma(heads, precision) * size + 2 * heads * tau
    require(2 * keys * (1 + values) + 4 * arb(OMEGA) < room, "a sum over the keys may overflow")
    require(size + slot + total + largest < room, "the sum of the heads may overflow")
    change = sum((group.largest_change for group in groups), exact)
    return total + u * (slot + change + total) + tau
