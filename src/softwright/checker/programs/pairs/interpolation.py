"""Linear interpolation proved again: one head with the scores B (q - a_j)(t_j - q), a_j the time before.

Line j, level + steep q, goes through the points at a_j and t_j. Where q is in interval j its score is not below 0; at a
distance x it is -B x (x + t_j - a_j). Let interval k hold q, or be the first or last if q lies beyond; then any other
is lower by at least B h x_j: for q beyond by x, x_j >= x + t_k - a_k, so x_j (x_j + h) - x (x + t_k - a_k) >= h x_j.
The interpolant (its end lines going on) and line j meet on interval j and rise by at most s: they differ by at most
2 s x_j. So the mean of the lines at q is off by at most 2 s W0((n - 1) e^(2 delta - 1))/(B h).

The two columns are means under the same weights. What the second holds is called slope, and start is the rest,
interp - slope q; of the first column it is proved how near it is to start. q itself is what the run has: if that is off
by e, the interpolant moves by at most s e, and slope q by |slope| e.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from softwright.checker.programs.bounds import PENALTY, as_ball, over
from softwright.checker.programs.lines import BANK, DEFAULT, NULL, ONE, HeadLine
from softwright.checker.programs.state import Held, State, times
from softwright.checker.refusal import require

ZERO = Fraction(0)


def prove_line(state: State, head: HeadLine) -> None:
    """The columns of start and slope."""
    graph, bounds = state.graph, state.bounds
    require(len(head.writes) == 2 and not head.where and not head.causal, "a head is damaged")
    first, second = head.writes
    require(first != second and not {first, second} & set(state.held), "a column is written twice")
    plain = all(state.said[k].kind == "real" and state.said[k].leaves is None for k in head.writes)
    require(plain and graph.op[state.said[first].value] == "start", "a head of another kind than its column")
    value = graph.args[state.said[first].value][0]
    parts, slope, start = state.interpolated(value)
    require([state.said[k].value for k in head.writes] == [start, slope], "a head of another kind than its column")
    out, values = np.zeros(head.out.shape), np.zeros(head.value.shape)
    require(head.value.shape[1] >= 2, "a head is damaged")
    out[0, first] = out[1, second] = 1.0
    values[:, :2] = head.value[:, :2]
    require(np.array_equal(out, head.out) and np.array_equal(values, head.value), "a head writes more than it says")
    level, steep = state.form(head.value[:, 0]), state.form(head.value[:, 1])
    require(state.layer_of({**level, **steep}) < head.layer, "a head reads what is not there yet")
    _, time, y, spacing = graph.args[value]
    apart, reach, own, sharpness, delta = _scores(state, head, parts.query, time, parts.before)
    spread, kinds = state.ranges.of(y), [state.ranges.of(one) for one in (parts.level, parts.steep)]
    h, s = graph.constant[spacing], (spread.high - spread.low) / graph.constant[spacing]
    require(delta < 1000, "the times are not known well enough")
    off = ZERO
    if bounds.data > 1:
        off = over((as_ball(bounds.data - 1) * (2 * as_ball(delta) - 1).exp()).lambertw() / as_ball(sharpness))
    errors = [state.off(form, state.combination(one)) for form, one in ((level, parts.level), (steep, parts.steep))]
    rounded = bounds.average(kinds[1].largest, errors[1])
    require(rounded + state.stray(steep) <= kinds[1].largest, "slopes are not known well enough")
    error = 2 * s / h * off + (s + state.ranges.of(slope).largest) * (own + apart)
    error += bounds.average(kinds[0].largest, errors[0]) + state.stray(level) + reach * (rounded + state.stray(steep))
    for column, one, by in ((first, start, error), (second, slope, ZERO)):
        kind = state.ranges.of(one)
        state.held[column] = Held(kind.low, kind.high, False, by, head.layer)


def _scores(
    state: State, head: HeadLine, query: int, time: int, before: int
) -> tuple[Fraction, Fraction, Fraction, Fraction, Fraction]:
    """How far the query is from what is asked for, how large it may be, its columns' errors, B, and delta."""
    graph, bounds = state.graph, state.bounds
    require(head.query.shape[1] >= 2, "a head has too few dimensions")
    shut = -Fraction(float(head.key[BANK, 1]))
    key = head.key.copy()
    for column in (BANK, DEFAULT, NULL):
        require(Fraction(float(key[column, 1])) == -shut, "tokens of the bank are not shut out")
        key[column, 1] = 0.0
    ask = np.zeros(head.query.shape[0])
    ask[ONE] = 1.0
    require(np.array_equal(head.query[:, 1], ask), "what token j has alone is not asked for as it is")
    require(not head.query[:, 2:].any() and not key[:, 2:].any(), "a head has more dimensions")
    asked, both, alone = state.form(head.query[:, 0]), state.form(key[:, 0]), state.form(key[:, 1])
    require(state.layer_of({**asked, **both, **alone}) < head.layer, "a head reads what is not there yet")
    apart = state.apart(state.meant(asked), state.combination(query))
    own = sum((abs(c) * state.held[k].error for k, c in asked.items()), ZERO)
    rounded = max(state.rounding(asked) - own, ZERO)
    reach = max(state.size(asked), state.ranges.of(query).largest + own + apart) + rounded
    product = graph.make("mul", before, time)
    there, meant = state.combination(product), state.meant(alone)
    key_of = max((one for one in there if one != "" and one in meant), key=lambda one: abs(there[one]), default=None)
    require(key_of is not None, "a score does not mean what it should")
    sharpness = -meant[key_of] / there[key_of] if key_of is not None else ZERO
    require(sharpness > 0, "a score falls where it should grow")
    sums = state.combination(graph.make("add", time, before))
    delta = state.apart(state.meant(alone), times(state.combination(product), -sharpness))
    off = state.apart(state.meant(both), times(sums, sharpness)) + state.rounding(both)
    sizes = state.size(both) + off, state.size(alone) + state.rounding(alone)
    delta += reach * off + sizes[0] * rounded + state.rounding(alone)
    size = reach * sizes[0] + sizes[1]
    delta += bounds.gamma(6) * size + bounds.soft(2 * size + PENALTY)
    junk = sum((abs(c) * state.at_bank[k] for k, c in both.items()), ZERO) * reach
    junk += sum((abs(c) * state.at_bank[k] for k, c in alone.items()), ZERO)
    require(shut >= 2 * junk + 4 * size + 8 * PENALTY + 4096, "tokens of the bank are not shut out")
    return apart, reach, own, sharpness, delta
