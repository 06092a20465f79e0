"""How far one gradient step of logistic, Poisson or robust regression is from the exact one: a bound for a range.

Two layers make a step. The link layer writes G_j = g(a_j) to every observation, a_j = s_j, or (s_j - y_j)/c for the
robust loss; the step layer adds -eta mean_j t_j v_j to a token's s, v_j = G_j - y_j, or c G_j, and t_j = x_j.x the
product of features: x = e_p for a coefficient, so |t_j| <= |x_j|. Tokens carry s_j = w.x_j + b rounded once.

**Link**, two tokens whose scores differ by d and values V_1, V_2: sigmoid d = a; tanh d = 2 a; exp d = a - m,
V_1 = V near e^m, V_2 = 0. Write u for the unit roundoff, gamma_k = k u/(1 - k u), D for the width of a token, A for a
bound of |a| (of the sum of its absolute terms), m = 0 unless the link is exp.
  exact     sigmoid, tanh: none, but for the robust loss 1/c as stored moves a by |k - 1/c| (|s| + |y|), and tanh' <= 1.
            exp: V e^{s-m}/(1 + e^{s-m}) is off e^s by the relative error |V e^{-m} - 1| + V e^{-m} e^{S-m}, s <= S;
            s that is moved by mu counts with e^mu - 1 besides.
  rounding  Each weight is off by a factor e^{+-lambda}, lambda = gamma_{3D+10} A + 2u (2A + m) + 4 (eps + 2u), eps the
            relative error of exp, the rounding of s_j included; so d moves by at most 2 lambda. As functions of d the
            slopes are sigmoid' <= 1/4, (d/dd) tanh(d/2) <= 1/2, and sigmoid' <= sigmoid, so G moves by lambda/2, by
            lambda, or relatively by e^{2 lambda} - 1 <= 2 lambda + 4 lambda^2. Sums of two terms, the division and the
            output: kappa = 2 gamma_{D+16}/(1 - gamma_{D+16}) + 8u, times the largest value; for exp, whose numerator
            is one term, times G itself. Underflow loses at most 64 (1 + V) times the floor of exp.

The step is linear in v, so an error e of G costs at most eta rho e (times c), rho >= |t_j|.

**Mean.** A step head sees n observations with scores s_h t_j and n counting tokens with the score m (the sink) and
value 0. With M(s) = mean e^{s t_j} v_j, N(s) = mean e^{s t_j} and eps = e^{-m} it gives eps H(s_h),

    H(s) = M(s)/(1 + eps N(s)) = sum_k b_k s^k,   group = sum_k b_k E_k,  E_k = eps sum_h o_h s_h^k,  wanted: C M'(0).

b_1 = M'(0)/(1 + eps) - eps M(0) N'(0)/(1 + eps)^2 is off M'(0) by at most 2 eps rho B, |b_1| <= (1 + 2 eps) rho B,
|b_0| <= B, where B >= |v_j|. On |s| = R/rho, |M| <= B e^R and |N| <= e^R, so by Cauchy
|b_k| <= B rho^k e^R / (R^k (1 - eps e^R)) for every R < m. E_k is a rational number times eps, k <= MOST; beyond, a
geometric series. Hence

    |group - C M'(0)| <= |E_1 - C| (1 + 2 eps) rho B + 2 |C| eps rho B + |E_0| B + sum_{k >= 2} |E_k| |b_k|.

Rounding is as in `step_bound`, with two changes. Data weigh e^{s_h t_j - m} against counting tokens of 1, so
the numerator, the sum of absolute terms over the denominator, is at most e^{|s_h| rho - m} B instead of B. And scores
lie up to m + |s_h| rho below the largest: the roundings of the arguments of exp, those of the rescalings between
blocks telescoping, add 4u (m + |s_h| rho) to the logarithm of a weight; the sink's own score is exact.

**Penalty.** A bilinear group over the unit tokens +-g_p, which carry +-w.g_p rounded once (`bilinear_bound`); g_p^2 as
stored is off the penalty by a number that is added, as is that rounding.

What the formulas presuppose of the tensors - zeros where nothing is read, flags, units, equal scales - is compared
entry by entry; every other number is read from them. All is evaluated in ball arithmetic and rounded up.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from flint import arb
from torch import Tensor

from softwright.attention.stack import HeadWeights, Slots, StackLayer
from softwright.errors import InvalidInput
from softwright.methods.frame import OMEGA, head
from softwright.methods.glm import Family
from softwright.methods.links import Row, link_head, link_tokens
from softwright.methods.step_bound import (
    MOST,
    PRECISION,
    Asked,
    Bound,
    Group,
    Numbers,
    ball,
    bilinear_bound,
    heads_rounding,
    rational,
    refuse_scaling,
    stated,
    upward,
)
from softwright.precision import precision_of
from softwright.proof.arithmetic.balls import precision
from softwright.result.closed_form import ClosedForm

if TYPE_CHECKING:
    from softwright.methods.network import InContextStack

_RATES = "the rates may exceed the ceiling of the exp link; lower rate_bound or w_bound"


@dataclass(frozen=True)
class Step:
    """The numbers of a link layer and a step layer that are free; all others have been compared."""

    mean: Group
    penalty: Group | None
    sink: float
    argument: dict[str, float]  # of the link, by slot
    slope: dict[str, float]  # the values of the step, by slot
    ceiling: float
    top: float  # V
    roots: tuple[float, ...]  # g_p


@dataclass(frozen=True)
class Range:
    """|s| <= score, s <= highest, |y| <= response."""

    score: float
    highest: float
    response: float


@precision(PRECISION)
def link_error(step: Step, family: Family, within: Range, loss_scale: float, dtype: str) -> tuple[arb, arb, arb]:
    """|G - g(a)| in exact arithmetic, by rounding, and a bound of the computed |G|."""
    arithmetic = precision_of(dtype)
    u = arb(arithmetic.unit)

    def gamma(k: int) -> arb:
        return k * u / (1 - k * u)

    sizes = {"s": ball(within.score), "y": ball(within.response)}
    size = sum((abs(ball(weight)) * sizes[slot] for slot, weight in step.argument.items()), arb(0))
    m = arb(0) if family.link.bounded else ball(step.ceiling)
    width = step.mean.width
    lam = gamma(3 * width + 10) * size + 2 * u * (2 * size + m) + 4 * (arb(arithmetic.exp_error) + 2 * u)
    if not lam < 0.125:
        raise InvalidInput("link_bound", [f"scores are too large for {dtype}; lower w_bound or y_bound"])
    kappa = 2 * gamma(width + 16) / (1 - gamma(width + 16)) + 8 * u
    lost = 64 * arb(arithmetic.exp_floor) * (1 + abs(ball(step.top)))
    moved = off(step.argument, family.argument(Fraction(loss_scale)), sizes)
    if family.link.bounded:
        exact, most = arb(family.link.slope) * moved, arb(1)
        rounding = arb(2 * family.link.score_slope) * lam + kappa + lost
    else:
        top = ball(within.highest) + moved
        if not top <= ball(step.ceiling) - 1:
            raise InvalidInput("link_bound", [_RATES])
        most, grown = ball(within.highest).exp(), moved.exp()
        share = abs(ball(step.top)) * (-m).exp()
        exact = most * (grown * (abs(ball(step.top) * (-m).exp() - 1) + share * (top - m).exp()) + (grown - 1))
        rounding = most * grown * share * ((1 + 2 * lam + 4 * lam**2) * (1 + kappa) - 1) + lost
    return exact, rounding, most + exact + rounding


def off(stored: dict[str, float], ideal: dict[str, Fraction], sizes: dict[str, arb]) -> arb:
    """How far a combination of slots that large is from the ideal one."""
    moved = (abs(rational(Fraction(weight) - ideal[slot])) * sizes[slot] for slot, weight in stored.items())
    return sum(moved, arb(0))


@precision(PRECISION)
def mean_bound(group: Group, wanted: Fraction, sink: float, asked: Asked) -> Bound:
    """|group - wanted * mean(t v)|, half of the keys counting."""
    asked.check_scores(group)
    if not sink >= 4:
        raise InvalidInput("link_bound", [f"counting tokens have the score {sink:g}; build the stack with in_context"])
    rho, B, C = ball(asked.reach), ball(asked.value), abs(rational(wanted))
    eps = (-ball(sink)).exp()
    scales = [Fraction(s) for s in group.scales]
    outputs = [Fraction(o) for o in group.outputs]

    def cauchy(k: int) -> tuple[arb, arb]:
        R = ball(min(float(k), sink - 2.0))
        return R, R.exp() / (1 - eps * R.exp())

    error = 2 * C * eps * rho * B
    for k in range(MOST + 1):
        E = sum((o * s**k for o, s in zip(outputs, scales, strict=True)), start=Fraction(0))
        if k == 0:
            error += abs(rational(E)) * eps * B
        elif k == 1:
            error += abs(rational(E) * eps - rational(wanted)) * (1 + 2 * eps) * rho * B
        elif E:
            R, growth = cauchy(k)
            error += abs(rational(E)) * eps * B * (rho / R) ** k * growth
    R, growth = cauchy(MOST)  # above 1.5 because the sink is, so the series below converges
    for o, s in zip(outputs, scales, strict=True):
        ratio = abs(rational(s)) * rho / R
        error += abs(rational(o)) * eps * B * growth * ratio ** (MOST + 1) / (1 - ratio)
    # What the residual stream adds up, besides C rho B, is the slot and the error.
    return Bound(upward(error), upward(heads_rounding(group, asked, ball(asked.slot) + error, C, sink)))


def read_step(stack: InContextStack, family: Family) -> Step:
    """The link and step layers of a stack, every entry compared with what the analysis presupposes."""
    c = stack.constants
    d, order = c.features, c.order
    slots = Slots(**{name: stop - start for name, (start, stop) in stack.slots.items()})
    _same(slots.places == stack.slots, "slots")
    program = [stack.layer_at(i) for i in range(stack.head, stack.depth - stack.tail)]
    link, step = program[0], program[1]
    repeated = [link, step] * (len(program) // 2)
    _same(len(program) % 2 == 0 and all(a is b for a, b in zip(program, repeated, strict=True)), "program")
    own, one, s = slots.select("x") + slots.select("g"), slots.vector(one=1.0), slots.vector(s=1.0)
    at = {name: place[0] for name, place in slots.places.items()}

    units = ("unit",) if c.penalty > 0 else ()
    _same(link.keys == ("link",) and link.rows == ("data",), "segments of the link layer")
    _same(step.keys == ("data", "count", *units) and {"query", "basis"} <= set(step.rows), "segments of the step layer")
    _same(step.R is None and link.R is not None, "residual maps")
    _equal(link.R, slots.residual(("G", "G", 0.0)), "link.R")

    _same(link.heads == 1 and link.Wq.shape[2] == 3, "number of heads of the link layer")
    argument = {slot: float(link.Wq[0, at[slot], 1]) for slot in family.argument(Fraction(c.loss_scale))}
    _heads(link, [link_head(slots, "link", slots.vector(**argument), "G")])

    count = len(step.Wq)
    _same(count == 2 * order * (1 + len(units)) and step.Wq.shape[2] == 3 + own.shape[1], "number of heads")
    sink = float(step.Wk[0, at["count"], 2])
    slope = {slot: float(step.Wv[0, at[slot], 0]) for slot in family.slope(Fraction(c.loss_scale))}
    V = slots.vector(**slope)
    expected, scales, outputs = [], [], []
    for h in range(count):
        mean = h < 2 * order
        flags = {"data": 1.0, "count": 1.0} if mean else {"pen": 1.0}
        pairs = [(one, OMEGA * (slots.vector(**flags) - one))]
        if mean:
            pairs += [(one, slots.vector(log_weight=1.0)), (one, slots.vector(count=sink))]
        scales.append(float(step.Wq[h, at["x"], len(pairs)]))
        outputs.append(float(step.Wo[h, 0, at["s"]]))
        pairs.append((scales[-1] * own, slots.select("x" if mean else "g")))
        expected.append(head(pairs, V if mean else s, outputs[-1] * s))
    _heads(step, expected)

    top, ceiling = float(_tensor(stack, "base_link")[0, at["value"]]), float(_tensor(stack, "base_link")[1, at["bias"]])
    unit_tokens = _tensor(stack, "base_unit")
    roots = tuple(float(unit_tokens[2 * p, at["g"] + p]) for p in range(d))
    _tokens(stack, slots, link, step, family.link.tokens(ceiling, top), roots if units else ())
    size = step.Wq.shape[1], step.heads * step.Wv.shape[2]
    groups = [Group(tuple(scales[i : i + 2 * order]), tuple(outputs[i : i + 2 * order]), *size) for i in (0, 2 * order)]
    return Step(groups[0], groups[1] if units else None, sink, argument, slope, ceiling, top, roots)


def _heads(layer: StackLayer, expected: list[HeadWeights]) -> None:
    _same(layer.heads == len(expected), f"number of heads of the {layer.label} layer")
    for name in ("Wq", "Wk", "Wv", "Wo"):
        tensor = getattr(layer, name)
        for h, one in enumerate(expected):
            wanted = np.zeros(tuple(tensor.shape[1:]))
            block = getattr(one, name)
            wanted[: block.shape[0], : block.shape[1]] = block
            _equal(tensor[h], wanted, f"{layer.label}.{name}, head {h}")


def _tokens(
    stack: InContextStack,
    slots: Slots,
    link: StackLayer,
    step: StackLayer,
    links: list[Row],
    roots: tuple[float, ...],
) -> None:
    """Embeddings and constant tokens, in the coordinates that the two layers read."""
    d, constant = stack.features, stack.constants.intercept
    read = np.zeros(slots.width, dtype=bool)
    for layer in (link, step):
        for tensor in (layer.Wq, layer.Wk, layer.Wv):
            read |= (tensor != 0).any(dim=2).any(dim=0).numpy()
    x, one = slots.places["x"][0], slots.vector(one=1.0)
    ones = np.zeros(slots.width)
    ones[x + d : x + d + int(constant)] = 1.0
    features, both = np.zeros((d + 2, slots.width)), np.zeros((d + 2, slots.width))
    features[:d, x : x + d] = np.eye(d)
    both[d + 1] = slots.vector(log_weight=1.0)
    rows = features + both
    rows[d] = slots.vector(y=1.0)
    basis = np.tile(one, (d, 1))
    basis[:, x : x + d] += np.eye(d)
    expected = {
        "base_data": (one + slots.vector(data=1.0) + ones)[None],
        "embed_data": rows,
        "base_count": (one + slots.vector(count=1.0))[None],
        "embed_count": both,
        "base_query": (one + ones)[None],
        "embed_query": features,
        "base_basis": basis,
        "base_link": link_tokens(slots, "link", links),
    }
    for name, wanted in expected.items():
        tensor = _tensor(stack, name)
        _same(tuple(tensor.shape) == wanted.shape, name)
        _equal(tensor[:, read], wanted[:, read], name)
    _equal(stack.read_coefficient, slots.vector(s=1.0), "read_coefficient")
    unit_tokens = _tensor(stack, "base_unit")
    if roots:
        g = slots.places["g"][0]
        unit = np.tile(one, (2 * (d + int(constant)), 1))
        unit[: 2 * d] += slots.vector(pen=1.0)  # the constant pays no penalty, so its tokens are never read
        for p in range(d + int(constant)):
            root = roots[min(p, d - 1)]
            unit[2 * p, g + p], unit[2 * p + 1, g + p] = root, -root
        _same(tuple(unit_tokens.shape) == unit.shape, "base_unit")
        _equal(unit_tokens[:, read], unit[:, read], "base_unit")


def _above(x: arb) -> float:
    """A float above the ball, of either sign."""
    return float(np.nextafter(float(x.upper()), np.inf))


def _tensor(stack: InContextStack, name: str) -> Tensor:
    return stack.get_buffer(name)


def _equal(tensor: Tensor | None, wanted: np.ndarray, what: str) -> None:
    _same(tensor is not None and bool(np.array_equal(tensor.double().numpy(), wanted)), what)


def _same(good: bool, what: str) -> None:
    if not good:
        raise InvalidInput(
            "link_bound", [f"{what}: not the weights of a gradient step; build the stack again with in_context"]
        )


@precision(PRECISION)
def link_certificate(stack: InContextStack, target: dict[str, Any], family: Family) -> ClosedForm:
    """One gradient step of a generalised linear model against the exact step, for all prompts within the norms."""
    started = time.monotonic()
    c = stack.constants
    refuse_scaling(c)
    constant, X, Y, W, eta = int(c.intercept), c.x_bound, c.y_bound, c.w_bound, c.eta
    step = read_step(stack, family)
    arithmetic = precision_of(c.dtype)
    unit, smallest = arb(arithmetic.unit), arb(arithmetic.smallest)
    score = upward(ball(W) * (ball(X) ** 2 + constant).sqrt() * (1 + 2 * unit))
    highest = score
    if not family.link.bounded:
        highest = min(score, _above(ball(c.rate_bound).log() + 2 * unit * ball(score)))
    exact_link, rounding_link, most = link_error(step, family, Range(score, highest, Y), c.loss_scale, c.dtype)
    ideal = family.slope(Fraction(c.loss_scale))
    largest_link = arb(1) if family.link.bounded else ball(highest).exp()
    factor, sizes = abs(ball(step.slope["G"])), {"G": most, "y": ball(Y), "data": arb(1)}
    value = sum((abs(ball(weight)) * sizes[slot] for slot, weight in step.slope.items()), arb(0))
    stored = off(step.slope, ideal, sizes | {"G": largest_link})
    keys = 2 * c.max_rows + 2 * (c.features + constant)
    root = arb(0) if step.penalty is None else max((abs(ball(r)).abs_upper() for r in step.roots), key=float)
    bounds = {}
    for name in ("coefficient", "prediction"):
        size = arb(1) if name == "coefficient" else ball(X)  # |x| of the token that asks, without the constant
        reach = ball(X) if name == "coefficient" else ball(X) ** 2 + constant
        slot = W if name == "coefficient" else score
        values = upward(value + ball(score) * (1 + root))
        numbers = Numbers(upward(ball(X) + ball(Y) + 2 * root + 2 * ball(values) + abs(ball(step.sink)) + 2), values)
        asked = Asked(upward(reach), upward(value), keys, c.dtype, slot, numbers)
        part = mean_bound(step.mean, -Fraction(eta), step.sink, asked)
        exact, rounding = arb(part.exact), arb(part.rounding)
        exact += ball(eta) * reach * (factor * exact_link + stored)
        rounding += ball(eta) * reach * factor * rounding_link
        if name == "prediction":
            rounding += unit * ball(score)  # what the query carries
        if step.penalty is not None:
            carried = root * ball(W) * unit + smallest  # the one rounding of what unit tokens carry
            unit_asked = replace(asked, reach=upward(root * size), value=upward(root * ball(W) + carried))
            other = bilinear_bound(step.penalty, -Fraction(eta) * c.features, unit_asked)
            squares = max(abs(Fraction(r) ** 2 - Fraction(c.penalty)) for r in step.roots)
            exact += arb(other.exact) + ball(eta) * rational(squares) * size * ball(W)
            rounding += arb(other.rounding) + ball(eta) * c.features * root * size * carried
        bounds[name] = Bound(upward(exact), upward(rounding))
    best = bounds["coefficient"]
    largest = upward(ball(eta) * ball(X) * value)
    rates = "" if family.link.bounded else f", rates e^s <= {c.rate_bound:g}"
    return stated(
        stack,
        target,
        started,
        statement=f"each coefficient after one gradient step of {c.method} against the exact step, for all prompts of "
        f"up to {c.max_rows} rows of weight 1 with |x| <= {X:g} (after centring) and |y| <= {Y:g}, "
        f"|(w, b)| <= {W:g}{rates}",
        bound=best,
        method="exact two-token links, Richardson weights, Cauchy's estimate and a rounding analysis of the heads",
        quantities={
            "step_size": eta,
            "order": float(c.order),
            "link_error": upward(exact_link + rounding_link),
            "largest_step": largest,
            "relative_to_largest_step": best.total / largest,
            "prediction_bound": bounds["prediction"].total,
        },
    )
