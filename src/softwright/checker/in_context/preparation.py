"""What a stack in context must hold besides its steps: its tokens, and the layers that prepare a prompt.

Tokens, one per observation unless said otherwise, D columns by name:

    data      x, y, log weight as given; one = data = 1, and a last x of 1 that carries an intercept as a coefficient
    mirror    (without an intercept, for squares) the same with the signs of x and y turned
    count     log weight; one = count = 1
    query     x
    basis     e_1, .., e_d, fixed
    unit      +e_p and -e_p for every coordinate: e = +-e_p, own = e_p, other = 1 - e_p, and g = +-sqrt(penalty) e_p
    null      one = null = 1, for heads that have nothing to say

The layer `centre` takes the mean of x (and y) off; with scaling five more layers pick, from fixed cells, scales that
bring every feature to a variance between 1 and sqrt 2. The claims about steps hold whatever these layers do; that they
do it is compared here entry by entry, so that nothing in a verified file is unaccounted for. Heads that multiply
numbers are groups (`bilinear`), of which it is enough that they stand for products on the range they are built for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from flint import arb, fmpq

from softwright.checker.in_context.bilinear import Group, covariance_error
from softwright.checker.in_context.stack import OMEGA, ExpectedHead, Layer, Pair, Stack
from softwright.checker.refusal import require

OFFSET = 0.7390851332151607  # where the edges of cells begin; no number that data like to have
SHARPNESS = 64.0
PRODUCTS_OFF = 1e-2  # how far a group of the preparation may be from the product it stands for


def rational(x: float) -> fmpq:
    return fmpq(*float(x).as_integer_ratio())


def close(stack: Stack) -> float:
    """Relative room for numbers that were computed before they were rounded."""
    return 8 * stack.precision.unit


def people(stack: Stack) -> tuple[str, ...]:
    return ("data",) if stack.settings["intercept"] else ("data", "mirror")


def weighted(stack: Stack) -> Pair:
    return stack.vector(one=1.0), stack.vector(log_weight=1.0)


def only(stack: Stack, *flags: str) -> Pair:
    """Scores of tokens without one of these flags are OMEGA below."""
    one = stack.vector(one=1.0)
    return one, OMEGA * (stack.vector(**dict.fromkeys(flags, 1.0)) - one)


def read_group(
    layer: Layer,
    heads: range,
    also: Sequence[Pair],
    Q: np.ndarray,
    K: np.ndarray,
    V: np.ndarray,
    O: np.ndarray,  # noqa: E741
) -> tuple[list[ExpectedHead], tuple[fmpq, ...], tuple[fmpq, ...]]:
    """Heads with scores s_h (x_i Q).(x_j K) and outputs o_h O: what they must be, given s_h and o_h as stored."""
    V, O = V.reshape(len(V), -1), O.reshape(-1, O.shape[-1])  # noqa: E741
    row, column = _place(Q)
    value, slot = _place(O)
    expected, scales, outputs = [], [], []
    for h in heads:
        s = float(layer.tensors["Wq"][h, row, len(also) + column]) / Q[row, column]
        o = float(layer.tensors["Wo"][h, value, slot]) / O[value, slot]
        expected.append(ExpectedHead([*also, (s * Q, K)], V, o * O))
        scales.append(rational(s))
        outputs.append(rational(o))
    return expected, tuple(scales), tuple(outputs)


def _place(matrix: np.ndarray) -> tuple[int, int]:
    """Where to read a factor of the matrix from: at a 1 if there is one, so that no division rounds."""
    found = np.argwhere(matrix == 1) if (matrix == 1).any() else np.argwhere(matrix)
    return int(found[0][0]), int(found[0][1])


def is_product(scales: tuple[fmpq, ...], outputs: tuple[fmpq, ...], wanted: float, reach: float) -> None:
    """On half of the range that they are built for, the heads stand for `wanted` times a product."""
    group = Group(scales, outputs, rational(wanted), arb(reach) / 2, arb(1), arb(0), 1, arb(1))
    require(covariance_error(group) < PRODUCTS_OFF * abs(wanted) * reach, "heads that should multiply do not")


def product_heads(
    stack: Stack,
    layer: Layer,
    heads: range,
    also: Sequence[Pair],
    Q: np.ndarray,
    K: np.ndarray,
    V: np.ndarray,
    O: np.ndarray,  # noqa: E741
    factor: float,
    reach: float,
) -> list[ExpectedHead]:
    expected, scales, outputs = read_group(layer, heads, also, Q, K, V, O)
    is_product(scales, outputs, factor, reach)
    return expected


def check_tokens(stack: Stack, constant: bool, counting: bool, start: float, log_a: float) -> None:
    """All tokens but the cells; `start` > 0: z begins as start times x."""
    d, settings = stack.settings["features"], stack.settings
    one, x = stack.vector(one=1.0), stack.at("x")
    last = np.zeros(stack.width)
    if constant:
        last[x + d] = 1.0

    def rows(sign: float, response: bool, features: bool) -> np.ndarray:
        embed = np.zeros((d + 2, stack.width))
        if features:
            embed[:d, x : x + d] = sign * np.eye(d)
        if response:
            embed[d] = stack.vector(y=sign)
        return embed

    weight = np.zeros((d + 2, stack.width))
    weight[d + 1] = stack.vector(log_weight=1.0)
    data = one + stack.vector(data=1.0)
    begin = stack.vector(log_a=log_a) if log_a else 0.0 * one
    stack.same_tokens("base_data", data + last + begin, close(stack))
    stack.same_tokens("embed_data", rows(1.0, True, True) + weight)
    if "mirror" in stack.sources:
        stack.same_tokens("base_mirror", data - last)
        stack.same_tokens("embed_mirror", rows(-1.0, True, True) + weight)
    require(("count" in stack.sources) == counting, "there are counting tokens where there should be none, or none")
    if counting:
        stack.same_tokens("base_count", one + stack.vector(count=1.0))
        stack.same_tokens("embed_count", weight)
    stack.same_tokens("base_query", one + last)
    stack.same_tokens("embed_query", rows(1.0, False, True))
    basis = np.tile(one, (d, 1))
    basis[:, x : x + d] += np.eye(d)
    if start:
        basis[:, stack.at("z") : stack.at("z") + d] += start * np.eye(d)
    stack.same_tokens("base_basis", basis, close(stack))
    stack.same_tokens("base_null", one + stack.vector(null=1.0))
    units = [_unit(stack, p, sign, start) for p in range(d + constant) for sign in (1.0, -1.0)]
    stack.same_tokens("base_unit", np.stack(units), close(stack))
    known = {"data", "query", "basis", "unit", "null", *(("count",) if counting else ())}
    known |= {"mirror"} if not settings["intercept"] else set()
    known |= {"ranges", "spreads"} if settings["scaling"] else set()
    require(stack.sources.keys() - {"link", "weights", "rates"} == known, "the file has other segments of tokens")
    inputs = {"data": "data", "mirror": "data", "count": "data", "query": "query"}
    require(
        all(source == inputs.get(name, "fixed") for name, source in stack.sources.items()),
        "a segment takes the wrong input",
    )


def _unit(stack: Stack, p: int, sign: float, start: float) -> np.ndarray:
    d, settings = stack.settings["features"], stack.settings
    token = stack.vector(one=1.0, unit=1.0, other=1.0, **{"pos" if sign > 0 else "neg": 1.0})
    token[stack.at("e") + p], token[stack.at("own") + p], token[stack.at("other") + p] = sign, 1.0, 0.0
    if p == d:
        token[stack.at("scale1") + p] = token[stack.at("scale2") + p] = sign
    else:
        token += stack.vector(pen=1.0)
    if not settings["scaling"]:
        root = math.sqrt(settings["penalty"])
        token[stack.at("g") + p] = sign * root
        token[stack.at("tau")] = sign
        if start:
            token[stack.at("z") + p] = start * sign * root
    return token


def check_centre(stack: Stack, layer: Layer, centre_y: bool, targets: Sequence[str], start: float) -> None:
    """The first layer: a uniform head takes the mean off; with scaling two hard heads find the range of a feature."""
    d, scaling = stack.settings["features"], stack.settings["scaling"]
    one, null, x = stack.vector(one=1.0), stack.vector(null=1.0), stack.block("x", d)
    also = [weighted(stack), (one, -OMEGA * null), (2 * OMEGA * stack.vector(unit=1.0), null)]
    takes = -x.T
    if start and not scaling:
        takes = takes - start * stack.block("z", d).T
    mean = (-1.0 if centre_y else 0.0) * stack.vector(y=1.0)
    for target in targets:
        mean = mean + stack.vector(**{target: 1.0})
    V = np.concatenate([x, stack.vector(y=1.0)[:, None]], axis=1)
    heads = [ExpectedHead(also, V, np.concatenate([takes, mean[None]]))]
    rows = (*people(stack), "query")
    if scaling:
        for sign in (1.0, -1.0):
            hard = (sign * 2.0**44 * stack.block("e"), stack.block("x"))
            pairs = [weighted(stack), (one, -1e28 * null), hard]
            heads.append(ExpectedHead(pairs, stack.block("x"), sign * stack.block("range").T))
        rows = (*rows, "unit")
    R = stack.residual(("x", "z", start)) if start and not scaling else None
    stack.same_layer(layer, "centre", rows, (*people(stack), "null"), heads, R, close(stack))


def cell_edges(lowest: int, highest: int, per_octave: int) -> np.ndarray:
    return OFFSET * 2.0 ** (np.arange(lowest * per_octave, highest * per_octave + 1) / per_octave)


def cell_rows(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes and offsets of scores sum_{i > e} SHARPNESS (1 - v/B_i), largest for the cell e that holds v."""
    slopes = [-SHARPNESS * math.fsum(1.0 / edges[e + 1 :]) for e in range(len(edges) - 1)]
    return np.array(slopes), SHARPNESS * np.arange(len(edges) - 1, 0, -1.0)


def _check_cells(stack: Stack, layer: Layer, name: str, source: str, target: str, edges: np.ndarray) -> None:
    d, (slopes, offsets) = stack.settings["features"], cell_rows(edges)
    values = 1.0 / edges[1:] if target == "scale1" else 1.0 / np.sqrt(edges[:-1])
    blocks = []
    for p in range(d):
        for sign in (1.0, -1.0):
            block = np.tile(stack.vector(one=1.0, other=1.0, **{"pos" if sign > 0 else "neg": 1.0}), (len(slopes), 1))
            block[:, stack.at("other") + p] = 0.0
            block[:, stack.at(source) + p] = sign * slopes
            block[:, stack.at("tau")] = offsets
            block[:, stack.at(target) + p] = block[:, stack.at("tau1")] = sign * values
            blocks.append(block)
    stack.same_tokens(f"base_{name}", np.concatenate(blocks), 1e3 * stack.precision.unit)
    one, null, pos, neg = (stack.vector(**{slot: 1.0}) for slot in ("one", "null", "pos", "neg"))
    pairs = [
        (-1e25 * stack.block("own"), stack.block("other")),
        (-1e25 * pos, neg),
        (-1e25 * neg, pos),
        (one, -1e20 * null),
        (stack.block(source), stack.block(source)),
        (one, stack.vector(tau=1.0)),
    ]
    V = stack.block(target)
    if target == "scale1":
        V = np.concatenate([V, stack.vector(tau1=1.0)[:, None]], axis=1)
    stack.same_layer(layer, "cells", ("unit",), (name, "null"), [ExpectedHead(pairs, V, V.T)])


def check_scaling(stack: Stack, layers: Sequence[Layer], start: float) -> None:
    """The five layers after the first: ranges to scales, scale, spreads to scales, scale."""
    require(len(layers) == 5, "scaling takes five layers after the first")
    settings, d = stack.settings, stack.settings["features"]
    root, also = math.sqrt(settings["penalty"]), [only(stack, "data"), weighted(stack)]
    x, e, z, g = (stack.block(slot) for slot in ("x", "e", "z", "g"))
    first, second, total = stack.block("scale1"), stack.block("scale2"), stack.vector(tau=1.0)
    fresh, everybody = stack.residual(("x", "x", 0.0)), (*people(stack), "query")
    _check_cells(stack, layers[0], "ranges", "range", "scale1", cell_edges(-30, 30, 1))
    many = layers[1].heads
    heads = product_heads(stack, layers[1], range(many), [], x, first, e, x.T, d, settings["range_bound"])
    stack.same_layer(layers[1], "scale", everybody, ("unit",), heads, fresh, close(stack))
    many = layers[2].heads - (2 if root else 0)
    heads = product_heads(stack, layers[2], range(many), also, e, x, x, stack.block("spread").T, 1.0, 1.0)
    if root:
        own = root * first
        some, pen = range(many, many + 2), [only(stack, "pen")]
        heads += product_heads(stack, layers[2], some, pen, own, e, own, stack.block("spread").T, float(d), 1e3)
    stack.same_layer(layers[2], "spread", ("unit",), (*people(stack), "unit"), heads, None, close(stack))
    _check_cells(stack, layers[3], "spreads", "spread", "scale2", cell_edges(-24, 20, 2))
    many, reach = layers[4].heads // 2, settings["feature_bound"]
    heads = product_heads(stack, layers[4], range(many), [], x, second, e, (x + start * z).T, d, reach)
    both = np.concatenate([first, stack.vector(tau1=1.0)[:, None]], axis=1)
    writes = np.concatenate([root * (g + start * z).T, total[None]])
    heads += product_heads(stack, layers[4], range(many, 2 * many), [], e, second, both, writes, d, reach)
    stack.same_layer(layers[4], "scale", (*everybody, "unit"), ("unit",), heads, fresh, close(stack))


def check_soft_cells(stack: Stack, function: Callable[[np.ndarray], np.ndarray]) -> None:
    """The tokens `weights`, which gradient steps do not read, stand for the logarithm of a weight."""
    tokens = stack.tensors["base_weights"]
    slope, bias, value = (tokens[:, stack.at(name)] for name in ("slope", "bias", "value"))
    rest = tokens.copy()
    for name in ("slope", "bias", "value"):
        rest[:, stack.at(name)] = 0.0
    stack.same(rest, np.tile(stack.vector(one=1.0, weights=1.0), (len(tokens), 1)), "base_weights")
    s = np.linspace(-40, 40, 401)
    scores = s[:, None] * slope + bias
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    off = np.abs(weights @ value / weights.sum(axis=1) - function(s)).max()
    require(off < 0.05, "the tokens of the weights are not those of this loss")
