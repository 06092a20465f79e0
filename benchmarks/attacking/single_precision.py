"""The rounding of float32 networks: random heads, the real kernels, exact values in balls.

A network (heads, tokens, dimensions, slopes, steepness, centre and scale at random) is certified against the zero
function, so that its rounding part stands alone; then it is run at random points and uphill of the worst, by batches of
1, 7 and many points, contiguous and not, with one thread and two. A false claim states 0.9 times the rounding seen.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from flint import arb

from attacking.grids import FEW_BOXES, verified
from attacking.result import Result, ball_values
from softwright.attention.head import Head
from softwright.attention.network import AttentionNetwork
from softwright.domain import Box
from softwright.proof.prover import certify

NAMES = "xyz"


def random_network(rng: np.random.Generator, small: bool) -> AttentionNetwork:
    d = 1 if small else int(rng.integers(1, 4))
    m = int(rng.integers(1, 3))
    halves = [2.0 ** int(rng.integers(-2, 3)) if rng.random() < 0.5 else float(rng.uniform(0.2, 5)) for _ in range(d)]
    middles = [0.0 if rng.random() < 0.5 else float(rng.normal(scale=3)) for _ in range(d)]
    box = Box({NAMES[i]: (middles[i] - halves[i], middles[i] + halves[i]) for i in range(d)})
    heads = []
    for _ in range(int(rng.integers(1, 3))):
        N = int(rng.integers(1, 10 if small else 60))
        steep = 10.0 ** rng.uniform(-1, 0.5 if small else 1.3)
        keys = steep * rng.normal(size=(N, d))
        biases = -0.5 * (keys**2).sum(axis=1) / steep if rng.random() < 0.5 else steep * rng.normal(size=N)
        values = 10.0 ** rng.uniform(-2, 2) * rng.normal(size=(N, m))
        slopes = rng.normal(size=(N, m, d)) * 10.0 ** rng.uniform(-2, 2) if rng.random() < 0.5 else None
        heads.append(Head(keys, biases, values, slopes))
    return AttentionNetwork(heads, box, torch.float32)


def runs(network: AttentionNetwork, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The values at float32 points, by batches and memory orders as they come."""
    given, kind = torch.from_numpy(x), int(rng.integers(4))
    with torch.no_grad():
        if kind == 0:
            return torch.cat([network(part) for part in given[:16].split(1)] + [network(given[16:])]).double().numpy()
        if kind == 1:
            return torch.cat([network(part) for part in given[:70].split(7)] + [network(given[70:])]).double().numpy()
        if kind == 2:
            apart = torch.zeros(len(x), 2 * x.shape[1])
            apart[:, ::2] = given
            return network(apart[:, ::2]).double().numpy()
        torch.set_num_threads(2)
        try:
            return network(given).double().numpy()
        finally:
            torch.set_num_threads(1)


def largest_rounding(network: AttentionNetwork, rng: np.random.Generator) -> float:
    """The largest |run - exact| that is certain, looked for uphill: float64 finds the points, balls judge the worst."""
    wide = AttentionNetwork(network.heads(), network.box)
    wide.center.copy_(network.center.double())
    wide.scale.copy_(network.scale.double())
    box, best, where, value = network.box, 0.0, None, None
    start = box.sample(600, int(rng.integers(1 << 30)))
    for step in (0.3, 0.03, 1e-3, 1e-5, 1e-6):
        x = np.clip(start, box.lower, box.upper).astype(np.float32)
        x = x[box.contains(x.astype(float))]
        if not len(x):
            break
        ran = runs(network, x, rng)
        gap = np.abs(ran - wide.evaluate(x.astype(float))).max(axis=1)
        order = np.argsort(-gap)[:16]
        if gap[order[0]] > best:
            best, where, value = float(gap[order[0]]), x[order[0]], ran[order[0]]
        start = x[order, None].astype(float) + step * box.halfwidth * rng.normal(size=(len(order), 16, box.dim))
        start = start.reshape(-1, box.dim)
    if where is None or value is None:
        return 0.0
    exact = ball_values(network, where.astype(float))
    return max(float(abs(arb(float(one)) - other).lower()) for one, other in zip(value, exact, strict=True))


def attack(rng: np.random.Generator, claim: bool) -> Result:
    network = random_network(rng, claim)
    zero = ", ".join(["0*x"] * network.outputs)
    share, claims, proved = 0.0, 0, 0
    for engine in ("sdpa", "double") if rng.random() < 0.2 else (str(rng.choice(["sdpa", "double"])),):
        network.engine = engine
        found = certify(network, zero, tightness=1.0, max_work=0.05, max_boxes=100, progress=False)
        certificate = found.certificate or found.weaker
        if certificate is None:
            continue
        seen = max(largest_rounding(network, rng), 0.0)
        share = max(share, seen / certificate.rounding_part)
        if claim and seen > 0 and found.proved and certificate.boxes <= FEW_BOXES:
            claims += 1
            proved += verified(network, replace(certificate, rounding_part=0.9 * seen), "float32")
    return Result(share, claims, proved, f"{[len(h.keys) for h in network.heads()]} tokens in {network.box}")
