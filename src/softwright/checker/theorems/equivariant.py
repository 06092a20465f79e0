"""C5 again: quantise, attend, read out, against f(X)_k = phi(x_k, mean of the tokens) on [0, 1]^{d x n}, in L_p.

*Quantiser.* Coordinate i becomes shift + sum_k (relu(x - a_k) - relu(x - b_k))/w, b_k - a_k = w. Off the ramps (a_k,
b_k) that is shift + its level, the cells [0, a_1], [b_1, a_2], .. lie in between. All thresholds are multiples of
2^-24 and w is a power of two, so for inputs that are such multiples nothing is rounded.

*Good inputs* have all coordinates off the ramps and all tokens in different cells. Such an X is a context for each of
its tokens: a set of n codes and the one that looks. Let c be the value of phi at the middles of the cells. By Taylor
models |phi - c| <= e over the cell of x_k and the sums of cells of the mean; let e be the largest over the tokens and
outputs of a set. The share of these X is n! times the product of the cells' sizes. What remains of the cube is bad:
there an ideal readout still gives something between the least and the largest c, so that it is off by at most E, from
the range of phi over the cube. The L_p norm is at most

    (sum over sets of share e^p + bad E^p)^{1/p}.                                                       exact part

*The stored readout* is a piecewise linear function of w.id. At the ids of all contexts, from the tensors in balls, it
is off from c by eps at most, and so are its values at all thresholds, and at both ends of what w.id can be, from what
lies between the least and the largest c. A computed id is off by what `id_error` says for any codes, ramps included;
the steepest slope makes of it what it moves the readout by, and `readout` says what that rounds itself. The sum of the
three is the rounding part, for all inputs that are multiples of 2^-24.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations, pairwise, product

import numpy as np
from flint import arb, ctx, fmpq

from softwright.checker.entries import check_entries, is_float, is_size, is_text
from softwright.checker.limits import check_time
from softwright.checker.parser import Parser
from softwright.checker.proved import Proved
from softwright.checker.refusal import UndefinedError, require
from softwright.checker.taylor import Model, Space, evaluate, norms
from softwright.checker.theorems.interpolation import blank, largest, rational, rationals, same
from softwright.checker.theorems.reading import Stage, TheoremFile
from softwright.checker.theorems.readout import Line, read_lines
from softwright.checker.theorems.running import (
    EXP_ERROR,
    ONE,
    TINY,
    UNIT,
    ZERO,
    Column,
    gamma,
    is_power_of_two,
    projection_error,
    roundings,
    run_head,
    upper,
)
from softwright.checker.theorems.sequences import SCALES, RankOneHead, dot, rank_one_head
from softwright.checker.trees import Tree

BITS = 256
MOST_CONTEXTS = 6_000
GRAIN = fmpq(1, 2**24)
SPLITS = 60  # of a box whose range is looked for
Cell = tuple[fmpq, fmpq]
Box = tuple[Cell, ...]
Levels = tuple[int, ...]  # of a token, one for each coordinate


@dataclass(frozen=True)
class Quantiser:
    """The cells (D for each coordinate), the shift of the codes."""

    cells: list[list[Cell]]
    shift: fmpq

    def code(self, token: Levels) -> Column:
        return [arb(self.shift + level) for level in token]

    def sides(self, token: Levels) -> list[Cell]:
        return [line[level] for line, level in zip(self.cells, token, strict=True)]

    def size(self, token: Levels) -> fmpq:
        found = fmpq(1)
        for low, high in self.sides(token):
            found *= high - low
        return found


def read_quantiser(stage: Stage, d: int, D: int, ramp: float) -> Quantiser:
    """The first feed-forward stage, if it is a quantiser with ramps of this width."""
    units, w = 2 * (D - 1), rational(ramp)
    require(stage.flags == {"residual": False}, "the quantiser has a residual")
    require(math.frexp(ramp)[0] == 0.5 and 2.0**-20 <= ramp <= 0.5, "the width of a ramp is no power of two in range")
    first, second = blank(stage["W_1"], (d * units, d), "W_1"), blank(stage["W_2"], (d, d * units), "W_2")
    for i in range(d):
        first[i * units : (i + 1) * units, i] = 1.0
        second[i, i * units : (i + 1) * units] = np.tile([1.0 / ramp, -1.0 / ramp], D - 1)
    same(stage["W_1"], first, "W_1")
    same(stage["W_2"], second, "W_2")
    require(stage["b_1"].shape == (d * units, 1) and stage["b_2"].shape == (d, 1), "b_1 or b_2 has another shape")
    shift = rational(stage["b_2"][0, 0])
    same(stage["b_2"], np.full((d, 1), float(stage["b_2"][0, 0])), "b_2")
    require(shift.q == 1 and 0 < shift < 2**20 and units < 2**20, "the codes do not begin at a small whole number")
    cells = []
    for i in range(d):
        walls = [-b for b in rationals(stage["b_1"][i * units : (i + 1) * units, 0])]
        ends = [fmpq(0), *walls, fmpq(1)]
        require(all((wall / GRAIN).q == 1 for wall in walls), "a threshold is no multiple of 2^-24")
        require(all(b - a == w for a, b in zip(walls[::2], walls[1::2], strict=True)), "a ramp has another width")
        require(all(a < b for a, b in pairwise(ends)), "the ramps are not in order within [0, 1]")
        cells.append(list(zip(ends[::2], ends[1::2], strict=True)))
    return Quantiser(cells, shift)


@dataclass(frozen=True)
class Part:
    """A box, bounds of a function's values in it, and about the least and the largest value that it surely takes."""

    box: Box
    low: arb
    high: arb
    least: arb
    most: arb


@dataclass
class Target:
    """phi, one tree for each output, over (x, m) in 2 d variables; ranges and values that were looked for before."""

    trees: list[Tree]
    space: Space
    known: dict[Box, list[tuple[arb, arb]]] = field(default_factory=dict)

    def model(self, tree: Tree, box: Box) -> Model:
        models = []
        for i, (low, high) in enumerate(box):
            slopes = [arb((high - low) / 2) if i == k else ZERO for k in range(len(box))]
            models.append(Model(self.space, self.space.linear(arb((low + high) / 2), slopes)))
        return evaluate(tree, models)

    def at(self, point: list[fmpq]) -> list[arb]:
        found = [self.model(tree, tuple((x, x) for x in point)) for tree in self.trees]
        return [model.parts[0][0] + arb(0, 1) * model.error for model in found]

    def ranges(self, box: Box) -> list[tuple[arb, arb]]:
        """Of every output a number below and one above all its values over a box."""
        if box not in self.known:
            self.known[box] = [self.extremes(tree, box) for tree in self.trees]
        return self.known[box]

    def extremes(self, tree: Tree, box: Box) -> tuple[arb, arb]:
        """The parts with the least lower or the largest upper bound are halved as long as that may pay."""
        parts = [self.look(tree, box)]
        for step in range(SPLITS):
            lowest, highest = min(parts, key=lambda part: part.low), max(parts, key=lambda part: part.high)
            gaps = min(part.least for part in parts) - lowest.low, highest.high - max(part.most for part in parts)
            if all(gap < (highest.high - lowest.low) / 2000 for gap in gaps):
                break
            worst = lowest if step % 2 else highest
            parts = [part for part in parts if part is not worst]
            axis = max(range(len(box)), key=lambda i: (worst.box[i][1] - worst.box[i][0]) / (box[i][1] - box[i][0]))
            low, high = worst.box[axis]
            for side in ((low, (low + high) / 2), ((low + high) / 2, high)):
                parts.append(self.look(tree, (*worst.box[:axis], side, *worst.box[axis + 1 :])))
        found = min(part.low for part in parts), max(part.high for part in parts)
        require(all(end.is_finite() for end in found), "the function may be undefined or unbounded on the cube")
        return found

    def look(self, tree: Tree, box: Box) -> Part:
        check_time()
        try:
            model = self.model(tree, box)
        except UndefinedError:
            return Part(box, arb.neg_inf(), arb.pos_inf(), ZERO, ZERO)
        moduli, middle = norms(model.parts), model.parts[0][0].mid()
        rise = (moduli[1] - sum(moduli[2:], model.error)).mid().max(ZERO)  # at a corner; it steers only
        return Part(box, *model.bounds(), middle - rise, middle + rise)


def names(d: int) -> list[str]:
    return ["x", "m"] if d == 1 else [f"{letter}{i + 1}" for letter in "xm" for i in range(d)]


def prove(file: TheoremFile) -> Proved:
    """|network - f|_p over the cube, and the rounding of the run at multiples of 2^-24."""
    tests = dict.fromkeys(("levels", "length", "dim", "p", "head_size"), is_size)
    tests = {**tests, "formula": is_text, "ramp": is_float, "scale": lambda value: value in SCALES}
    check_entries(file.sizes, tests, "the sizes")
    check_entries(file.drawn, {}, "what was drawn")
    text, D, n, d, p = (file.sizes[name] for name in ("formula", "levels", "length", "dim", "p"))
    require(file.inputs == (d, n) and n >= 2 and D >= 2 and d <= 6, "the network reads inputs of another shape")
    require(p <= 1_000, "an exponent above 1000 cannot be checked")
    first, attention, last = file.chain("feed_forward", "attention", "feed_forward")
    require(d * D <= first["W_1"].size and n < D**d <= MOST_CONTEXTS, "the cells are too many, or fewer than tokens")
    quantiser = read_quantiser(first, d, D, file.sizes["ramp"])
    sets = math.comb(D**d, n)
    require(sets * n <= MOST_CONTEXTS, f"{sets} sets of {n} cells are more than can be looked at here")
    target = Target(Parser(text, names(d)).outputs(), Space(2 * d, 3 if d == 1 else 2))
    require(len(target.trees) == d, f"the formula has {len(target.trees)} outputs, the theorem {d}")
    with ctx.workprec(BITS):
        head = rank_one_head(attention, d, causal=False)
        require(head.size == file.sizes["head_size"], f"the head has {head.size} rows")
        lines = read_lines(last, d, sets * n, residual=False)
        exact, rounding, steepest = bounds(quantiser, head, lines, target, n, p)
        scale = head.scale
    grain = fmpq(1, D) + 4 * GRAIN
    share = d * n * (D - 1) * rational(file.sizes["ramp"]) + math.comb(n, 2) * grain**d
    return Proved(
        statement=f"L{p} norm over [0,1]^({d} x {n}) of network - f, f(X)_k = {text} with m the mean",
        exact=exact,
        rounding=rounding,
        method="theorem C5",
        norm=f"L{p}",
        quantities={
            "share": arb(share),
            "contexts": arb(sets * n),
            "scale": scale,
            "steepest": steepest,
            "p": arb(p),
        },
        assumptions=("inputs are multiples of 2^-24 (for the rounding part)",),
    )


def bounds(
    quantiser: Quantiser, head: RankOneHead, lines: list[Line], target: Target, n: int, p: int
) -> tuple[arb, arb, arb]:
    """Exact part, rounding part, steepest slope."""
    d, D = len(quantiser.cells), len(quantiser.cells[0])
    everything = target.ranges(((fmpq(0), fmpq(1)),) * (2 * d))
    off = ZERO  # of the stored readout at ids
    least, most = [list(values) for values in zip(*((high, low) for low, high in everything), strict=True)]
    regions: list[tuple[fmpq, arb]] = []  # share of the cube, error
    for tokens in combinations(product(range(D), repeat=d), n):
        check_time()
        share, worst = fmpq(math.factorial(n)), ZERO
        for token in tokens:
            share *= quantiser.size(token)
        sides = [quantiser.sides(token) for token in tokens]
        mean = [
            (sum((side[i][0] for side in sides), fmpq(0)) / n, sum((side[i][1] for side in sides), fmpq(0)) / n)
            for i in range(d)
        ]
        middle = [fmpq(sum(token[i] for token in tokens) * 2 + n, 2 * n * D) for i in range(d)]
        for k, token in enumerate(tokens):
            values = target.at([fmpq(2 * level + 1, 2 * D) for level in token] + middle)
            ranges = target.ranges((*sides[k], *mean))
            found, _ = run_head(head, [quantiser.code(other) for other in (token, *others(tokens, k))], 0)
            for o, (value, (low, high)) in enumerate(zip(values, ranges, strict=True)):
                worst = worst.max((value - low).max(high - value).upper())
                off = off.max(abs(lines[o].at(found) - value).upper())
                least[o], most[o] = least[o].min(value.lower()), most[o].max(value.upper())
        regions.append((share, worst))
    outside = ZERO
    for (low, high), small, large in zip(everything, least, most, strict=True):
        outside = outside.max((large - low).max(high - small).upper())
    bad = 1 - sum((share for share, _ in regions), fmpq(0))
    power = arb(bad) * outside**p + sum((arb(share) * worst**p for share, worst in regions), ZERO)
    exact = largest([power.upper() ** (ONE / p)]).min(outside)
    steepest = ZERO
    rounding = ZERO
    ids, errors = id_range(quantiser, head, D), id_error(quantiser, head, n, D)
    for line, small, large in zip(lines, least, most, strict=True):
        slope = largest([abs(slope) for slope in line.slopes])
        steepest = steepest.max(slope)
        run, beyond = run_error(line, ids, errors, slope, small, large)
        rounding = rounding.max(run + off.max(beyond))
    return exact, largest([rounding]), steepest


def others(tokens: tuple[Levels, ...], k: int) -> tuple[Levels, ...]:
    return tokens[:k] + tokens[k + 1 :]


def reach(weights: list[arb], low: arb, high: arb) -> tuple[arb, arb]:
    """The least and the largest weights . x for x with all entries in [low, high]."""
    ends = [(w * low, w * high) for w in weights]
    return tuple(sum((pick(a, b) for a, b in ends), ZERO) for pick in (arb.min, arb.max))  # type: ignore[return-value]


def id_range(quantiser: Quantiser, head: RankOneHead, D: int) -> Callable[[list[arb]], tuple[arb, arb, Column]]:
    """Of a direction w the range of w.id over all codes, ramps included, and how large an id's entries may be."""
    low, high = arb(quantiser.shift), arb(quantiser.shift + D - 1)
    mean = reach(head.value, low, high)

    def along(w: list[arb]) -> tuple[arb, arb, Column]:
        token, moved = reach(w, low, high), dot(w, head.output)
        ends = [moved * end for end in mean]
        size = abs(mean[0]).max(abs(mean[1]))
        entries = [upper(high + abs(o) * size) for o in head.output]
        return (token[0] + ends[0].min(ends[1])).lower(), (token[1] + ends[0].max(ends[1])).upper(), entries

    return along


def id_error(quantiser: Quantiser, head: RankOneHead, n: int, D: int) -> Column:
    """How far the computed id of any n codes may be off: the analysis of `running`, with the largest of everything."""
    high, width = arb(quantiser.shift + D - 1), arb(D - 1)
    sizes, offs = [], []
    for weights in (head.key, head.query, head.value):
        sizes.append(upper(sum((abs(w) for w in weights), ZERO) * high))
        offs.append(upper(gamma(roundings(weights)) * sizes[-1] + TINY))
    (key, query, value), (off_key, off_query, off_value) = sizes, offs
    passed = key * off_query + off_key * (query + off_query)
    score = upper(passed + UNIT * (key * query + passed) + TINY)
    apart = upper(query * sum((abs(w) for w in head.key), ZERO) * width)
    rho = upper((score + UNIT * (apart + 2 * score)).exp() * (1 + EXP_ERROR) - 1)
    require(rho < 0.5, "scores too large for their precision")
    spread = sum((abs(w) for w in head.value), ZERO) * width / 2  # no mean deviation from a mean is larger
    error = rho * spread / (1 - rho) + off_value + (gamma(2 * n + 4) + n * TINY) * 2 * (value + off_value) + TINY
    found = []
    for o in head.output:
        moved = abs(o) * upper(error)
        exact = o.is_zero() or is_power_of_two(o)
        moved = moved + (ZERO if exact else UNIT * (abs(o) * value + moved)) + TINY
        found.append(upper(moved + UNIT * (high + abs(o) * value + moved)))
    return found


def run_error(
    line: Line,
    ids: Callable[[list[arb]], tuple[arb, arb, Column]],
    errors: Column,
    slope: arb,
    small: arb,
    large: arb,
) -> tuple[arb, arb]:
    """How far a computed output is from the stored readout in real arithmetic; how far that leaves [small, large]."""
    low, high, entries = ids(line.direction)
    heights = [line.height(z) for z in (low, high, *line.thresholds)]
    beyond, size = ZERO, ZERO
    for height in heights:
        beyond = beyond.max((height - large).max(small - height).upper())
        size = size.max(abs(height).upper())
    moved = upper(dot([abs(w) for w in line.direction], errors))
    projected = upper(projection_error(line.direction, entries, errors))
    passed = slope * moved
    return upper(passed + line.own_error(high, moved, projected, upper(size + passed))), beyond
