"""Least squares and ridge in context: answers against the exact solution, and smaller claims about larger sets."""

from __future__ import annotations

import copy
import json

import numpy as np

import softwright as sw
from attacking.result import Result
from softwright.checker.verify import reprove
from softwright.errors import InvalidInput
from softwright.fileformat import ModelFile
from softwright.result.constructed import tensors_of


def design(rng: np.random.Generator, rows: int, d: int, condition: float) -> np.ndarray:
    u, _ = np.linalg.qr(rng.normal(size=(rows, d)))
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    x = u * np.sqrt(rows) * np.geomspace(1, condition**-0.5, d) @ turn.T
    x = (x - x.mean(axis=0)) / x.std(axis=0) + float(rng.choice([0.0, 3.0, 50.0]))
    return x * 2.0 ** rng.integers(-10, 10, d)


def attack(rng: np.random.Generator, claim: bool) -> Result:
    d = int(rng.integers(1, 4))
    limits = {
        "condition": float(rng.choice([4.0, 10.0, 40.0])),
        "max_rows": int(rng.choice([10, 20, 40])),
        "score_bound": float(rng.choice([8.0, 15.0, 30.0])),
    }
    method = str(rng.choice(["least_squares", "ridge"]))
    built = sw.in_context(method, d, sample=False, **limits)
    certificate = built.certificate
    if certificate is None or "leverage" not in certificate.quantities:
        return Result(0.0, what="no distance is proved")
    share, seen_of_rms, what = 0.0, 0.0, f"{method}, {d}, {limits}"
    rows = int(rng.integers(d + 3, limits["max_rows"] + 1))
    x = design(rng, rows, d, limits["condition"] / 4)
    y = x @ (rng.normal(size=d) / np.abs(x).max(axis=0)) + rng.normal(size=rows)
    for _ in range(4):  # uphill
        tried = x * (1 + 0.02 * rng.normal(size=x.shape)), y + 0.1 * y.std() * rng.normal(size=rows)
        try:
            found = built.certify_at(*tried, tried[0][:4])
        except InvalidInput:
            continue
        rms, inside = found.quantities["rms of y"], _inside(found.quantities, limits)
        # the number of the prompt, and that of the set if the prompt is in it
        now = max(found.seen / found.bound, found.seen / (certificate.bound * rms) if inside else 0.0)
        seen_of_rms = max(seen_of_rms, found.seen / rms)
        if now > share:
            share, (x, y) = now, tried
    if not claim or seen_of_rms == 0:
        return Result(share, what=what)
    file = _file(built)
    said = file.sections["certificate"]
    if rng.random() < 0.6:  # less than was seen, however it is divided
        part = rng.random()
        said |= {"bound": 0.9 * seen_of_rms, "exact_part": 0.9 * seen_of_rms * part}
        said["rounding_part"] = said["bound"] - said["exact_part"]
    else:  # the same number for a set that is far larger
        name = str(rng.choice(["max_rows", "condition", "score_bound"]))
        value = file.sections["target"][name] * int(rng.integers(10, 60))
        for home in (file.sections["target"], file.sections["model"]["settings"], said["target"]):
            home[name] = value
    return Result(share, 1, int(bool(reprove(file))), what)


def _inside(found, limits: dict[str, float]) -> bool:
    return found["condition"] <= limits["condition"] and found["leverage"] <= limits["score_bound"]


def _file(built: sw.Built) -> ModelFile:
    sections = {
        "model": {"kind": built.kind, **built.network.describe()},
        "target": built.target,
        "plan": built.plan.as_dict(),
        "certificate": built.certificate.flat(),
    }
    return ModelFile(tensors_of(built.network), copy.deepcopy(json.loads(json.dumps(sections))))
