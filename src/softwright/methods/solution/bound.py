"""How far the answer of the normal equations' stack, as it runs, is from the exact solution: for all prompts of a set.

**The set** (`Prompts`): at most `rows` rows of weight 1; with sigma_p^2 = variance of feature p + penalty and C the
matrix cov(x) + penalty scaled to the diagonal 1, smallest eigenvalue of C >= 1/condition; leverage (x - mean)^T (cov(x)
+ penalty)^-1 (x - mean) <= leverage for every row and query; |x_jp| <= offset sigma_p, so that the mean can be taken
off; queries within `ranges` ranges of the mean, feature by feature; ranges between 2^-20 and 2^20, sqrt(penalty) at
most `share` <= 1/8 of them, so that sigma <= 9/16 of a range; 2^-64 <= rms(y) <= 2^64. Without an intercept the mean is
0 and every observation stands beside its mirror image. Without scaling the eigenvalues of cov(x) + penalty lie between
1/condition and the largest that the stack was built for. The result is per unit of rms(y) = sqrt(mean y^2). Heads err
as `step_bound` says; all that follows is about what their errors do.

**Scales.** The hard heads of the first layer find the range v of a feature up to a relative delta_r: their scores
2^44 x are exact, so that what a weight e^{-2^44 D} loses is D e^{-2^44 D} <= 1/(e 2^44), and the rest is rounding. Of
the cells, tokens with scores 64 (1 - v/B_i) added up, only the three about v weigh more than e^{-26}. With t = v/B_k in
[1, 2] the scale r = mean of 1/B_{e+1} has v r <= t/2 (1 + 1/(1 + e^{64(t-1)})) <= 1.002 (below t = 1.1 it is at most
0.83) and v r >= t/2 (1 - 1/2 /(1 + e^{64(1-t/2)})) >= 0.4999. Of the second cells, two to the octave with values
1/sqrt(B_e), s r'^2 lies in [0.9999, 1.0008 sqrt 2] by the same count. So for delta_r and the relative error of the
spread below 2^-10 the scales are anything, but 0.498 <= r range <= 1.005 and 0.998 <= D_p <= 1.004 2^(1/4), where D_p =
r r' sigma_p. Unit tokens of both signs hold scales r+, r- that may differ in their rounding; products over them take
the mean of both, the same for all rows. Hence range <= 2 sqrt(leverage) sigma gives r' <= 2 D sqrt(leverage)/0.498, and
the tokens that arrive are x~ = diag(D/sigma) (x - mean) + e with |e_p| <= eta = D e_1 + r' e_2 + e_3, the errors of the
three layers, and y~ = y - mean + e_y. C has the trace d: A_0 = diag(D) C diag(D) has eigenvalues in [D^2/condition,
D^2 d].

**The penalty** stands at unit tokens as g+-, sqrt(penalty) (r'+ r+ + r'- r-)/2 but for the error of its heads and a
product of the differences Delta, Delta' of scales at +e_p and -e_p. Exact softmax gives both signs the same, so that
they differ by rounding alone: the ranges relatively by 4 roundings of a mean, and as v r'(v)/r is at most 256 for the
first cells and 32 for the second, Delta <= 1024 roundings + 2^-28 and Delta' <= 64 (Delta + 2 errors of the spread) +
2^-28. G, the matrix of these g, is within gamma of the root of P <= A: |A^{-1/2} (G G - P) w| <= gamma |w| + gamma
(|A^{1/2} w| + gamma |w|)/sqrt(mu).

**Other data.** X_0, X are the exact tokens and those that run, centred and over sqrt(n), |X - X_0| <= sqrt(d) eta; P
the penalty; A = X^T X + P >= (1 - theta) A_0, theta = 2 sqrt(d) eta/sqrt(mu_0). The solutions w_0, w^ of both obey
A (w^ - w_0) = (X - X_0)^T r_0 + X^T (dy - (X - X_0) w_0), r_0 = y - X_0 w_0, and |A^{-1/2} X^T| <= 1, so that

    |A^{1/2} (w^ - w_0)| <= sqrt(d) eta (1/sqrt(mu) + 1/sqrt(mu_0)) + e_y.

**The inverse.** A~ = A + E is what the layer `matrix` writes. R = I - Z A~; the two layers of a step make T = Z A~ +
tau and Z' = 2 Z - T Z + zeta, so that R' = R^2 + tau Z A~ - zeta A~ exactly: |R'| <= |R|^2 + |tau| (1 + |R|) + |zeta|
|A~|. It corrects itself. Z is half the difference of what the unit tokens +e_p and -e_p hold, Z + beta and -Z + beta:
products over both take it exactly, and what a group gives is odd in the vector that asks, whatever beta is among the
values. So beta' = beta (1 + R^) + (odd part of tau) Z + (of zeta), R^ = I - A~ Z, which is at most |A~| |A~^-1| |R| and
obeys a recursion like R's; odd parts are at most rounding, and |beta| times the slope of the truncation, by Cauchy at
twice the reach. beta only enters how far scores reach.

**Refinement.** v = w - w^ obeys v' = (I - Z A) v + Z e_r + e_s, I - Z A = R + Z E; e_r is the error of the residual: of
its own heads, of the predictions at the rows (|X^T e_f| <= |X| e_f) and of the penalty. In the last one

    |A^{1/2} v'| <= sqrt(Lambda) (q |v| + |e_s|) + |A^{1/2} Z e_r|,   q = |R| + |Z| |E|,
    |A^{1/2} Z| <= (1 + |E| |A~^-1|)/sqrt(mu) + sqrt(Lambda) |R| |A~^-1|.

**The answer** is x~_q.w + mean of y, with sqrt(l~) = |A^{-1/2} x~_q| <= sqrt(leverage/(1 - theta)) + |e_q|/sqrt(mu).

Everything is evaluated in balls and rounded up. The set of a certificate: `certificate`; of one prompt: `at_prompt`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from flint import arb, fmpq

from softwright.attention.stack import StackLayer
from softwright.errors import InvalidInput
from softwright.methods.step_bound import (
    MOST,
    PRECISION,
    SIZES,
    Asked,
    Group,
    Numbers,
    ball,
    cauchy,
    group_of,
    heads_rounding,
    rational,
    upward,
)
from softwright.precision import precision_of
from softwright.proof.arithmetic.balls import precision

if TYPE_CHECKING:
    from softwright.methods.network import InContextStack

SMALLEST_RANGE = 2.0**-20
HARD = 2.0**44
RANGE_LOW, RANGE_HIGH = arb(498) / 1000, arb(1005) / 1000
SPREAD_LOW, SPREAD_HIGH = arb(998) / 1000, arb(2).root(4) * 1004 / 1000
STARTED = arb(19) / 10  # what the iteration begins with, over the trace


@dataclass(frozen=True)
class Prompts:
    """A set of prompts: bounds of their rows, condition, leverage and offset."""

    rows: int
    condition: float
    leverage: float
    offset: float
    ranges: float  # how far queries are from the mean
    share: float = 0.125  # sqrt(penalty) over a range
    width: float = 0.0  # a range over sigma, where more is known of it than 2 sqrt(leverage)


@dataclass(frozen=True)
class Distance:
    """A bound of |answer - exact solution| per unit of rms(y), and what each part of the stack adds to it."""

    total: float
    prepared: float
    inverse: float  # |I - M A| after the iteration
    refined: float
    read: float


def refuse(reason: str) -> InvalidInput:
    return InvalidInput("solution_bound", [reason])


def least(a: arb, b: arb) -> arb:
    return a if a < b else b


@lru_cache(maxsize=64)
def _series(group: Group, wanted: Fraction) -> tuple[list[arb], list[tuple[arb, arb]]]:
    """What the powers of the reach are multiplied with, and |output|, |scale| of every head."""
    scales, powers = [fmpq(*s.as_integer_ratio()) for s in group.scales], []
    moments = [fmpq(*o.as_integer_ratio()) for o in group.outputs]
    heads = [(abs(arb(o)), abs(arb(s))) for o, s in zip(moments, scales, strict=True)]
    for m in range(MOST + 1):
        E = sum(moments, start=fmpq(0))
        powers.append(abs(arb(E) - rational(wanted)) if m == 1 else abs(arb(E)) * (cauchy(m) if E != 0 else 0))
        moments = [moment * scale for moment, scale in zip(moments, scales, strict=True)]
    return powers, heads


class Product:
    """A group of heads that stands for wanted * cov(t, v), its series added up once."""

    def __init__(self, group: Group, wanted: int | Fraction, dtype: str, rounded: bool) -> None:
        self.group, self.wanted, self.dtype, self.rounded = group, abs(rational(Fraction(wanted))), dtype, rounded
        self.powers, self.heads = _series(group, Fraction(wanted))

    def truncation(self, reach: arb, value: arb) -> arb:
        """In exact arithmetic, for |t| <= reach and |v| <= value; t may be complex."""
        top = max(self.group.scales) * upward(reach)
        if not top < 1.5:
            remedy = "lower condition or score_bound, or raise feature_bound or range_bound"
            raise refuse(f"scores of a group of heads may reach {top:.3g}, beyond 1.5; {remedy}")
        total = arb(0)
        for power in reversed(self.powers):
            total = total * reach + power
        radius = arb(3) / 2
        for o, s in self.heads:
            ratio = s * reach / radius
            total += o / radius.cos() * ratio ** (MOST + 1) / (1 - ratio)
        return total * value

    def rounding(self, reach: arb, value: arb, keys: int, slot: arb, numbers: Numbers) -> arb:
        """What running the heads adds, for a slot that large."""
        if not self.rounded:
            return arb(0)
        asked = Asked(upward(reach), upward(value), keys, self.dtype, upward(slot), numbers)
        return heads_rounding(self.group, asked, slot + self.truncation(reach, value), self.wanted)

    def error(self, reach: arb, value: arb, keys: int, slot: arb, numbers: Numbers) -> arb:
        return self.truncation(reach, value) + self.rounding(reach, value, keys, slot, numbers)

    def slope(self, reach: arb, value: arb) -> arb:
        """Of the truncation, by t."""
        return self.truncation(2 * reach, value) / reach


class _Parts:
    """The groups of a stack by name, read from the tensors that run; `rounded` False leaves all roundings out."""

    def __init__(self, stack: InContextStack, rounded: bool) -> None:
        self.stack, c = stack, stack.constants
        self.c, self.rounded, self.d = c, rounded, c.features
        self.layers = {stack.layer_at(i).label: stack.layer_at(i) for i in range(stack.depth)}
        self.many = 2 * c.order

    def product(self, label: str, query: str, key: str, output: str, wanted: int, place: int = 0) -> Product:
        heads = slice(place * self.many, (place + 1) * self.many)
        return self.of(self.layers[label], query, key, output, wanted, heads)

    def of(self, layer: StackLayer, query: str, key: str, output: str, wanted: int | Fraction, heads: slice) -> Product:
        slots = self.stack.slots
        group = group_of(layer, slots[query], slots[key], slots[output][0], heads)
        return Product(group, wanted, self.c.dtype, self.rounded)

    def mean(self, keys: int, value: arb, slot: arb, unit: float) -> arb:
        """What the first layer errs by when it takes the mean of numbers that large off a slot."""
        if not self.rounded:
            return arb(0)
        layer = self.layers["centre"]
        plain = Group((0.0,), (1.0,), layer.Wq.shape[1], layer.heads * layer.Wv.shape[2])
        most = upward(value)
        asked = Asked(0.0, most, keys, self.c.dtype, upward(slot), Numbers(2.0**100, most, unit))
        return heads_rounding(plain, asked, slot + value, arb(0))


@precision(PRECISION)
def distance(stack: InContextStack, prompts: Prompts, rounded: bool = True) -> Distance:
    """The bound for every prompt of the set; an `InvalidInput` says why there is none."""
    c = stack.constants
    if c.solver != "normal_equations":
        raise refuse(f"the distance to the solution is observed only for {c.method} by {c.solver}")
    parts = _Parts(stack, rounded)
    tokens = _prepared(parts, prompts)
    inverse = _inverted(parts, tokens)
    return _solved(parts, tokens, inverse)


@dataclass(frozen=True)
class _Tokens:
    """What is known of the tokens after the preparation."""

    keys: int
    rows: arb  # sqrt of their number: the largest |y| over its rms
    coordinate: arb  # the largest |x_p|
    below: arb  # mu
    above: arb  # Lambda
    leverage: arb  # sqrt(l~)
    y_error: arb
    moved: arb  # how far the exact answer of these tokens is from that of the prompt
    penal: arb  # the largest coordinate of g
    penal_error: arb  # how far g may be from sqrt(penalty) times the scales, entry by entry
    numbers: Numbers


def _prepared(parts: _Parts, prompts: Prompts) -> _Tokens:
    c, d = parts.c, parts.d
    keys = prompts.rows * (1 if c.intercept else 2)
    root_d, lever, rows = arb(d).sqrt(), ball(prompts.leverage).sqrt(), arb(prompts.rows).sqrt()
    offset = ball(prompts.offset) if c.intercept else lever
    condition = ball(prompts.condition)
    centred = parts.mean(keys + 1, offset, 2 * offset + lever, 1.0)  # per unit of sigma
    y_error = parts.mean(keys + 1, rows, 2 * rows, SIZES)
    penal, penal_error = ball(c.penalty).sqrt(), _stored_root(parts)
    if c.scaling:
        eta, eta_query, coordinate, penal_error = _scaled(parts, keys, lever, offset, centred, prompts)
        penal = SPREAD_HIGH
        below, above = SPREAD_LOW**2 / condition, SPREAD_HIGH**2 * d
    else:
        below, above = 1 / condition, ball(c.largest_eigenvalue) + ball(c.penalty)
        eta = eta_query = above.sqrt() * centred
        coordinate = above.sqrt() * lever + 2.0**-6
    e = root_d * eta
    theta = 2 * e / below.sqrt()
    if not (theta < 0.5 and arb.max(eta, eta_query) < 2.0**-7):
        raise refuse(
            "the preparation moves the rows too far for this condition; lower condition, score_bound or max_rows"
        )
    mu = below * (1 - theta)
    reach = lever / (1 - theta).sqrt() + root_d * arb.max(eta, eta_query) / mu.sqrt()
    moved = reach * (e * (1 / mu.sqrt() + 1 / below.sqrt()) + y_error) + root_d * eta_query / below.sqrt() + y_error
    sizes = Numbers(upward(2 * (coordinate + rows + above + condition) * SIZES), upward(4 * rows + above), SIZES)
    return _Tokens(
        keys, rows, coordinate, mu, (above.sqrt() + e) ** 2, reach, y_error, moved, penal, penal_error, sizes
    )


def _scaled(
    parts: _Parts, keys: int, lever: arb, offset: arb, centred: arb, prompts: Prompts
) -> tuple[arb, arb, arb, arb]:
    """The errors of the tokens of rows and of queries, entry by entry, the largest coordinate, and the error of g."""
    c, d, stack = parts.c, parts.d, parts.stack
    plain, units, one = Numbers(2.0**100, 2.0**31), 2 * d, arb(1)
    first, spread, second = stack.layer_at(2), stack.layer_at(3), stack.layer_at(5)
    near = parts.of(first, "x", "scale1", "x", d, slice(0, first.heads))
    wide = parts.of(spread, "e", "x", "spread", 1, slice(0, 4))
    far = parts.of(second, "x", "scale2", "x", d, slice(0, second.heads // 2))
    rounded = parts.mean(keys + 1, offset, 2 * offset, 1.0)
    found = 2 * keys / (arb(HARD) * arb(SMALLEST_RANGE)) + 2 * rounded
    held = RANGE_HIGH * (1 + centred)
    near_error = near.error(held, one, units, arb(0), plain)
    asked = near.error(RANGE_HIGH * arb.max(ball(prompts.ranges), one) * (1 + centred), one, units, arb(0), plain)
    smallest = RANGE_LOW / (least(ball(prompts.width), 2 * lever) if prompts.width else 2 * lever)  # of r sigma
    moved = (RANGE_HIGH * centred + near_error) / smallest
    varied = wide.error(held + near_error, held + near_error, keys + units, arb(0), Numbers(4.0, 4.0)) / smallest**2
    apart = 1024 * rounded + arb(2) ** -28
    root, most, share = ball(math.sqrt(c.penalty)), SPREAD_HIGH / smallest, ball(prompts.share) * RANGE_HIGH
    if c.penalty > 0:
        group = parts.of(spread, "scale1", "e", "spread", d * Fraction(math.sqrt(c.penalty)), slice(4, 6))
        varied += group.error(share / root, share, keys + units, arb(0), Numbers(2.0**31, 4.0)) / smallest**2 + apart
    # sigma_p^2 r^2 is known up to 3 moved + varied, relatively
    if not (lever < 2.0**8 and found < 2.0**-10 and 3 * moved + varied < 2.0**-10 and prompts.share <= 0.125):
        raise refuse("ranges or variances cannot be told well enough; lower max_rows or score_bound")
    coordinate = SPREAD_HIGH * lever * (1 + 2 * moved) + 2.0**-6
    far_error = far.error(coordinate, one, units, arb(0), plain)
    penal_error = arb(0)
    if c.penalty > 0:
        heads = slice(second.heads // 2, second.heads)
        group = parts.of(second, "e", "scale2", "g", d * Fraction(math.sqrt(c.penalty)), heads)
        turned = 64 * (apart + 2 * varied) + arb(2) ** -28
        penal_error = group.error(most, share / root, units, arb(0), plain) + most * share * (
            apart * turned + arb(2) ** -50
        )
    shifted = SPREAD_HIGH * centred + far_error
    return shifted + most * near_error, shifted + most * asked, coordinate, penal_error


@dataclass(frozen=True)
class _Inverse:
    """Z: |I - Z A~|, |A~^-1|, |E|, |Z| and |beta|."""

    residual: arb
    inverse: arb
    off: arb
    size: arb
    turned: arb


def _inverted(parts: _Parts, tokens: _Tokens) -> _Inverse:
    c, d = parts.c, parts.d
    numbers, most, units = tokens.numbers, tokens.coordinate, 2 * d
    keys = tokens.keys + (units if c.penalty > 0 else 0)
    entry = parts.product("matrix", "e", "x", "a", 1).error(most, most, keys, arb(0), numbers)
    if c.penalty > 0:
        entry += _penalty(parts, tokens, keys)
        entry += tokens.penal_error * (2 * tokens.penal + d * tokens.penal_error)
    off = d * entry
    largest = tokens.above + off
    if not off < tokens.below / 2:
        raise refuse("the matrix may be off by more than its smallest eigenvalue; lower condition or score_bound")
    inverse = 1 / (tokens.below - off)
    product = parts.product("product", "z", "e", "t", d)
    step = parts.product("newton-schulz", "t", "e", "z", -d)
    start = STARTED / (arb(d) * arb(2).sqrt() if c.scaling else ball(c.largest_eigenvalue) + ball(c.penalty))
    unit = ball(float(precision_of(c.dtype).unit)) * 16
    g = arb.max(1 - start * tokens.below, start * tokens.above - 1) + start * (off + unit * largest)
    other, beta, size = g, start * unit, start * (1 + unit)
    layers = [parts.stack.layer_at(i).label for i in range(parts.stack.depth)]
    for _ in range(layers.count("newton-schulz")):
        if not g < 1:
            raise refuse("the iteration of the inverse is not proved to converge; lower condition or score_bound")
        held = size + beta
        rounded = d * product.rounding(held, largest, units, arb(0), numbers)
        tau = d * product.truncation(held, largest) + rounded
        odd = d * beta * product.slope(held, largest) + rounded
        turned = largest * beta + odd
        reach = 1 + g + tau + turned
        rounded = d * step.rounding(reach, held, units, 2 * held, numbers)
        zeta = d * step.truncation(reach, held) + rounded
        beta = beta * (1 + other) + odd * size + d * turned * step.slope(reach, held) + rounded
        size = (1 + g + tau) * size + zeta
        other = other * other + largest * (tau * size + zeta)
        g = g * g + tau * (1 + g) + zeta * largest
        size, other = least(size, (1 + g) * inverse), least(other, largest * inverse * g)
    return _Inverse(g, inverse, off, size, beta)


def _penalty(parts: _Parts, tokens: _Tokens, keys: int) -> arb:
    """How far an entry of the penalty's matrix is from the product of the g that are held."""
    held = tokens.penal + tokens.penal_error
    return parts.product("matrix", "g", "e", "a", parts.d, 1).error(held, held, keys, arb(0), tokens.numbers)


def _stored_root(parts: _Parts) -> arb:
    """How far the stored root of the penalty is from it."""
    c = parts.c
    if c.penalty == 0 or c.scaling:
        return arb(0)
    stored = ball(float(parts.stack.get_buffer("base_unit")[0, parts.stack.slots["g"][0]]))
    return abs(stored - ball(c.penalty).sqrt()).abs_upper()


def _solved(parts: _Parts, tokens: _Tokens, inverse: _Inverse) -> Distance:
    c, d = parts.c, parts.d
    t, numbers, root_d, units = tokens, tokens.numbers, arb(d).sqrt(), 2 * d
    keys = t.keys + (units if c.penalty > 0 else 0)
    residual = parts.product("residual", "e", "x", "c", 1)
    solve = parts.product("solve", "z", "e", "w", d)
    fit = parts.product("fit", "x", "e", "f", d)
    taken, off_penalty = None, arb(0)
    if c.penalty > 0:
        taken = parts.product("residual", "penalty", "e", "c", -d, 1)
        off_penalty = d * _penalty(parts, t, keys)
    gamma = d * t.penal_error  # |G - sqrt(P)|
    said = 1 + t.y_error  # rms of y as the tokens hold it
    solution, wide = said / t.below.sqrt(), t.above.sqrt()
    q = inverse.residual + inverse.size * inverse.off
    last = (1 + inverse.off * inverse.inverse) / t.below.sqrt() + wide * inverse.residual * inverse.inverse
    labels = [parts.stack.layer_at(i).label for i in range(parts.stack.depth)]
    v, held, white, apart = solution, arb(0), arb(0), arb(0)  # apart: how far w at +e_p and -e_p are
    for k in range(labels.count("residual")):
        w = arb(0) if k == 0 else solution + v
        fitted = t.leverage * (said + wide * v) if k else arb(0)
        value = t.rows + t.y_error + fitted + held
        e_r = root_d * residual.error(t.coordinate, value, keys, arb(0), numbers) + wide * held
        if taken is not None:
            reach = t.penal**2 + off_penalty
            slot = value * t.coordinate
            e_r += root_d * taken.error(reach, w + apart + arb(2) ** -60, keys, slot, numbers) + off_penalty * w
        white_penalty = gamma * w + gamma / t.below.sqrt() * (said + wide * v + gamma * w)
        plain_penalty = gamma * (2 * t.penal + gamma) * w
        gradient = t.above * v + e_r + plain_penalty
        asking = inverse.size + inverse.turned
        e_s = root_d * solve.error(asking, gradient, units, w + apart + asking * gradient, numbers)
        apart += inverse.turned * gradient + e_s
        white = wide * (q * v + e_s + inverse.residual * inverse.inverse * plain_penalty) + last * e_r
        white += white_penalty * (1 + last * inverse.off / t.below.sqrt())
        v = q * v + inverse.size * (e_r + plain_penalty) + e_s
        held = fit.error(t.coordinate, solution + v + apart, units, arb(0), numbers)
    if not v < solution:
        raise refuse("the refinement is not proved to converge; lower condition or score_bound")
    answer = t.leverage * (said + white) + held
    read = held
    if parts.rounded:
        read += 2 * parts.stack.width * ball(precision_of(c.dtype).unit) * (answer + 2)
    refined = t.leverage * white
    return Distance(
        upward(t.moved + refined + read), upward(t.moved), upward(inverse.residual), upward(refined), upward(read)
    )
