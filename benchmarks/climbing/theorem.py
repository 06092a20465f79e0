"""All sixteen theorems at random sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import softwright as sw
from climbing.job import Job
from softwright.errors import SoftwrightError

FORMULAS = ("sin(3*x)*exp(-y**2)", "x*y", "cos(x) + y", "abs(x - y)")
Sizes = Callable[[np.random.Generator], dict[str, Any]]


def _int(rng: np.random.Generator, low: int, high: int) -> int:
    return int(rng.integers(low, high + 1))


def _clip(rng: np.random.Generator) -> dict[str, Any]:
    a = float(rng.uniform(-5, 1))
    return {"a": a, "b": a + float(rng.uniform(0.5, 8)), "dim": _int(rng, 1, 3), "seed": _int(rng, 0, 99)}


SIZES: dict[str, Sizes] = {
    "A1": lambda rng: {**_clip(rng), "points": _int(rng, 6, 40), "tokens": _int(rng, 2, 5)},
    "A2": lambda rng: {**_clip(rng), "heads": _int(rng, 1, 6), "tokens": _int(rng, 3, 6)},
    "A3": lambda rng: {
        "heads": _int(rng, 2, 8),
        "tokens": _int(rng, 2, 4),
        "dim": _int(rng, 1, 3),
        "hidden": _int(rng, 2, 5),
        "seed": _int(rng, 0, 99),
    },
    "A4": lambda rng: {"formula": str(rng.choice(["sin(3*x)", "exp(-x)", "x*y"])), "cells": _int(rng, 2, 4)},
    "A5": lambda rng: {
        "loss": str(rng.choice(["squares", "logistic"])),
        "points": _int(rng, 12, 40),
        "tokens": _int(rng, 2, 6),
        "dim": _int(rng, 1, 2),
        "eta": float(rng.uniform(0.05, 0.5)),
    },
    "A6": lambda rng: {
        "activation": str(rng.choice(["relu", "leaky_relu"])),
        "points": _int(rng, 12, 40),
        "width": _int(rng, 2, 5),
        "depth": _int(rng, 1, 2),
        "dim": _int(rng, 1, 3),
        "seed": _int(rng, 0, 99),
    },
    "B1": lambda rng: {"pieces": _int(rng, 2, 8), "dim": _int(rng, 1, 3), "seed": _int(rng, 0, 99)},
    "B2": lambda rng: {"formula": str(rng.choice(FORMULAS)), "cells": _int(rng, 2, 6)},
    "B3": lambda rng: {
        "target": str(rng.choice(["sign", "disc", "root"])),
        "p": _int(rng, 1, 2),
        "cells": _int(rng, 4, 8),
    },
    "B4": lambda rng: {"formula": str(rng.choice(FORMULAS)), "cells": _int(rng, 2, 6)},
    "C1": lambda rng: {"values": _int(rng, 4, 6), "length": _int(rng, 2, 3), "seed": _int(rng, 0, 99)},
    "C2": lambda rng: {"vocabulary": _int(rng, 3, 4), "sequences": _int(rng, 2, 3), "scale": "tight"},
    "C3": lambda rng: {"dim": _int(rng, 1, 4), "heads": _int(rng, 1, 3), "seed": _int(rng, 0, 99)},
    "C4": lambda rng: {"sequences": _int(rng, 2, 5), "length": _int(rng, 2, 3), "seed": _int(rng, 0, 99)},
    "C5": lambda rng: {"levels": _int(rng, 3, 5)},
    "C6": lambda rng: {"sequences": _int(rng, 2, 4), "length": _int(rng, 2, 3), "seed": _int(rng, 0, 99)},
}


def draw(rng: np.random.Generator) -> Job | None:
    label = list(SIZES)[int(rng.integers(len(SIZES)))]
    sizes = SIZES[label](rng)
    try:
        built = sw.theorem(label).build(progress=False, **sizes)
    except SoftwrightError:  # sizes that its conditions do not allow
        return None
    return Job(f"{label} {sizes}", built)
