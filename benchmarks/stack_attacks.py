"""Stacks attacked on the scale of their own gates, and false claims about them.

    python benchmarks/stack_attacks.py                            2,000 attacks and 200 false claims on 100 stacks
    python benchmarks/stack_attacks.py --first 40 --networks 10   stacks 40 to 49 of the same run

Stacks of formulas of the grammar (`grammar.py`), float64 and float32, at tolerances of 1e-2 to 1e-6 of half the range.

attack        points at the scale 1/B of every gate of a stack, at places of the surface on which it switches, and
              just outside of every band; after each stack's attacks a climb from the worst of all points
false claim   the stack's own file with a bound that is a share, 0.995 to 0.1, of an error that was seen, signed anew;
              `verify` must not accept it

An attack that finds an error above the bound, in balls, is a violation. One of these, or an accepted false claim, ends
the run with exit code 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from forgery.file import Forgery
from grammar import GAP, drawn

import softwright as sw
from softwright.approximation.observe import climbed
from softwright.approximation.problem import probe_points
from softwright.compiler.build import Compiled, compile_formula
from softwright.compiler.evidence import certificate_of
from softwright.compiler.layout import network_of
from softwright.compiler.look import contradiction, gate_points, outside_bands
from softwright.compiler.nodes import CannotCompile
from softwright.errors import ContradictedProof
from softwright.fileformat import read_model
from softwright.precision import precision_of

SHARES = (0.995, 0.9, 0.5, 0.1)
POINTS = 60  # of a gate in one attack


@dataclass
class Count:
    stacks: int = 0
    attacks: int = 0
    violations: int = 0
    claims: int = 0
    accepted: int = 0
    closest: float = 0.0  # the largest error that was seen, as a share of its bound


def compiled_of(text: str, box: sw.Box, rng: np.random.Generator) -> Compiled | None:
    """A proved stack of the formula, or None."""
    expression = sw.Expression(text, box)
    values = expression(box.from_unit(probe_points(box.dim, 4000, seed=1)))
    half = max(0.5 * float(np.ptp(values[np.isfinite(values)])), 1e-3)
    dtype = "float32" if rng.random() < 0.25 else "float64"
    tol = 10.0 ** rng.uniform(-3, -2) if dtype == "float32" else 10.0 ** rng.uniform(-6, -2)
    try:
        compiled = compile_formula(expression, box, tol * half, precision_of(dtype), gap=1e-2 if tol > 1e-3 else GAP)
    except CannotCompile:
        return None
    return compiled if compiled.proved else None


def attacked(compiled: Compiled, expression: sw.Expression, attacks: int, count: Count) -> float:
    """The largest error that attacks and a climb see; violations are counted."""
    network, box, program = network_of(compiled), compiled.box, compiled.program
    worst, start = 0.0, box.sample(1, seed=1)
    for seed in range(attacks):
        points = gate_points(compiled, POINTS, seed)
        points = points[outside_bands(program, box, points)] if len(points) else box.sample(200, seed=seed)
        count.attacks += 1
        if not len(points):
            continue
        found = np.abs(network.evaluate(points) - expression(points)).max(axis=1)
        if found.max() > worst:
            worst, start = float(found.max()), points[np.argsort(found)[-20:]]
    seen = climbed(network, expression, start, seed=3, counts=lambda x: outside_bands(program, box, x))
    if seen.error > compiled.proof.bound and seen.point is not None:
        point = np.asarray(seen.point)
        try:
            contradiction(compiled, expression, point, network.evaluate(point[None])[0])
        except ContradictedProof as error:
            count.violations += 1
            print(f"VIOLATION: {expression.text}: {error}", flush=True)
    return max(worst, seen.error)


def falsely_claimed(compiled: Compiled, expression: sw.Expression, seen: float, claims: int, count: Count) -> None:
    network = network_of(compiled)
    certificate = certificate_of(compiled, network, expression, time.monotonic())
    plan = sw.approximate("x", sw.Box(x=(0, 1)), certify=False).plan
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stack.safetensors"
        sw.Built(network, plan, expression.describe(), certificate=certificate).save(path)
        for k in range(claims):
            file = read_model(path)
            forged = Forgery("composition", dict(file.tensors), file.sections)
            bound = SHARES[k % len(SHARES)] * seen
            places = forged.statements()[0]
            parts = {"bound": bound, "exact": 0.75 * bound, "rounding": 0.25 * bound}
            for name, place in places.items():
                forged.restate(place, parts[name])
            forged.sign()
            forged.write(Path(folder) / "forged.safetensors")
            verdict = sw.verify(Path(folder) / "forged.safetensors", max_seconds=60)
            count.claims += 1
            if verdict.status.startswith("VERIFIED"):
                count.accepted += 1
                print(f"ACCEPTED: {expression.text}: {bound:.6g} though {seen:.6g} was seen", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--networks", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=29)
    parser.add_argument("--attacks", type=int, default=20, help="of each stack")
    parser.add_argument("--claims", type=int, default=2, help="of each stack")
    options = parser.parse_args()
    count = Count()
    formulas = drawn(options.first + options.networks, options.seed)[options.first :]
    for k, (text, box) in enumerate(formulas):
        compiled = compiled_of(text, box, np.random.default_rng([options.seed, options.first + k]))
        if compiled is None:
            continue
        expression = sw.Expression(text, box)
        seen = attacked(compiled, expression, options.attacks, count)
        count.stacks += 1
        count.closest = max(count.closest, seen / compiled.proof.bound)
        falsely_claimed(compiled, expression, seen, options.claims, count)
        if k % 10 == 9:
            print(f"... {k + 1}: {count}", flush=True)
    print(
        f"{count.stacks} stacks: {count.attacks} attacks, {count.violations} violations, closest {count.closest:.4f} "
        f"of the bound; {count.claims} false claims, {count.accepted} accepted"
    )
    sys.exit(1 if count.violations or count.accepted else 0)


if __name__ == "__main__":
    main()
