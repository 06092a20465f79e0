"""Branches: chains of layers over one input, and what two of them, or one and constants, come to without a new layer.

*Elementwise maps* c s + t of a branch (batch norm in eval mode, scales, shifts, signs) are carried until a Linear layer
takes them up, W (c s + t) + b = (W c) s + (W t + b), or the last Linear layer does, or they become a layer. Weights
that are made so are rounded to float64, and a certificate speaks of them as they then are.

*Sums and joins* (x + f(x), cat(f(x), g(x))): the branches run side by side in one chain. A branch with fewer layers
waits for the other one, its values s carried through a layer of activations as two neurons each,

    s = phi(s) - phi(-s)    for relu, gelu in all its forms and silu,     (1 + a) s    for leaky relu with the slope a,

since max(s, 0) - max(-s, 0) = s, and s F(s) + s F(-s) = s for every F with F(s) + F(-s) = 1. So a residual network is
an ordinary chain; heads of fitted tokens charge their error to the values that wait, as to all others.

Other activations are such chains too: prelu(s) = relu(s) - a relu(-s), selu = c elu_a, celu_a(s) = a elu(s/a),
logsigmoid(s) = -softplus(-s), quick gelu(s) = silu(r s)/r.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from softwright.errors import InvalidInput
from softwright.targets.mlp.activation import Activation
from softwright.targets.mlp.dense import DenseLayer

LINEAR = Activation("identity")
_ODD = ("relu", "leaky_relu", "gelu", "gelu_tanh", "gelu_erf", "gelu_cubic", "silu")  # phi(s) - phi(-s) = c s
_WIDEST = 1 << 13  # values that may have an identity layer of their own
Affine = tuple[np.ndarray, np.ndarray]  # weight (out, in), bias (out,)


@dataclass(frozen=True)
class Branch:
    """A chain of layers applied to the input, and a map scale s + shift of its values that is no layer yet."""

    layers: tuple[DenseLayer, ...] = ()
    scale: np.ndarray | float = 1.0  # a number, or one for each value
    shift: np.ndarray | float = 0.0
    size: int | None = None  # how many values the input has, where that is known

    @property
    def plain(self) -> bool:
        """Whether nothing is carried."""
        return not np.ndim(self.scale) and not np.ndim(self.shift) and (self.scale, self.shift) == (1.0, 0.0)

    @property
    def width(self) -> int | None:
        """How many values it has; None where only the input knows."""
        if self.layers:
            return self.layers[-1].outputs
        return next((len(x) for x in (self.scale, self.shift) if isinstance(x, np.ndarray)), self.size)

    def scaled(self, scale: np.ndarray | float, shift: np.ndarray | float = 0.0) -> Branch:
        """scale s + shift of every value s."""
        for numbers in (scale, shift):
            if np.ndim(numbers) and self.width not in (None, np.size(numbers)) and np.size(numbers) > 1:
                fault = f"{np.size(numbers)} numbers meet rows of {self.width} values; mend the shapes, or the axis"
                raise InvalidInput("transpile", [fault])
        return replace(self, scale=self.scale * scale, shift=self.shift * scale + shift)

    def linear(self, weight: np.ndarray, bias: np.ndarray) -> Branch:
        """A Linear layer, weight (out, in), which takes up what is carried."""
        if not self.plain:
            bias = bias + (weight @ np.broadcast_to(self.shift, weight.shape[1]))
            weight = weight * self.scale
        return Branch((*self.layers, DenseLayer(weight, bias, LINEAR)))

    def settled(self) -> Branch:
        """The same with nothing carried: the last Linear layer takes it up, else a layer of its own."""
        if self.plain:
            return self
        if self.layers and self.layers[-1].activation == LINEAR:
            last = self.layers[-1]
            scale = np.broadcast_to(self.scale, last.outputs)
            taken = DenseLayer(last.weight * scale[:, None], last.bias * scale + self.shift, LINEAR)
            return Branch((*self.layers[:-1], taken))
        if self.width is None:
            raise InvalidInput(
                "transpile", ["a number is added to or multiplied with an input; put a Linear before it"]
            )
        return self.linear(identity(self.width), np.zeros(self.width))

    def activated(self, activation: Activation) -> Branch:
        """phi of every value, in the last Linear layer if that has none."""
        whole = self.settled()
        if not whole.layers and whole.size is not None:
            whole = whole.linear(identity(whole.size), np.zeros(whole.size))
        if not whole.layers:
            fault = f"{activation} does not follow a Linear layer; put torch.nn.Linear before it"
            raise InvalidInput("transpile", [fault])
        if whole.layers[-1].activation != LINEAR:
            size = whole.layers[-1].outputs
            whole = whole.linear(identity(size), np.zeros(size))
        return Branch((*whole.layers[:-1], replace(whole.layers[-1], activation=activation)))

    def leaky(self, slopes: np.ndarray) -> Branch:
        """PReLU: max(s, 0) - a max(-s, 0), with one slope a for each value."""
        if len(slopes) == 1:
            return self.activated(Activation("leaky_relu", (float(slopes[0]),)))
        if self.width not in (None, len(slopes)):
            fault = f"PReLU with {len(slopes)} slopes meets rows of {self.width} values; mend the shapes, or the axis"
            raise InvalidInput("transpile", [fault])
        eye = identity(len(slopes))
        both = self.settled().linear(np.vstack([eye, -eye]), np.zeros(2 * len(slopes)))
        fold = np.hstack([eye, -eye * slopes])
        return both.settled().activated(Activation("relu")).linear(fold, np.zeros(len(slopes)))


def identity(size: int) -> np.ndarray:
    """The identity, of a size that fits into memory whatever a file says."""
    if size > _WIDEST:
        raise InvalidInput("transpile", [f"{size} values would need a layer of {size} x {size} numbers; put a Linear"])
    return np.eye(size)


def total(one: Branch, other: Branch) -> Branch:
    """The sum of two branches of one input."""
    layers, (left, right) = _together([one, other])
    if len(left[0]) != len(right[0]) and 1 in (len(left[0]), len(right[0])):  # one value meets all others
        size = max(len(left[0]), len(right[0]))
        left, right = ((w.repeat(size // len(w), 0), b.repeat(size // len(b))) for w, b in (left, right))
    if len(left[0]) != len(right[0]):
        raise InvalidInput("transpile", [f"{len(left[0])} and {len(right[0])} values are added; mend the shapes"])
    return Branch((*layers, DenseLayer(left[0] + right[0], left[1] + right[1], LINEAR)))


def joined(branches: Sequence[Branch]) -> Branch:
    """The values of several branches of one input, one after the other."""
    layers, ends = _together(branches)
    return Branch((*layers, DenseLayer(np.vstack([w for w, _ in ends]), np.concatenate([b for _, b in ends]), LINEAR)))


def _together(branches: Sequence[Branch]) -> tuple[list[DenseLayer], list[Affine]]:
    """The layers of one chain for all branches, and each branch's values as an affine map of their last one."""
    chains = [branch.settled().layers for branch in branches]
    shared = len(list(takewhile(lambda same: all(x is same[0] for x in same), zip(*chains, strict=False))))
    width = next((chain[shared].inputs for chain in chains if len(chain) > shared), None)
    if shared:
        width = chains[0][shared - 1].outputs
    if width is None:
        raise InvalidInput("transpile", ["an input is added to or joined with itself; put a Linear before it"])
    layers = list(chains[0][:shared])
    paths = [_levels(chain[shared:], width) for chain in chains]
    reads = [identity(width)] * len(paths)  # each branch's inputs of the next level from the chain's values
    ends: list[Affine | None] = [None] * len(paths)
    for level in range(max(len(levels) for levels, _ in paths)):
        phi = next(levels[level][2] for levels, _ in paths if len(levels) > level)
        rows, biases, places = [], [], []
        for i, (levels, tail) in enumerate(paths):
            if len(levels) > level:
                weight, bias, own = levels[level]
                if own != phi:
                    fault = f"branches that are added or joined run {own} beside {phi}; let them have one activation"
                    raise InvalidInput("transpile", [fault])
                rows.append(weight @ reads[i])
                biases.append(bias)
                places.append((len(bias), identity(len(bias))))
                continue
            weight, bias = tail if ends[i] is None else ends[i]  # type: ignore[misc]
            ends[i] = identity(len(bias)), np.zeros(len(bias))  # from now on its values wait
            rows.append(np.vstack([weight @ reads[i], -weight @ reads[i]]))
            biases.append(np.concatenate([bias, -bias]))
            places.append((2 * len(bias), _odd_part(phi) * np.hstack([identity(len(bias)), -identity(len(bias))])))
        layers.append(DenseLayer(np.vstack(rows), np.concatenate(biases), phi))
        reads, at = [], 0
        for count, read in places:
            reads.append(
                np.hstack([np.zeros((len(read), at)), read, np.zeros((len(read), len(layers[-1].bias) - at - count))])
            )
            at += count
    last = [tail if end is None else end for (_, tail), end in zip(paths, ends, strict=True)]
    return layers, [(weight @ read, bias) for (weight, bias), read in zip(last, reads, strict=True)]


def _levels(layers: Sequence[DenseLayer], width: int) -> tuple[list[tuple[np.ndarray, np.ndarray, Activation]], Affine]:
    """Layers with activations, the linear ones between them multiplied out, and the affine map behind the last."""
    levels = []
    weight, bias = identity(width), np.zeros(width)
    for layer in layers:
        if layer.inputs != len(weight):
            fault = f"a layer of {layer.inputs} inputs gets {len(weight)} values; mend the shapes"
            raise InvalidInput("transpile", [fault])
        weight, bias = layer.weight @ weight, layer.weight @ bias + layer.bias
        if layer.activation != LINEAR:
            levels.append((weight, bias, layer.activation))
            weight, bias = identity(layer.outputs), np.zeros(layer.outputs)
    return levels, (weight, bias)


def _odd_part(phi: Activation) -> float:
    """c of s = c (phi(s) - phi(-s))."""
    slope = phi.parameters[0] if phi.name == "leaky_relu" else 0.0
    if phi.name not in _ODD or slope == -1.0:
        fault = (
            f"a branch would have to wait beside {phi}, which lets no value through unchanged; residual paths go with "
            f"{', '.join(_ODD[:3])} and silu"
        )
        raise InvalidInput("transpile", [fault])
    return 1.0 / (1.0 + slope)
