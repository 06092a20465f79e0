"""Gates proved again: products, values times exponentials, and maxima with 0, from heads of a token and the null token.

A gate's token is found by its place, with a score of exactly 0; the null token scores -s, and the column gets g w z
with a weight w near sigma(s). u unit roundoff, e relative error of exp, f what exp may lose, n data tokens.

**Weights.** The running maximum changes at most twice on its way (null token, other data tokens at -2 PENALTY or below,
the token), and where it does not change exp(0) = 1 rescales nothing: eta = (1 + e)^3 (1 + u)^3 - 1, the weight errs by
2 eta (1 + eta)/(1 - eta)^2 (1 - sigma(s)) relatively, and at most 12 + H roundings follow in a column of H heads.
(More changes are possible only where s > 2 PENALTY: then 1 - sigma(s) < e^-128 leaves nothing to charge.)

**Products.** With a_q the factor of u in s_q, |a_q (u - c)| <= WIDEST < pi, V >= |u - c|,

    |z (u - c) - sum g_q (sigma(a_q (u - c)) - 1/2) z| <= |z| (|1 - sum g_q a_q/4| V + sum_k b_k V^(2k+1)),
    b_k = (2/pi)^(2k+2) pi^4/96 |sum g_q (a_q/2)^(2k+1)|          (tanh's series; see composition/kinds/product.py),

and the head without a score adds (c - sum g_q/2) z. u is what s_1 says in the run: u - c = s_1/a_1; other scores are
multiples of s_1 but for differences of weights, which are charged. The square of a form of two terms at most, factors
powers of two, is computed relatively to its root, as the form is rounded once (`roots.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb, ctx

from softwright.checker.programs.bounds import PENALTY, Bounds, as_ball, over
from softwright.checker.programs.conditions import cases_of, literals_of
from softwright.checker.programs.lines import BANK, DEFAULT, NULL, ONE, HeadLine
from softwright.checker.programs.roots import Root, power_of_two
from softwright.checker.programs.state import Combination, Held, State, times
from softwright.checker.refusal import require

Form = dict[int, Fraction]
ZERO = Fraction(0)
TERMS, WIDEST, MOST_HEADS, BITS = 40, Fraction(5, 2), 9, 240


class Gate:
    """A head of a token and the null token, its weights accounted for; `score` is None where it has none."""

    def __init__(self, state: State, head: HeadLine) -> None:
        graph = state.graph
        place = graph.make("position")
        wanted = next(iter(cases_of(state, frozenset([("equal", place, place)]))))
        require(not head.causal and len(head.writes) == 1, "a gate is damaged")
        require(literals_of(state, head.where, head.layer) == wanted, "a gate looks at other tokens than its own")
        self.state, self.head, self.column = state, head, head.writes[0]
        bits = len(head.where[0][1])
        require(head.query.shape[1] >= bits + 1, "a gate has too few dimensions")
        query, key = np.zeros(head.query.shape), np.zeros(head.key.shape)
        for d, (mine, other) in enumerate(zip(head.where[0][1], head.where[0][2], strict=True)):
            query[other, d], key[mine, d] = float(PENALTY), 1.0
        self.score: Form | None = None
        last = bits
        if head.key[NULL, bits] == 1.0 and head.query.shape[1] >= bits + 2:
            key[NULL, bits] = 1.0
            query[:, bits] = head.query[:, bits]
            self.score = {k: -c for k, c in state.form(head.query[:, bits]).items()}
            last = bits + 1
        shut = -float(head.key[BANK, last])
        query[ONE, last] = 1.0
        key[ONE, last] = -float(PENALTY * bits)
        key[[BANK, DEFAULT], last] = -shut
        key[NULL, last] = 0.0 if self.score is not None else -shut
        good = np.array_equal(query, head.query) and np.array_equal(key, head.key)
        require(good, "a gate's weights are not what they must be")
        junk = sum((state.at_bank[k] for k in head.where[0][1]), ZERO) * PENALTY
        require(Fraction(shut) >= 2 * junk + 16 * PENALTY * (bits + 1) + 4096, "tokens of the bank are not shut out")
        require(PENALTY * (2 * bits + 4) < 1 / state.bounds.u / 2, "scores are too large to be exact")
        value, out = np.zeros(head.value.shape), np.zeros(head.out.shape)
        value[:, 0], out[0, self.column] = head.value[:, 0], head.out[0, self.column]
        require(np.array_equal(value, head.value) and np.array_equal(out, head.out), "a gate writes more than it says")
        self.value, self.factor = state.form(head.value[:, 0]), Fraction(float(head.out[0, self.column]))
        require(state.layer_of({**self.value, **(self.score or {})}) < head.layer, "a gate reads what is not there yet")


def gate_error(bounds: Bounds, heads: int, least: arb) -> arb:
    """Relative error of g w z, for weights of at least this in a column of so many heads."""
    e, u = as_ball(bounds.e), as_ball(bounds.u)
    eta = (1 + e) ** 3 * (1 + u) ** 3 - 1
    return (1 + 2 * eta * (1 + eta) / (1 - eta) ** 2 * (1 - least)) * (1 + u) ** (12 + heads) - 1


def lost(bounds: Bounds, factors: Fraction) -> Fraction:
    """What others and underflow may add, for each unit of value and one; `factors` is the sum of |g|."""
    return factors * (bounds.data * bounds.weight(2 * PENALTY) + 16 * bounds.f) + 16 * bounds.f


def own_error(state: State, form: Form) -> Fraction:
    return sum((abs(c) * state.held[k].error for k, c in form.items()), ZERO)


def rounded(state: State, form: Form) -> Fraction:
    """What computing a form from the columns as they run loses."""
    return max(state.rounding(form) - own_error(state, form), ZERO)


def prove_gates(state: State, column: int, kind: str, heads: Sequence[HeadLine]) -> None:
    """All gates of one column together."""
    line = state.said[column]
    require(line.kind == "real" and line.leaves is None, "a gate holds what it cannot")
    gates = [Gate(state, head) for head in heads]
    require(len({head.layer for head in heads}) == 1 and len(gates) <= MOST_HEADS, "gates of one column differ")
    with ctx.workprec(BITS):
        error = {"product": _product, "exponential": _exponential, "maximum": _maximum}[kind](state, line.value, gates)
    error += sum((state.stray(gate.value, gate.factor) for gate in gates), ZERO)
    kinds = state.ranges.of(line.value)
    root = _square(state, line.value, gates) if kind == "product" else None
    state.held[column] = Held(kinds.low, kinds.high, False, error, heads[0].layer, root)


def _factor(meant: Combination, wanted: Combination) -> Fraction:
    """Which multiple of what is wanted a score is, the constant apart."""
    keys = [key for key in wanted if key != "" and key in meant]
    require(bool(keys), "a score does not mean what it should")
    key = max(keys, key=lambda one: abs(wanted[one]))
    return meant[key] / wanted[key]


@dataclass(frozen=True)
class Parts:
    """The gates of a product: the form z and how it is known; what gates err by for each unit of |z|, and the rest."""

    z: Form
    relative: Fraction
    heavy: Fraction
    lost: Fraction
    off_u: Fraction
    off_z: Fraction
    slope: Fraction
    center: Fraction


def _parts(state: State, value: int, gates: list[Gate]) -> Parts:
    graph, bounds = state.graph, state.bounds
    require(graph.op[value] == "mul", "a product of what is none")
    first, second = graph.args[value]
    scored, plain = [g for g in gates if g.score is not None], [g for g in gates if g.score is None]
    require(len(plain) == 1 and len(scored) >= 1, "a product has other heads than it needs")
    z = scored[0].value
    require(all(gate.value == z for gate in gates), "heads of one product have different values")
    scores = [gate.score or {} for gate in scored]
    wanted, meant = state.combination(second), state.meant(scores[0])
    slope = _factor(meant, wanted)
    center = wanted.get("", ZERO) - meant.get("", ZERO) / slope
    apart = state.apart(meant, times(wanted, slope, -slope * center))
    off_u = (apart + own_error(state, scores[0])) / abs(slope)
    kind_u = state.ranges.of(second)
    reach = max(abs(kind_u.high - center), abs(kind_u.low - center)) + off_u
    off_z = own_error(state, z) + state.apart(state.meant(z), state.combination(first))
    factors, slopes, shaken = [gate.factor for gate in scored], [], ZERO
    for gate, score in zip(scored, scores, strict=True):
        ratio = _factor({k: c for k, c in score.items() if k != ONE}, {k: c for k, c in scores[0].items() if k != ONE})
        slopes.append(slope * ratio)
        rest = {k: score.get(k, ZERO) - ratio * scores[0].get(k, ZERO) for k in {*score, *scores[0]}}
        shaken += abs(gate.factor) * (state.size(rest) + rounded(state, score)) / 4
    top = max(map(abs, slopes)) * reach
    require(top <= WIDEST, "a product's gates are asked for too much")
    error = as_ball(_missed(factors, slopes, reach))
    offset, total = plain[0].factor, sum(map(abs, factors), ZERO)
    error += as_ball(abs(offset - center + sum(factors, ZERO) / 2))
    weight = 1 / (1 + (-as_ball(top)).exp())
    error += gate_error(bounds, len(gates), 1 - weight) * as_ball(total) * weight
    error += as_ball(abs(offset)) * (gate_error(bounds, len(gates), arb(1)) + as_ball(bounds.gamma(4)))
    error += as_ball(shaken)
    heavy = total + abs(offset)
    return Parts(z, over(error), heavy, lost(bounds, heavy), off_u, off_z, slope, center)


def _product(state: State, value: int, gates: list[Gate]) -> Fraction:
    parts, (first, second) = _parts(state, value, gates), state.graph.args[value]
    kind_u, kind_z = state.ranges.of(second), state.ranges.of(first)
    rounded_z = rounded(state, parts.z)
    size = kind_z.largest + parts.off_z
    own = parts.relative * (size + rounded_z) + 2 * parts.heavy * rounded_z + parts.lost * (1 + size + rounded_z)
    return own + kind_z.largest * parts.off_u + kind_u.largest * parts.off_z + parts.off_u * parts.off_z


def _square(state: State, value: int, gates: list[Gate]) -> Root | None:
    """How near to 0 a square comes: scores follow the values column by column, and these are rounded once."""
    first, second = state.graph.args[value]
    with ctx.workprec(BITS):
        parts = _parts(state, value, gates) if first == second else None
    if parts is None or len(parts.z) > 2 or not all(power_of_two(c) for c in parts.z.values()):
        return None
    score = next(gate.score for gate in gates if gate.score is not None)
    rest = {k: score.get(k, ZERO) - parts.slope * parts.z.get(k, ZERO) for k in {*score, *parts.z, ONE}}
    rest[ONE] += parts.slope * parts.center
    away = state.size(rest) / abs(parts.slope)  # of what scores say from what is squared
    u, stray = state.bounds.u, sum((state.stray(gate.value, gate.factor) for gate in gates), ZERO)
    eta = (parts.relative + away + parts.lost) * (1 + u) + 2 * parts.heavy * u
    tiny = Fraction(state.bounds.precision.smallest) * 16 * (1 + parts.heavy)
    top = (state.ranges.of(first).largest + parts.off_z) ** 2
    return Root(eta, parts.lost + stray + tiny, parts.off_z, top)


def _missed(factors: list[Fraction], slopes: list[Fraction], reach: Fraction) -> Fraction:
    """The lemma of products, relative to |z|."""
    g, a, far = [as_ball(x) for x in factors], [as_ball(x) for x in slopes], as_ball(reach)
    total = abs(1 - sum((x * y for x, y in zip(g, a, strict=True)), arb(0)) / 4) * far
    for k in range(1, TERMS):
        size = (2 / arb.pi()) ** (2 * k + 2) * arb.pi() ** 4 / 96
        moment = abs(sum((x * (y / 2) ** (2 * k + 1) for x, y in zip(g, a, strict=True)), arb(0)))
        total += size * moment * far ** (2 * k + 1)
    step = as_ball(max(map(abs, slopes))) * far / arb.pi()
    heavy = sum(map(abs, g), arb(0))
    return over(total + heavy * step ** (2 * TERMS + 1) * arb.pi() ** 3 / 96 / (1 - step**2) * 2)


def _exponential(state: State, value: int, gates: list[Gate]) -> Fraction:
    graph, bounds = state.graph, state.bounds
    require(len(gates) == 1 and gates[0].score is not None, "an exponential is one gate")
    gate, score = gates[0], gates[0].score or {}
    one, op = graph.number(1), graph.op[value]
    choices = [(one, graph.args[value][0])] if op == "map:exp" else []
    if op == "mul":
        for z, other in (graph.args[value], graph.args[value][::-1]):
            if graph.op[other] == "map:exp":
                choices.append((z, graph.args[other][0]))
    found: list[Fraction] = []
    for z, power in choices:
        wanted, meant = state.combination(power), state.meant(score)
        shift = wanted.get("", ZERO) - meant.get("", ZERO)
        keys = {*wanted, *meant} - {""}
        if any((wanted.get(key, ZERO) == 0) != (meant.get(key, ZERO) == 0) for key in keys):
            continue
        delta = state.off(score, times(wanted, Fraction(1), -shift))
        require(delta < 2, "an exponent is not known well enough")
        kind, size = state.ranges.of(power), state.ranges.of(z).largest
        off = state.off(gate.value, state.combination(z))
        grown = as_ball(kind.high).exp()
        real = as_ball(kind.high + delta - shift).exp() + abs(as_ball(gate.factor) / as_ball(shift).exp() - 1)
        relative = (1 + real) * (1 + gate_error(bounds, 1, arb(0))) * as_ball(delta).exp() - 1
        least = as_ball(kind.low - delta - shift).exp()
        require(least > as_ball(bounds.f) * 2**10, "a weight may be lost")
        error = over(relative * grown) * (size + off) + over(grown) * off
        found.append(error + lost(bounds, abs(gate.factor)) * (1 + size + off))
    require(bool(found), "an exponential of what is none")
    return min(found)


def _maximum(state: State, value: int, gates: list[Gate]) -> Fraction:
    graph, bounds = state.graph, state.bounds
    require(graph.op[value] == "max" and graph.args[value][1] == graph.number(0), "a maximum of what is none")
    require(len(gates) == 1 and gates[0].score is not None and gates[0].factor == 1, "a maximum is one gate")
    gate, score, inner = gates[0], gates[0].score or {}, graph.args[value][0]
    wanted = state.combination(inner)
    keys = {k: c for k, c in gate.value.items() if k != ONE}
    slope = _factor({k: c for k, c in score.items() if k != ONE}, keys)
    require(slope > 0, "a score falls where it should grow")
    rest = {k: score.get(k, ZERO) - slope * gate.value.get(k, ZERO) for k in {*score, *gate.value}}
    own = own_error(state, gate.value) + state.apart(state.meant(gate.value), wanted)
    moved = 2 * (state.size(rest) + rounded(state, score)) / slope + rounded(state, gate.value)
    size = state.ranges.of(inner).largest + own + moved
    error = over(arb(-1).exp().lambertw() / as_ball(slope)) + moved + own
    return error + over(gate_error(bounds, 1, arb(0))) * size + lost(bounds, Fraction(1)) * (1 + size)
