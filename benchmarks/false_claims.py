"""Does `certify` ever prove a false claim? A claim below an error that is certainly there must not be proved.

    python benchmarks/false_claims.py                           10,000 claims
    python benchmarks/false_claims.py --first 2000 --count 500  claims 2,000 to 2,500 of the same run
    python benchmarks/false_claims.py --save FOLDER             keeps the counts of this piece there
    python benchmarks/false_claims.py --add FOLDER              one table of all pieces in a folder

Every claim is a share, 0.995 to 0.1, of an error found by samples, points on walls and climbs in float64, and computed
again in balls. Ways to claim, in turn:

    networks     random heads in one to three variables against smooth and kinked formulas
    gates        a maximum of affine pieces behind gates, for which there is a proof in closed form
    walls        such a maximum beside a smooth head
    sums         heads and terms of few variables each, which are proved in parts
    grids        grid heads run axis by axis
    parts        a part of the box
    norms        L1, L2 and L3 norms, below 0.9 of what the mean of |error| over the box is at least
    between      the multilinear interpolation of a table on a grid, over the whole box
    tables       the points of a table
    fitted       networks that `approximate` built, whose errors are small differences of large numbers
    runs         the same as they run in float32, against what a run was seen to err; four shares of each, as of these

Half of the networks are float32. A budget of `BOXES` boxes and `SECONDS` leaves some claims undecided, which claims
nothing; one that is proved is printed, and the run ends with exit code 1.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from climbing.approximate import FORMULAS
from judging.search import Effort, climb, spread
from soundness import (
    NAMES,
    TARGETS,
    exact_error,
    random_box,
    random_gates,
    random_network,
    random_walls,
    wall_points,
)

import softwright as sw
from softwright.attention.head import Axis, Head
from softwright.attention.network import AttentionNetwork
from softwright.domain import Box
from softwright.errors import ToleranceNotReached
from softwright.proof.models.exact_heads import exact_heads, float_values
from softwright.proof.prover import certify
from softwright.targets.formula.expression import Expression

SECONDS, BOXES = 20.0, 3000
EFFORT = Effort(800, 3, 30)
SHARES = (0.995, 0.995, 0.9, 0.5, 0.1)
Rng = np.random.Generator


@dataclass
class Claim:
    """What is claimed of a network: a target, an error that is there, and how the question is put."""

    network: AttentionNetwork
    target: Any
    error: float
    what: str
    options: dict[str, Any] = field(default_factory=dict)


def _cast(rng: Rng, network: AttentionNetwork) -> AttentionNetwork:
    """Half of the networks in float32, where that holds their numbers."""
    largest = max(float(tensor.abs().max()) for tensor in network.state_dict().values())
    return network.to(torch.float32) if rng.random() < 0.5 and largest < 1e6 else network


def _worst(network: AttentionNetwork, text: str, low: np.ndarray, high: np.ndarray, engine: str = "sdpa") -> float:
    """An error of the first output that is certainly there, at a point of the box."""
    heads, target = exact_heads(network, engine), Expression(text, network.names)

    def errors(points: np.ndarray) -> np.ndarray:
        return np.abs(float_values(heads, points) - target(points))[:, 0]

    points = spread(low, high, EFFORT)
    if len(low) > 1:
        points = np.concatenate([points, wall_points(heads, low, high, 10)])
    return max(exact_error(heads, target, point) for point in climb(errors, points, low, high, EFFORT))


def _of_formula(rng: Rng, network: AttentionNetwork, text: str, **options: Any) -> Claim:
    network = _cast(rng, network)
    box = options.get("domain", network.box)
    found = _worst(network, text, box.lower, box.upper, options.get("engine", "sdpa"))
    return Claim(network, text, found, text, options)


def _dim(rng: Rng) -> int:
    return int(rng.choice([1, 1, 2, 3]))


def networks(rng: Rng) -> Claim:
    dim = _dim(rng)
    return _of_formula(rng, random_network(rng, dim), str(rng.choice(TARGETS[dim])))


def gates(rng: Rng) -> Claim:
    network, text, _ = random_gates(rng, _dim(rng))
    return _of_formula(rng, network, text)


def walls(rng: Rng) -> Claim:
    return _of_formula(rng, *random_walls(rng, int(rng.integers(2, 4))))


def sums(rng: Rng) -> Claim:
    """One head for every variable, each beside its own term."""
    dim = int(rng.integers(2, 4))
    heads = []
    for i in range(dim):
        tokens, keys = int(rng.integers(2, 30)), np.zeros((0, dim))
        keys = np.zeros((tokens, dim))
        keys[:, i] = rng.normal(size=tokens) * 10.0 ** rng.uniform(-1, 1.5)
        heads.append(Head(keys, rng.normal(size=tokens), rng.normal(size=(tokens, 1))))
    terms = rng.choice(["sin(3*{})", "{}**2", "exp(-{})", "abs({} - 0.2)"], dim)
    text = " + ".join(str(term).format(name) for term, name in zip(terms, NAMES, strict=False))
    return _of_formula(rng, AttentionNetwork(heads, random_box(rng, dim)), text)


def _grid_network(rng: Rng, dim: int) -> AttentionNetwork:
    axes = []
    for _ in range(dim):
        n = int(rng.integers(2, 7))
        axes.append(Axis(np.sort(rng.normal(size=n)) * 10.0 ** rng.uniform(-0.5, 1), rng.normal(size=n)))
    count = int(np.prod([axis.tokens for axis in axes]))
    return AttentionNetwork([Head.on_grid(axes, rng.normal(size=(count, 1)))], random_box(rng, dim))


def grids(rng: Rng) -> Claim:
    dim = int(rng.integers(1, 4))
    return _of_formula(rng, _grid_network(rng, dim), str(rng.choice(TARGETS[dim])), engine="factorised")


def parts(rng: Rng) -> Claim:
    dim = _dim(rng)
    network = random_network(rng, dim)
    low, high = network.box.lower, network.box.upper
    ends = np.sort(rng.uniform(0, 1, (2, dim)), axis=0)
    ends[1] = np.maximum(ends[1], ends[0] + 0.05)
    domain = Box.from_bounds(low + ends[0] * (high - low) * 0.9, low + ends[1] * (high - low) * 0.9, NAMES[:dim])
    return _of_formula(rng, network, str(rng.choice(TARGETS[dim])), domain=domain)


def norms(rng: Rng) -> Claim:
    """By Jensen a norm is at least volume^(1/p) times the mean of |error|, which soft networks let us sample well."""
    dim, p = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    network, text = _cast(rng, _grid_network(rng, dim)), str(rng.choice(TARGETS[dim]))
    heads, target = exact_heads(network, "sdpa"), Expression(text, network.names)
    low, high = network.box.lower, network.box.upper
    count = round(4000 ** (1 / dim))
    unit = np.array(np.meshgrid(*[(np.arange(count) + 0.5) / count] * dim)).reshape(dim, -1).T
    points = low + unit * (high - low)
    mean = float(np.abs(float_values(heads, points) - target(points))[:, 0].mean())
    volume = float(np.prod(high - low))
    return Claim(network, text, 0.9 * mean * volume ** (1 / p), f"L{p} of {text}", {"norm": f"L{p}"})


def _table(rng: Rng, dim: int) -> sw.Table:
    axes = [np.sort(rng.uniform(-1, 1, int(rng.integers(2, 6)))) for _ in range(dim)]
    axes = [axis + 0.01 * np.arange(len(axis)) for axis in axes]
    return sw.Table.grid(axes, rng.normal(size=[len(axis) for axis in axes]), names=NAMES[:dim])


def _on_table(rng: Rng, dim: int, table: sw.Table) -> AttentionNetwork:
    low, high = table.points.min(axis=0), table.points.max(axis=0)
    tokens = int(rng.integers(2, 30))
    head = Head(rng.normal(size=(tokens, dim)) * 2, rng.normal(size=tokens), rng.normal(size=(tokens, 1)))
    return AttentionNetwork([head], Box.from_bounds(low, high, NAMES[:dim]))


def between(rng: Rng) -> Claim:
    dim = int(rng.integers(1, 3))
    table = _table(rng, dim)
    network, target = _on_table(rng, dim, table), table.interpolant()
    heads = exact_heads(network, "sdpa")

    def errors(points: np.ndarray) -> np.ndarray:
        return np.abs(float_values(heads, points) - target(points))[:, 0]

    low, high = network.box.lower, network.box.upper
    found = climb(errors, spread(low, high, EFFORT), low, high, EFFORT)
    return Claim(network, target, float(errors(found).max()) * (1 - 1e-9), "an interpolant")


def tables(rng: Rng) -> Claim:
    dim = int(rng.integers(1, 3))
    table = _table(rng, dim)
    network = _on_table(rng, dim, table)
    found = np.abs(float_values(exact_heads(network, "sdpa"), table.points) - table.values)
    return Claim(network, table, float(found.max()) * (1 - 1e-9), "a table", {"between": False})


def _fitted(rng: Rng, dtype: str) -> tuple[AttentionNetwork, str]:
    dim = int(rng.integers(1, 3))
    numbers = {name: f"{rng.uniform(0.3, 3):.3f}" for name in "abc"}
    text = str(rng.choice([text for text in FORMULAS[dim] if ", exp" not in text])).format(**numbers)
    box = {name: (-1.0, float(rng.uniform(0, 2))) for name in NAMES[:dim]}
    tol = float(10 ** rng.uniform(-5, -1))
    built = sw.approximate(
        text, box, tol=tol, dtype=dtype, strategy="layer", certify=False, max_seconds=3, progress=False
    )
    return built.network, text


def fitted(rng: Rng) -> Claim:
    network, text = _fitted(rng, str(rng.choice(["float64", "float32"])))
    return Claim(network, text, _worst(network, text, network.box.lower, network.box.upper), text)


def runs(rng: Rng) -> Claim:
    network, text = _fitted(rng, "float32")
    points = spread(network.box.lower, network.box.upper, EFFORT).astype(np.float32).astype(float)
    points = points[network.box.contains(points)]
    gaps = np.abs(network.evaluate(points) - Expression(text, network.names)(points))
    return Claim(network, text, float(gaps.max()) * (1 - 1e-9), f"a run for {text}")


WAYS: dict[str, Callable[[Rng], Claim]] = {
    way.__name__: way for way in (networks, gates, walls, sums, grids, parts, norms, between, tables, fitted, runs)
}
BUILT = {"fitted": 4, "runs": 4}  # what `approximate` built is asked this many times, for different shares
Counts = collections.Counter[tuple[str, str]]


def run(first: int, count: int, seed: int) -> Counts:
    counts: Counts = collections.Counter()
    kept: dict[str, tuple[int, Claim | None]] = {}  # of each way the network of the trial before
    for trial in range(first, first + count):
        rng, way = np.random.default_rng([seed, trial]), list(WAYS)[trial % len(WAYS)]
        draw = trial if way not in BUILT else trial - trial // len(WAYS) % BUILT[way] * len(WAYS)
        if kept.get(way, (-1, None))[0] != draw:
            try:
                with np.errstate(all="ignore"):
                    kept[way] = draw, WAYS[way](rng if draw == trial else np.random.default_rng([seed, draw]))
            except ToleranceNotReached:
                kept[way] = draw, None
        claim = kept[way][1]
        if claim is None:
            counts[way, "no error"] += 1
            continue
        share = float(rng.choice(SHARES))
        asked = share * claim.error
        if not (np.isfinite(asked) and asked > 1e-300):
            counts[way, "no error"] += 1  # a formula met exactly, or not built: there is no false claim to make
            continue
        found = certify(
            claim.network,
            claim.target,
            bound=asked,
            max_seconds=SECONDS,
            max_boxes=BOXES,
            progress=False,
            **claim.options,
        )
        verdict = "proved" if found.proved else "refuted" if found.status == "refuted" else "undecided"
        counts[way, verdict] += 1
        if found.proved:
            print(f"FALSE CLAIM PROVED in trial {trial}: {claim.what}, {asked!r} below {claim.error!r}", flush=True)
        if count >= 1000 and (trial + 1) % 500 == 0:
            print(f"{trial + 1} claims", flush=True)
    return counts


def proved(counts: Counts) -> int:
    return sum(n for (_, verdict), n in counts.items() if verdict == "proved")


def report(counts: Counts) -> str:
    verdicts = ("proved", "refuted", "undecided", "no error")
    lines = [f"| claims about | asked | {' | '.join(verdicts)} |", "|---|---|---|---|---|---|"]
    for way in (*WAYS, "**all**"):
        own = [sum(n for (w, v), n in counts.items() if v == verdict and way in (w, "**all**")) for verdict in verdicts]
        lines.append(f"| {way} | {sum(own[:3])} | {' | '.join(map(str, own))} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first claim, for a run in pieces")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="a folder for the counts of this piece")
    parser.add_argument("--add", type=Path, help="a folder of pieces to be added up")
    options = parser.parse_args()
    torch.set_num_threads(1)
    counts: Counts = collections.Counter()
    if options.add is not None:
        for piece in sorted(options.add.glob("*.json")):
            counts.update({(way, verdict): n for way, verdict, n in json.loads(piece.read_text("utf-8"))})
    else:
        started = time.process_time()
        counts = run(options.first, options.count, options.seed)
        if options.save is not None:
            options.save.mkdir(parents=True, exist_ok=True)
            piece = options.save / f"{options.seed}-{options.first}-{options.count}.json"
            piece.write_text(json.dumps([[*key, n] for key, n in sorted(counts.items())]), "utf-8")
        print(f"{time.process_time() - started:.0f} s")
    print(report(counts))
    sys.exit(1 if proved(counts) else 0)


if __name__ == "__main__":
    main()
