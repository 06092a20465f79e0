"""Places of largest scores proved again, one after the other; tokens that were taken before are shut out.

Scores are B s_ij and, for every place p that was taken, -P/4 times the product of the marks of p and of token j, over
all places k. A mark is 2 [p = k] - 1, and [j = k] holds for exactly one k: together they are -P [j = p] + P/2, and what
token i has alone. P >= B (range of s + margin): a token that was taken is below all others by more than the margin.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from softwright.checker.programs.attending import Pairs, Scores, add, expand, joined
from softwright.checker.programs.bounds import exp_below
from softwright.checker.programs.lines import HeadLine
from softwright.checker.programs.state import Held, State
from softwright.checker.refusal import require


def prove_place(state: State, head: HeadLine) -> None:
    """The column near the place of a largest score."""
    graph, bounds = state.graph, state.bounds
    require(len(head.writes) == 1 and not head.where and not head.causal, "a head is damaged")
    column = head.writes[0]
    line = state.said[column]
    require(column not in state.held and line.kind == "near" and line.leaves is None, "a head holds what it cannot")
    score, margin, *taken = graph.args[line.value]
    out, values = np.zeros(head.out.shape), np.zeros(head.value.shape)
    out[0, column], values[:, 0] = 1.0, head.value[:, 0]
    require(np.array_equal(out, head.out) and np.array_equal(values, head.value), "a head writes more than it says")
    form, place = state.form(head.value[:, 0]), graph.make("position")
    require(state.layer_of(form) < head.layer, "a head reads what is not there yet")
    off = state.off(form, state.combination(place))
    require(off == 0, "a place is not read exactly")
    scores = Scores(state, head)
    asked: Pairs = {}
    for (mine, other), factor in expand(graph, score).items():
        add(asked, joined(state, mine), joined(state, other), factor)
    asked = {pair: c for pair, c in asked.items() if c}
    pair = max((one for one in asked if one in scores.meant), key=lambda one: abs(asked[one]), default=None)
    require(pair is not None, "a score does not mean what it should")
    sharpness = scores.meant[pair] / asked[pair] if pair is not None else Fraction(0)
    require(sharpness > 0, "a score falls where it should grow")
    wanted = {one: sharpness * c for one, c in asked.items()}
    kind, lead = state.ranges.of(score), graph.constant[margin]
    marks = [graph.make("eq", place, graph.number(k)) for k in range(bounds.data)]
    for earlier in taken:
        first = graph.make("eq", earlier, graph.number(0))
        penalty = -scores.meant.get((first, marks[0]), Fraction(0))
        require(penalty >= sharpness * (kind.high - kind.low + lead), "a token that was taken is not shut out")
        for k, mark in enumerate(marks):
            test = graph.make("eq", earlier, graph.number(k))
            wanted[test, mark] = wanted.get((test, mark), Fraction(0)) - penalty
            wanted["", mark] = wanted.get(("", mark), Fraction(0)) + penalty / 2
    delta = scores.error({one: c for one, c in wanted.items() if c})
    gap = sharpness * lead - 2 * delta
    require(gap > 0, "a margin is lost in rounding")
    error = bounds.average(Fraction(bounds.data), Fraction(0)) + state.stray(form)
    error += (bounds.data - 1) * exp_below(gap) * bounds.data
    state.held[column] = Held(Fraction(0), Fraction(bounds.data - 1), False, error, head.layer)
