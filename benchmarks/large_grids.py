"""A plane of a million tokens: built, evaluated by windows, proved as a whole, and proved again by the checker.

    python benchmarks/large_grids.py                         1,000 x 1,000 tokens, built, evaluated and proved
    python benchmarks/large_grids.py --verify --workers 2    the file is verified as well, in pieces on two processes
    python benchmarks/large_grids.py --resume FOLDER --workers 2     the proof in pieces; a killed run goes on
    python benchmarks/large_grids.py --short                 6,400 tokens, verified, and some attacks
    python benchmarks/large_grids.py --attack                false claims, changed weights and forged trees alone

The target is a zone plate, sin(w (x^2 + y^2)): rings that become as narrow as pi / (w |x|). Values come from two
pseudo-inverses along an axis, so that no matrix of all tokens is ever made. The proof is of engine "factorised", whose
rounding grows with the sum of the sides, not with their product; what engine "window" computes is within `exact_part +
network.window_error()`. The peak is that of the process, with what Python and torch take (about 0.25 GB).

Attacks are made on the smaller plane, where windows of tokens are used just as well: claims below an error that was
seen, one weight changed and the file signed anew, and trees with leaves cut off, moved or added; none may be believed.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import softwright as sw
from softwright.approximation.fitting.families import uniform_axis
from softwright.attention import AttentionNetwork, Head
from softwright.fileformat import read_model, write_model
from softwright.proof.question import Certification
from softwright.result.certificate import encode_tree
from softwright.result.plan import Plan
from softwright.scale import crew

VARIABLES = ("x", "y")


def plane(side: int, frequency: float, width: float) -> AttentionNetwork:
    """Tokens whose weights are as wide as `width` distances between them."""
    axis = uniform_axis(side, width, 3 * width)
    t = np.cos(np.linspace(0.0, np.pi, 2 * side))
    inverse = np.linalg.pinv(axis.weights(t), rcond=1e-8)  # (side, 2 side)
    values = inverse @ wanted(np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1), frequency) @ inverse.T
    return AttentionNetwork([Head.on_grid([axis, axis], values.reshape(-1, 1))], sw.Box(x=(-1, 1), y=(-1, 1)))


def wanted(points: np.ndarray, frequency: float) -> np.ndarray:
    return np.sin(frequency * (points**2).sum(axis=-1))


def formula(frequency: float) -> str:
    return f"sin({frequency:g}*(x**2 + y**2))"


def say(what: str, start: float, more: str) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    here, workers = (each.ru_maxrss / 1e6 for each in used)
    peak = f"peak {here:.2f} GB" + (f", of a worker {workers:.2f} GB" if workers > 0.1 else "")
    print(f"{what}: {spent() - start:.1f} CPU s, {peak}; {more}", flush=True)


def spent() -> float:
    """CPU seconds of this process and of its workers that have ended."""
    own, theirs = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(each.ru_utime + each.ru_stime for each in (own, theirs))


def proved(
    network: AttentionNetwork, frequency: float, bound: float, order: int | None = None, **how: Any
) -> Certification:
    limits: dict[str, Any] = {"max_work": 1e5, "max_seconds": 1e5, "max_boxes": 10**7}
    return sw.certify(
        network, formula(frequency), bound=bound, engine="factorised", order=order, progress=False, **limits, **how
    )


def save(network: AttentionNetwork, frequency: float, certificate: sw.Certificate, file: Path) -> None:
    network.engine = "factorised"
    numbers: dict[str, Any] = {"tokens": network.tokens, "parameters": network.parameter_count}
    plan = Plan.of(network, 0.0, strategy="grid", heads=[], **numbers)
    target = sw.Expression(formula(frequency), VARIABLES).describe()
    sw.Built(network, plan, target, certificate=certificate).save(file)


def attack(changes: int) -> int:
    """How many of the attacks were believed; `changes` of them are changed weights, the slow ones."""
    side, frequency, bound = 80, 5.0, 1e-3
    network = plane(side, frequency, 1.0)
    points = np.random.default_rng(1).uniform(-1, 1, (200_000, 2))
    off = np.abs(network.evaluate(points, engine="window")[:, 0] - wanted(points, frequency))
    claims = [proved(network, frequency, share * float(off.max())) for share in (0.99, 0.5, 0.01)]
    believed = sum(claim.proved for claim in claims)
    print(f"{len(claims)} claims below an error of {off.max():.1e} that is seen: {believed} proved")
    found = proved(network, frequency, bound).certificate
    if found is None or not isinstance(found.tree, bytes):
        raise SystemExit("the plane of the attacks is not proved")
    rng, attacks = np.random.default_rng(2), 0
    head = next(iter(network.layer))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "attack.safetensors"
        tree = found.tree
        leaf = tree.index(255)
        inner = next(i for i, node in enumerate(tree) if node != 255 and tree[i + 1 : i + 3] == b"\xff\xff")
        forged = {
            "a leaf cut off": tree[:leaf] + tree[leaf + 1 :],
            "a leaf added": tree + b"\xff",
            "two leaves made one": tree[:inner] + tree[inner + 2 :],
            "the domain as one leaf": b"\xff",
            "a variable that there is not": bytes([2]) + tree[1:],
        }
        save(network, frequency, found, file)
        true = read_model(file)
        for name, other in forged.items() if changes > 1 else list(forged.items())[:2]:
            texts = {encode_tree(tree): encode_tree(other), tree.count(255): other.count(255)}
            write_model(file, true.tensors, _exchanged(true.sections, texts))
            verdict = sw.verify(file, max_seconds=600)
            # Fewer leaves over the whole domain are a weaker proof, and may be one: the checker bisects by itself.
            fewer = name in ("two leaves made one", "the domain as one leaf")
            attacks, believed = attacks + 1, believed + (verdict.verified and not fewer)
            print(f"  {name}: {verdict.status}, {verdict.reason[:90]}")
        less = 0.9 * float(off.max())
        save(network, frequency, replace(found, bound=less, exact_part=0.8 * less, lower=0.0), file)
        attacks, verdict = attacks + 1, sw.verify(file, max_seconds=600)
        believed += verdict.verified
        print(f"  a smaller bound: {verdict.status}, {verdict.reason[:90]}")
        for _ in range(changes):
            token, before = int(rng.integers(len(head.values))), head.values.detach().clone()
            with torch.no_grad():
                head.values[token] += 20.0 * bound
            save(network, frequency, replace(found, weights_sha256=_digest(network)), file)
            attacks, verdict = attacks + 1, sw.verify(file, max_seconds=600)
            at = np.abs(network.evaluate(points, engine="window")[:, 0] - wanted(points, frequency)).max()
            believed += verdict.verified and at > bound
            print(f"  value {token} changed, error {at:.1e}: {verdict.status}, {verdict.reason[:90]}")
            with torch.no_grad():
                head.values.copy_(before)
    print(f"{attacks + len(claims)} attacks, {believed} believed")
    return int(believed)


def _exchanged(entry: Any, texts: dict[Any, Any]) -> Any:
    """Sections of a file with some entries exchanged for others, wherever they stand."""
    if isinstance(entry, dict):
        return {name: _exchanged(value, texts) for name, value in entry.items()}
    if isinstance(entry, list):
        return [_exchanged(value, texts) for value in entry]
    return texts.get(entry, entry) if isinstance(entry, str | int) and not isinstance(entry, bool) else entry


def _digest(network: AttentionNetwork) -> str:
    from softwright.result.constructed import digest_of

    return digest_of(network)


def main() -> None:
    parser = argparse.ArgumentParser(description="A plane of a million tokens")
    parser.add_argument("--side", type=int, default=1000)
    parser.add_argument("--frequency", type=float, default=80.0, help="w of sin(w (x^2 + y^2))")
    parser.add_argument("--width", type=float, default=4.0, help="of a weight, in distances between tokens")
    parser.add_argument("--bound", type=float, default=1e-3)
    parser.add_argument("--order", type=int, default=12)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--save", type=Path, help="where the proved network is kept")
    parser.add_argument("--attack", action="store_true")
    parser.add_argument("--short", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.attack:
        raise SystemExit(1 if attack(8) else 0)
    if given.short:
        given.side, given.frequency, given.width, given.points, given.verify = 80, 5.0, 1.0, 100_000, True
    start = spent()
    network = plane(given.side, given.frequency, given.width)
    say(f"{network.tokens} tokens built", start, f"window proved within {network.window_error():.1e} of the head")
    start = spent()
    points = np.random.default_rng(0).uniform(-1, 1, (given.points, 2))
    off = np.abs(network.evaluate(points, engine="window")[:, 0] - wanted(points, given.frequency))
    say(f"{given.points} points by windows", start, f"largest error seen {off.max():.2e}")
    start = spent()
    found = proved(network, given.frequency, given.bound, order=given.order, workers=given.workers, resume=given.resume)
    what = f"proof that {formula(given.frequency)} is met on the whole plane, {found.boxes} boxes"
    say(what, start, f"{found.outcome.name} at {given.bound:g}")
    certificate = found.certificate
    if certificate is None:
        raise SystemExit(found.detail or "not proved")
    beyond = int((off > certificate.exact_part + network.window_error()).sum())
    print(f"  {certificate.exact_part:.3e} exact + {certificate.rounding_part:.1e} rounding, {certificate.engine}")
    print(f"  {beyond} of {len(points)} evaluations by windows beyond exact part + window_error")
    failed = beyond
    with tempfile.TemporaryDirectory() as folder:
        file = given.save or Path(folder) / "plane.safetensors"
        if given.verify or given.save:
            save(network, given.frequency, certificate, file)
            print(f"  {file.stat().st_size / 1e6:.1f} MB")
        if given.verify:
            start = spent()
            with crew(workers=given.workers) as hands:
                verdict = sw.verify(file, max_seconds=1e5, executor=hands if given.workers else None)
            say("verify", start, f"{verdict.status}, {verdict.boxes} boxes")
            failed += not verdict.verified
    if given.short:
        failed += attack(1)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
