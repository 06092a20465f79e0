"""The tensors of every layout, entry by entry: which weights, biases and tokens a layer of heads or of products holds.

softmax, double, sdpa, sequence
    tokens (4, p), weight (H, d), bias (H,): the heads are made of these when they run
multihead
    the same, and a stock module of one head of width 4 for all neurons: queries 2 (s, 1, 0, 0), keys (k_j, b_j, 0, 0)
    and values (v_j, u_j, 0, 0) of tokens (k_j, b_j, v_j, u_j), nothing changed at the end; what it returns is (v, u),
    and the neuron v s + u. Where all u_j are 0, or all v_j, that module may have the width 1: queries s, keys k_j,
    values v_j (or u_j) and a mask that adds b_j to scores, nothing changed before or after; the neuron is v s (or u)
sdpa and multihead in groups of four neurons
    the same, and queries 2 (s_1, .., s_4) of the stock module; keys and values are given as they are (`groups.py`)
multihead, before (no weight and bias beside the stock module)
    tokens (4, p) and a stock module. For tokens {0: 0; beta s: s} it is given x, with a zero token of its own: queries
    are beta, keys and values W x + c. Other tokens are (v_j x, v_j, u_j, k_j, b_j); heads of width r = 2, or 1 if all
    b_j are 0, have queries sqrt(r) (W x + c, 1), keys (k_j, b_j) and values v_j (W x + c) + u_j. The output projection
    passes the first number of each head on
products
    gate (heads, or gate_weight and gate_bias), value_weight, value_bias, steps and shares (K,); as a stock module
    besides: tokens (u, b) and c (u, b), a head for every unit and step, keys s_k u, values b, output projection a_k; in
    groups the stock module is that of groups of neurons, for heads {s_k u: 1, c s_k u: c}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from softwright.checker.refusal import require

Array = np.ndarray
LAYOUTS = ("softmax", "double", "sdpa", "multihead", "sequence")


class Tensors:
    """The tensors of a network; what was asked for is noted, so that what nobody asked for can be refused."""

    def __init__(self, tensors: Mapping[str, Array]) -> None:
        self.tensors, self.left = tensors, set(tensors)

    def take(self, name: str, *shape: int | None) -> Array:
        """The tensor of this name, which must have this shape (None: any size)."""
        require(name in self.left, f"the tensor {name!r} is missing")
        self.left.remove(name)
        array = self.tensors[name]
        fits = array.ndim == len(shape) and all(size in (None, n) for size, n in zip(shape, array.shape, strict=True))
        require(fits, f"{name} has the shape {array.shape}, it should be {shape}")
        return array

    def prescribed(self, name: str, shape: tuple[int, ...], entries: list[tuple[Any, Any]]) -> None:
        """The tensor holds these entries and is 0 elsewhere. Nothing is allocated that the file does not hold."""
        self.equal(self.take(name, *shape), entries, name)

    @staticmethod
    def equal(found: Array, entries: list[tuple[Any, Any]], name: str) -> None:
        wanted = np.zeros_like(found)
        for place, value in entries:
            wanted[place] = value
        require(np.array_equal(found, wanted), f"{name} is not what the layout prescribes")


@dataclass(frozen=True)
class Stored:
    """An affine map as stored, and the tokens of its heads, if it has any."""

    weight: Array
    bias: Array
    tokens: Array | None = None
    shared: bool = False  # four neurons have one softmax
    separate: bool = False  # every neuron has a stock head of its own, which forms s once for scores and once in values


def read_linear(tensors: Tensors, prefix: str, outputs: int, inputs: int, names: str = "{}") -> Stored:
    weight, bias = (prefix + names.format(kind) for kind in ("weight", "bias"))
    return Stored(tensors.take(weight, outputs, inputs), tensors.take(bias, outputs))


def read_heads(tensors: Tensors, prefix: str, heads: int, inputs: int, layout: str, shared: bool = False) -> Stored:
    """A layer of neurons; `shared`: four of them in one softmax."""
    tokens = tensors.take(f"{prefix}tokens", 4, None)
    require(tokens.shape[1] > 0, f"{prefix}tokens is empty")
    stock = f"{prefix}attention."
    if layout != "multihead" or f"{prefix}weight" in tensors.left:
        if layout == "multihead" and narrow(tensors.tensors, stock):
            require(not shared, "neurons that share a softmax need stock attention of width 4")
            require(not (tokens[2].any() and tokens[3].any()), "values of two kinds need stock attention of width 4")
            _check_stock(tensors, stock, 1, [((row, 0), 1) for row in range(3)])
        elif layout == "multihead":
            _check_shared(tensors, stock, shared)
        linear = read_linear(tensors, prefix, heads, inputs)
        return Stored(linear.weight, linear.bias, tokens, shared)
    require(not shared, "stock heads of single neurons share no softmax")
    if tokens.shape[1] == 2 and not tokens[:, 0].any() and tokens[1:, 1].tolist() == [0.0, 1.0, 0.0]:
        return _read_sink(tensors, stock, heads, inputs, tokens)
    return _read_tokens(tensors, stock, heads, inputs, tokens)


def _check_shared(tensors: Tensors, stock: str, groups: bool) -> None:
    """The one head of all neurons: rows of queries, keys and values, four each, and what they take."""
    taken = [((0, 0), 2), ((1, 1), 2), ((4, 0), 1), ((5, 1), 1), ((8, 2), 1), ((9, 3), 1)]
    if groups:
        taken = [((row, row % 4), 2 if row < 4 else 1) for row in range(12)]
    _check_stock(tensors, stock, 4, taken)


def narrow(tensors: Mapping[str, Array], stock: str) -> bool:
    """Whether a stock module, by the beginning of its names, has one head of width 1."""
    found = tensors.get(f"{stock}in_proj_weight")
    return found is not None and found.shape == (3, 1)


def _check_stock(tensors: Tensors, stock: str, width: int, taken: list[tuple[Any, Any]]) -> None:
    """A module that takes these entries of queries, keys and values, and changes nothing else."""
    tensors.prescribed(f"{stock}in_proj_weight", (3 * width, width), taken)
    tensors.prescribed(f"{stock}in_proj_bias", (3 * width,), [])
    tensors.prescribed(f"{stock}out_proj.weight", (width, width), [((i, i), 1) for i in range(width)])
    tensors.prescribed(f"{stock}out_proj.bias", (width,), [])


def _projections(tensors: Tensors, stock: str, size: int, given: int) -> tuple[Array, Array, Array]:
    """Query, key and value weights: one tensor where keys are as wide as queries, else three."""
    if given == size:
        whole = tensors.take(f"{stock}in_proj_weight", 3 * size, size)
        return whole[:size], whole[size : 2 * size], whole[2 * size :]
    widths = {"q": size, "k": given, "v": given}
    query, key, value = (tensors.take(f"{stock}{name}_proj_weight", size, width) for name, width in widths.items())
    return query, key, value


def _read_sink(tensors: Tensors, stock: str, heads: int, inputs: int, tokens: Array) -> Stored:
    query, key, value = _projections(tensors, stock, heads, inputs)
    bias = tensors.take(f"{stock}in_proj_bias", 3 * heads)
    own = bias[heads : 2 * heads]
    Tensors.equal(query, [], f"{stock}queries")
    Tensors.equal(value, [(..., key)], f"{stock}values")
    Tensors.equal(
        bias, [(slice(0, heads), tokens[0, 1]), (slice(heads, None), np.tile(own, 2))], f"{stock}in_proj_bias"
    )
    every = np.arange(heads)
    tensors.prescribed(f"{stock}out_proj.weight", (heads, heads), [((every, every), 1)])
    tensors.prescribed(f"{stock}out_proj.bias", (heads,), [])
    return Stored(key, own, tokens, separate=True)


def _read_tokens(tensors: Tensors, stock: str, heads: int, inputs: int, tokens: Array) -> Stored:
    width = 2 if tokens[1].any() else 1
    wide = width * max(heads, math.ceil(inputs / width))
    query, key, value = _projections(tensors, stock, wide, inputs + 4)
    bias = tensors.take(f"{stock}in_proj_bias", 3 * wide)
    root = tokens.dtype.type(math.sqrt(width))
    first, second = slice(0, width * heads, width), slice(1, width * heads, width)
    weight, own = value[first, :inputs], value[first, inputs]
    Tensors.equal(value, [((first, slice(0, inputs)), weight), ((first, inputs), own), ((first, inputs + 1), 1)],
                  f"{stock}values")  # fmt: skip
    Tensors.equal(query, [((first, slice(0, inputs)), root * weight)], f"{stock}queries")
    keys: list[tuple[Any, Any]] = [((first, inputs + 2), 1)]
    biases: list[tuple[Any, Any]] = [(first, root * own)]
    if width == 2:
        keys, biases = [*keys, ((second, inputs + 3), 1)], [*biases, (second, root)]
    Tensors.equal(key, keys, f"{stock}keys")
    Tensors.equal(bias, biases, f"{stock}in_proj_bias")
    every = np.arange(heads)
    tensors.prescribed(f"{stock}out_proj.weight", (wide, wide), [((every, width * every), 1)])
    tensors.prescribed(f"{stock}out_proj.bias", (wide,), [])
    return Stored(weight, own, tokens, separate=True)


@dataclass(frozen=True)
class StoredProducts:
    """A layer of gated units as stored."""

    gate: Stored
    value: Stored
    steps: Array
    shares: Array
    shared: bool = False


def pairs(tokens: Array) -> bool:
    """Whether heads of these tokens share a softmax where units do: two tokens, no biases, values of one kind."""
    k, b, v, u = tokens
    return len(k) == 2 and not b.any() and bool(k[0] != k[1]) and not (v.any() and u.any())


def read_products(
    tensors: Tensors, prefix: str, heads: int, inputs: int, layout: str, activated: bool, shared: bool = False
) -> StoredProducts:
    require(layout not in ("sequence", "double"), f"gated units have no form in the layout {layout}")
    if activated:
        tokens = tensors.tensors.get(f"{prefix}gate.tokens")
        both = shared and tokens is not None and tokens.ndim == 2 and len(tokens) == 4 and pairs(tokens)
        gate = read_heads(tensors, f"{prefix}gate.", heads, inputs, layout, both)
    else:
        gate = read_linear(tensors, prefix, heads, inputs, "gate_{}")
    value = read_linear(tensors, prefix, heads, inputs, "value_{}")
    steps = tensors.take(f"{prefix}steps", None)
    count = len(steps)
    require(1 <= count <= 16, f"{count} heads for every product")
    shares = tensors.take(f"{prefix}shares", count)
    require(not shared or layout in ("sdpa", "multihead"), f"units share no softmax in the layout {layout}")
    if layout == "multihead" and shared:
        _check_shared(tensors, f"{prefix}product.", True)
    elif layout == "multihead":
        stock, size = f"{prefix}product.", heads * count
        query, key, values = _projections(tensors, stock, size, 2 * heads)
        rows, unit = np.arange(size), np.repeat(np.arange(heads), count)
        Tensors.equal(query, [], f"{stock}queries")
        Tensors.equal(key, [((rows, unit), np.tile(steps, heads))], f"{stock}keys")
        Tensors.equal(values, [((rows, heads + unit), 1)], f"{stock}values")
        tensors.prescribed(f"{stock}in_proj_bias", (3 * size,), [(slice(0, size), 1)])
        tensors.prescribed(f"{stock}out_proj.weight", (size, size), [((unit, rows), np.tile(shares, heads))])
        tensors.prescribed(f"{stock}out_proj.bias", (size,), [])
    return StoredProducts(gate, value, steps, shares, shared)
