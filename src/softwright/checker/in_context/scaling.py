"""The layers of a stack in context that scale the features, and the cells from which scales and rates are picked.

Cells are fixed tokens with scores sum_{i > e} SHARPNESS (1 - v/B_i) for edges B_0 < B_1 < .., largest for the cell e
that holds v. Unit tokens find the range of their feature (`preparation.check_centre`), pick a scale by it, and once
more by the variance of what is scaled, until that is between 1 and sqrt 2; heads that multiply apply the scales.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from softwright.checker.in_context.preparation import Form, check_product, close, only, people, read_group, weighted
from softwright.checker.in_context.stack import ExpectedHead, Layer, Stack
from softwright.checker.refusal import require

OFFSET = 0.7390851332151607  # where the edges of cells begin; no number that data like to have
SHARPNESS = 64.0
ANGLES = {"float64": {1: 3e-5, 2: 2e-3, 6: 1.2e-1}, "float32": {1: 2.5e-2, 2: 1.5e-1, 6: 3e-1}}  # by order


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
    spread = stack.block("spread").T
    fresh, everybody = stack.residual(("x", "x", 0.0)), (*people(stack), "query")
    _check_cells(stack, layers[0], "ranges", "range", "scale1", cell_edges(-30, 30, 1))
    form = Form([], x, first, e, x.T)
    heads = product_heads(stack, layers[1], range(layers[1].heads), form, d, settings["range_bound"])
    stack.same_layer(layers[1], "scale", everybody, ("unit",), heads, fresh, close(stack))
    many = layers[2].heads - (2 if root else 0)
    heads = product_heads(stack, layers[2], range(many), Form(also, e, x, x, spread), 1.0, 1.0)
    if root:
        form = Form([only(stack, "pen")], root * first, e, root * first, spread)
        heads += product_heads(stack, layers[2], range(many, many + 2), form, float(d), 1e3)
    stack.same_layer(layers[2], "spread", ("unit",), (*people(stack), "unit"), heads, None, close(stack))
    _check_cells(stack, layers[3], "spreads", "spread", "scale2", cell_edges(-24, 20, 2))
    many, reach = layers[4].heads // 2, settings["feature_bound"]
    heads = product_heads(stack, layers[4], range(many), Form([], x, second, e, (x + start * z).T), d, reach)
    both = np.concatenate([first, stack.vector(tau1=1.0)[:, None]], axis=1)
    writes = np.concatenate([root * (g + start * z).T, total[None]])
    heads += product_heads(stack, layers[4], range(many, 2 * many), Form([], e, second, both, writes), d, reach)
    stack.same_layer(layers[4], "scale", (*everybody, "unit"), ("unit",), heads, fresh, close(stack))


def product_heads(
    stack: Stack, layer: Layer, heads: range, form: Form, factor: float, reach: float
) -> list[ExpectedHead]:
    expected, scales, outputs = read_group(layer, heads, form)
    order, angles = len(heads) // 2, ANGLES[stack.precision.name]
    require(order in angles, "there are more or fewer heads than a product takes")
    check_product(stack, scales, outputs, factor, reach, order, angles[order])
    return expected


def check_soft_cells(stack: Stack, function: Callable[[np.ndarray], np.ndarray]) -> None:
    """The tokens `weights`, which gradient steps do not read, stand for the logarithm of a weight."""
    tokens = stack.tensors["base_weights"]
    slope, bias, value = (tokens[:, stack.at(name)] for name in ("slope", "bias", "value"))
    rest = tokens.copy()
    for name in ("slope", "bias", "value"):
        rest[:, stack.at(name)] = 0.0
    stack.same(rest, np.tile(stack.vector(one=1.0, weights=1.0), (len(tokens), 1)), "base_weights")
    require(bool((np.diff(slope) > 0).all()), "the tokens of the weights are out of order")
    s = np.linspace(-40, 40, 401)
    scores = s[:, None] * slope + bias
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    off = np.abs(weights @ value / weights.sum(axis=1) - function(s)).max()
    require(off < 0.01, "the tokens of the weights are not those of this loss")
