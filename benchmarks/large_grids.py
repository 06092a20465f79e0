"""A plane of a million tokens: built, evaluated by windows, and proved in pieces.

    python benchmarks/large_grids.py                       1,000 x 1,000 tokens, proved on a 256th of the plane
    python benchmarks/large_grids.py --parts 1 --workers 2 --resume FOLDER     on all of it, on two processes; a run
                                                           that is killed goes on from the folder
    python benchmarks/large_grids.py --side 200 --parts 1  40,000 tokens, all of the plane
    python benchmarks/large_grids.py --verify              the certificate is proved again by the checker

The target is sin(10 x) cos(10 y). Values are products of two least-squares fits along an axis, so that no matrix of all
tokens is ever made. The proof is of engine "factorised", whose rounding grows with the sum of the sides, not with their
product; what engine "window" computes is within `exact_part + network.window_error()`. The peak is that of the process,
with what Python and torch take (about 0.25 GB).
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import softwright as sw
from softwright.approximation.fitting.families import uniform_axis
from softwright.attention import AttentionNetwork, Head
from softwright.result.plan import Plan

TARGET = "sin(10*x)*cos(10*y)"


def plane(side: int) -> AttentionNetwork:
    axis = uniform_axis(side, 1.0, 3.0)
    t = np.cos(np.linspace(0.0, np.pi, 2 * side))
    weights = axis.weights(t)  # (2 side, side)
    along = [np.linalg.lstsq(weights, f(10 * t), rcond=1e-8)[0] for f in (np.sin, np.cos)]
    head = Head.on_grid([axis, axis], np.outer(*along).reshape(-1, 1))
    return AttentionNetwork([head], sw.Box(x=(-1, 1), y=(-1, 1)))


def say(what: str, start: float, more: str) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{what}: {time.process_time() - start:.1f} CPU s, peak {peak:.2f} GB; {more}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="A plane of a million tokens")
    parser.add_argument("--side", type=int, default=1000)
    parser.add_argument("--parts", type=int, default=16, help="the domain of the proof is one part of so many a side")
    parser.add_argument("--bound", type=float, default=1e-4)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--verify", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    start = time.process_time()
    network = plane(given.side)
    say(f"{network.tokens} tokens built", start, f"window proved within {network.window_error():.1e} of the head")
    start = time.process_time()
    points = np.random.default_rng(0).uniform(-1, 1, (given.points, 2))
    wanted = np.sin(10 * points[:, :1]) * np.cos(10 * points[:, 1:])
    off = np.abs(network.evaluate(points, engine="window") - wanted)
    say(f"{given.points} points by windows", start, f"largest error seen {off.max():.2e}")
    start = time.process_time()
    side = (-1.0, -1.0 + 2.0 / given.parts)
    found = sw.certify(
        network,
        TARGET,
        bound=given.bound,
        domain={"x": side, "y": side},
        engine="factorised",
        max_work=1e5,
        max_seconds=1e5,
        max_boxes=10**7,
        workers=given.workers,
        resume=given.resume,
        progress=False,
    )
    of = f"a {given.parts**2}th of the plane" if given.parts > 1 else "the plane"
    say(f"proof on {of}, {found.boxes} boxes", start, f"{found.outcome.name} at {given.bound:g}")
    certificate = found.certificate
    if certificate is None:
        print(found.detail)
        raise SystemExit(1)
    parts = f"{certificate.exact_part:.3e} exact + {certificate.rounding_part:.1e} rounding"
    there = (points <= side[1]).all(axis=1)
    beyond = int((off[there] > certificate.exact_part + network.window_error()).sum())
    print(f"  {parts}, engine {certificate.engine}")
    print(f"  {beyond} of {there.sum()} evaluations by windows there beyond exact part + window_error")
    if given.verify:
        start = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "plane.safetensors"
            count = network.tokens
            plan = Plan.of(network, start, strategy="grid", heads=[], tokens=count, parameters=network.parameter_count)
            target = sw.Expression(TARGET, ("x", "y")).describe()
            sw.Built(network, plan, target, certificate=certificate).save(file)
            say("verify", start, str(sw.verify(file, max_seconds=1e5).status))
    raise SystemExit(1 if beyond else 0)


if __name__ == "__main__":
    main()
