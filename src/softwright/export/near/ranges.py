"""The ranges that the numbers of a transpiled network stay in, and its program with polynomials for heads there.

Ranges are what is seen at sampled inputs and at corners of their box, and a little more; where no polynomial reaches so
far, what is seen at nearly all of them. Nothing rests on ranges: every number is compared with its own as it runs, and
a point of which one leaves it takes the way of all others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from softwright.export.c_closed import ClosedForm
from softwright.export.near.powers import powers_of
from softwright.export.program import Closed, Program, computed
from softwright.export.selftest import given_to

ROOM = 1.1  # over the largest number that is seen
SHARES = (1.0, 0.999, 0.99, 0.98)  # of the inputs that stay in range in a layer
SAMPLES, MOST_NUMBERS = 2048, 1 << 22


def in_range(built: Any, program: Program) -> Program | None:
    """The program with polynomials for the heads that have one, or nothing if none has."""
    every = {**program.closed, **program.smooth}
    heads = {name: one for name, one in every.items() if ClosedForm(one, program.dtype).curved}
    if built.kind != "transpiled" or not heads:
        return None
    seen, closed = _largest(built, program, [one.inputs[0] for one in heads.values()]), dict(program.closed)
    for name, one in heads.items():
        for share in SHARES:
            most = float(np.quantile(seen[one.inputs[0]], share)) * (ROOM if share == 1.0 else 1.0)
            powers = powers_of(one.what, most, program.dtype) if 0 < most < np.inf else None
            if powers is not None:
                closed[name] = Closed(one.inputs, powers)
                break
    return replace(program, closed=closed) if closed != program.closed else None


def _largest(built: Any, program: Program, names: list[str]) -> dict[str, np.ndarray]:
    """The largest size of values at each sample."""
    widest = max((array.size for array in program.constants.values()), default=1)
    count = max(16, min(SAMPLES, MOST_NUMBERS // max(1, widest)))
    (x,) = given_to(built, count, seed=3)
    corners = np.where(np.random.default_rng(3).random(x.shape) < 0.5, x.min(axis=0), x.max(axis=0))[: len(x) // 256]
    values: dict[str, np.ndarray] = {**program.constants, next(iter(program.inputs)): np.concatenate([x, corners])}
    for name in program.inputs:
        values[name] = values[name].astype(program.dtype)
    for node in program.nodes:
        values[node.output] = computed(node, [values[name] for name in node.inputs], program.dtype)
    return {name: np.abs(values[name]).reshape(len(values[name]), -1).max(axis=1) for name in names}
