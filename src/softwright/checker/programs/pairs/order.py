"""The order of real numbers proved again: one head with the scores B ((2 i - n + 1) x_j - sum_k |x_j - x_k|).

f(t) = sum_k |t - x_k| - (2 p - n + 1) t rises by at least |t - x_(p)| away from x_(p): to its right p + 1 or more of
the x_k are at or below t, to its left n - p or more at or above. So tokens at a distance D weigh at most
e^(-B D + 2 delta) of one that is x_(p), and the mean is off by at most W0((n - 1) e^(2 delta - 1))/B, whatever ties
there are.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from softwright.checker.programs.attending import Scores
from softwright.checker.programs.bounds import as_ball, over
from softwright.checker.programs.lines import HeadLine
from softwright.checker.programs.pairs.products import modulus
from softwright.checker.programs.state import Held, State, times
from softwright.checker.refusal import require


def prove_order(state: State, head: HeadLine) -> None:
    """The column of sorted real numbers."""
    graph, bounds = state.graph, state.bounds
    require(len(head.writes) == 1 and not head.where and not head.causal, "a head is damaged")
    column = head.writes[0]
    line = state.said[column]
    require(column not in state.held and line.kind == "real" and line.leaves is None, "a head holds what it cannot")
    require(graph.op[line.value] == "sort", "a head of another kind than its column")
    value, key = graph.args[line.value]
    require(value == key and not state.ranges.of(value).whole, "real numbers are sorted by themselves alone")
    out, values = np.zeros(head.out.shape), np.zeros(head.value.shape)
    out[0, column], values[:, 0] = 1.0, head.value[:, 0]
    require(np.array_equal(out, head.out) and np.array_equal(values, head.value), "a head writes more than it says")
    form = state.form(head.value[:, 0])
    require(state.layer_of(form) < head.layer, "a head reads what is not there yet")
    scores = Scores(state, head)
    apart = graph.make("sub", graph.make("j", value), graph.make("i", value))
    away = graph.make("sum", modulus(graph, apart), graph.number(1))
    sharpness = -scores.meant.get(("", away), Fraction(0))
    require(sharpness > 0, "a score falls where it should grow")
    rank = {graph.make("position"): Fraction(2), graph.make("length"): Fraction(-1), "": Fraction(1)}
    wanted = {("", away): -sharpness}
    for mine, factor in rank.items():
        for other, number in times(state.combination(value), factor * sharpness).items():
            if other != "":
                wanted[mine, other] = wanted.get((mine, other), Fraction(0)) + number
    delta = scores.error({pair: c for pair, c in wanted.items() if c})
    require(delta < 1000, "real numbers are not known well enough to be put in order")
    off = Fraction(0)
    if bounds.data > 1:
        off = over((as_ball(bounds.data - 1) * (2 * as_ball(delta) - 1).exp()).lambertw() / as_ball(sharpness))
    kind, own = state.ranges.of(value), state.off(form, state.combination(value))
    error = off + bounds.average(kind.largest, own) + state.stray(form)
    state.held[column] = Held(kind.low, kind.high, False, error, head.layer)
