"""Sums of one kernel proved again: heads that are an exponential of both tokens each, beside a null token.

Of every head the weights are read: the factors of its condition, dimensions that are products of a form of token i and
a form of token j, and what token j has alone; together they mean -|b| d(Q) for one rate b, Q the polynomial inside the
kernel, up to what is charged as an error of the score. g e^-m is the head's factor in the exponential sum, which is
compared with the kernel on the range of Q (`exponentials.py`). The lemma is that of docs/sequences.md.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from flint import ctx

from softwright.checker.programs.attending import joined
from softwright.checker.programs.bounds import PENALTY, as_ball, over
from softwright.checker.programs.conditions import cases_of, literals_of
from softwright.checker.programs.functions import tree
from softwright.checker.programs.lines import BANK, DEFAULT, NULL, ONE, HeadLine
from softwright.checker.programs.pairs.exponentials import BITS, check_sum
from softwright.checker.programs.pairs.products import kernel_of, polynomial_inside
from softwright.checker.programs.polynomials import CAUSAL, expand, is_itself, polynomial
from softwright.checker.programs.ranges import Range
from softwright.checker.programs.state import Combination, Held, State
from softwright.checker.refusal import require

Pairs = dict[tuple[Any, Any], Fraction]  # (key of token i, key of token j) -> factor; "" is the constant 1
ZERO = Fraction(0)


def add_product(total: Pairs, mine: Combination, other: Combination, factor: Fraction) -> None:
    for a, x in mine.items():
        for b, y in other.items():
            total[a, b] = total.get((a, b), ZERO) + factor * x * y


def meaning_of(state: State, value: int) -> Pairs:
    """A polynomial of both tokens as pairs."""
    found: Pairs = {}
    for (mine, other), factor in expand(state.graph, value).items():
        add_product(found, joined(state, mine), joined(state, other), factor)
    return {pair: c for pair, c in found.items() if c}


class KernelHead:
    """A head of a kernel, its weights accounted for."""

    def __init__(self, state: State, head: HeadLine) -> None:
        self.state, self.head = state, head
        require(len(head.writes) == 1, "a head of a kernel writes one column")
        self.column, self.literals = head.writes[0], literals_of(state, head.where, head.layer)
        first, rest = self._condition()
        ends = np.flatnonzero(head.key[BANK])
        require(len(ends) == 1 and int(ends[0]) >= first, "tokens of the bank are not shut out")
        last = int(ends[0])
        self._last(last, rest)
        self.dims = last + 1
        self.meant: Pairs = {}
        self.size = self.off = junk = ZERO
        for d in range(first, last + 1):
            query = state.form(head.query[:, d])
            keys = self.alone if d == last else state.form(head.key[:, d])
            require(state.layer_of({**query, **keys}) < head.layer, "a head reads what is not there yet")
            sizes, errors = (state.size(query), state.size(keys)), (state.rounding(query), state.rounding(keys))
            self.off += sizes[0] * errors[1] + sizes[1] * errors[0] + errors[0] * errors[1]
            self.size += (sizes[0] + errors[0]) * (sizes[1] + errors[1])
            junk += (sizes[0] + errors[0]) * sum((abs(c) * state.at_bank[k] for k, c in keys.items()), ZERO)
            add_product(self.meant, state.meant(query), state.meant(keys), Fraction(1))
        whole = PENALTY * (2 * first + 2 * len(head.where) + 2) if head.where else 0
        self.off += state.bounds.gamma(self.dims + len(head.where) + 5) * (self.size + whole)
        junk += self.junk
        require(
            self.shut >= 2 * junk + 4 * self.size + 16 * PENALTY * (self.dims + 1) + 4096, "the bank is not shut out"
        )
        self._value()

    def _condition(self) -> tuple[int, dict[int, Fraction]]:
        """The dimensions of the condition are what they must be; how many, and what it adds to the last key."""
        head, rest, d = self.head, {}, 0
        self.junk = ZERO
        query, key = np.zeros(head.query.shape), np.zeros(head.key.shape)
        needed = 1 + sum(len(f[1]) if f[0] == "equal" else f[1] == "i" for f in head.where)
        require(needed <= head.query.shape[1], "a head has too few dimensions")
        for factor in head.where:
            if factor[0] == "equal":
                for mine, other in zip(factor[1], factor[2], strict=True):
                    query[other, d], key[mine, d] = float(PENALTY), 1.0
                    self.junk += PENALTY * self.state.at_bank[mine]
                    rest[ONE] = rest.get(ONE, ZERO) - PENALTY
                    d += 1
            elif factor[1] == "j":
                rest[factor[2]] = rest.get(factor[2], ZERO) + PENALTY * factor[3]
                rest[ONE] = rest.get(ONE, ZERO) - PENALTY
                self.junk += PENALTY * self.state.at_bank[factor[2]]
            else:
                query[factor[2], d], query[ONE, d], key[ONE, d] = float(PENALTY * factor[3]), -float(PENALTY), 1.0
                d += 1
        good = np.array_equal(query[:, :d], head.query[:, :d]) and np.array_equal(key[:, :d], head.key[:, :d])
        require(good, "a head's weights are not those of its condition")
        return d, rest

    def _last(self, last: int, rest: dict[int, Fraction]) -> None:
        head, ask = self.head, np.zeros(self.head.query.shape[0])
        ask[ONE] = 1.0
        require(np.array_equal(head.query[:, last], ask), "what token j has alone is not asked for as it is")
        after = slice(last + 1, None)
        require(not head.query[:, after].any() and not head.key[:, after].any(), "a head has more dimensions")
        key = {int(k): Fraction(float(head.key[k, last])) for k in np.flatnonzero(head.key[:, last])}
        self.shut = -key.pop(BANK, ZERO)
        require(key.pop(DEFAULT, ZERO) == -self.shut, "defaults are not shut out")
        self.height = key.pop(NULL, ZERO)
        for column, number in rest.items():
            key[column] = key.get(column, ZERO) - number
        self.alone = {column: c for column, c in key.items() if c}
        require(all(column in self.state.held for column in self.alone), "a score reads what is not proved")
        require(8 <= self.height <= 256, "a kernel's null token is not where it must be")

    def _value(self) -> None:
        head, column = self.head, self.column
        value, out = np.zeros(head.value.shape), np.zeros(head.out.shape)
        value[:, 0], out[0, column] = head.value[:, 0], head.out[0, column]
        require(np.array_equal(value, head.value) and np.array_equal(out, head.out), "a head writes more than it says")
        self.value = self.state.form(head.value[:, 0])
        require(self.state.layer_of(self.value) < head.layer, "a head reads what is not there yet")
        self.factor = Fraction(float(head.out[0, column]))
        require(self.factor != 0, "a head of a kernel writes nothing")

    def rate(self, wanted: Pairs) -> Fraction:
        """b of a score that means -b Q and a constant."""
        pair = max((pair for pair in wanted if pair != ("", "")), key=lambda pair: abs(wanted[pair]), default=None)
        require(pair is not None, "a kernel of no polynomial")
        return -self.meant.get(pair, ZERO) / wanted[pair] if pair is not None else ZERO

    def delta(self, wanted: Pairs, constant: Fraction) -> Fraction:
        """How far scores are off: from -b Q + constant, in a run."""
        rate, state = self.rate(wanted), self.state
        apart = ZERO
        for pair in {*wanted, *self.meant, ("", "")}:
            goal = -rate * wanted.get(pair, ZERO) + (constant if pair == ("", "") else 0)
            rest = abs(goal - self.meant.get(pair, ZERO))
            for key in pair if rest else ():
                require(key == "" or isinstance(key, int), "a score reads digits or bits")
                rest *= 1 if key == "" else state.ranges.of(key).largest
            apart += rest
        return apart + self.off + state.bounds.soft(2 * self.size + self.height + PENALTY)


def prove_kernel(state: State, column: int, heads: list[HeadLine]) -> None:
    """All heads of one column: for every case of its condition the same exponential sum."""
    graph, bounds, line = state.graph, state.bounds, state.said[column]
    require(
        line.kind == "real" and line.leaves is None and graph.op[line.value] == "sum", "a kernel holds what it cannot"
    )
    own, kernel = kernel_of(graph, line.value)
    leaf = polynomial_inside(graph, kernel)
    domain, wanted = state.ranges.of(leaf), meaning_of(state, leaf)
    reads = [KernelHead(state, head) for head in heads]
    exact = Fraction(heads[0].numbers["exact"])
    same = all(head.numbers["exact"] == heads[0].numbers["exact"] for head in heads)
    same = same and all(read.height == reads[0].height and read.value == reads[0].value for read in reads)
    require(same and len({head.layer for head in heads}) == 1, "heads of one kernel differ")
    cases: dict[Any, list[tuple[Fraction, Fraction]]] = {}
    for read in reads:
        key = read.literals, read.head.causal
        cases.setdefault(key, []).append((read.rate(wanted), read.factor))
    expected, total = {}, 0
    for atoms, number in polynomial(graph, graph.args[line.value][1]).items():
        total += abs(number) * (1 if any(is_itself(graph, atom) for atom in atoms) else bounds.data)
        for case in cases_of(state, atoms):
            expected[case, CAUSAL in atoms] = number
    require(cases.keys() == expected.keys(), "the heads of a kernel are not its condition")
    sums = [sorted((rate, factor / expected[key]) for rate, factor in found) for key, found in cases.items()]
    require(all(one == sums[0] for one in sums), "the cases of a kernel differ")
    size, off = state.ranges.of(own).largest, state.off(reads[0].value, state.combination(own))
    most = max(size, state.size(reads[0].value)) + off
    with ctx.workprec(BITS):
        small = (-as_ball(reads[0].height)).exp()
        terms = [(rate, as_ball(factor) * small) for rate, factor in sums[0]]
        check_sum(tree(graph, kernel, leaf), domain.low, domain.high, terms, exact)
        found = [
            _weights(state, [read for read in reads if (read.literals, read.head.causal) == key], wanted, domain, most)
            for key in cases
        ]
    numbers = [abs(expected[key]) for key in cases]
    shaken, weight = (max(one[k] / number for one, number in zip(found, numbers, strict=True)) for k in (0, 1))
    lost = sum((one[2] for one in found), ZERO)
    reach = state.ranges.of(kernel).largest
    error = total * (exact * size + (reach + exact) * off + shaken * most) + lost
    error += bounds.gamma(len(heads) + 4) * (total * weight * most + error)
    kind = state.ranges.of(line.value)
    state.held[column] = Held(kind.low, kind.high, False, error, heads[0].layer)


def _weights(
    state: State, reads: list[KernelHead], wanted: Pairs, domain: Range, most: Fraction
) -> tuple[Fraction, Fraction, Fraction]:
    """What weights are off by and what they are, summed over heads, relative to values; and what leaks."""
    bounds, shaken, weight, lost = state.bounds, ZERO, ZERO, ZERO
    for read in reads:
        rate = read.rate(wanted)
        constant = rate * (domain.low if rate >= 0 else domain.high)
        delta = read.delta(wanted, constant)
        require(delta < 40, "the score of a kernel is not known well enough")
        grown, small = as_ball(delta).exp(), (-as_ball(read.height)).exp()
        up = grown * (1 + as_ball(bounds.gamma(bounds.data + 10))) * (1 + 2 * bounds.all * small * grown)
        size = abs(as_ball(read.factor)) * small
        shaken, weight = shaken + over(size * (up - 1)), weight + over(size * up)
        leak = bounds.weight(read.height) * bounds.weight(2 * PENALTY) * over(grown)
        lost += abs(read.factor) * bounds.all * (leak + 4 * bounds.f) * most + state.stray(read.value, read.factor)
    return shaken, weight, lost
