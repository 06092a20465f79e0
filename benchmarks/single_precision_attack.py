"""Attacks on what is proved of float32 rounding: random networks, the real kernels, exact values in balls.

    python benchmarks/single_precision_attack.py            500 networks, 200 false claims
    python benchmarks/single_precision_attack.py --networks 20 --claims 10

Every network (heads, tokens, dimensions, slopes, steepness, centre and scale at random) is certified for both engines
against the zero function, so that its rounding part stands alone; then it is run at random points and uphill of the
worst, by batches of 1, 7 and 5000 points, contiguous and not, with one thread and two, and compared with the exact
value of its stored numbers: float64 finds the worst points, balls of 200 bits judge them. A false claim states 0.9
times the rounding that was seen; none of them may be verified.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from flint import arb, ctx

from softwright.attention.head import Head
from softwright.attention.network import AttentionNetwork
from softwright.checker.verify import verify
from softwright.domain import Box
from softwright.fileformat import write_model
from softwright.proof.prover import certify
from softwright.result.certificate import Certificate
from softwright.result.constructed import tensors_of

NAMES = "xyz"
PLAN = {"strategy": "by hand", "tolerance": 0.0, "heads": [], "tokens": 0, "parameters": 0, "seconds": 0.0}
PLAN |= {"dtype": "float32"}


def random_network(rng: np.random.Generator) -> AttentionNetwork:
    d = int(rng.integers(1, 4))
    m = int(rng.integers(1, 3))
    halves = [2.0 ** int(rng.integers(-2, 3)) if rng.random() < 0.5 else float(rng.uniform(0.2, 5)) for _ in range(d)]
    middles = [0.0 if rng.random() < 0.5 else float(rng.normal(scale=3)) for _ in range(d)]
    box = Box({NAMES[i]: (middles[i] - halves[i], middles[i] + halves[i]) for i in range(d)})
    heads = []
    for _ in range(int(rng.integers(1, 4))):
        N = int(rng.integers(1, 60))
        steep = 10.0 ** rng.uniform(-1, 1.3)
        keys = steep * rng.normal(size=(N, d))
        biases = -0.5 * (keys**2).sum(axis=1) / steep if rng.random() < 0.5 else steep * rng.normal(size=N)
        values = 10.0 ** rng.uniform(-2, 2) * rng.normal(size=(N, m))
        slopes = rng.normal(size=(N, m, d)) * 10.0 ** rng.uniform(-2, 2) if rng.random() < 0.5 else None
        heads.append(Head(keys, biases, values, slopes))
    return AttentionNetwork(heads, box, torch.float32)


def runs(network: AttentionNetwork, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The values at float32 points, by batches and memory orders as they come."""
    given = torch.from_numpy(x)
    kind = int(rng.integers(4))
    with torch.no_grad():
        if kind == 0:
            return torch.cat([network(part) for part in given[:64].split(1)] + [network(given[64:])]).double().numpy()
        if kind == 1:
            return torch.cat([network(part) for part in given.split(7)]).double().numpy()
        if kind == 2:
            apart = torch.zeros(len(x), 2 * x.shape[1])
            apart[:, ::2] = given
            return network(apart[:, ::2]).double().numpy()
        torch.set_num_threads(2)
        try:
            return network(given).double().numpy()
        finally:
            torch.set_num_threads(1)


def exact_value(network: AttentionNetwork, x: np.ndarray) -> list[arb]:
    """The outputs at one point, of the stored numbers, in balls."""
    center, scale = (tensor.double().numpy() for tensor in (network.center, network.scale))
    t = [(arb(float(a)) - arb(float(c))) * arb(float(s)) for a, c, s in zip(x, center, scale, strict=True)]
    total = [arb(0)] * network.outputs
    for head in network.heads():
        scores = [
            sum((arb(float(k)) * one for k, one in zip(row, t, strict=True)), arb(float(b)))
            for row, b in zip(head.keys, head.biases, strict=True)
        ]
        weights = [(s - scores[0]).exp() for s in scores]
        whole = sum(weights, arb(0))
        for o in range(network.outputs):
            values = [arb(float(v)) for v in head.values[:, o]]
            if head.slopes is not None:
                values = [
                    v + sum((arb(float(g)) * one for g, one in zip(row, t, strict=True)), arb(0))
                    for v, row in zip(values, head.slopes[:, o], strict=True)
                ]
            total[o] = total[o] + sum((w * v for w, v in zip(weights, values, strict=True)), arb(0)) / whole
    return total


def largest_rounding(network: AttentionNetwork, wide: AttentionNetwork, rng: np.random.Generator) -> float:
    """The largest |run - exact| that is certain, looked for uphill."""
    box, best, where = network.box, 0.0, None
    start = box.sample(1500, int(rng.integers(1 << 30)))
    for step in (0.3, 0.03, 1e-3, 1e-5, 1e-6):
        x = np.clip(start, box.lower, box.upper).astype(np.float32)
        x = x[box.contains(x.astype(float))]
        if not len(x):
            break
        gap = np.abs(runs(network, x, rng) - wide.evaluate(x.astype(float))).max(axis=1)
        order = np.argsort(-gap)[:40]
        if gap[order[0]] > best:
            best, where = float(gap[order[0]]), x[order[:3]]
        start = x[order, None].astype(float) + step * box.halfwidth * rng.normal(size=(len(order), 25, box.dim))
        start = start.reshape(-1, box.dim)
    if where is None:
        return 0.0
    certain = 0.0
    with torch.no_grad():
        values = network(torch.from_numpy(where)).double().numpy()
    for point, value in zip(where, values, strict=True):
        for one, other in zip(value, exact_value(network, point), strict=True):
            certain = max(certain, float(abs(arb(float(one)) - other).lower()))
    return max(certain, 0.0)


def written(path: Path, network: AttentionNetwork, certificate: Certificate) -> Path:
    said = {"model": {"kind": "approximation", **network.describe()}, "target": certificate.target, "plan": PLAN}
    names = sorted(network.state_dict())
    write_model(path, tensors_of(network), {**said, "certificate": certificate.to_json(names, [])})
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=500)
    parser.add_argument("--claims", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    ctx.prec = 200
    rng, started = np.random.default_rng(options.seed), time.process_time()
    violations = proved = 0
    tried = dict.fromkeys(("sdpa", "double"), 0)
    nearest = dict.fromkeys(tried, 0.0)
    claims = {"true": 0, "true and verified": 0, "false": 0, "false and verified": 0}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.networks):
            network = random_network(rng)
            zero = ", ".join(["0*x"] * network.outputs)
            for engine in tried:
                network.engine = engine
                found = certify(network, zero, tightness=1.0, max_work=0.3, max_boxes=1000, progress=False)
                certificate = found.certificate or found.weaker
                if certificate is None:
                    continue
                proved += 1
                tried[engine] += 1
                wide = AttentionNetwork(network.heads(), network.box)
                wide.center.copy_(network.center.double())
                wide.scale.copy_(network.scale.double())
                seen = largest_rounding(network, wide, rng)
                nearest[engine] = max(nearest[engine], seen / certificate.rounding_part)
                if seen > certificate.rounding_part:
                    violations += 1
                    print(
                        f"VIOLATION: network {number}, {engine}: {seen!r} > {certificate.rounding_part!r}", flush=True
                    )
                if claims["false"] < options.claims and seen > 0 and found.proved:
                    path = Path(folder) / "claim.safetensors"
                    claims["true"] += 1
                    claims["true and verified"] += bool(verify(written(path, network, certificate), progress=False))
                    claims["false"] += 1
                    lie = replace(certificate, rounding_part=0.9 * seen)
                    claims["false and verified"] += bool(verify(written(path, network, lie), progress=False))
            if number % 50 == 49:
                print(f"{number + 1} networks, {violations} violations, {claims}", flush=True)
    print(f"{options.networks} networks, {proved} certificates {tried}: {violations} violations")
    print(f"largest rounding seen / proved: sdpa {nearest['sdpa']:.3f}, double {nearest['double']:.4f}")
    print(f"claims: {claims}; {time.process_time() - started:.0f} s CPU")


if __name__ == "__main__":
    main()
