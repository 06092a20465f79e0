"""Points and answers that a source takes along to test itself: inputs of the network's set, what torch gives at them.

Two runs that a certificate covers lie within its rounding part of the network in real arithmetic each, so they differ
by twice that at most. Where nothing is proved of rounding the allowance is a number of units in the last place of the
largest answer, and the source says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from softwright.precision import precision_of

if TYPE_CHECKING:
    from softwright.result.built import Built

POINTS = 8
_ULPS = 4096


@dataclass(frozen=True)
class Answers:
    """inputs (q, ..), outputs (q, ..), the largest deviation that is allowed, and why."""

    inputs: np.ndarray
    outputs: np.ndarray
    allowed: float
    meaning: str


def inputs_of(built: Built[Any], count: int, seed: int = 0) -> np.ndarray:
    """Inputs of the set that the network was made for, in its dtype: a fixed sample."""
    network, rng = built.network, np.random.default_rng(seed)
    dtype = str(network.dtype).removeprefix("torch.")
    if hasattr(network, "box"):
        return network.box.sample(count, seed=seed).astype(dtype)
    if built.kind == "theorem":
        return rng.uniform(0.0, 1.0, size=(count, *network.inputs)).astype(dtype)
    low, high = built.target.get("low", -1.0), built.target.get("high", 1.0)
    return rng.uniform(low, high, size=(count, network.inputs)).astype(dtype)


def answers_of(built: Built[Any], count: int = POINTS) -> Answers:
    """What torch answers at a few inputs."""
    inputs = inputs_of(built, count)
    with torch.no_grad():
        outputs = built.network(torch.from_numpy(inputs)).numpy()
    allowed, meaning = allowance(built, float(np.abs(outputs).max(initial=0.0)))
    return Answers(inputs, outputs, allowed, meaning)


def allowance(built: Built[Any], size: float) -> tuple[float, str]:
    """How far two runs of the network may differ, and why."""
    rounding = 0.0 if built.certificate is None else float(built.certificate.rounding_part)
    if rounding > 0.0:
        return 2.0 * rounding, "twice the rounding part of the claim"
    unit = precision_of(built.network.dtype).unit
    return _ULPS * 2.0 * unit * max(size, 1.0), f"{_ULPS} ulp: nothing is proved of rounding here"
