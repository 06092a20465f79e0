"""A rank-1 head as it runs in float64: the id in real arithmetic, and how far the computed one may be from it.

u = 2^-53, gamma_k = k u/(1 - k u): a sum of products in any order, with or without fused operations, errs by at most
gamma_k times the sum of the moduli, k the roundings that a term goes through; a product with a power of two is exact,
terms that are zero are no terms. What may underflow is charged 2^-1000 for each sum.

    projections   k.x_l, q.x_k, v.x_l err by e_k, e_q, e_v; the score a_l = (k.x_l)(q.x_k) by
                  e_l = |k.x_l| e_q + e_k |q.x_k| + e_k e_q + u |computed score|
    softmax       scores are taken less the largest computed one, which is common to all and changes nothing, but for
                  u |difference|; exp errs relatively by exp_error. So the weight of l is off by a factor 1 + r_l,

                      |r_l| <= rho_l = e^{e_l + u |a_l - a_max + ..|} (1 + exp_error) - 1,

                  and the mean mu of the values by at most sum_l w_l rho_l |v_l - mu| /(1 - max rho): it is
                  sum_l w_l r_l (v_l - mu) / sum_l w_l (1 + r_l)
    the rest      summing the weights, dividing, multiplying by the values and adding up: gamma_{2n+4} max |v_l|; the
                  values' own error max e_v; the product with o and the residual, one rounding each
"""

from __future__ import annotations

from collections.abc import Sequence

from flint import arb

from softwright.checker.precision import PRECISIONS
from softwright.checker.refusal import require
from softwright.checker.theorems.sequences import RankOneHead, dot

UNIT, EXP_ERROR = arb(PRECISIONS["float64"].unit), arb(PRECISIONS["float64"].exp_error)
TINY = arb(2) ** -1000  # more than all underflows of a sum of at most 2^70 terms
LARGEST = arb(2) ** 1000  # far below what overflows
ZERO, ONE = arb(0), arb(1)
Column = list[arb]


def gamma(count: int) -> arb:
    require(count * UNIT < 0.25, "sums too long for their precision")
    return count * UNIT / (1 - count * UNIT)


def is_power_of_two(number: arb) -> bool:
    """Whether a product with it is exact (but for underflow)."""
    return abs(int(number.man_exp()[0])) == 1


def roundings(weights: Sequence[arb]) -> int:
    """How many roundings a term of the product of these weights with a column goes through."""
    used = [weight for weight in weights if not weight.is_zero()]
    return max(len(used) - 1, 0) + (not all(map(is_power_of_two, used)))


def projection_error(weights: Sequence[arb], column: Column, errors: Column) -> arb:
    """How far weights . column is off, of the roundings alone, for a column that is off by `errors` at most."""
    terms = ((abs(w), abs(x) + e) for w, x, e in zip(weights, column, errors, strict=True))
    return gamma(roundings(weights)) * upper(sum((w * x for w, x in terms), ZERO)) + TINY


def upper(ball: arb) -> arb:
    """A number not below the ball, exact, so that errors do not carry errors."""
    require(ball.is_finite() and ball < LARGEST, "a number overflows")
    return ball.upper()


def run_head(head: RankOneHead, tokens: Sequence[Column], looking: int) -> tuple[Column, Column]:
    """The id (d,) of tokens[looking] among exact tokens in real arithmetic, and by how much the computed one may err.

    Every token is one that the query sees: with a mask, those up to it.
    """
    none = [ZERO] * len(tokens[0])
    asked = tokens[looking]
    query, off_query = dot(head.query, asked), upper(projection_error(head.query, asked, none))
    keys, values = ([dot(row, x) for x in tokens] for row in (head.key, head.value))
    scores, errors = [], []
    for x, key in zip(tokens, keys, strict=True):
        off = projection_error(head.key, x, none)
        passed = abs(key) * off_query + off * (abs(query) + off_query)
        scores.append(key * query)
        errors.append(upper(passed + UNIT * upper(abs(key * query) + passed) + TINY))
    top = scores[0]
    for score in scores[1:]:
        top = top.max(score)
    most = max(errors)
    weights = [(score - top).exp() for score in scores]
    mass = sum(weights, ZERO)
    mean = sum((w * v for w, v in zip(weights, values, strict=True)), ZERO) / mass
    moved, worst = ZERO, ZERO
    for weight, value, score, error in zip(weights, values, scores, errors, strict=True):
        rho = upper((error + UNIT * (abs(score - top) + error + most)).exp() * (1 + EXP_ERROR) - 1)
        moved += weight / mass * rho * abs(value - mean)
        worst = worst.max(rho)
    require(worst < 0.5, "scores too large for their precision")
    off_value = ZERO
    for x in tokens:
        off_value = off_value.max(upper(projection_error(head.value, x, none)))
    largest = ZERO
    for value in values:
        largest = largest.max(abs(value))
    n = len(tokens)
    error = moved / (1 - worst) + off_value + (gamma(2 * n + 4) + n * TINY) * 2 * (largest + off_value) + TINY
    error = upper(error)
    ids, off = [], []
    for o, x in zip(head.output, asked, strict=True):
        exact = o * mean
        moved = abs(o) * error
        product = ZERO if o.is_zero() or is_power_of_two(o) else UNIT * (abs(exact) + moved)
        moved = moved + product + TINY
        ids.append(exact + x)
        off.append(upper(moved + UNIT * (abs(exact + x) + moved)))
    return ids, off
