"""How far one layer of bilinear heads is from the covariance it stands for: a bound for every prompt in a range.

A group has heads h with score scales s_h (of both signs) and output weights o_h, all read from the tensors that run.
For one row, scores t_j = q.k_j with |t_j| <= rho, values |v_j| <= B and weights p_j of any kind that sum to 1,

    F(s) = sum_j p_j e^{s t_j} v_j / sum_j p_j e^{s t_j} = sum_m a_m s^m,        a_1 = cov_p(t, v),
    group = sum_h o_h F(s_h) = sum_m a_m E_m,   E_m = sum_h o_h s_h^m,           wanted: c a_1.

**In exact arithmetic** |group - c a_1| <= |E_1 - c| |a_1| + sum_{m != 1} |E_m| |a_m|. Cauchy's estimate on |s| = R/rho
(`bilinear`) gives |a_m| <= B rho^m / (R^m cos R) for every R < pi/2, and |a_1| <= rho B by Schwarz's
inequality. The E_m are rational numbers, evaluated exactly for m <= MOST, each with its own R; E_m of even m vanishes
because scales come in pairs; beyond MOST, sum |o_h| |s_h|^m is a geometric series in |s_h| rho/R < 1.

**Rounding.** u is the unit roundoff, gamma_k = k u/(1 - k u), D the width of a token, n the number of keys.
  scores    a dot product of dot products: |error| <= gamma_{3D+8} |s_h| rho' with rho' >= sum_a |q_a| |k_a|; by Schwarz
            again rho' <= rho, which is taken as a product of norms. The term that excludes tokens is exactly 0 on data.
  weights   subtracting the largest score costs 2 u |s_h| rho, exp and its blocks as in `proof.arithmetic.rounding`:
            computed weight = weight * (1 + theta)
  values    |error| <= gamma_{D+2} B, where B >= the sum of the absolute terms of a value
  sums      gamma_{n+blocks+8} on the numerator and on the denominator
so with psi = (1+theta)(1+gamma_{n+blocks+8}) - 1 and phi = (1+psi)(1+gamma_{D+2}) - 1 every head errs by at most
B (phi + psi)/(1 - psi) + 4 u B (1 + phi), times |o_h|; the output sum by gamma_{heads * v + 4} sum_h |o_h| B (1 + phi),
and the sum with the residual stream by u (size of the slot + size of the group).
  underflow   loses at most the smallest normal number tau each time, and an exp at most its floor f >= tau: 4 D tau
            (1 + A) in a score, A the largest number that is read, and 16 (n + 8) f (1 + V) in a head, V the largest
            value of any key, excluded ones too
  overflow  is ruled out: nothing that is computed on the way exceeds a quarter of the largest number

Everything below is evaluated in ball arithmetic and rounded up.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from flint import arb, fmpq

from softwright.attention.stack import StackLayer
from softwright.errors import InvalidInput
from softwright.methods.constants import Constants
from softwright.precision import assumptions, precision_of
from softwright.proof.arithmetic.balls import precision
from softwright.result.closed_form import ClosedForm

if TYPE_CHECKING:
    from softwright.methods.network import InContextStack

MOST = 61  # powers up to here are summed exactly
_BLOCK = 128
PRECISION = 200
SIZES = 2.0**64  # of what a Newton-Schulz layer reads; the largest coordinate of z is at least the inverse


@dataclass(frozen=True)
class Group:
    """Scales and output weights of the heads of one bilinear group, as they are stored."""

    scales: tuple[float, ...]
    outputs: tuple[float, ...]
    width: int
    columns: int  # columns of the joint output projection


@dataclass(frozen=True)
class Numbers:
    """How large the numbers are that a layer reads, and the values of its keys, those included that a group excludes.
    A bound per unit of a coordinate holds where that is between 1/unit and unit."""

    largest: float
    values: float
    unit: float = 1.0


@dataclass(frozen=True)
class Asked:
    """What a group is asked: |t| <= reach, |v| <= value, at most so many keys, added to a slot that large."""

    reach: float
    value: float
    keys: int
    dtype: str
    slot: float
    numbers: Numbers

    def check_scores(self, group: Group) -> None:
        largest = max(abs(s) for s in group.scales) * self.reach
        if largest >= 1.5:
            remedy = "raise score_bound or lower the angle"
            raise InvalidInput("step_bound", [f"scores reach {largest:.3g}, beyond 1.5; {remedy}"])


@dataclass(frozen=True)
class Bound:
    exact: float
    rounding: float

    @property
    def total(self) -> float:
        return upward(arb(self.exact) + arb(self.rounding))


def group_of(layer: StackLayer, query: tuple[int, int], key: tuple[int, int], output: int, heads: slice) -> Group:
    """The bilinear group among `heads` that multiplies slot `query` with slot `key` and writes coordinate `output`."""
    scales, outputs = [], []
    for Wq, Wk, Wo in zip(layer.Wq[heads], layer.Wk[heads], layer.Wo[heads], strict=True):
        product = Wq[slice(*query)].double() @ Wk[slice(*key)].double().T  # (d, d): scale times identity
        scale = float(product[0, 0])
        if not bool((product == scale * product.new_ones(len(product)).diag()).all()):
            raise InvalidInput("step_bound", ["the layer is not a group of bilinear heads; build it with in_context"])
        scales.append(scale)
        outputs.append(float(Wo[:, output].double().abs().max()) * (1.0 if float(Wo[:, output].sum()) >= 0 else -1.0))
    return Group(tuple(scales), tuple(outputs), layer.Wq.shape[1], layer.heads * layer.Wv.shape[2])


@precision(PRECISION)
def bilinear_bound(group: Group, wanted: Fraction, asked: Asked) -> Bound:
    """|group - wanted * cov(t, v)|."""
    asked.check_scores(group)
    rho, B = ball(asked.reach), ball(asked.value)
    scales = [Fraction(s) for s in group.scales]
    outputs = [Fraction(o) for o in group.outputs]
    error = arb(0)
    for m in range(MOST + 1):
        E = sum((o * s**m for o, s in zip(outputs, scales, strict=True)), start=Fraction(0))
        if m == 1:
            error += abs(rational(E - wanted)) * rho * B
        elif E:
            error += abs(rational(E)) * B * rho**m * cauchy(m)
    radius = arb(1.5)
    for o, s in zip(outputs, scales, strict=True):
        ratio = abs(rational(s)) * rho / radius
        error += abs(rational(o)) * B / radius.cos() * ratio ** (MOST + 1) / (1 - ratio)
    # What the last sum rounds, besides wanted * cov and the rounding before it, is the slot and the error.
    rounding = heads_rounding(group, asked, ball(asked.slot) + error, abs(rational(wanted)))
    return Bound(upward(error), upward(rounding))


def heads_rounding(group: Group, asked: Asked, slot: arb, wanted: arb, sink: float = 0.0) -> arb:
    """`sink` > 0: half of the keys are counting tokens with that score and the value 0 (`link_bound`)."""
    arithmetic, numbers, keys, dtype = precision_of(asked.dtype), asked.numbers, asked.keys, asked.dtype
    rho, B = ball(asked.reach), ball(asked.value)
    u, exp_error = arb(arithmetic.unit), arb(arithmetic.exp_error)

    def gamma(k: int) -> arb:
        if k * arithmetic.unit > 0.1:
            raise InvalidInput(
                "step_bound", [f"{k} roundings are too many for {dtype}; lower max_rows, or use float64"]
            )
        return k * u / (1 - k * u)

    blocks = 1 + keys // _BLOCK
    sums, values = gamma(keys + blocks + 8), gamma(group.width + 2)
    total, size = arb(0), arb(0)
    for o, s in zip(group.outputs, group.scales, strict=True):
        score = abs(ball(s)) * rho
        log_error = gamma(3 * group.width + 8) * score + 3 * u * score + 2 * blocks * (exp_error + 2 * u)
        log_error += 4 * group.width * arb(arithmetic.smallest) * (1 + ball(numbers.largest))
        if sink > 0:
            log_error += 4 * u * (ball(sink) + score)
        if not log_error < 0.5:
            raise InvalidInput(
                "step_bound", [f"{dtype} is too coarse for so many rows; lower max_rows, or use float64"]
            )
        theta = log_error + log_error**2  # |e^y - 1| for y < 1/2
        psi = (1 + theta) * (1 + sums) - 1
        phi = (1 + psi) * (1 + values) - 1
        weight = abs(ball(o)) * ((score - ball(sink)).exp() if sink > 0 else 1)
        total += weight * B * ((phi + psi) / (1 - psi) + 4 * u * (1 + phi))
        size += weight * B * (1 + phi)
    total += gamma(group.columns + 4) * size
    outputs, unit, values = sum((abs(ball(o)) for o in group.outputs), arb(1)), ball(numbers.unit), ball(numbers.values)
    underflow = arb(arithmetic.exp_floor) * unit * 16 * (keys + 8) * (1 + values) * outputs
    room = arb(arithmetic.largest) / 4
    scale = max((abs(ball(s)) for s in group.scales), key=float) * ball(numbers.largest)
    sums = 4 * keys * (1 + values * unit) + 2 * (size + slot + wanted * rho * B + total) * unit
    if not (scale < room and sums + ball(numbers.largest) + 2.0**24 < room):
        raise InvalidInput("step_bound", [f"numbers may overflow {dtype}; lower x_bound, y_bound or w_bound"])
    return total + 2 * u * (slot + wanted * rho * B + total) + underflow


@cache
def cauchy(m: int) -> arb:
    """An upper bound of min over R of 1/(R^m cos R): any R is valid, the best solves R tan R = m."""
    low, high = 0.1, 1.5707
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle * math.tan(middle) < m else (low, middle)
    R = arb(low)
    return 1 / (R**m * R.cos())


def ball(x: float) -> arb:
    return rational(Fraction(float(x)))


def rational(x: Fraction) -> arb:
    return arb(fmpq(x.numerator, x.denominator))


def upward(x: arb) -> float:
    """The smallest float above the ball that is quickly found."""
    if not x.is_finite():
        raise InvalidInput("step_bound", ["the bound is not finite; lower max_rows, or use float64"])
    top = float(x.abs_upper())
    while not arb(top) >= x:
        top = float(np.nextafter(top, np.inf))
    return float(np.nextafter(top, np.inf))


def stated(
    stack: InContextStack,
    target: dict[str, Any],
    started: float,
    *,
    statement: str,
    bound: Bound,
    method: str,
    quantities: dict[str, float],
) -> ClosedForm:
    """The certificate of one step."""
    return ClosedForm.of(
        stack,
        target,
        started,
        statement=statement,
        bound=bound.total,
        exact_part=bound.exact,
        rounding_part=bound.rounding,
        method=method,
        quantities=quantities,
        assumptions=assumptions(stack.constants.dtype),
    )


def added(parts: list[Bound], exact: arb, rounding: arb) -> Bound:
    """The bound of a sum, with further errors."""
    return Bound(
        upward(sum((arb(part.exact) for part in parts), exact)),
        upward(sum((arb(part.rounding) for part in parts), rounding)),
    )


@precision(PRECISION)
def gradient_certificate(stack: InContextStack, target: dict[str, Any]) -> ClosedForm:
    """One gradient layer of least squares or ridge against the exact step, for all x, y, w within the stated norms."""
    started = time.monotonic()
    c = stack.constants
    refuse_scaling(c)
    X, Y, W, rows, eta = c.x_bound, c.y_bound, c.w_bound, c.max_rows, c.eta
    layer = next(layer for layer in stack.distinct if layer.label == "gradient")
    slots, f = stack.slots, stack.slots["f"][0]
    heads = 2 * c.order
    keys = rows * (1 if c.intercept else 2) + 2 * c.features
    u, smallest = precision_of(c.dtype).unit, precision_of(c.dtype).smallest
    value = float(np.nextafter(X * W + Y, np.inf) * (1 + 2 * u + 2**-50))
    groups, off, largest = [(group_of(layer, slots["x"], slots["x"], f, slice(0, heads)), X, value)], arb(0), X + Y + 2
    if c.penalty > 0:
        root = math.sqrt(c.penalty) * (1 + 2 * u + 2**-50)
        worth = root * W * (1 + 2 * u + 2**-50)
        groups.append((group_of(layer, slots["x"], slots["g"], f, slice(heads, 2 * heads)), root, worth))
        # The penalty's group sums over 2d unit tokens whose directions are sqrt(penalty) e_p: mean times d.
        stored = Fraction(float(stack.get_buffer("base_unit")[0, slots["g"][0]]))
        off, largest = abs(rational(stored**2 - Fraction(c.penalty))), largest + root
    bounds = {}
    for name, size in (("coefficient", 1.0), ("prediction", X)):
        values = sum(most for _, _, most in groups)
        numbers = Numbers(largest + values + W * size, values)
        parts = [
            bilinear_bound(
                group,
                -Fraction(eta) * (1 if place == 0 else c.features),
                Asked(reach * size * (1 + 2**-50), most, keys, c.dtype, W * size, numbers),
            )
            for place, (group, reach, most) in enumerate(groups)
        ]
        # Tokens carry f = w.x rounded once, unit tokens also sqrt(penalty), whose square counts, as it is stored.
        held = ball(u) * ball(eta) * ball(W) * ball(size) * (ball(X) ** 2 + 8 * ball(c.penalty))
        held += 4 * arb(smallest) * ball(eta) * ball(size) * (ball(X) + c.features * (1 + ball(c.penalty)))
        bounds[name] = added(parts, ball(eta) * off * ball(W) * ball(size), held)
    best, step = bounds["coefficient"], eta * X * value
    return stated(
        stack,
        target,
        started,
        statement="each coefficient after one gradient layer against the exact step, for all prompts of up to "
        f"{rows} rows of weight 1 with |x| <= {X:g} and |y| <= {Y:g} (after centring), |w| <= {W:g}",
        bound=best,
        method="Richardson weights, Cauchy's estimate and a rounding analysis of the heads",
        quantities={
            "step_size": eta,
            "order": float(c.order),
            "largest_step": step,
            "relative_to_largest_step": best.total / step,
            "prediction_bound": bounds["prediction"].total,
        },
    )


@precision(PRECISION)
def group_certificate(stack: InContextStack, target: dict[str, Any]) -> ClosedForm:
    """A Newton-Schulz layer against 2z minus its covariances, per unit of the largest coordinate of any z."""
    started = time.monotonic()
    c = stack.constants
    layer = next(layer for layer in stack.distinct if layer.label == "newton-schulz")
    rows, reach, z = c.max_rows, c.score_bound, stack.slots["z"]
    keys = rows * (1 if c.intercept else 2) + 2 * c.features
    heads, parts = 2 * c.order, []
    # A penalty has heads of its own, over the 2d unit tokens: d times their covariance.
    numbers = Numbers(SIZES, 1.0, SIZES)
    for place, (key, wanted) in enumerate((("x", -1), ("g", -c.features))[: 1 + (c.penalty > 0)]):
        group = group_of(layer, z, stack.slots[key], z[0], slice(place * heads, (place + 1) * heads))
        parts.append(bilinear_bound(group, Fraction(wanted), Asked(reach, 1.0, keys, c.dtype, 2.0, numbers)))
    bound = added(parts, arb(0), arb(0))
    return stated(
        stack,
        target,
        started,
        statement="one Newton-Schulz layer against the exact covariance, per unit of the largest coordinate, for all "
        f"prompts of up to {rows} rows of weight 1 with |x||z| <= {reach:g}"
        + (f" and |g||z| <= {reach:g} for the penalty's tokens g" if c.penalty > 0 else "")
        + ", numbers between 2^-64 and 2^64 in size",
        bound=bound,
        method="Richardson weights, Cauchy's estimate and a rounding analysis of the heads",
        quantities={"score_bound": reach, "order": float(c.order), "relative_to_score_bound": bound.total / reach},
    )


@precision(PRECISION)
def matrix_certificate(stack: InContextStack, target: dict[str, Any]) -> ClosedForm:
    """The layer of the normal equations that forms the matrix, entry by entry against the exact covariance."""
    started = time.monotonic()
    c = stack.constants
    layer = next(layer for layer in stack.distinct if layer.label == "matrix")
    slots, heads, most = stack.slots, 2 * c.order, c.feature_bound
    keys = c.max_rows * (1 if c.intercept else 2) + 2 * c.features
    root = penalty_reach(c)
    numbers = Numbers(most + root + 2, max(most, root))
    asked = [("e", "x", Fraction(1), most), ("g", "e", Fraction(c.features), root)][: 1 + (c.penalty > 0)]
    parts = []
    for place, (query, key, wanted, reach) in enumerate(asked):
        group = group_of(layer, slots[query], slots[key], slots["a"][0], slice(place * heads, (place + 1) * heads))
        parts.append(bilinear_bound(group, wanted, Asked(reach, reach, keys, c.dtype, 0.0, numbers)))
    bound = added(parts, arb(0), arb(0))
    return stated(
        stack,
        target,
        started,
        statement="each entry of the matrix of the normal equations against the exact covariance, for all prompts of "
        f"up to {c.max_rows} rows of weight 1 whose scaled coordinates are at most {most:g} in size"
        + (f", those of the penalty's tokens g at most {root:g}" if c.penalty > 0 else ""),
        bound=bound,
        method="Richardson weights, Cauchy's estimate and a rounding analysis of the heads",
        quantities={"feature_bound": most, "order": float(c.order), "relative_to_feature_bound": bound.total / most},
    )


def penalty_reach(constants: Constants) -> float:
    """A bound of the coordinates of the penalty's tokens g: of scaled features, or sqrt(penalty) and a little."""
    return 2.0 if constants.scaling else 1.0 + constants.penalty


def refuse_scaling(constants: Constants) -> None:
    if constants.scaling:
        raise InvalidInput("step_bound", ["a step is proved for features as given; leave scaling off"])
