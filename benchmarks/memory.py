"""How much memory does evaluation take, and does a point cost more among many? One process for each measurement.

    python benchmarks/memory.py                   every kind of network, 10^3 and 10^5 points
    python benchmarks/memory.py --points 1000000  so many points instead of 10^5
    python benchmarks/memory.py --only affine     one kind

A process makes the network and the points, notes its resident memory, evaluates, and notes the largest there was
(`getrusage`): the difference is what evaluation took above its data, the result included. The limit is
`softwright.chunks.MOST_BYTES`, 1 GB; `--limit` lowers it. Time is CPU time of one thread.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import softwright as sw
from softwright import chunks
from softwright.attention import AttentionNetwork, Axis, Head

Ask = Callable[[np.ndarray], Any]


def _network(tokens: int, affine: bool) -> Ask:
    rng = np.random.default_rng(0)
    keys, biases, values = 3 * rng.normal(size=(tokens, 4)), rng.normal(size=tokens), rng.normal(size=(tokens, 1))
    head = Head(keys, biases, values, rng.normal(size=(tokens, 1, 4)) if affine else None)
    return AttentionNetwork([head], sw.Box(dict.fromkeys("abcd", (-1, 1)))).evaluate


def _grid(size: int) -> Ask:
    rng, line = np.random.default_rng(0), np.linspace(-1, 1, size)
    head = Head.on_grid([Axis(9 * line, -4.5 * line**2)] * 4, rng.normal(size=(size**4, 1)))
    network = AttentionNetwork([head], sw.Box(dict.fromkeys("abcd", (-1, 1))))
    return lambda points: network.evaluate(points, engine="factorised")


def _transpiled(width: int) -> Ask:
    torch.manual_seed(0)
    layers = torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 1)
    return sw.transpile(torch.nn.Sequential(*layers).double().eval(), box=(-1, 1), certify=False)


def _memory(engine: str) -> Ask:
    rows = np.random.default_rng(0).integers(0, 1000, (2000, 4))
    network = sw.memorize(np.unique(rows, axis=0), np.arange(len(np.unique(rows, axis=0))), certify=False).network
    return lambda points: network.recall((499 * (points + 1)).astype(np.int64), engine=engine)


def _theorem() -> Ask:
    built = sw.theorem("B2").build(cells=4, certify=False)
    return lambda points: built(points[:, :2].reshape(-1, 2, 1))


KINDS: dict[str, Callable[[], Ask]] = {
    "affine": lambda: _network(20_000, True),
    "affine 4000": lambda: _network(4_000, True),
    "constant": lambda: _network(20_000, False),
    "factorised": lambda: _grid(12),
    "transpiled": lambda: _transpiled(512),
    "memory pruned": lambda: _memory("pruned"),
    "memory dense": lambda: _memory("dense"),
    "theorem": _theorem,
}


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def child(kind: str, count: int) -> dict[str, float]:
    """One measurement, in this process."""
    torch.set_num_threads(1)
    ask, points = KINDS[kind](), np.random.default_rng(1).uniform(-1, 1, (count, 4))
    ask(points[:10])
    before, started = _resident(), time.process_time()
    ask(points)
    return {"above": _resident() - before, "resident": _resident(), "seconds": time.process_time() - started}


def measured(kind: str, count: int, limit: int = chunks.MOST_BYTES) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--child", kind, "--points", str(count), "--limit", str(limit)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--limit", type=int, default=chunks.MOST_BYTES)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--child", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        chunks.MOST_BYTES = options.limit
        print(json.dumps(child(options.child, options.points)))
        return
    print(f"{'kind':<15} {'points':>9} {'above data':>12} {'resident':>10} {'us/point':>10}")
    for kind in [options.only] if options.only else KINDS:
        for count in (1_000, options.points):
            found = measured(kind, count, options.limit)
            above, resident = found["above"] / 1e6, found["resident"] / 1e6
            each = found["seconds"] / count * 1e6
            print(f"{kind:<15} {count:>9} {above:>9.0f} MB {resident:>7.0f} MB {each:>10.1f}", flush=True)


if __name__ == "__main__":
    main()
