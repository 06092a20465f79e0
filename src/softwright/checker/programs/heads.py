"""Heads over data tokens proved again: sums, means and picks, largest values, smoothing, choices.

Of every head the weights are compared with what its condition asks for, number by number; what is left over in its last
key is the score that its values have. Then the lemma of its kind says how far the column is off.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from softwright.checker.programs.bounds import PENALTY, as_ball, exp_below, over
from softwright.checker.programs.conditions import Literals, cases_of, grouped, literals_of
from softwright.checker.programs.lines import BANK, DEFAULT, NULL, ONE, HeadLine
from softwright.checker.programs.polynomials import CAUSAL, Terms, is_itself, polynomial, rank_polynomial
from softwright.checker.programs.state import Combination, Held, State, times
from softwright.checker.refusal import require

STEP = 32  # the score of a whole number's step, where the largest is looked for
ZERO = Fraction(0)


class Read:
    """A head over data tokens, its weights accounted for."""

    def __init__(self, state: State, head: HeadLine, defaults: dict[int, Fraction], flags: dict[int, int]) -> None:
        self.state, self.head = state, head
        self.penalty = Fraction(head.numbers.get("penalty", PENALTY))
        self.literals = literals_of(state, head.where, head.layer)
        require(len(head.writes) == 1, "a head over data writes one column")
        self.column = head.writes[0]
        self.default = defaults.get(self.column) if head.kind == "mean" else None
        self.flag = flags.get(self.column, -1) if self.default is not None else -1
        self.score, self.null, self.dims = self._score()
        self.value, self.factor = self._value()
        forms = {**self.score, **self.value}
        require(state.layer_of(forms) < head.layer, "a head reads what is not there yet")

    def _score(self) -> tuple[dict[int, Fraction], Fraction, int]:
        """The part of the score that token j brings beside the condition, the null token's, and the dimensions."""
        head, state, width = self.head, self.state, self.head.query.shape[0]
        penalty, last = self.penalty, {}
        query, key = np.zeros(head.query.shape), np.zeros(head.key.shape)
        dims = 0

        def add(column: int, number: Fraction) -> None:
            last[column] = last.get(column, ZERO) + number

        needed = 1 + sum(len(f[1]) if f[0] == "equal" else f[1] == "i" for f in head.where)
        require(needed <= head.query.shape[1], "a head has too few dimensions")
        for factor in head.where:
            if factor[0] == "equal":
                for mine, other in zip(factor[1], factor[2], strict=True):
                    query[other, dims], key[mine, dims] = float(penalty), 1.0
                    add(ONE, -penalty)
                    dims += 1
            elif factor[1] == "j":
                add(factor[2], penalty * factor[3])
                add(ONE, -penalty)
            else:
                query[factor[2], dims], query[ONE, dims], key[ONE, dims] = (
                    float(penalty) * factor[3],
                    -float(penalty),
                    1.0,
                )
                dims += 1
        query[ONE, dims] = 1.0
        key[:, dims] = head.key[:, dims]
        good = np.array_equal(query, head.query) and np.array_equal(key, head.key)
        require(good, "a head's weights are not those of its condition")
        found = {k: Fraction(float(head.key[k, dims])) for k in range(width)}
        rest = {k: number - last.get(k, ZERO) for k, number in found.items() if number != last.get(k, ZERO)}
        shut, null = -rest.pop(BANK, ZERO), rest.pop(NULL, ZERO)
        require(rest.pop(DEFAULT, ZERO) == -shut, "defaults of others are not shut out")
        if self.flag >= 0:
            require(rest.pop(self.flag, ZERO) == shut - PENALTY, "a default is not where it must be")
        score = dict(rest)
        require(all(k in state.held for k in score), "a score reads what is not proved")
        # tokens of the bank: what they have in the columns that keys read must not make up for being shut out
        junk = sum((abs(c) * state.at_bank[k] for k, c in found.items() if k in state.held or k in last), ZERO)
        for d in range(dims):
            ask = sum(
                (abs(Fraction(float(query[k, d]))) * max(1, state.at_bank[k]) for k in np.flatnonzero(query[:, d])),
                ZERO,
            )
            answer = sum((Fraction(float(key[k, d])) * state.at_bank[k] for k in np.flatnonzero(key[:, d])), ZERO)
            junk += ask * answer
        require(shut >= junk + 4 * state.size(score) + 8 * penalty + 4096, "tokens of the bank are not shut out")
        self.shut = shut
        return score, null, dims + 1

    def _value(self) -> tuple[dict[int, Fraction], Fraction]:
        head, state = self.head, self.state
        value, out = np.zeros(head.value.shape), np.zeros(head.out.shape)
        value[:, 0], out[0, self.column] = head.value[:, 0], head.out[0, self.column]
        good = np.array_equal(value, head.value) and np.array_equal(out, head.out)
        require(good, "a head writes more than it says")
        weights = head.value[:, 0].copy()
        if self.default is not None:
            require(weights[self.column] == 1.0, "a default is not read")
            weights[self.column] = 0.0
        return state.form(weights), Fraction(float(head.out[0, self.column]))

    def exact_condition(self) -> None:
        """Scores of a condition are whole numbers that no sum of them rounds."""
        most = self.penalty * (2 * self.dims + 2) + self.state.size(self.score)
        require(most < Fraction(1) / self.state.bounds.u / 2, "scores are too large to be exact")

    def score_error(self, wanted: Combination) -> Fraction:
        """How far the score of a matching token is from what it should be, weights' own errors included."""
        state, bounds = self.state, self.state.bounds
        size, off = state.size(self.score), state.off(self.score, wanted)
        exact = state.is_exact(self.score) and off == 0
        whole = self.penalty * (2 * self.dims + 2) if self.head.where else ZERO
        if exact:
            self.exact_condition()
        rounding = ZERO if exact else bounds.gamma(self.dims + 3) * (2 * size + whole)
        return off + rounding + bounds.soft(2 * size + PENALTY)


def single(state: State, terms: Terms) -> tuple[Literals, bool]:
    """The one head that a condition needs, where more are not possible."""
    require(len(terms) == 1 and next(iter(terms.values())) == 1, "a mean or largest value over several cases")
    atoms = next(iter(terms))
    cases = list(cases_of(state, atoms))
    require(len(cases) == 1, "a mean or largest value over several cases")
    return cases[0], CAUSAL in atoms


def inner_of(state: State, value: int) -> int:
    """The value of an aggregate at its token."""
    graph = state.graph
    return graph.args[value][0] if graph.op[value] == "j" else value


def prove_mean(read: Read) -> None:
    """Means over a condition; places, sorted values and gates, which have at most one matching token."""
    state, graph, head = read.state, read.state.graph, read.head
    line, bounds = state.said[read.column], read.state.bounds
    op, args = graph.op[line.value], graph.args[line.value]
    require(line.leaves is None and not read.score and read.factor == 1, "a mean is damaged")
    place, alone, default = graph.make("position"), True, None
    if op == "at":
        index = args[1]
        if len(args) == 3:
            default = graph.constant[args[2]] if graph.is_number(args[2]) else state.combination(args[2]).get("", ZERO)
        elif state.ranges.of(index).size > state.bounds.data:
            index = graph.make("place", index)
        wanted, causal = next(iter(cases_of(state, frozenset([("equal", place, index)])))), False
        value = args[0]
    elif op == "sort":
        rank = graph.make("rank", args[1])
        wanted, causal, value = next(iter(cases_of(state, frozenset([("equal", rank, place)])))), False, args[0]
    elif op == "where":
        require(args[2] == state.zero(line.value), "a gate of two values")
        default = ZERO if line.kind == "whole" else None
        atoms = frozenset([("equal", place, place), ("flag", "i", args[0])])
        wanted, causal, value = next(iter(cases_of(state, atoms))), False, args[1]
    else:
        require(op == "mean", "a mean of what is none")
        wanted, causal = single(state, polynomial(graph, args[1]))
        value, alone = inner_of(state, args[0]), False
    require(read.literals == wanted and head.causal == causal, "a head looks at other tokens than it should")
    read.exact_condition()
    shift = Fraction(line.numbers[0]) if line.kind == "whole" else ZERO
    require(line.kind in ("real", "whole"), "a mean holds what it cannot")
    off = state.off(read.value, times(state.combination(value), Fraction(1), shift))
    kind = state.ranges.of(value)
    low, high = kind.low + shift, kind.high + shift
    if default is not None:
        require(read.default is not None and read.null == -read.shut, "a default is missing")
        given = read.default or ZERO
        low, high, off = min(low, default + shift), max(high, default + shift), off + abs(given - default - shift)
    else:
        require(read.default is None and read.null == -PENALTY, "the null token is not where it must be")
        if line.kind == "real":
            low, high = min(low, ZERO), max(high, ZERO)
        elif op not in ("at", "sort"):
            require(False, "whole numbers of what may be no token")
    if line.kind == "whole":
        others = (bounds.all + 1) * bounds.weight(PENALTY)
        good = alone and off == 0 and state.is_exact(read.value) and bounds.kept(low, high, others)
        good = good and state.stray(read.value) <= bounds.u / 8
        require(good, "a whole number is not picked exactly")
        state.held[read.column] = Held(low, high, True, ZERO, head.layer)
        return
    error = bounds.average(max(abs(low), abs(high)), off) + state.stray(read.value)
    state.held[read.column] = held = Held(low, high, False, error, head.layer)
    own = state.root(read.value) if op == "mean" and line.kind == "real" else None
    if own is not None and state.apart(state.meant(read.value), state.combination(value)) == 0:
        others = 2 * (bounds.all + 1) * bounds.weight(PENALTY) * (max(abs(low), abs(high)) + off + error)
        held.root = own.rounded(bounds.gamma(bounds.data + 8), others + state.stray(read.value))


def prove_sum(state: State, column: int, reads: list[Read]) -> None:
    """All heads that add up one column: together they are its condition, each token in the right group."""
    graph, bounds, line = state.graph, state.bounds, state.said[column]
    op, args = graph.op[line.value], graph.args[line.value]
    require(line.kind in ("near", "real"), "a sum holds what it cannot")
    if op == "length":
        terms: Terms = {frozenset(): 1}
        value = graph.number(1)
    elif op == "rank":
        terms, value = rank_polynomial(graph, args[0]), graph.number(1)
    else:
        require(op == "sum", "a sum of what is none")
        terms, value = polynomial(graph, args[1]), inner_of(state, args[0])
    first = reads[0]
    groups, outer, height = first.head.numbers["groups"], min(abs(read.factor) for read in reads), first.null
    require(outer > 0 and height >= 8, "a sum has no null token")
    expected: dict[Any, int] = {}
    total = 0
    for atoms, number in terms.items():
        total += abs(number) * (1 if any(is_itself(graph, atom) for atom in atoms) else bounds.data)
        for case in cases_of(state, atoms):
            for literals in grouped(state, case, groups):
                expected[literals, CAUSAL in atoms] = number
    if op == "rank":  # smaller keys and equal ones before exclude each other; the token itself is taken off once
        total = bounds.data + 1
    found: dict[Any, int] = {}
    error_of_value = size = ZERO
    for read in reads:
        same = read.head.numbers["groups"] == groups and read.null == height and read.head.layer == first.head.layer
        require(same and not read.score, "heads of one sum differ")
        ratio = read.factor / outer
        key = read.literals, read.head.causal
        require(ratio.denominator == 1 and key not in found, "heads of one sum count a case twice")
        found[key] = int(ratio)
        read.exact_condition()
        error_of_value = max(error_of_value, state.off(read.value, state.combination(value)))
        size = max(size, state.size(read.value))
    require(found == expected, "the heads of a sum are not its condition")
    rho, lost = bounds.summed(-(-bounds.data // 2**groups), outer, height)
    size, own = size + error_of_value, error_of_value
    error = total * (size * rho + own) + len(reads) * size * lost
    error += sum((state.stray(read.value, read.factor) for read in reads), ZERO)
    error += bounds.gamma(len(reads) + 4) * (total * size + error)
    kind = state.ranges.of(line.value)
    require(line.kind == "real" or kind.whole, "a sum is no whole number")
    state.held[column] = held = Held(kind.low, kind.high, False, error, first.head.layer)
    own_root = state.root(first.value)
    alike = all(read.value == first.value and read.factor == outer for read in reads)  # tokens once, none taken off
    meant = state.meant(first.value)
    if own_root is not None and alike and state.apart(meant, state.combination(value)) == 0:
        leaks = len(reads) * 2 * (size * lost + state.stray(first.value, outer))
        held.root = own_root.summed(bounds.data).rounded(rho + bounds.gamma(len(reads) + 4) * (1 + rho), leaks)


def prove_largest(read: Read) -> None:
    """The largest or smallest value over a condition, 0 where no token meets it."""
    state, graph, head = read.state, read.state.graph, read.head
    line, bounds, sign = state.said[read.column], read.state.bounds, head.numbers["sign"]
    op, args = graph.op[line.value], graph.args[line.value]
    require(
        op == ("max_of" if sign == 1 else "min_of") and line.kind in ("near", "real"), "a largest value of what is none"
    )
    literals, causal = single(state, polynomial(graph, args[1]))
    require(read.literals == literals and head.causal == causal, "a head looks at other tokens than it should")
    value = inner_of(state, args[0])
    kind, meaning = state.ranges.of(value), state.combination(value)
    off = state.off(read.value, meaning)
    size = state.size(read.score)
    require(read.factor == 1 and read.null == -read.penalty / 2, "the null token is not where it must be")
    require(read.penalty >= 4 * size + 4 * PENALTY, "a violated condition costs too little")
    result = state.ranges.of(line.value)
    most = max(result.largest, kind.largest)
    if kind.whole:
        exact = (
            state.is_exact(read.score)
            and state.apart(state.meant(read.score), times(meaning, Fraction(STEP * sign))) == 0
        )
        require(exact and off == 0, "whole numbers are not compared exactly")
        read.exact_condition()
        steps = bounds.data * (result.high - result.low + 1) * bounds.weight(STEP) * 2
        error = bounds.average(most, ZERO) + steps
    else:
        column = next((k for k in read.value if k in read.score and k != ONE), -1)
        require(column >= 0, "a score does not follow its value")
        sharpness = read.score[column] / read.value[column] * sign
        require(sharpness > 0, "a score falls where it should grow")
        delta = read.score_error(times(meaning, sharpness * sign))
        error = bounds.below_largest(sharpness, delta) + bounds.average(most, off)
    error += state.stray(read.value)
    state.held[read.column] = Held(result.low, result.high, False, error, head.layer)


def prove_smooth(read: Read) -> None:
    """A causal mean whose weights fall off by a constant factor."""
    state, graph, bounds = read.state, read.state.graph, read.state.bounds
    line = state.said[read.column]
    require(graph.op[line.value] == "smooth" and line.kind == "real" and not read.literals, "smoothing of what is none")
    value, alpha = graph.args[line.value]
    place = graph.make("position")
    require(read.head.causal and read.null == -read.shut and read.factor == 1, "a smoothing head is damaged")
    rate = state.meant(read.score).get(place, ZERO)
    true = -(1 - as_ball(graph.constant[alpha])).log()
    constant = state.meant(read.score).get("", ZERO)  # the same for all tokens: it changes no weight
    delta = over(abs(true - as_ball(rate))) * bounds.data
    delta += read.score_error({key: c for key, c in {place: rate, "": constant}.items() if c})
    kind = state.ranges.of(value)
    off = state.off(read.value, state.combination(value))
    error = bounds.average(kind.largest, off) + 2 * delta * (kind.high - kind.low + 2 * off) + state.stray(read.value)
    state.held[read.column] = Held(kind.low, kind.high, False, error, read.head.layer)


def prove_choice(read: Read) -> None:
    """The value at the token whose score is largest by a margin."""
    state, graph, bounds = read.state, read.state.graph, read.state.bounds
    line = state.said[read.column]
    require(graph.op[line.value] == "choose" and line.kind in ("real", "near"), "a choice of what is none")
    value, score, margin = graph.args[line.value]
    plain = not read.head.causal and not read.literals and read.null == -read.shut and read.factor == 1
    require(plain, "a choosing head is damaged")
    wanted, meant = state.combination(score), state.meant(read.score)
    key = next((k for k in wanted if k != "" and k in meant), None)
    require(key is not None, "a score does not mean what it should")
    sharpness = meant[key] / wanted[key]
    require(sharpness > 0, "a score falls where it should grow")
    delta = read.score_error(times(wanted, sharpness))
    lead = sharpness * graph.constant[margin] - 2 * delta
    require(lead > 0, "a margin is lost in rounding")
    leaks = (bounds.data - 1) * exp_below(lead)
    kind, off = state.ranges.of(value), state.off(read.value, state.combination(value))
    error = bounds.average(kind.largest, off) + leaks * (kind.high - kind.low + 2 * off) + state.stray(read.value)
    state.held[read.column] = Held(kind.low, kind.high, False, error, read.head.layer)
