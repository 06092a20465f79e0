"""Every certified step in context, for prompts of many sizes; the worst prompt is climbed by the judge."""

from __future__ import annotations

from typing import Any

import numpy as np

import softwright as sw
from climbing.job import Job
from softwright.errors import SoftwrightError

STEPS = (
    ("least_squares", "newton_schulz"),
    ("ridge", "newton_schulz"),
    ("least_squares", "gradient"),
    ("ridge", "gradient"),
    ("logistic", "gradient"),
    ("poisson", "gradient"),
    ("robust", "gradient"),
)


def draw(rng: np.random.Generator) -> Job | None:
    (method, solver), dtype = STEPS[int(rng.integers(len(STEPS)))], str(rng.choice(["float64", "float32"]))
    options: dict[str, Any] = {"max_rows": int(10 ** rng.uniform(0.3, 3))}
    if rng.random() < 0.7:
        options |= {name: float(10 ** rng.uniform(-1, 1.5)) for name in ("x_bound", "y_bound", "w_bound")}
    if rng.random() < 0.5:
        options["order"] = int(rng.integers(1, 5))
    if method != "least_squares" and rng.random() < 0.6:
        options["penalty"] = float(10 ** rng.uniform(-2, 0.5))
    if rng.random() < 0.3 and method != "poisson":
        options["intercept"] = False
    if method == "robust":
        options["loss_scale"] = float(10 ** rng.uniform(-1, 1))
    try:
        built = sw.in_context(
            method, int(rng.integers(1, 5)), solver=solver, dtype=dtype, steps=2, sample=False, **options
        )
    except SoftwrightError:
        return None
    return Job(f"{method} by {solver}, {dtype}, {options}", built)
