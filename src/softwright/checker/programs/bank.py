"""Embedding and bank: columns that are functions of a field or a place, and heads that look numbers up."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
from flint import ctx

from softwright.checker.programs.bounds import as_ball, over
from softwright.checker.programs.functions import BITS, ball_value, has_map
from softwright.checker.programs.lines import BANK, DEFAULT, INDEX, NULL, ONE, SQUARE, STRUCTURE, HeadLine
from softwright.checker.programs.plain import plain_value
from softwright.checker.programs.state import BESIDE, Combination, Held, Line, State, times
from softwright.checker.refusal import require

MOST_ROWS = 2048
HALF = Fraction(1, 2)


def stored_value(line: Line, value: Fraction) -> Fraction:
    """What a column must hold where its term has this value."""
    if line.kind == "whole":
        return value + line.numbers[0]
    if line.kind == "sign":
        return Fraction(1 if value else -1)
    if line.kind == "bit":
        low, bits, b = line.numbers
        code = int(value) - low
        code = code if 0 <= code <= 2**bits - 2 else 2**bits - 1
        return Fraction(1 - 2 * (code >> b & 1))
    require(line.kind == "real", "a column that no table can hold")
    return value


def value_of(state: State, line: Line, given: dict[int, Fraction]) -> tuple[Fraction, Fraction]:
    """What a column must hold where these values are given, and how well that is known: exactly, but for functions."""
    graph, symbols = state.graph, state.meaning.symbols
    kind = state.ranges.of(
        line.value
    )  # what lies outside, or is undefined, belongs to numbers that never stand together
    if not has_map(graph, line.value):
        value = plain_value(graph, line.value, given, symbols)
        return stored_value(line, min(max(value, kind.low), kind.high) if kind.whole else value), Fraction(0)
    require(line.kind == "real", "a column that no table can hold")
    with ctx.workprec(BITS):
        found = ball_value(graph, line.value, given, lambda value: plain_value(graph, value, given, symbols))
        if not found.is_finite():
            return Fraction(0), Fraction(0)
        mantissa, exponent = found.mid().man_exp()
    middle = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return middle, over(abs(found - as_ball(middle)))


def hold(
    state: State,
    column: int,
    wanted: list[Fraction],
    stored: list[Fraction],
    layer: int,
    leaks: Fraction,
    unknown: Fraction = Fraction(0),
) -> None:
    """Put down what a column of the embedding or of a table holds; `leaks` is what wrong tokens weigh, and what should
    be held is known up to `unknown`."""
    line, bounds = state.said[column], state.bounds
    low, high = min(wanted), max(wanted)
    apart = max(abs(a - b) for a, b in zip(wanted, stored, strict=True))
    most = max(*map(abs, stored), *map(abs, wanted), state.at_bank[column])
    if line.kind == "real":
        low, high, most, apart = low - unknown, high + unknown, most + unknown, apart + unknown
        copied = not layer or bounds.kept(min(map(abs, stored)), most, leaks)  # nothing else is heard: to the bit
        error = apart + (0 if copied else 4 * leaks * most + bounds.gamma(8) * most)
        state.held[column] = Held(low, high, False, error, layer)
        return
    require(apart == 0 and all(value.denominator == 1 for value in wanted), "a column does not hold what it should")
    least = min(map(abs, wanted))
    require(bounds.kept(least, most, leaks), "a column is not exact: other tokens weigh too much")
    state.held[column] = Held(low, high, True, Fraction(0), layer)


def prove_embedding(state: State, written: set[int]) -> None:
    """Columns that no head writes are functions of one field or of the place; all other columns begin as 0."""
    lines, graph = state.lines, state.graph
    for column, line in enumerate(state.said):
        sources = [name for name, rows in lines.fields.items() if rows[:, column].any()]
        by_place = bool(lines.places[:, column].any())
        if line.kind in STRUCTURE or line.kind in BESIDE or column in written:
            require(not sources and not by_place, "a column has something of the embedding that it must not have")
            continue
        require(len(sources) + by_place <= 1, "a column of the embedding has two sources")
        if sources and line.kind == "real" and graph.op[line.value] == "field":
            name = sources[0]
            good = graph.constant[line.value] == name and lines.fields[name].shape[0] == 1
            require(good and lines.fields[name][0, column] == 1.0, "a field is not embedded as it is")
            kind = state.ranges.of(line.value)
            state.held[column] = Held(kind.low, kind.high, False, Fraction(0), 0)
            continue
        require(line.leaves == (), "a column is neither embedded nor written")
        if sources:
            name = sources[0]
            leaf = graph.make("field", constant=name)
            kind = state.ranges.of(leaf)
            require(kind.whole and lines.fields[name].shape[0] == kind.size, "a field's rows do not fit")
            numbers, rows = codes_of(state, name), lines.fields[name]
            offset = int(kind.low)
        else:
            leaf, rows, offset = graph.make("position"), lines.places, 0
            numbers = list(range(len(rows)))
        found = [value_of(state, line, {leaf: Fraction(k)}) for k in numbers]
        stored = [Fraction(float(rows[k - offset, column])) for k in numbers]
        hold(state, column, [value for value, _ in found], stored, 0, Fraction(0), max(off for _, off in found))


def codes_of(state: State, name: str) -> list[int]:
    """The numbers that a field can be: of symbols those of its own vocabulary."""
    for field in state.fields_said:
        if field["name"] == name and field["kind"] == "symbol":
            return [state.meaning.symbols.index(symbol) for symbol in field["symbols"]]
    kind = state.ranges.fields[name]
    return list(range(int(kind.low), int(kind.high) + 1))


def check_bank(state: State, tables: set[int]) -> dict[int, Fraction]:
    """The bank's tokens are the null token, those of tables, and one for each default. Returns the defaults."""
    bank, width = state.lines.bank, len(state.said)
    flags = [column for column, line in enumerate(state.said) if line.kind == "mark"]
    rows = len(bank) - 1 - len(flags)
    require(rows >= 0, "the bank has too few tokens")
    wanted = np.zeros((len(bank), width))
    wanted[0, NULL] = 1.0
    numbers = np.arange(rows, dtype=float)
    wanted[1 : rows + 1, BANK], wanted[1 : rows + 1, INDEX], wanted[1 : rows + 1, SQUARE] = 1.0, numbers, numbers**2
    for column in tables:
        wanted[1 : rows + 1, column] = bank[1 : rows + 1, column]
    defaults: dict[int, Fraction] = {}
    for k, column in enumerate(flags):
        owner, row = state.said[column].value, rows + 1 + k
        require(owner not in defaults and owner not in tables and owner >= len(STRUCTURE), "a default is damaged")
        require(state.said[owner].kind in ("real", "whole"), "a default of what has none")
        defaults[owner] = Fraction(float(bank[row, owner]))
        wanted[row, [DEFAULT, column, owner]] = 1.0, 1.0, bank[row, owner]
    require(np.array_equal(wanted, bank), "the bank's tokens are not what they must be")
    return defaults


def prove_lookup(state: State, head: HeadLine) -> None:
    """A head that looks a whole number, or its higher digit, up in the bank."""
    numbers, bounds = head.numbers, state.bounds
    sharpness, middle, count = numbers["sharpness"], numbers["middle"], numbers["count"]
    digits = head.kind == "digit"
    rows = len(state.lines.bank) - 1 - sum(line.kind == "mark" for line in state.said)
    require(not head.where and not head.causal and count <= min(rows, MOST_ROWS), "a table's head is damaged")
    require(middle == (count - 1) // 2 and sharpness <= 2**12, "a table's numbers are damaged")
    factor = Fraction(sharpness if digits else 2 * sharpness)
    base = numbers["base"] if digits else None
    form = state.form(head.query[:, 0])
    require(state.layer_of(form) < head.layer, "a table reads what is not there yet")
    query = {column: c / factor for column, c in form.items()}
    _check_template(state, head, Fraction(sharpness * (base or 2), 2), middle, count, base or 1)
    kinds = [_wanted(state, head, column, query) for column in head.writes]
    wanted, first = kinds[0][0], kinds[0][1]
    require(all(one[0] == wanted and one[1] == first for one in kinds), "a table's columns do not belong together")
    eta = state.apart(state.meant(query), wanted) + state.rounding(form) / factor
    leaks = bounds.looked_up(eta, count, sharpness, base)
    for column, (_, _, values) in zip(head.writes, kinds, strict=True):
        require(column not in state.held, "a column is written twice")
        places = sorted(values)
        require(places and places[0] >= 0 and places[-1] == count - 1, "a table does not cover its numbers")
        stored = [Fraction(float(state.lines.bank[1 + k, column])) for k in places]
        unknown = state.unknown.get(column, Fraction(0))
        hold(state, column, [values[k] for k in places], stored, head.layer, leaks, unknown)


def _check_template(state: State, head: HeadLine, scale: Fraction, middle: int, count: int, base: int) -> None:
    """Keys are the tokens' numbers and squares, data tokens are shut out, values are the tokens' own columns."""
    width, dims = head.query.shape
    query, key = np.zeros((width, dims)), np.zeros((width, dims))
    require(dims >= 2, "a table's head is damaged")
    query[:, 0] = head.query[:, 0]
    query[ONE, 1] = float(scale)
    shut = -head.key[ONE, 1]
    require(shut >= 8.0 * (count + 2) ** 2 * base + 4096, "a table does not shut out the data")
    key[INDEX, 0], key[BANK, 0] = 1.0, -middle
    key[[SQUARE, INDEX, BANK], 1] = -1.0, 2.0 * middle, -1.0 * middle**2
    key[[ONE, NULL, DEFAULT], 1] = -shut
    good = np.array_equal(query, head.query) and np.array_equal(key, head.key) and Fraction(float(scale)) == scale
    require(good, "a table's weights are not what they must be")
    value, out = np.zeros_like(head.value), np.zeros_like(head.out)
    require(len(set(head.writes)) == len(head.writes) <= len(head.out), "a table writes a column twice")
    for v, column in enumerate(head.writes):
        value[column, v] = out[v, column] = 1.0
    require(np.array_equal(value, head.value) and np.array_equal(out, head.out), "a table's values are not its columns")


def _wanted(
    state: State, head: HeadLine, column: int, query: dict[int, Fraction]
) -> tuple[Combination, int, dict[int, Fraction]]:
    """What the query must mean, the first number, and what the column must hold at every token of the table."""
    line, numbers = state.said[column], head.numbers
    middle = numbers["middle"]
    if head.kind == "digit":
        return _digit(state, head, line, query)
    low = numbers["low"]
    if line.leaves:
        kinds = [state.ranges.of(leaf) for leaf in line.leaves]
        require(all(kind.whole for kind in kinds), "a table on real numbers")
        if len(kinds) == 1:
            leaf, kind = line.leaves[0], kinds[0]
            values = {}
            for k in range(int(kind.low), int(kind.high) + 1):
                values[k - low], off = value_of(state, line, {leaf: Fraction(k)})
                state.unknown[column] = max(state.unknown.get(column, Fraction(0)), off)
            return times(state.combination(leaf), Fraction(1), Fraction(-low - middle)), low, values
        return _joint(state, head, line, column)
    leader = state.said[head.writes[0]]
    good = leader.kind == "digit" and leader.numbers[2] == "low" and leader.value == line.value and low == 0
    require(good and leader.numbers[0] == line.numbers[0], "a table of no known numbers")
    start, base = leader.numbers[:2]
    rest: Combination = {("high", line.value, start, base): Fraction(-base)}
    wanted = times(state.combination(line.value), Fraction(1), Fraction(-start - middle))
    wanted = {key: c for key, c in {**wanted, **rest}.items() if c}
    _in_code(state, line)
    if line.kind == "digit":
        return wanted, 0, {c: Fraction(c + 1) for c in range(base)}
    require(line.kind == "bit" and 2 ** line.numbers[2] < base, "a low digit has no such bit")
    return wanted, 0, {c: Fraction(1 - 2 * (c >> line.numbers[2] & 1)) for c in range(base)}


def _joint(state: State, head: HeadLine, line: Line, column: int) -> tuple[Combination, int, dict[int, Fraction]]:
    leaves = line.leaves or ()
    kinds = [state.ranges.of(leaf) for leaf in leaves]
    strides, total = [], 1
    for kind in kinds:
        strides.append(total)
        total *= kind.size
    require(total <= MOST_ROWS and head.numbers["low"] == 0, "a table on too many numbers")
    wanted: Combination = {"": Fraction(-head.numbers["middle"])}
    for leaf, kind, stride in zip(leaves, kinds, strides, strict=True):
        for key, c in times(state.combination(leaf), Fraction(stride), -kind.low * stride).items():
            wanted[key] = wanted.get(key, Fraction(0)) + c
    values: dict[int, Fraction] = {}
    for chosen in product(*(range(kind.size) for kind in kinds)):
        given = {leaf: kind.low + k for leaf, kind, k in zip(leaves, kinds, chosen, strict=True)}
        place = sum(stride * k for stride, k in zip(strides, chosen, strict=True))
        values[place], off = value_of(state, line, given)
        state.unknown[column] = max(state.unknown.get(column, Fraction(0)), off)
    return {key: c for key, c in wanted.items() if c}, 0, values


def _digit(
    state: State, head: HeadLine, line: Line, query: dict[int, Fraction]
) -> tuple[Combination, int, dict[int, Fraction]]:
    base, middle, count = head.numbers["base"], head.numbers["middle"], head.numbers["count"]
    shift = HALF - base * (middle + HALF)
    if line.kind == "sign" and line.leaves is not None and len(line.leaves) == 1:
        leaf = line.leaves[0]
        kind, meant = state.ranges.of(leaf), state.meant(query)
        start = shift - (meant.get("", Fraction(0)) - state.combination(leaf).get("", Fraction(0)))
        require(kind.whole and start.denominator == 1, "a digit of no whole number")
        values: dict[int, Fraction] = {}
        for d in range(int(kind.low), int(kind.high) + 1):
            truth = plain_value(state.graph, line.value, {leaf: Fraction(d)}, state.meaning.symbols)
            place, value = (d - int(start)) // base, stored_value(line, truth)
            require(values.setdefault(place, value) == value, "a truth value is no function of the higher digit")
        return times(state.combination(leaf), Fraction(1), shift - start), int(start), values
    require(line.leaves is None and line.kind in ("digit", "bit"), "a digit of no known number")
    _in_code(state, line)
    start = line.numbers[0]
    require((state.ranges.of(line.value).high - start) // base == count - 1, "a table has other digits")
    wanted = times(state.combination(line.value), Fraction(1), shift - start)
    if line.kind == "digit":
        require(line.numbers[1:] == (base, "high"), "a digit to another base")
        return wanted, start, {a: Fraction(a + 1) for a in range(count)}
    half = base.bit_length() - 1
    require(2**half == base and line.numbers[2] >= half, "a high digit has no such bit")
    return wanted, start, {a: Fraction(1 - 2 * (a >> (line.numbers[2] - half) & 1)) for a in range(count)}


def _in_code(state: State, line: Line) -> None:
    """The numbers of a value that is split into digits begin at the line's, and fit into its bits."""
    kind, low = state.ranges.of(line.value), line.numbers[0]
    require(kind.whole and low <= kind.low, "digits of what is no such whole number")
    if line.kind == "bit":
        require(kind.high - low <= 2 ** line.numbers[1] - 2, "a value has numbers without a code")
