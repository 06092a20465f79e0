"""Proofs from end to end: in context to the exact solution, and transpiled transformers at a prompt.

    python benchmarks/end_to_end.py [--prompts N] [--false N]

Prints what is proved beside what is seen, attacks both by climbing (prompts are moved uphill in the distance seen), and
claims smaller bounds in files: none may be verified. The exit code is 1 if a distance seen is beyond its bound or a
false claim is believed.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from typing import Any

import numpy as np

import softwright as sw
from softwright.checker.verify import reprove
from softwright.fileformat import ModelFile
from softwright.result.constructed import tensors_of

SETS = ((3, 10.0, 100, 10.0), (3, 100.0, 100, 10.0), (3, 1000.0, 1000, 30.0), (10, 100.0, 1000, 100.0))


def design(rng: np.random.Generator, rows: int, d: int, condition: float, offset: float) -> np.ndarray:
    u, _ = np.linalg.qr(rng.uniform(-1, 1, (rows, d)))
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    x = u * np.sqrt(rows) * np.geomspace(1, condition**-0.5, d) @ turn.T
    return ((x - x.mean(axis=0)) / x.std(axis=0) + offset) * 2.0 ** rng.integers(-12, 12, d)


def in_context(prompts: int, false: int) -> int:
    wrong = 0
    print("method, features, condition, rows, leverage | proved/rms(y), of it exact | seen/rms(y) | build, verify s")
    for method in ("least_squares", "ridge"):
        for d, condition, rows, leverage in SETS:
            started = time.process_time()
            limits = {"condition": condition, "max_rows": rows, "score_bound": leverage}
            built = sw.in_context(method, d, sample=False, **limits)
            seconds = time.process_time() - started
            certificate = built.certificate
            if certificate is None or "leverage" not in certificate.quantities:
                print(f"{method}, {d}, {condition:g}, {rows}, {leverage:g} | none: one layer")
                continue
            file = _file(built)
            started = time.process_time()
            verified = reprove(file).verified
            checking = time.process_time() - started
            wrong += not verified
            worst = _climbed(built, prompts, rows, d, condition) if method == "least_squares" else float("nan")
            wrong += worst > 1
            named = f"{method}, {d}, {condition:g}, {rows}, {leverage:g}"
            proved = f"{certificate.bound:.2e}, {certificate.exact_part:.1e} | {worst * certificate.bound:.1e}"
            print(
                f"{named} | {proved} | {seconds:.2f}, {checking:.2f} {'' if verified else 'NOT VERIFIED'}", flush=True
            )
            if d == 3 and rows == 100:
                wrong += _believed(file, false)
    return wrong


def _climbed(built: sw.Built[Any], prompts: int, rows: int, d: int, condition: float) -> float:
    """The largest distance seen over its bound, prompts being moved uphill from random ones."""
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(prompts):
        x = design(rng, rows, d, condition / 10, float(rng.choice([0.0, 3.0, 200.0])))
        y = x @ rng.normal(size=d) + rng.normal(size=rows)
        best = 0.0
        for _ in range(6):
            tried = x * (1 + 0.02 * rng.normal(size=x.shape)), y + 0.1 * y.std() * rng.normal(size=rows)
            found = built.certify_at(*tried, tried[0][:5])
            share = found.seen / found.bound
            if share > best:
                best, (x, y) = share, tried
        worst = max(worst, best)
    return worst


def _file(built: sw.Built[Any]) -> ModelFile:
    sections = {
        "model": {"kind": built.kind, **built.network.describe()},
        "target": built.target,
        "plan": built.plan.as_dict(),
        "certificate": built.certificate.flat(),
    }
    return ModelFile(tensors_of(built.network), json.loads(json.dumps(sections)))


def _believed(file: ModelFile, count: int) -> int:
    """How many of so many false claims are verified: parts of the bound divided, or sets widened."""
    rng, believed = np.random.default_rng(1), 0
    said = file.sections["certificate"]
    parts = ["exact_part", "rounding_part", *said["quantities"]]
    for _ in range(count):
        forged = ModelFile(file.tensors, copy.deepcopy(file.sections))
        claim = forged.sections["certificate"]
        if rng.random() < 0.7:
            part = str(rng.choice(parts))
            home = claim if part in claim else claim["quantities"]
            home[part] /= float(10 ** rng.uniform(1, 4))
        else:
            name = str(rng.choice(["max_rows", "condition", "score_bound", "range_bound"]))
            value = forged.sections["target"][name] * int(rng.integers(4, 40))
            for home in (forged.sections["target"], forged.sections["model"]["settings"], claim["target"]):
                home[name] = value
        believed += reprove(forged).verified
    print(f"    {count} false claims: {believed} believed")
    return believed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--false", type=int, default=25)
    given = parser.parse_args()
    return 1 if in_context(given.prompts, given.false) else 0


if __name__ == "__main__":
    raise SystemExit(main())
