"""A3 again: two attention layers that compute a network with one hidden layer, or a formula, on a box.

X (d x n) has its entries in [low, high]; vec(X) takes the tokens one after another. From the tensors, entry by entry:

    first map and layer     s_j = a_j.vec(X) + b_j, j = 1..N, and the heads of A2 on [0, 1], whose points, temperature
                            and values `clipping` and `interpolation` read: z_j is within e of clip(s_j, 0, 1)
    second map and layer    the z_j on a diagonal, all tokens weigh 1/N: output o is base_o + sum_j v_oj z_j

Against C relu(W vec(X) + t) + c, in the file: with any U_j > 0, u_j = w_j.vec(X) + t_j, delta_j what a_j.vec(X) + b_j
is off u_j/U_j on the box, and excess_j what u_j may be above U_j,

    |v z - C relu(u)| <= |v| e + |v - C U| + |C| U delta + |C| excess;

a unit whose u is never positive gives nothing, and |v| (e + max(0, s)) is all that it costs. U_j is read off the
largest weight; nothing rests on it. Against a formula: output o is off by sum_j |v_oj| e and by what sum_j v_oj
clip(s_j, 0, 1) + base_o is off the formula, which `ridges` bounds. For terms of several directions, sin(x)*y, the file
gives a sum of functions of one direction each, S: the units are compared with it, and |f - S| is bounded on the box.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb, fmpq

from softwright.checker.entries import check_entries, is_float, is_object, is_size, is_text, is_whole, list_of
from softwright.checker.limits import check_time
from softwright.checker.parser import Parser
from softwright.checker.proved import Proved
from softwright.checker.refusal import require
from softwright.checker.statement import check_names
from softwright.checker.theorems.clipping import FIXED_ROWS, fixed_rows, plain_attention, read_shared
from softwright.checker.theorems.hidden.distance import largest_size
from softwright.checker.theorems.hidden.ridges import add_unit, difference_range, ridge_terms
from softwright.checker.theorems.interpolation import array_of, blank, largest, ones_at, rational, rationals, same
from softwright.checker.theorems.reading import NOT_DRAWN, REAL_ARITHMETIC, TheoremFile, in_full
from softwright.checker.trees import Tree

ZERO, NOUGHT, ONE = arb(0), fmpq(0), fmpq(1)
PER_CENT = arb(1) / 100
SIZES = {
    **dict.fromkeys(("heads", "tokens", "dim", "hidden", "knots"), is_size),
    **dict.fromkeys(("low", "high", "eps0"), is_float),
    "formula": lambda value: isinstance(value, str),
    "seed": is_whole,
}


@dataclass(frozen=True)
class Units:
    """What the tensors compute but for e: base_o + sum_j v_oj clip(a_j.x + b_j, 0, 1) for x in [low, high]^m."""

    a: list[list[fmpq]]  # (N, m)
    b: list[fmpq]
    v: list[list[fmpq]]  # (outputs, N)
    base: list[fmpq]
    low: fmpq
    high: fmpq

    @property
    def reach(self) -> fmpq:
        return max(abs(self.low), abs(self.high))

    def most(self, weights: list[fmpq], offset: fmpq) -> fmpq:
        """The largest weights.x + offset."""
        return sum((w * (self.high if w > 0 else self.low) for w in weights), offset)


def prove(file: TheoremFile) -> Proved:
    """The largest |network - f| over the box and all entries of the output."""
    require(file.drawn, NOT_DRAWN)
    check_entries(file.sizes, SIZES, "the sizes")
    s = file.sizes
    require(s["low"] < s["high"] and s["eps0"] > 0, "the sizes are out of range")
    require(file.inputs == (s["dim"], s["tokens"]), "the input has another shape than the sizes say")
    outputs = formula_of(file) if s["formula"] else None
    shape = (s["tokens"], s["dim"]) if outputs is None else (len(outputs), 1)
    units, e, beta = read_units(file, shape)
    own = network_errors(file, units, e) if outputs is None else formula_errors(outputs, file, units, e)
    gains = [sum(map(abs, row), NOUGHT) for row in units.v]
    errors = own if outputs is None else [arb(gain) * e + error for gain, error in zip(gains, own, strict=True)]
    return Proved(
        statement="every entry of the output is within the bound of f(X), for X with entries in "
        f"[{in_full(s['low'])}, {in_full(s['high'])}]",
        exact=largest(errors),
        rounding=None,
        method="theorem A3",
        quantities={"beta": arb(beta), "eps0": arb(s["eps0"]), "sum |C| U": arb(max(gains))},
        at_most={"error of a unit": largest([e])},
        assumptions=REAL_ARITHMETIC,
    )


def formula_of(file: TheoremFile) -> list[Tree]:
    """The outputs of the formula, whose variables are the tokens, in the order that the file names."""
    texts = list_of(lambda value: isinstance(value, str))
    check_entries(file.drawn, {"variables": list_of(is_text), "ridges": texts}, "what was drawn", ("ridges",))
    names = file.drawn["variables"]
    check_names(names)
    require(file.inputs == (1, len(names)), "the formula has other variables than there are tokens")
    return Parser(file.sizes["formula"], names).outputs()


def ridges_of(file: TheoremFile, count: int) -> list[Tree | None]:
    """For each output the sum that stands for its terms of several directions, None where the file has none."""
    texts = file.drawn.get("ridges", [""] * count)
    require(len(texts) == count, "there are as many sums of ridges as outputs")
    found = []
    for text in texts:
        trees = Parser(text, file.drawn["variables"]).outputs() if text else [None]
        require(len(trees) == 1, "a sum of ridges has one output")
        found += trees
    return found


def read_units(file: TheoremFile, outputs: tuple[int, int]) -> tuple[Units, arb, fmpq]:
    """The units, how far they are from their clips, and the temperature of their heads."""
    s, (d, n) = file.sizes, file.inputs
    N, H, (columns, entries) = s["hidden"], s["heads"], outputs
    require(N >= 3, "the theorem needs 3 hidden units, for two sentinels and a point")
    tokens, first, diagonal, second = file.chain("sum_of_linear", "attention", "sum_of_linear", "attention")
    rows, each, unit = 1 + FIXED_ROWS, range(d), range(N)
    ones_at(tokens["P"], (d, rows, d), (each, 0, each), "P")
    same(tokens["R"], np.vstack([scores_of(tokens["R"], (rows, N)), fixed_rows(N)]), "R")
    blank(tokens["Q"], (d, n, N), "Q")
    plain_attention(first)
    blank(first["W_V"], (H, 1, rows), "W_V")
    heads = read_shared(first, first["W_V"][:, 0], 1, N, NOUGHT, ONE)

    ones_at(diagonal["P"], (N, N + 1, 1), (unit, unit, 0), "P of the second map")
    ones_at(diagonal["Q"], (N, N, N), (unit, unit, unit), "Q of the second map")
    ones_at(diagonal["R"], (N + 1, N), (N, unit), "R of the second map")
    plain_attention(second, "T")
    for name in ("W_K", "W_Q"):
        same(second[name], blank(second[name], (columns, 1, N + 1), name), f"{name} of the second layer")
    blank(second["W_V"], (columns, entries, N + 1), "W_V of the second layer")
    ones_at(second["T"], (columns, N, columns), (range(columns), 0, range(columns)), "T of the second layer")

    values = second["W_V"].reshape(columns * entries, N + 1)  # tokens one after another
    units = Units(
        a=[rationals(row) for row in np.transpose(tokens["Q"], (2, 1, 0)).reshape(N, n * d)],
        b=rationals(tokens["R"][0]),
        v=[[x / N for x in rationals(row[:N])] for row in values],
        base=rationals(values[:, N]),
        low=rational(s["low"]),
        high=rational(s["high"]),
    )
    return units, (heads.exact(H, N, ZERO) + heads.stored()).upper(), heads.beta


def scores_of(R: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    blank(R, shape, "R")
    return R[:1]


def network_errors(file: TheoremFile, units: Units, e: arb) -> list[arb]:
    """How far every output is from that of the stored network with one hidden layer."""
    check_entries(file.drawn, {"network": is_object}, "what was drawn")
    given = file.drawn["network"]
    check_entries(given, dict.fromkeys(("W", "t", "C", "c"), lambda value: isinstance(value, list)), "the network")
    count, m = len(given["t"]), len(units.a[0])
    require(1 <= count <= len(units.b), "the network has more hidden units than tokens that carry them, or none")
    W, t, C, c = (
        array_of(given[name], shape, name)
        for name, shape in (("W", (count, m)), ("t", (count,)), ("C", (m, count)), ("c", (m,)))
    )
    errors = [arb(abs(base - x)) for base, x in zip(units.base, rationals(c), strict=True)]
    for j, (a, b) in enumerate(zip(units.a, units.b, strict=True)):
        check_time()
        w, offset, column = (rationals(W[j]), rational(float(t[j])), C[:, j]) if j < count else ([], NOUGHT, None)
        top = units.most(w, offset)
        if top <= 0 or column is None:
            given_out = (e + arb(max(units.most(a, b), NOUGHT))).upper()
            errors = [error + arb(abs(row[j])) * given_out for error, row in zip(errors, units.v, strict=True)]
            continue
        U = scale_of(w, a, top)
        delta = sum((abs(x / U - y) for x, y in zip(w, a, strict=True)), NOUGHT) * units.reach + abs(offset / U - b)
        passed = U * delta + max(top - U, NOUGHT)
        for o, (row, weight) in enumerate(zip(units.v, rationals(column), strict=True)):
            errors[o] += arb(abs(row[j])) * e + arb(abs(row[j] - weight * U) + abs(weight) * passed)
    return errors


def scale_of(w: list[fmpq], a: list[fmpq], top: fmpq) -> fmpq:
    """U of a unit, where its largest weight and the stored one are of one sign; else all that its argument reaches."""
    largest_weight, stored = max(zip(w, a, strict=True), key=lambda pair: abs(pair[0]))
    return largest_weight / stored if largest_weight * stored > 0 else top


def formula_errors(outputs: list[Tree], file: TheoremFile, units: Units, e: arb) -> list[arb]:
    """How far sum_j v_oj clip(a_j.x + b_j, 0, 1) + base_o is from every output of the formula."""
    m = len(units.a[0])
    reach, low, high = [units.reach] * m, [units.low] * m, [units.high] * m
    found = []
    given = ridges_of(file, len(outputs))
    for tree, stands_for, weights, base in zip(outputs, given, units.v, units.base, strict=True):
        ridges, constants, apart = ridge_terms(tree, reach, stands_for)
        enough = PER_CENT * e * sum(map(abs, weights), NOUGHT)
        rest, cost = arb(base) - constants, ZERO if apart is None else largest_size(apart, low, high, enough)
        for v, a, b in zip(weights, units.a, units.b, strict=True):
            if v and any(a):
                cost += add_unit(ridges, v, a, b, reach)
            elif v:
                rest += arb(v * min(max(b, NOUGHT), ONE))
        least = most = rest
        for ridge in ridges:
            below, above = difference_range(ridge, low, high)
            least, most = least + below, most + above
        found.append((abs(least).max(abs(most)) + cost).upper())
    return found
