"""All that is claimed of proofs, measured in one run: boxes and seconds beside peers, tightness, float32, end to end.

    python benchmarks/certify.py                      every part, five CPU seconds for each peer
    python benchmarks/certify.py --part grids         one part; several are named one after the other
    python benchmarks/certify.py --before FOLDER      with the checkout of an earlier version: its proof times are what
                                                      those of `verify` are compared with
    python benchmarks/certify.py --attack 500         soundness on random grid heads: see `grids.py`

The last lines are a table of what is claimed, beside what was measured; the exit code is 1 if a line does not hold.

    boxes     networks beside peers: interval arithmetic, the mean value form, Taylor-2, Vertex-Softmax
              (`proof_peers.py`) and auto_LiRPA's CROWN (where it is installed, see `crown_peer.py`)
    grids     proofs in four, five and six variables, for both engines, the smaller ones beside peers
    stated    the exact part that is proved / the worst error that is found, on README's rows
    float32   rounding proved and seen, and exp as measured: see `single_precision.py`
    whole     transformers at a prompt, and least squares in context: see `end_to_end.py`

In "boxes" every method is asked to prove 1.1 times the error that is certainly there. A peer that does not finish
within its time is shown as "~n": what its bounds at random points say that it would need (the mean over points of the
number of boxes of the largest size that it can accept there). Times are CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import end_to_end
import exp_accuracy
import grids
import numpy as np
import single_precision
import torch
from acceptance import Line, printed
from crown_peer import LIRPA
from proof_peers import print_peers
from torch import Tensor

from softwright.attention.head import Axis, Head
from softwright.attention.network import AttentionNetwork
from softwright.checker.verify import verify
from softwright.domain import Box
from softwright.fileformat import write_model
from softwright.proof.prover import certify
from softwright.proof.question import Certification
from softwright.targets.formula.expression import Expression

FRANKE = (
    "0.75*exp(-((9*x-2)**2 + (9*y-2)**2)/4) + 0.75*exp(-(9*x+1)**2/49 - (9*y+1)/10)"
    " + 0.5*exp(-((9*x-7)**2 + (9*y-3)**2)/4) - 0.2*exp(-(9*x-4)**2 - (9*y-7)**2)"
)
# The same formulas for CROWN, which reads torch operators.
_IN_TORCH: dict[str, Callable[[Tensor], Tensor]] = {
    "sin(3*x)": lambda x: torch.sin(3 * x),
    "1/(1 + 25*x**2)": lambda x: 1 / (1 + 25 * x * x),
    "sin(x + 2*y)": lambda x: torch.sin(x[:, 0:1] + 2 * x[:, 1:2]),
    "sin(x + 2*y)*exp(-z**2)": lambda x: torch.sin(x[:, 0:1] + 2 * x[:, 1:2]) * torch.exp(-x[:, 2:3] * x[:, 2:3]),
    "sin(1024*x)": lambda x: torch.sin(1024 * x),
    FRANKE: lambda x: _franke(9 * x[:, 0:1], 9 * x[:, 1:2]),
}
# Run with an earlier version, whose `benchmarks/certify.py` fits the same networks. A proof that takes longer than its
# limit by the clock says how many seconds of the processor it had taken by then.
_EARLIER = """
import json, sys, time
import torch
from certify import Box, certify, fitted
torch.set_num_threads(1)
for name, text, sides, settings, goal in json.loads(sys.stdin.read()):
    network = fitted(text, Box(**sides), *settings)
    start = time.process_time()
    found = certify(network, text, bound=goal, max_seconds=SECONDS, max_boxes=1_000_000)
    print(json.dumps([name, found.status, time.process_time() - start, network.heads()[0].values.sum()]), flush=True)
"""
PATIENCE = 120.0  # seconds that a proof of the earlier version may take by the clock


@dataclass(frozen=True)
class Job:
    """A head on a grid for a formula: tokens an axis, their width in steps, tokens beyond each end, cut-off."""

    name: str
    text: str
    sides: dict[str, tuple[float, float]]
    settings: tuple[int, float, int, float]
    peers: bool = True

    def network(self) -> AttentionNetwork:
        return fitted(self.text, Box(**self.sides), *self.settings)


def _franke(x: Tensor, y: Tensor) -> Tensor:
    def square(a: Tensor) -> Tensor:
        return a * a

    return (
        0.75 * torch.exp(-(square(x - 2) + square(y - 2)) / 4)
        + 0.75 * torch.exp(-square(x + 1) / 49 - (y + 1) / 10)
        + 0.5 * torch.exp(-(square(x - 7) + square(y - 3)) / 4)
        - 0.2 * torch.exp(-square(x - 4) - square(y - 7))
    )


def fitted(text: str, box: Box, per_axis: int, width: float, margin: int, rcond: float) -> AttentionNetwork:
    """Soft cells on a grid, values by tensor least squares."""
    step = 2.0 / (per_axis - 1 - 2 * margin)
    centers = -1 + step * (np.arange(per_axis) - margin)
    axis = Axis(centers / (width * step) ** 2, -(centers**2) / (2 * (width * step) ** 2))
    count = max(3 * per_axis, {1: 1200, 2: 64, 3: 30}[box.dim])
    t = np.cos(np.pi * (np.arange(count) + 0.5) / count)
    mesh = np.stack(np.meshgrid(*[t] * box.dim, indexing="ij"), axis=-1).reshape(-1, box.dim)
    values = Expression(text, box)(box.from_unit(mesh)).reshape([count] * box.dim)
    weights = axis.weights(t)
    for i in range(box.dim):
        front = np.moveaxis(values, i, 0)
        solved = np.linalg.lstsq(weights, front.reshape(count, -1), rcond=rcond)[0]
        values = np.moveaxis(solved.reshape(per_axis, *front.shape[1:]), 0, i)
    return AttentionNetwork([Head.on_grid([axis] * box.dim, values.reshape(-1, 1))], box)


def jobs(quick: bool) -> list[Job]:
    unit, plane = {"x": (-1.0, 1.0)}, {"x": (0.0, 1.0), "y": (0.0, 1.0)}
    found = [
        Job("sin(3x), 16 tokens", "sin(3*x)", unit, (16, 2.0, 3, 1e-13)),
        Job("Runge, 64 tokens", "1/(1 + 25*x**2)", unit, (64, 2.0, 1, 1e-13)),
    ]
    if quick:
        return [*found, Job("2-D, 144 tokens", "sin(x + 2*y)", plane, (12, 1.5, 2, 1e-11))]
    cube = {"x": (-1.0, 1.0), "y": (-1.0, 1.0), "z": (-1.0, 1.0)}
    three = "sin(x + 2*y)*exp(-z**2)"
    return [
        *found,
        Job("Franke, 24 x 24", FRANKE, plane, (24, 2.0, 1, 1e-13)),
        Job("d = 3, 8 x 8 x 8", three, cube, (8, 2.0, 1, 1e-13)),
        Job("1-D, 4096 tokens", "sin(1024*x)", unit, (4096, 1.5, 3, 1e-9)),
        *(Job(f"Franke, {n} x {n}", FRANKE, plane, (n, 2.0, 1, 1e-13), peers=False) for n in (12, 16, 32, 48)),
        Job("Franke, 100 x 100", FRANKE, plane, (100, 1.5, 2, 1e-9), peers=False),
        *(Job(f"d = 3, {n} x {n} x {n}", three, cube, (n, 2.0, 1, 1e-13), peers=False) for n in (5, 6, 10)),
    ]


def re_check(network: AttentionNetwork, found: Certification) -> tuple[str, float]:
    """The independent checker on the same certificate: its word, and CPU seconds."""
    if found.certificate is None:
        return "nothing to verify", 0.0
    heads = [{"structure": head.structure, "axis_sizes": list(head.axis_sizes)} for head in network.layer]
    model = {"kind": "approximation", "box": network.box.as_dict(), "dtype": "float64", "heads": heads}
    plan = {"strategy": "benchmark", "tolerance": 0.0, "heads": [], "tokens": 0, "parameters": 0, "seconds": 0.0}
    sections = {
        "model": model,
        "target": found.certificate.target,
        "plan": {**plan, "dtype": model["dtype"]},
        "certificate": found.certificate.to_json(sorted(network.state_dict())),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        write_model(path, {n: t.detach().cpu().numpy() for n, t in network.state_dict().items()}, sections)
        started = time.process_time()
        verdict = verify(path)
    return verdict.status, time.process_time() - started


def earlier(folder: Path, asked: list[tuple[Job, float]]) -> dict[str, tuple[str, float, float]]:
    """Status and CPU seconds of the same claims about the same networks, by the version in a folder."""
    place = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder / "src"), str(folder / "benchmarks")])}
    goals = json.dumps([(job.name, job.text, job.sides, job.settings, goal) for job, goal in asked])
    command = [sys.executable, "-c", _EARLIER.replace("SECONDS", str(PATIENCE))]
    done = subprocess.run(command, input=goals, env=place, capture_output=True, text=True, check=True)
    return {name: (status, spent, total) for name, status, spent, total in map(json.loads, done.stdout.splitlines())}


def print_boxes(options: argparse.Namespace) -> list[Line]:
    asked, checked, sums = [], {}, {}
    for job in jobs(options.quick):
        if options.only and options.only not in job.name:
            continue
        network, text = job.network(), job.text
        lower = certify(network, text, tightness=0.5, max_seconds=100).lower
        goal = 1.1 * lower
        started = time.process_time()
        found = certify(network, text, bound=goal, max_seconds=100, max_boxes=1_000_000)
        spent = time.process_time() - started
        print(f"{job.name}: error {lower:.3g}, largest value {np.abs(network.heads()[0].values).max():.1e}")
        print(f"    softwright: {found.status}, {found.boxes} boxes, {found.evaluations} evaluations, {spent:.2f} s")
        if found.certificate is not None and not options.no_verify:
            status, checked[job.name] = re_check(network, found)
            sums[job.name] = float(network.heads()[0].values.sum())
            asked.append((job, goal))
            print(f"    verify: {status}, {checked[job.name]:.2f} s", flush=True)
        if job.peers and options.seconds > 0:
            print_peers(network, text, goal, options.seconds, _IN_TORCH[text])
    if options.before is None:
        return []
    ratios = {}
    for name, (status, spent, total) in earlier(options.before, [(j, g) for j, g in asked if len(j.sides) > 1]).items():
        same = "the same network" if total == sums[name] else "ANOTHER NETWORK"
        ratios[name] = checked[name] / spent
        share = f"verify / that {'' if status == 'proved' else 'at most '}{ratios[name]:.2f}"
        print(f"{name}: {status} before in {spent:.2f} s ({same}); {share}", flush=True)
    worst = max(ratios, key=ratios.__getitem__)
    job = f"verify / the proof before, {len(ratios)} grids in two and three variables"
    return [Line(job, f"{ratios[worst]:.2f} ({worst})", "5", ratios[worst] <= 5)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer boxes, two seconds for each peer")
    parser.add_argument("--part", action="append", choices=("boxes", "grids", "stated", "float32", "whole"))
    parser.add_argument("--only", help="of boxes: networks whose name holds this text")
    parser.add_argument("--seconds", type=float, help="CPU seconds for each peer; 0 runs none")
    parser.add_argument("--before", type=Path, help="checkout of an earlier version")
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("--attack", type=int, metavar="N", help="soundness on N random grid heads, and nothing else")
    options = parser.parse_args()
    if options.seconds is None:
        options.seconds = 2.0 if options.quick else 5.0
    torch.set_num_threads(1)
    if options.attack:
        grids.attack(options.attack)
        return
    parts: dict[str, Callable[[], list[Line]]] = {
        "grids": lambda: grids.print_grids(options.seconds),
        "stated": grids.print_stated,
        "float32": lambda: [*single_precision.print_rows(), *exp_accuracy.print_rows(499)],
        "whole": lambda: end_to_end.print_rows(8, 25),
        "boxes": lambda: print_boxes(options),
    }
    lines = []
    for name in options.part or parts:
        print(f"--- {name}", flush=True)
        lines += parts[name]()
    if LIRPA is None:
        print("auto_LiRPA is not installed and was not run")
    sys.exit(0 if printed(lines) else 1)


if __name__ == "__main__":
    main()
