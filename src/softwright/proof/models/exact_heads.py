"""The network as real-number functions: what its stored parameters say, for the engine that will run it.

The parameters that are certified are those of the module, after any cast to float32: they are exact numbers. The dense
engine takes the biases as stored. The factorised engine reads each axis of a grid head from the edge of the grid, so in
real arithmetic its bias of token (j_1, .., j_d) is the sum of d edge entries (one shared number cancels in each
softmax).
"""

from __future__ import annotations

import numpy as np

from softwright.attention import ENGINES, AttentionNetwork, SoftmaxHead
from softwright.errors import Faults
from softwright.precision import name_of
from softwright.proof.arithmetic.directed import two_sum
from softwright.proof.arithmetic.rounding import ARITHMETIC, RunEngine, arithmetic_of
from softwright.proof.models.grid import Grid, grid_of, lines_of
from softwright.proof.models.head_moments import ExactHead

_LARGEST = 1e100  # beyond it products of parameters leave float64


def dtype_name(network: AttentionNetwork) -> str:
    return name_of(network.dtype)


def beyond_range(array: np.ndarray) -> bool:
    """Whether a parameter is too large for proofs."""
    return bool(np.any(np.abs(array.astype(float)) > _LARGEST))


def check_network(network: AttentionNetwork, engine: str, faults: Faults) -> None:
    """Record everything that makes the network impossible to certify."""
    name = dtype_name(network)
    faults.check(
        name in ARITHMETIC,
        f"dtype {name} has no proved rounding bound; convert with network.to(torch.float64) or torch.float32",
    )
    choice = f"choose from {', '.join(ENGINES)}"
    if engine in ("window", "tree"):
        own = "what it computes is within exact_part + network." + f"{engine}_error()"
        faults.add(f"no certificate speaks of engine {engine!r}; certify another ({choice}), and {own}")
    else:
        faults.check(engine in ENGINES, f"unknown engine {engine!r}; {choice}")
    wide = engine == "double" and name == "float64"
    faults.check(not wide, "engine 'double' is for float32 networks; a float64 one computes so by engine 'sdpa'")
    for key, tensor in network.state_dict().items():
        array = tensor.detach().double().cpu().numpy()
        if not np.all(np.isfinite(array)):
            faults.add(
                f"{key} holds {int(np.count_nonzero(~np.isfinite(array)))} NaN or infinite entries; build it again"
            )
        elif beyond_range(array):
            faults.add(
                f"{key} holds entries above {_LARGEST:g}, which float64 proofs cannot handle; rescale the network"
            )
    faults.check(bool((network.scale > 0).all()), "scale must be positive; build the network again")


def exact_heads(network: AttentionNetwork, engine: str) -> tuple[ExactHead, ...]:
    """The heads with the numbers that `engine` uses."""
    center = network.center.detach().double().cpu().numpy()
    scale = network.scale.detach().double().cpu().numpy()
    arithmetic = arithmetic_of(dtype_name(network), engine)
    heads = []
    for module in network.layer:
        keys, biases, values = (p.detach().double().cpu().numpy() for p in (module.keys, module.biases, module.values))
        slopes = None if module.slopes is None else module.slopes.detach().double().cpu().numpy()
        low, size, run, grid = np.zeros_like(biases), np.abs(biases), RunEngine(arithmetic), None
        by_axes = engine == "factorised"
        if module.structure == "grid":
            grid = grid_of(keys, biases, module.axis_sizes, by_axes)
            if by_axes:
                keys, biases, low, size = _from_edges(module, keys, biases)
                run = RunEngine(arithmetic, module.axis_sizes)
        heads.append(ExactHead(keys, biases, low, size, values, slopes, center, scale, run, grid))
    return tuple(heads)


def _from_edges(
    module: SoftmaxHead, keys: np.ndarray, biases: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Keys, biases (a sum of two floats) and the sizes that rounding sees, for a grid head read along its edges."""
    sizes = module.axis_sizes
    d = len(sizes)
    grid_keys, grid_biases = keys.reshape(*sizes, d), biases.reshape(sizes)
    corner = abs(float(grid_biases[(0,) * d]))
    tokens = np.indices(sizes).reshape(d, -1).T  # (N, d)
    edge_keys = np.empty_like(keys)
    high, low, size = np.zeros(len(keys)), np.zeros(len(keys)), np.zeros(len(keys))
    for i, line in enumerate(lines_of(sizes)):
        edge_keys[:, i] = grid_keys[line][tokens[:, i], i]
        bias = grid_biases[line][tokens[:, i]]
        high, slip = two_sum(high, bias)
        low = low + slip
        size += np.abs(bias) + corner
    return edge_keys, high, low, size


def float_values(heads: tuple[ExactHead, ...], points: np.ndarray) -> np.ndarray:
    """Plain float64 values (n, m), for choosing where to look; nothing is proved with them."""
    total = np.zeros((len(points), heads[0].values.shape[1]))
    for head in heads:
        t = (points - head.center) * head.scale
        grid = head.grid if head.slopes is None and points.shape[1] > 1 else None
        rest = len(head.keys) if grid is None else len(head.keys) // grid.sizes[0] * total.shape[1] + max(grid.sizes)
        step = max(1, 4_000_000 // rest)
        for start in range(0, len(points), step):
            part = t[start : start + step]
            if grid is not None:
                total[start : start + step] += _along_axes(grid, head.values, part)
                continue
            w = part @ head.keys.T
            w += head.bias
            _softmax(w)
            total[start : start + step] += w @ head.values
            if head.slopes is not None:
                N, m, d = head.slopes.shape
                slopes = w @ head.slopes.reshape(N, m * d)
                sloped = slopes * part if d == 1 else np.einsum("qmd,qd->qm", slopes.reshape(len(part), m, d), part)
                total[start : start + step] += sloped
    return total


def _softmax(scores: np.ndarray) -> np.ndarray:
    """Along rows, in place."""
    scores -= np.maximum.reduce(scores, axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= np.add.reduce(scores, axis=1, keepdims=True)
    return scores


def _along_axes(grid: Grid, values: np.ndarray, t: np.ndarray) -> np.ndarray:
    """A grid of constant values at t (q, d), one axis after the other: (q, m)."""
    y = None
    for i, (keys, biases) in enumerate(zip(grid.keys, grid.biases, strict=True)):
        w = _softmax(np.multiply.outer(t[:, i], keys) + biases)  # (q, n_i)
        y = w @ values.reshape(len(keys), -1) if y is None else np.einsum("qn,qnr->qr", w, y.reshape(*w.shape, -1))
    return values[:0] if y is None else y
