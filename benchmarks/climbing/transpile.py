"""Transpiled networks: every activation, every layout, gated blocks, boxes of many sizes and none."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn
from transpile_soundness import LAYERS

import softwright as sw
from climbing.job import Job
from softwright.errors import SoftwrightError

LAYOUTS = ("softmax", "sdpa", "multihead", "sequence")


class Gated(nn.Module):
    """down(phi(gate x) * value x)"""

    def __init__(self, activation: nn.Module, d: int, h: int, m: int) -> None:
        super().__init__()
        self.gate, self.value, self.down = (nn.Linear(a, b, dtype=torch.float64) for a, b in ((d, h), (d, h), (h, m)))
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.activation(self.gate(x)) * self.value(x))


def draw(rng: np.random.Generator) -> Job | None:
    dtype, layout = str(rng.choice(["float64", "float32"])), str(rng.choice(LAYOUTS))
    torch.manual_seed(int(rng.integers(1 << 30)))
    gated = rng.random() < 0.2
    if gated:
        name = str(rng.choice(["silu", "gelu", "relu", "sigmoid", "tanh", "identity"]))
        source: nn.Module = Gated(LAYERS[name](rng), *(int(n) for n in rng.integers(1, 9, 3))).eval()
        layout = str(rng.choice(LAYOUTS[:3]))
    else:
        source, name = _chain(rng)
    if dtype == "float32" and rng.random() < 0.5:
        source = source.float()
    reach = float(rng.choice([0.1, 1.0, 5.0, 40.0]))
    box: Any = (-reach, reach * float(rng.uniform(0.1, 1))) if rng.random() < 0.85 else None
    try:
        built = sw.transpile(source, box, dtype=dtype, layout=layout)
    except SoftwrightError:  # without a box some activations cannot be bounded
        return None
    return Job(f"{'gated ' * gated}{name}, {layout}, {dtype}, box {box}", built)


def _chain(rng: np.random.Generator) -> tuple[nn.Module, str]:
    sizes = [int(n) for n in rng.integers(1, 13, size=rng.integers(2, 5))]
    scale, layers, names = float(rng.choice([0.3, 1.0, 4.0])), [], []
    for i, (a, b) in enumerate(pairwise(sizes)):
        linear = nn.Linear(a, b, dtype=torch.float64)
        linear.weight.data = torch.tensor(rng.normal(size=(b, a)) * scale / np.sqrt(a))
        linear.bias.data = torch.tensor(rng.normal(size=b) * scale)
        layers.append(linear)
        if i < len(sizes) - 2 or rng.random() < 0.3:
            names.append(str(rng.choice(list(LAYERS))))
            layers.append(LAYERS[names[-1]](rng))
    return nn.Sequential(*layers).eval(), " ".join(names)
