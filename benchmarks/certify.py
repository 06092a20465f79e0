"""How many boxes, how long: our proofs against interval arithmetic, the mean value form, Taylor-2 and auto_LiRPA's
CROWN (where it is installed, see `crown_peer.py`), all in the same run.

    python benchmarks/certify.py            all jobs, twenty seconds for each peer
    python benchmarks/certify.py --quick    small jobs, two seconds for each peer
    python benchmarks/certify.py --grids    and --tight, --attack N: see `grids.py`
    python benchmarks/certify.py --float32  rounding proved and seen, and exp as measured: see `single_precision.py`

Every method is asked to prove 1.1 times the error that is certainly there. A peer that does not finish within its time
is shown as "~n": what its bounds at random points say that it would need (the mean over points of the number of boxes
of the largest size that it can accept there). Peers work in plain float64 without any account of their own rounding,
which favours them.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import exp_accuracy
import grids
import numpy as np
import single_precision
import torch
from crown_peer import crown_bound
from torch import Tensor

from softwright.attention.head import Axis, Head
from softwright.attention.network import AttentionNetwork
from softwright.checker.verify import verify
from softwright.domain import Box
from softwright.fileformat import write_model
from softwright.proof.models.exact_heads import exact_heads
from softwright.proof.models.head_moments import ExactHead
from softwright.proof.prover import certify
from softwright.proof.question import Certification, pose
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
_LIRPA = importlib.util.find_spec("auto_LiRPA") is not None
Bound = Callable[[np.ndarray, np.ndarray], np.ndarray]  # centres (B, d), radii (B, d) -> upper bounds of |g - f| (B,)


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


def jobs(quick: bool) -> list[tuple[str, AttentionNetwork, str]]:
    unit, plane = Box(x=(-1, 1)), Box(x=(0, 1), y=(0, 1))
    found = [
        ("sin(3x), 16 tokens", fitted("sin(3*x)", unit, 16, 2.0, 3, 1e-13), "sin(3*x)"),
        ("Runge, 64 tokens", fitted("1/(1 + 25*x**2)", unit, 64, 2.0, 1, 1e-13), "1/(1 + 25*x**2)"),
    ]
    if quick:
        text = "sin(x + 2*y)"
        return [*found, ("2-D, 144 tokens", fitted(text, plane, 12, 1.5, 2, 1e-11), text)]
    cube = Box(x=(-1, 1), y=(-1, 1), z=(-1, 1))
    three, long = "sin(x + 2*y)*exp(-z**2)", "sin(1024*x)"
    return [
        *found,
        ("Franke, 24 x 24", fitted(FRANKE, plane, 24, 2.0, 1, 1e-13), FRANKE),
        ("d = 3, 512 tokens", fitted(three, cube, 8, 2.0, 1, 1e-13), three),
        ("1-D, 4096 tokens", fitted(long, unit, 4096, 1.5, 3, 1e-9), long),
        ("Franke, 100 x 100", fitted(FRANKE, plane, 100, 1.5, 2, 1e-9), FRANKE),
    ]


def _scores(head: ExactHead, centers: np.ndarray, radii: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    t, r = (centers - head.center) * head.scale, radii * head.scale
    middle = t @ head.keys.T + head.bias
    spread = r @ np.abs(head.keys).T
    return middle - spread, middle + spread  # (B, N)


def interval_bound(head: ExactHead, target: Expression) -> Bound:
    """Interval softmax: each weight against the extremes of all others."""
    v = head.values[:, 0]

    def bound(centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
        low, high = _scores(head, centers, radii)
        top = high.max(axis=1, keepdims=True)
        e_low, e_high = np.exp(low - top), np.exp(high - top)
        w_low = e_low / (e_low + e_high.sum(axis=1, keepdims=True) - e_high)
        w_high = e_high / (e_high + np.maximum(e_low.sum(axis=1, keepdims=True) - e_low, 0.0))
        g_low = np.minimum(w_low * v, w_high * v).sum(axis=1)
        g_high = np.maximum(w_low * v, w_high * v).sum(axis=1)
        g_low, g_high = np.maximum(g_low, v.min()), np.minimum(g_high, v.max())
        f_low, f_high, _ = target.enclose(centers - radii, centers + radii)
        return np.maximum(np.abs(g_high - f_low[:, 0]), np.abs(f_high[:, 0] - g_low))

    return bound


def mean_value_bound(head: ExactHead, target: Expression) -> Bound:
    """Value at the centre plus the radius times interval bounds of the derivatives, which are covariances of g."""
    v = head.values[:, 0]
    derivatives = [target.derivative(name) for name in target.names]

    def bound(centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
        low, high = _scores(head, centers, radii)
        middle = 0.5 * (low + high)
        w = np.exp(middle - middle.max(axis=1, keepdims=True))
        w /= w.sum(axis=1, keepdims=True)
        g = w @ v
        # each weight is at most e^(2 spread) times its value at the centre
        w_high = np.minimum(w * np.exp(np.minimum(high - low, 600.0)), 1.0)
        total = np.abs(g - target(centers)[:, 0])
        key = w @ head.keys
        for i, derivative in enumerate(derivatives):
            f_low, f_high, _ = derivative.enclose(centers - radii, centers + radii)
            slope = (w * (v - g[:, None]) * (head.keys[:, i] - key[:, i, None])).sum(axis=1) * head.scale[i]
            wobble = ((w_high - w) * np.abs(v - g[:, None]) * np.abs(head.keys[:, i] - key[:, i, None])).sum(axis=1)
            largest = np.maximum(np.abs(slope - f_low[:, 0]), np.abs(slope - f_high[:, 0])) + wobble * head.scale[i]
            total = total + largest * radii[:, i]
        return total

    return bound


def taylor_bound(network: AttentionNetwork, text: str, order: int, accuracy: float) -> Bound:
    residual = pose(network, text, None, "sdpa", order).residual

    def bound(centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
        return residual.bounds(centers, radii, [np.array([i]) for i in range(len(centers))], accuracy).upper

    return bound


def branch_and_bound(bound: Bound, box: Box, goal: float, seconds: float) -> tuple[int | None, float]:
    """Boxes that the method needs, or None if the time is up."""
    started = time.perf_counter()
    centers, radii = box.center[None], box.halfwidth[None]
    leaves = 0
    while len(centers):
        rest = []
        for first in range(0, len(centers), 256):
            part = slice(first, first + 256)
            with np.errstate(all="ignore"):
                rest.append(~(bound(centers[part], radii[part]) <= goal))
            if time.perf_counter() - started > seconds:
                return None, time.perf_counter() - started
        open_boxes = np.concatenate(rest)
        leaves += int(np.count_nonzero(~open_boxes))
        centers, radii = centers[open_boxes], radii[open_boxes]
        side = np.argmax(radii / box.halfwidth, axis=1)
        half = radii.copy()
        half[np.arange(len(half)), side] *= 0.5
        move = np.where(np.arange(box.dim) == side[:, None], half, 0.0)
        centers, radii = np.concatenate([centers - move, centers + move]), np.concatenate([half, half])
    return leaves, time.perf_counter() - started


def predicted(bound: Bound, box: Box, goal: float, points: int = 40) -> float:
    """Boxes of the largest size that the method accepts, averaged over random points where it can accept any."""
    centers = box.sample(points, 5)
    low, high = np.full(points, -50.0), np.zeros(points)  # log2 of the size relative to the domain
    for _ in range(14):
        middle = 0.5 * (low + high)
        with np.errstate(all="ignore"):
            accepted = bound(centers, box.halfwidth * np.exp2(middle)[:, None]) <= goal
        low, high = np.where(accepted, middle, low), np.where(accepted, high, middle)
    return float(np.mean(np.exp2(-low * box.dim))) if np.median(low) > -49 else np.inf


def peer(name: str, bound: Bound, box: Box, goal: float, seconds: float) -> str:
    boxes, spent = branch_and_bound(bound, box, goal, seconds)
    if boxes is not None:
        return f"{name}: {boxes} boxes {spent:.2f} s"
    needed = predicted(bound, box, goal)
    if not np.isfinite(needed):
        return f"{name}: accepts no box, however small, at most random points (not in {seconds:g} s)"
    return f"{name}: ~{needed:.0e} boxes (not in {seconds:g} s)"


def re_check(network: AttentionNetwork, found: Certification) -> str:
    """The independent checker on the same certificate."""
    if found.certificate is None:
        return "nothing to verify"
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
        verdict = verify(path)
    return f"verify: {verdict.status} {verdict.seconds:.2f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="jobs whose name holds this text")
    parser.add_argument("--seconds", type=float, help="time for each peer")
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("--grids", action="store_true", help="grid heads in four to six variables, without peers")
    parser.add_argument("--tight", action="store_true", help="bounds that `approximate` states")
    parser.add_argument("--attack", type=int, metavar="N", help="soundness on N random grid heads")
    parser.add_argument("--float32", action="store_true", help="nine float32 networks, and exp of the kernels")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.grids or options.tight or options.attack or options.float32:
        rows = (
            (options.grids, grids.print_grids),
            (options.tight, grids.print_stated),
            (options.float32, single_precision.print_rows),
            (options.float32, lambda: exp_accuracy.print_rows(499)),
        )
        for asked, run in rows:
            if asked:
                run()
        if options.attack:
            grids.attack(options.attack)
        return
    seconds = options.seconds or (2.0 if options.quick else 20.0)
    for name, network, text in jobs(options.quick):
        if options.only and options.only not in name:
            continue
        lower = certify(network, text, tightness=0.5, max_seconds=100).lower
        goal = 1.1 * lower
        found = certify(network, text, bound=goal, max_seconds=100, max_boxes=1_000_000)
        print(f"{name}: error {lower:.3g}, largest value {np.abs(network.heads()[0].values).max():.1e}")
        counts = f"{found.boxes} boxes, {found.evaluations} evaluations"
        print(f"    softwright: {found.status}, {counts}, {found.seconds:.2f} s")
        if not options.no_verify:
            print(f"    {re_check(network, found)}")
        if network.tokens > 5000:
            continue
        head, target = exact_heads(network, "sdpa")[0], Expression(text, network.box)
        peers = {
            "interval": interval_bound(head, target),
            "mean value": mean_value_bound(head, target),
            "Taylor-2": taylor_bound(network, text, 2, goal),
        }
        if _LIRPA:
            peers["CROWN (auto_LiRPA)"] = crown_bound(network, _IN_TORCH[text])
        for label, bound in peers.items():
            print(f"    {peer(label, bound, network.box, goal, seconds)}", flush=True)
    if not _LIRPA:
        print("auto_LiRPA is not installed and was not run")


if __name__ == "__main__":
    main()
