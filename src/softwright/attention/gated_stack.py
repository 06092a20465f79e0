"""A stack of gates: s <- s G_k(x_k), one layer a variable, as data and as a module.

A gate is a head in which the data token looks at itself and at an empty token of score 0: its weight on itself is the
logistic function of its score, and what it adds to the stream is that weight times a linear map of the stream. With
scores a_j (t - c_j) of one variable t and maps M_j of the state s, and one head M_0 that looks at the data token alone,

    s  <-  s + s (M_0 - 1) + sum_j sigma(a_j (t - c_j)) s M_j  =  s G(t),        G(t) = M_0 + sum_j sigma_j(t) M_j,

which is vanilla attention with a residual stream. The data token holds a 1, the inputs and the state, which begins as
(1, 0, ..., 0); the readout is linear in the state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softwright.attention.composition import BANK, DATA, ComposedNetwork
from softwright.attention.stack import FIXED, Blueprint, HeadWeights, LayerWeights, Segment, check_blueprint
from softwright.domain import Box
from softwright.precision import Precision

_FAR = 2048.0  # beyond the exponents of all types: exp(-2048) is 0 in float64 and float32


def logistic(scores: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + np.tanh(0.5 * scores))


@dataclass(frozen=True)
class GateLayer:
    """Scores slopes (N,) * (t - centres (N,)) of one variable, the maps (N, r, r') and the constant map (r, r')."""

    variable: int
    slopes: np.ndarray
    centres: np.ndarray
    maps: np.ndarray
    constant: np.ndarray
    error: float  # seen, in the units of the values

    def weights(self, t: np.ndarray) -> np.ndarray:
        return logistic((t[:, None] - self.centres) * self.slopes)


@dataclass(frozen=True)
class GateStack:
    """Layers in order and the readout (r, m)."""

    layers: tuple[GateLayer, ...]
    read: np.ndarray

    @property
    def tokens(self) -> int:
        return sum(2 * len(layer.slopes) + 1 for layer in self.layers)

    def __call__(self, t: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, m)"""
        state = np.ones((len(t), 1))
        for layer in self.layers:
            weights = layer.weights(t[:, layer.variable])
            state = state @ layer.constant + np.einsum("qj,qa,jab->qb", weights, state, layer.maps, optimize=True)
        return state @ self.read

    def network(self, box: Box, precision: Precision) -> ComposedNetwork:
        """The module on the box itself: centres and slopes are those of t = (x - centre) / halfwidth."""
        d, rank = box.dim, max(layer.constant.shape[1] for layer in self.layers)
        state = slice(1 + d, 1 + d + rank)
        width = 1 + d + rank + 1  # 1, inputs, state, and the mark of the empty token
        embed = np.zeros((d, width))
        embed[np.arange(d), 1 + np.arange(d)] = 1.0
        base, empty = np.zeros((1, width)), np.zeros((1, width))
        base[0, 0] = base[0, state.start] = 1.0
        empty[0, -1] = 1.0
        layers = [
            LayerWeights(_heads(layer, box, state, width), (DATA,), (DATA, BANK), label=box.names[layer.variable])
            for layer in self.layers
        ]
        slots = {"one": (0, 1), **{name: (1 + i, 2 + i) for i, name in enumerate(box.names)}}
        slots |= {"state": (state.start, state.stop), "code": (width - 1, width)}
        blueprint = Blueprint(slots, [Segment(DATA, "point", base, embed), Segment(BANK, FIXED, empty)], layers)
        check_blueprint(blueprint, precision.name)
        read = np.zeros((width, self.read.shape[1]))
        read[state.start : state.start + len(self.read)] = self.read
        texts = ["1", *box.names, *(f"state {i}" for i in range(1, rank + 1))]
        return ComposedNetwork(blueprint, read, box, texts, [0] * len(layers), self.tokens, precision.torch_dtype)


def _heads(layer: GateLayer, box: Box, state: slice, width: int) -> list[HeadWeights]:
    rows, rank = len(layer.constant), state.stop - state.start
    middle, half = box.center[layer.variable], box.halfwidth[layer.variable]
    out = np.zeros((rank, width))
    out[:, state] = np.eye(rank)
    found = []
    for number in range(len(layer.slopes) + 1):
        queries, keys, values = np.zeros((width, 2)), np.zeros((width, 2)), np.zeros((width, rank))
        queries[0, 1] = 1.0
        own = layer.constant if number == 0 else layer.maps[number - 1]
        values[state.start : state.start + rows, : own.shape[1]] = own
        if number == 0:
            values[state.start : state.start + rows, :rows] -= np.eye(rows)
            keys[-1, 1] = -_FAR  # the empty token is out of sight
        else:
            slope, centre = layer.slopes[number - 1], layer.centres[number - 1]
            queries[1 + layer.variable, 0] = slope / half
            queries[0, 0] = -slope * (centre + middle / half)
            keys[0, 0] = 1.0
        found.append(HeadWeights(queries, keys, values, out))
    return found
