"""Is the bound of `transpile` ever violated? Random networks, and a search for the worst input of each.

    python benchmarks/transpile_soundness.py [--networks 200] [--points 10000] [--seed 0] [--layout double]

Depth 1 to 4, width 1 to 64, every activation, every layout, float64 and float32, boxes of many sizes. The search climbs
the deviation from 10^4 points: gradients of the difference between the attention network and the source (both in
float64) find where it is largest, and the points found are evaluated in the network's own dtype against the source in
long double. A violation ends the run with exit code 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

import softwright as sw

LAYERS = {
    "relu": lambda rng: nn.ReLU(),
    "leaky_relu": lambda rng: nn.LeakyReLU(float(rng.choice([0.01, 0.3, -0.5, 1.7]))),
    "hardtanh": lambda rng: nn.Hardtanh(float(-rng.uniform(0.1, 3)), float(rng.uniform(0.1, 3))),
    "relu6": lambda rng: nn.ReLU6(),
    "hardsigmoid": lambda rng: nn.Hardsigmoid(),
    "silu": lambda rng: nn.SiLU(),
    "sigmoid": lambda rng: nn.Sigmoid(),
    "tanh": lambda rng: nn.Tanh(),
    "gelu": lambda rng: nn.GELU(),
    "gelu_tanh": lambda rng: nn.GELU(approximate="tanh"),
    "softplus": lambda rng: nn.Softplus(float(rng.choice([1.0, 0.5, 3.0])), float(rng.choice([20.0, 5.0]))),
    "elu": lambda rng: nn.ELU(float(rng.choice([1.0, 0.3, 2.0, -0.5]))),
    "mish": lambda rng: nn.Mish(),
    "softsign": lambda rng: nn.Softsign(),
    "identity": lambda rng: nn.Identity(),
}
LAYOUTS = ("softmax", "double", "sdpa", "multihead", "sequence")


def random_network(rng: np.random.Generator, first: str) -> nn.Sequential:
    """Depth 1 to 4, the first activation given so that all are met."""
    sizes = [int(n) for n in rng.integers(1, 65, size=rng.integers(2, 6))]
    scale = float(rng.choice([0.3, 1.0, 4.0]))
    layers: list[nn.Module] = []
    for i, (a, b) in enumerate(pairwise(sizes)):
        linear = nn.Linear(a, b, dtype=torch.float64)
        linear.weight.data = torch.tensor(rng.normal(size=(b, a)) * scale / np.sqrt(a))
        linear.bias.data = torch.tensor(rng.normal(size=b) * scale)
        layers.append(linear)
        if i < len(sizes) - 2 or rng.random() < 0.2:
            layers.append(LAYERS[first if i == 0 else str(rng.choice(list(LAYERS)))](rng))
    return nn.Sequential(*layers).eval()


def worst_points(network: nn.Module, source: nn.Module, low: float, high: float, points: np.ndarray) -> np.ndarray:
    """All points tried (n, d): the start, and two steps up the deviation by the sign of its gradient."""
    tried = [points]
    x = torch.tensor(points)
    for step in (0.02, 0.2):
        x = x.detach().clone().requires_grad_(True)
        try:
            loss = (network(x) - source(x)).abs().max(dim=1).values.sum()
            (gradient,) = torch.autograd.grad(loss, x)
        except RuntimeError:  # a network without a gradient: all units constant
            break
        gradient = torch.nan_to_num(gradient)
        x = (x + step * (high - low) * gradient.sign()).clamp(low, high)
        tried.append(x.detach().numpy())
    return np.concatenate(tried)


def main() -> int:
    parser = argparse.ArgumentParser(description="Search for violations of the bounds of transpile.")
    parser.add_argument("--networks", type=int, default=200)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layout", choices=LAYOUTS, help="of networks whose dtype has it; all in turn unless given")
    options = parser.parse_args()
    torch.set_num_threads(1)
    started, violations, closest = time.perf_counter(), 0, 0.0
    ratios: dict[str, list[float]] = {}
    for i in range(options.networks):
        rng = np.random.default_rng([options.seed, i])
        first = list(LAYERS)[i % len(LAYERS)]
        source = random_network(rng, first)
        reach = float(rng.choice([0.1, 1.0, 5.0, 40.0]))
        dtype, layout = ("float64", "float32")[i // len(LAYERS) % 2], LAYOUTS[i % len(LAYOUTS)]
        layout = options.layout or layout
        if layout == "double" and dtype == "float64":
            layout = "softmax"
        low, high = -reach, reach * float(rng.uniform(0.1, 1))
        built = sw.transpile(source, (low, high), dtype=dtype, layout=layout)
        if built.certificate is None:
            print(f"network {i}: no certificate ({built.unproved})")
            violations += 1
            continue
        double = sw.transpile(source, (low, high), dtype="float64")
        d: Any = built.network.inputs
        share = options.points // 3
        start = rng.uniform(low, high, size=(share, d))
        corners = rng.random(share) < 0.1
        start[corners] = np.where(rng.random((int(corners.sum()), d)) < 0.5, low, high)
        tried = worst_points(double.network, source, low, high, start)
        tried = np.concatenate([tried, rng.uniform(low, high, size=(options.points - len(tried), d))])
        single = np.float32 if dtype == "float32" else np.float64
        tried = np.clip(tried.astype(single).astype(np.float64), low, high).astype(single).astype(np.float64)
        tried = tried[np.all((tried >= low) & (tried <= high), axis=1)]
        error = float(np.abs(built(tried) - built.source(tried, exact=True)).max())
        ratio = error / built.certificate.bound if built.certificate.bound > 0 else float(error > 0) * np.inf
        closest = max(closest, ratio)
        ratios.setdefault(f"{dtype}", []).append(ratio)
        seconds = time.perf_counter() - started
        bound = built.certificate.bound
        print(f"{i} {first} {dtype} {layout}: {error:.3g} of {bound:.3g} ({seconds:.0f} s)", flush=True)
        if error > built.certificate.bound:
            violations += 1
            print(f"VIOLATED by network {i}: {source}, {dtype}, {layout}: {error} > {built.certificate.bound}")
    print(f"{options.networks} networks, {options.points} points each, {time.perf_counter() - started:.0f} s")
    for name, values in ratios.items():
        quartiles = ", ".join(f"{1 / max(q, 1e-300):.3g}" for q in np.quantile(values, [0.25, 0.5, 0.75]))
        print(f"{name}: {len(values)} networks, bound/largest deviation at the quartiles {quartiles}")
    print(f"violations: {violations}; the closest came to {closest:.3g} of its bound")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
