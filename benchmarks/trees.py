"""Engine "tree" beside stock attention: scattered keys, time of a point, distance, and violations of its bound.

    python benchmarks/trees.py               2 to 6 variables, 10^4 to 10^6 tokens; 10^6 evaluations beside the bound
    python benchmarks/trees.py --short       up to 10^5 tokens, 10^5 evaluations

Tokens stand at random places, as wide as they are apart (0.5 and 0.3 of that in 4 and 6 variables). The peer is
`scaled_dot_product_attention` in float64 with the same keys, biases and values, the values padded to its width. CPU
time on one thread, both in the same run. Violations are counted against the head in extended precision, whose own error
is below 1e-16 here.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import softwright as sw
from softwright.attention import AttentionNetwork, Head
from softwright.attention.window_numba import available

# variables, tokens, width in units of the distance of neighbours
ROWS = ((2, 10_000, 1.0), (2, 100_000, 1.0), (3, 100_000, 1.0), (6, 100_000, 0.3), (2, 10**6, 1.0), (4, 10**6, 0.5))


def cpu(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def scattered(dim: int, tokens: int, width: float, seed: int = 0) -> AttentionNetwork:
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-1, 1, (tokens, dim))
    beta = (width * 2 * tokens ** (-1 / dim)) ** -2
    head = Head(beta * centres, -0.5 * beta * (centres**2).sum(axis=1), rng.normal(size=(tokens, 1)))
    return AttentionNetwork([head.centred()], sw.Box({f"x{i}": (-1, 1) for i in range(dim)}))


def speed(dim: int, tokens: int, width: float, count: int) -> None:
    network = scattered(dim, tokens, width)
    points = np.random.default_rng(1).uniform(-1, 1, (count, dim))
    made = cpu(lambda: network.evaluate(points[:2], engine="tree"))  # makes the tree
    mine = cpu(lambda: network.evaluate(points, engine="tree")) / count
    few = points[: max(8, 2 * 10**6 // tokens)]
    stock = cpu(lambda: network.evaluate(few, engine="sdpa")) / len(few)
    off = np.abs(network.evaluate(few, engine="tree") - network.evaluate(few, engine="sdpa")).max()
    told = f"{stock / mine:8.1f} x, {1e6 * mine:8.2f} us a point, tree {made:5.2f} s"
    print(f"d = {dim}, {tokens:>7} tokens, width {width}: {told}; {off:.1e} apart, proved {network.tree_error():.1e}")


def violations(count: int) -> int:
    """Evaluations beyond the bound, of places and of keys that stand nowhere."""
    rng = np.random.default_rng(2)
    wild = Head(30.0 * rng.normal(size=(400, 2)), 10.0 * rng.normal(size=400), rng.normal(size=(400, 1)))
    heads = {"places": scattered(2, 400, 0.7), "no places": AttentionNetwork([wild], sw.Box(x=(-1, 1), y=(-1, 1)))}
    beyond = 0
    for name, network in heads.items():
        bound, worst = network.tree_error(), 0.0
        head = network.heads()[0]
        keys, biases, values = (x.astype(np.longdouble) for x in (head.keys, head.biases, head.values))
        for _ in range(0, count // 2, 10_000):
            t = rng.uniform(-1, 1, (10_000, 2))
            scores = t.astype(np.longdouble) @ keys.T + biases
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            wanted = weights @ values / weights.sum(axis=1, keepdims=True)
            error = np.abs(network.evaluate(t, engine="tree") - wanted)
            beyond, worst = beyond + int((error > bound).sum()), max(worst, float(error.max()))
        print(f"{count // 2} evaluations, keys at {name}: worst {worst:.1e}, proved {bound:.1e}, {beyond} beyond")
    return beyond


def main() -> None:
    parser = argparse.ArgumentParser(description="Scattered keys by trees")
    parser.add_argument("--short", action="store_true")
    short = parser.parse_args().short
    torch.set_num_threads(1)
    print("compiled by numba" if available() else "without numba")
    for dim, tokens, width in ROWS[:4] if short else ROWS:
        speed(dim, tokens, width, 5_000 if short else 100_000)
    raise SystemExit(1 if violations(10**5 if short else 10**6) else 0)


if __name__ == "__main__":
    main()
