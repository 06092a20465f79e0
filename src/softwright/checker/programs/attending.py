"""Heads with scores of both tokens proved again: means with weights exp(score), and values at the largest score.

The dimensions of a head are read as they are: query form times key form, each a combination of values. Their sum must
be the score of the program but for what token i has alone, which changes no weight; the score is expanded into products
here, a second time.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from softwright.checker.programs.bounds import PENALTY, exp_below
from softwright.checker.programs.lines import BANK, DEFAULT, NULL, ONE, HeadLine
from softwright.checker.programs.polynomials import expand
from softwright.checker.programs.state import Combination, Held, State
from softwright.checker.refusal import require

Pairs = dict[tuple[Any, Any], Fraction]  # (key of token i, key of token j) -> factor; "" is the constant 1
ZERO = Fraction(0)


def joined(state: State, factors: tuple[int, ...]) -> Combination:
    if not factors:
        return {"": Fraction(1)}
    found = factors[0]
    for factor in factors[1:]:
        found = state.graph.make("mul", found, factor)
    return state.combination(found)


def add(total: Pairs, mine: Combination, other: Combination, factor: Fraction) -> None:
    for a, x in mine.items():
        for b, y in other.items():
            if b != "":  # else the same for all tokens j
                total[a, b] = total.get((a, b), ZERO) + factor * x * y


def _unit(form: dict[int, Fraction]) -> int:
    return max((c.denominator for c in form.values()), default=1)


class Scores:
    """The scores of a head: what they mean, how large they are and how far a run is off."""

    def __init__(self, state: State, head: HeadLine) -> None:
        self.state = state
        last = int(np.flatnonzero(head.key[BANK] != 0)[0]) if head.key[BANK].any() else -1
        require(last >= 0, "tokens of the bank are not shut out")
        shut = -Fraction(float(head.key[BANK, last]))
        key = head.key.copy()
        for column in (BANK, DEFAULT, NULL):
            require(Fraction(float(key[column, last])) == -shut, "tokens of the bank are not shut out")
            key[column, last] = 0.0
        ask = np.zeros(head.query.shape[0])
        ask[ONE] = 1.0
        require(np.array_equal(head.query[:, last], ask), "what token j has alone is not asked for as it is")
        require(not head.query[:, last + 1 :].any() and not key[:, last + 1 :].any(), "a head has more dimensions")
        self.meant: Pairs = {}
        self.size = self.off = junk = ZERO
        whole, unit = True, 1  # scores as whole multiples of 1/unit: sums of such are exact while they are small
        for d in range(last + 1):
            query, keys = state.form(head.query[:, d]), state.form(key[:, d])
            require(state.layer_of({**query, **keys}) < head.layer, "a head reads what is not there yet")
            whole = whole and state.is_exact(query) and state.is_exact(keys)
            unit = max(unit, _unit(query) * _unit(keys))
            sizes, errors = (state.size(query), state.size(keys)), (state.rounding(query), state.rounding(keys))
            if d == last:
                sizes, errors = (Fraction(1), sizes[1]), (ZERO, errors[1])
            self.off += sizes[0] * errors[1] + sizes[1] * errors[0] + errors[0] * errors[1]
            self.size += (sizes[0] + errors[0]) * (sizes[1] + errors[1])
            junk += (sizes[0] + errors[0]) * sum((abs(c) * state.at_bank[k] for k, c in keys.items()), ZERO)
            add(self.meant, state.meant(query), state.meant(keys), Fraction(1))
        if not (whole and self.size * unit < 1 / state.bounds.u / 2):
            self.off += state.bounds.gamma(last + 5) * self.size
        require(shut >= 2 * junk + 4 * self.size + 8 * PENALTY + 4096, "tokens of the bank are not shut out")

    def error(self, wanted: Pairs) -> Fraction:
        """How far scores are from these, up to what is the same for all tokens j."""
        apart = ZERO
        for pair in {*wanted, *self.meant}:
            rest = wanted.get(pair, ZERO) - self.meant.get(pair, ZERO)
            if rest:
                apart += abs(rest) * self._largest(pair[0]) * self._largest(pair[1])
        return apart + self.off + self.state.bounds.soft(2 * self.size + PENALTY)

    def _largest(self, key: Any) -> Fraction:
        if key == "":
            return Fraction(1)
        require(isinstance(key, int), "a score reads digits or bits")
        return self.state.ranges.of(key).largest


def prove_attending(state: State, head: HeadLine) -> None:
    """The column of a head with scores of both tokens."""
    graph, bounds = state.graph, state.bounds
    require(len(head.writes) == 1 and not head.where, "a head is damaged")
    column = head.writes[0]
    line = state.said[column]
    require(column not in state.held and line.kind == "real" and line.leaves is None, "a head holds what it cannot")
    require(graph.op[line.value] == head.kind, "a head of another kind than its column")
    args = graph.args[line.value]
    require(head.causal == (head.kind == "attend" and len(args) == 3), "a head looks at other tokens than it should")
    out, values = np.zeros(head.out.shape), np.zeros(head.value.shape)
    out[0, column], values[:, 0] = 1.0, head.value[:, 0]
    require(np.array_equal(out, head.out) and np.array_equal(values, head.value), "a head writes more than it says")
    form = state.form(head.value[:, 0])
    require(state.layer_of(form) < head.layer, "a head reads what is not there yet")
    scores, wanted = Scores(state, head), {}
    for (mine, other), factor in expand(graph, args[1]).items():
        add(wanted, joined(state, mine), joined(state, other), factor)
    wanted = {pair: c for pair, c in wanted.items() if c}
    kind, off = state.ranges.of(args[0]), state.off(form, state.combination(args[0]))
    error = bounds.average(kind.largest, off) + state.stray(form)
    spread = kind.high - kind.low + 2 * off
    if head.kind == "attend":
        error += 2 * scores.error(wanted) * spread
    else:
        pair = next((pair for pair in wanted if pair in scores.meant), None)
        require(pair is not None, "a score does not mean what it should")
        sharpness = scores.meant[pair] / wanted[pair] if pair is not None else ZERO
        require(sharpness > 0, "a score falls where it should grow")
        delta = scores.error({one: sharpness * c for one, c in wanted.items()})
        lead = sharpness * graph.constant[args[2]] - 2 * delta
        require(lead > 0, "a margin is lost in rounding")
        error += (bounds.data - 1) * exp_below(lead) * spread
    state.held[column] = Held(kind.low, kind.high, False, error, head.layer)
