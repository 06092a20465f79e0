"""Heads with known weights proved again: sums over j of c(i) w(j) v(j), beside a null token.

A token scores log b(j), the null token h - log a(i), with a = max(c/P, tau), b = max(w/Q, tau) for one sign of c and
of w each; the head writes f times its mean, f near e^h P Q. So it is f e^-h a b v / Z with 0 <= Z - 1 <= n e^-h, and

    |a b - (c/P)+ (w/Q)+| <= 3 tau,        a, b <= 1 + 2^-60.

All signs that occur have a head; of a sign that has none, what it could bring is charged. Scores are single columns, or
whole numbers: none is a sum that rounds. The null token is the first and largest, so two exps are charged.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from flint import arb

from softwright.checker.programs.bounds import PENALTY, over
from softwright.checker.programs.conditions import cases_of, literals_of
from softwright.checker.programs.lines import BANK, DEFAULT, NULL, ONE, HeadLine
from softwright.checker.programs.plain import is_upto
from softwright.checker.programs.state import Combination, Held, State
from softwright.checker.refusal import require

Form = dict[int, Fraction]
ZERO = Fraction(0)
ROOM = Fraction(1, 2**60)


class Weight:
    """One head, its weights accounted for."""

    def __init__(self, state: State, head: HeadLine, itself: bool) -> None:
        require(len(head.writes) == 1, "a head of known weights writes one column")
        self.state, self.head, self.column = state, head, head.writes[0]
        place = state.graph.make("position")
        wanted = next(iter(cases_of(state, frozenset([("equal", place, place)])))) if itself else frozenset()
        require(literals_of(state, head.where, head.layer) == wanted, "weights over other tokens")
        bits = len(head.where[0][1]) if itself else 0
        require(head.query.shape[1] >= bits + 2, "a head of known weights has too few dimensions")
        query, key = np.zeros(head.query.shape), np.zeros(head.key.shape)
        for d in range(bits):
            query[head.where[0][2][d], d], key[head.where[0][1][d], d] = float(PENALTY), 1.0
        query[:, bits], key[NULL, bits] = head.query[:, bits], 1.0
        query[ONE, bits + 1] = 1.0
        weights = head.key[:, bits + 1].copy()
        key[:, bits + 1] = weights
        shut = -Fraction(float(weights[BANK]))
        require(weights[DEFAULT] == weights[BANK] and weights[NULL] == 0, "the null token is not where it must be")
        weights[[BANK, DEFAULT]] = 0.0
        require(weights[ONE] == -float(PENALTY * bits), "a score has a constant that it must not have")
        weights[ONE] = 0.0
        good = np.array_equal(query, head.query) and np.array_equal(key, head.key)
        require(good, "a head's weights are not what they must be")
        self.null, self.key = state.form(head.query[:, bits]), state.form(weights)
        require(not (itself and self.key), "a token has a score of its own")
        junk = sum((abs(c) * state.at_bank[k] for k, c in self.key.items()), ZERO)
        junk += sum((state.at_bank[k] for k in head.where[0][1]), ZERO) * PENALTY if itself else ZERO
        far = 2 * junk + 16 * PENALTY * (bits + 1) + 8 * state.size(self.null) + 4096
        require(shut >= far, "tokens of the bank are not shut out")
        require(PENALTY * (2 * bits + 4) < 1 / state.bounds.u / 2, "scores are too large to be exact")
        for form in (self.null, self.key):
            single = len(form) <= 1 and all(c == 1 or k == ONE for k, c in form.items())
            require(single, "a score is a sum that may be rounded")
        value, out = np.zeros(head.value.shape), np.zeros(head.out.shape)
        value[:, 0], out[0, self.column] = head.value[:, 0], head.out[0, self.column]
        good = np.array_equal(value, head.value) and np.array_equal(out, head.out)
        require(good, "a head of known weights writes more than it says")
        self.value, self.factor = state.form(head.value[:, 0]), Fraction(float(head.out[0, self.column]))
        forms = {**self.value, **self.null, **self.key}
        require(state.layer_of(forms) < head.layer, "a head reads what is not there yet")


def _clipped(state: State, meant: Combination, of: int, sign: int) -> tuple[Fraction, Fraction, Fraction]:
    """(h, s, tau) of h + sign log max(s x, tau), where x is what is weighed by; s is 0 where there is no logarithm."""
    graph, rest = state.graph, dict(meant)
    height = rest.pop("", ZERO)
    if not rest:
        require(graph.quotient(of) == 1, "a weight is not there")
        return height, ZERO, ZERO
    (logarithm, factor), *others = rest.items()
    good = not others and factor == sign and isinstance(logarithm, int) and graph.op[logarithm] == "map:log"
    require(good, "a score is no logarithm of a weight")
    inner = graph.args[logarithm][0]
    require(graph.op[inner] == "max", "a score is no logarithm of a weight")
    product, least = graph.args[inner]
    require(graph.op[product] == "mul" and graph.args[product][1] == of, "a logarithm of another weight")
    scale, tau = graph.quotient(graph.args[product][0]), graph.quotient(least)
    require(bool(scale) and tau is not None and 0 < tau <= Fraction(1, 2**20), "a weight's scale is damaged")
    return height, scale or ZERO, tau or ZERO


def _most(values: Sequence[arb], sign: int) -> Fraction:
    return max(max((over(sign * ball) for ball in values), default=ZERO), ZERO)


def prove_weighed(state: State, column: int, heads: Sequence[HeadLine]) -> None:
    """All heads of one column: every sign of its weights once."""
    graph, bounds, line = state.graph, state.bounds, state.said[column]
    require(line.kind == "real" and line.leaves is None and graph.op[line.value] == "weighed", "weights of no sum")
    value, weight, factor, condition = graph.args[line.value]
    kind = state.ranges.of(line.value)  # refused if the weights are not known, or over other tokens
    itself, causal = condition == state.weigher.itself(), is_upto(graph, condition)
    read = [Weight(state, head, itself) for head in heads]
    require(all(head.causal == causal and head.layer == heads[0].layer for head in heads), "weights over other tokens")
    require(all(one.value == read[0].value for one in read), "heads of one column have different values")
    count = 1 if itself else bounds.data
    own = state.off(read[0].value, state.combination(value))
    size = state.ranges.of(value).largest + own
    listed = [list(state.weigher.listed(one).values()) for one in (factor, weight)]
    present: set[tuple[int, int]] = set()
    clamped = error = rho = ZERO
    for one in read:
        height, c_scale, c_tau = _clipped(state, state.meant(one.null), factor, -1)
        level, w_scale, w_tau = _clipped(state, state.meant(one.key), weight, 1)
        require(level == 0 and height >= 8, "the null token is not the largest")
        c_scale, w_scale = c_scale or Fraction(1), w_scale or Fraction(1)
        signs = (1 if c_scale > 0 else -1), (1 if w_scale > 0 else -1)
        require(signs not in present, "a sign has two heads")
        present.add(signs)
        for scale, sign, values in zip((c_scale, w_scale), signs, listed, strict=True):
            require(abs(scale) * _most(values, sign) <= 1 + ROOM, "a weight is larger than its scale says")
        across = 1 / abs(c_scale * w_scale)
        outer = one.factor * signs[0] * signs[1] / across
        require(outer > 0, "a head has the wrong sign")
        delta = state.rounding(one.null) + state.rounding(one.key)
        delta += 2 * bounds.u * (state.size(one.null) + state.size(one.key))
        require(delta < 1, "scores are not known well enough")
        rho = max(rho, bounds.weighed(count, outer, height, delta))
        clamped += 3 * max(c_tau, w_tau) * count * across
        others = bounds.all * (bounds.weight(height) * bounds.weight(2 * PENALTY) + 4 * bounds.f)
        error += abs(one.factor) * others * size + state.stray(one.value, one.factor)
    sides = [{pair[k] for pair in present} for k in (0, 1)]
    require(present == {(a, b) for a in sides[0] for b in sides[1]}, "a sign has no head")
    for k in (0, 1):
        largest = max(_most(listed[1 - k], 1), _most(listed[1 - k], -1))
        clamped += sum((count * _most(listed[k], sign) * largest for sign in {1, -1} - sides[k]), ZERO)
    mass = state.weigher.mass(line.value) + clamped
    error += clamped * size + mass * (size * rho + own)
    error += bounds.gamma(len(read) + 4) * (mass * size + error)
    state.held[column] = Held(kind.low, kind.high, False, error, heads[0].layer)
