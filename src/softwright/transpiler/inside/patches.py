"""Convolutions as linear maps over patches, and networks that are applied to every patch of images or sequences.

A weight (out, in, k, k) is a matrix (out, in k k); what the convolution gives at a place is that matrix times the patch
of its input there, its channels one after the other. A convolution of groups is a matrix with blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.nn.functional import unfold

from softwright.transpiler.inside.calling import OtherAxes

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d)


@dataclass(frozen=True)
class Patches:
    """How a convolution walks over its input; images have two axes, sequences one (a first axis of size 1)."""

    channels: int
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    flat: bool = False
    of_many: bool = False  # whether something in it goes along axis 1, where a single image has no channels

    @property
    def single(self) -> bool:
        """Whether every number of a channel is a patch of its own."""
        return (self.kernel, self.stride, self.padding) == ((1, 1), (1, 1), (0, 0))

    def shape(self) -> tuple[int, ...]:
        """Of a row of points, as the convolution takes it."""
        return (self.channels, self.kernel[1]) if self.flat else (self.channels, *self.kernel)


class PatchNetwork(nn.Module):
    """A network applied to every patch of images (N, C, H, W) or sequences (N, C, L), its outputs as channels."""

    def __init__(self, network: nn.Module, patches: Patches) -> None:
        super().__init__()
        self.network, self.patches = network, patches

    def forward(self, x: Tensor) -> Tensor:
        how = self.patches
        if x.dim() == (2 if how.flat else 3):  # one image without an axis for many
            if how.of_many:
                fault = (
                    f"axis 1 of {x.dim()} axes is not that of channels; give it with an axis for many, x.unsqueeze(0)"
                )
                raise OtherAxes("transpile", [fault])
            return self(x.unsqueeze(0)).squeeze(0)
        images = x.unsqueeze(2) if how.flat else x
        sizes = [
            (images.shape[i + 2] + 2 * how.padding[i] - how.dilation[i] * (how.kernel[i] - 1) - 1) // how.stride[i] + 1
            for i in (0, 1)
        ]
        columns = unfold(images, how.kernel, how.dilation, how.padding, how.stride)  # (N, C k k, places)
        found = self.network(columns.transpose(1, 2)).transpose(1, 2).reshape(x.shape[0], -1, *sizes)
        return found.squeeze(2) if how.flat else found


def patches_of(layer: Any) -> Patches | None:
    """How a convolution walks; None for padding that is not zeros, or not the same on both sides."""
    if layer.padding_mode != "zeros" or layer.transposed:
        return None
    flat = isinstance(layer, nn.Conv1d)
    around: Any = layer.padding
    if isinstance(around, str):
        spare = [k - 1 if around == "same" else 0 for k in layer.kernel_size]
        spare = [d * k for d, k in zip(layer.dilation, spare, strict=True)]
        if any(size % 2 for size in spare):
            return None
        around = tuple(size // 2 for size in spare)
    kernel, stride, padding, dilation = (
        _pair(sizes, flat, first)
        for sizes, first in ((layer.kernel_size, 1), (layer.stride, 1), (around, 0), (layer.dilation, 1))
    )
    return Patches(layer.in_channels, kernel, stride, padding, dilation, flat)


def matrix_of(layer: Any) -> tuple[np.ndarray, np.ndarray]:
    """Weight (out, in k k) and bias (out,) of a convolution."""
    weight = layer.weight.detach().double().cpu().numpy()
    matrix = np.zeros((layer.out_channels, layer.in_channels, *weight.shape[2:]))
    rows, columns = layer.out_channels // layer.groups, layer.in_channels // layer.groups
    for g in range(layer.groups):
        block = slice(g * rows, (g + 1) * rows)
        matrix[block, g * columns : (g + 1) * columns] = weight[block]
    bias = np.zeros(len(matrix)) if layer.bias is None else layer.bias.detach().double().cpu().numpy()
    return matrix.reshape(layer.out_channels, -1), bias


def on_one_patch(layer: nn.Module) -> nn.Module:
    """A convolution as it acts on a single patch; other layers as they are."""
    if not isinstance(layer, CONVOLUTIONS):
        return layer
    kind: Any = type(layer)
    has_bias = layer.bias is not None
    made = kind(layer.in_channels, layer.out_channels, layer.kernel_size, groups=layer.groups, bias=has_bias)
    made.weight = nn.Parameter(layer.weight.detach())
    made.bias = None if layer.bias is None else nn.Parameter(layer.bias.detach())
    return made


def _pair(given: Any, flat: bool, first: int) -> tuple[int, int]:
    """Sizes along two axes; a sequence has one of size 1 before its own."""
    sizes = given if isinstance(given, tuple) else (given,)
    return (first, int(sizes[0])) if flat else (int(sizes[0]), int(sizes[-1]))
