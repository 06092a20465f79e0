"""The margin of a memory: why every stored item recalls its own label, on any IEEE machine and in either engine.

A stored item's id, computed by either engine, lies within `radius` of its key z_i (build.memory_error), and no two keys
are closer than g (measured on the stored numbers). Nearest-key search is right if margin = g / (2 radius) > 1.

*Softmax lookup.* For a computed id q with |q - z_i| <= radius and |z_i - z_j| = h >= g,

    (q.z_i - |z_i|^2/2) - (q.z_j - |z_j|^2/2) = (|q - z_j|^2 - |q - z_i|^2)/2 >= (h^2 - 2 h radius)/2,

which grows with h > radius, and each computed score errs by at most beta E (build.memory_error.score_error; beta is a
power of 4, so scaling is exact). Hence with m = (g^2 - 2 g radius)/2 - 2E

    weight of another key <= exp(-beta m)           mass off the right key <= (N - 1) exp(-beta m)
    |y - y_i| <= 2 Y (N - 1) exp(-beta m)           in real arithmetic, Y = max|y|.

The running network subtracts the largest score (relative error u), takes exp (relative error x, and an underflow of at
most four times the smallest number, t) and sums in any order. Each other weight is at most w = exp(-beta m (1 - 2u))(1
+ x) + 4t, and the builder takes beta m so large that w is of the size of t. A sum of 1 and N - 1 such weights, N w <
u/2, is 1 in any order, so the right key has weight exactly 1; what the others add to y_i, each with its own rounding,
is at most 2 N^2 w Y.

*Relus.* Each ramp is checked on its stored numbers: a_j (t_j + radius) + b_j <= -e and a_j (t_{j+1} - radius) + b_j >=
1 + e with e = 4u (|a_j| (R + radius) + |b_j|), more than its rounding. Then all steps are exactly 0 or 1, and y = y_i
with no error.

Storing labels in the dtype rounds them; that is measured and added. All bounds are rounded outwards.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from softwright.memory.build import largest_norm
from softwright.memory.network import MemoryNetwork
from softwright.memory.readouts import ReluReadout, SoftmaxLookup
from softwright.memory.rounding import (
    LARGEST_SCORE,
    SLACK,
    half_error,
    id_errors,
    largest_score,
    score_error,
)
from softwright.precision import FLOAT64, assumptions_of_all, precision_of
from softwright.proof.arithmetic.directed import exp_up
from softwright.result.closed_form import ClosedForm

METHOD = "margin of context ids against proved rounding"


@dataclass(frozen=True)
class Held:
    """What the proof needs to know of all keys and values; of many shards, the largest of each."""

    largest: float  # max |z_j|, rounded up
    size: float  # max |y_j|
    half_error: float  # bound of |stored half square - exact one|
    digest: str | None = None  # of the network's tensors, where they are not all at hand


def held_by(network: MemoryNetwork) -> Held:
    """The same of a network in memory."""
    readout = network.readout
    size = float(readout.values.double().abs().max()) if readout.values.numel() else 0.0
    halves = _half_error(readout) if isinstance(readout, SoftmaxLookup) else 0.0
    return Held(largest_norm(readout.keys.double().numpy()), size, halves)


def certify_memory(
    network: MemoryNetwork, target: dict[str, Any], label_rounding: float, held: Held | None = None
) -> tuple[ClosedForm | None, str]:
    """The certificate, or None and the reason. `label_rounding` bounds |stored label - label given|; `held` is given
    where keys and values are elsewhere, and the network has their shapes only."""
    started = time.monotonic()
    head, readout, dtype = network.head, network.readout, network.dtype
    held = held_by(network) if held is None else held
    count, largest = network.stored, held.largest
    errors = id_errors(head, largest)
    gap, radius = float(network.gap), max(errors.radii)
    fault = _structure_fault(network, errors.radii)
    if fault:
        return None, fault
    if not gap > 2.0 * radius:
        return None, f"ids are only {gap:.3g} apart, which rounding of {radius:.3g} could close"
    if isinstance(readout, SoftmaxLookup):
        exact, rounding, facts = _lookup(readout, held, gap, radius, dtype)
    else:
        exact, rounding, facts = _ramps(readout, radius, largest, dtype)
    if not math.isfinite(exact + rounding):
        return None, "rounding of the readout could exceed the margin of the ids"
    rounding = (rounding + label_rounding) * SLACK
    kind = "sequences" if network.reading.mode == "sequence" else "tokens in context"
    statement = f"every input whose id is one of the {count} stored ids of {kind} recalls the label stored with that id"
    if network.classes is not None:
        statement += " (error of the class index, exact below 1/2)"
        if exact + rounding >= 0.5:
            return None, f"the error {exact + rounding:.3g} could change a class"
    quantities = {
        "items": float(count),
        "rank": float(network.rank),
        "gap": gap,
        "id_error_dense": errors.dense,
        "id_error_pruned": errors.pruned,
        "radius": radius,
        "margin": gap / (2.0 * radius) / SLACK,
        **facts,
        "label_rounding": label_rounding,
        "parameters": float(network.parameter_count),
        "paper_parameters": float(network.paper_parameters),
    }
    certificate = ClosedForm.of(
        network,
        target,
        started,
        statement=statement,
        bound=(exact + rounding) * SLACK,
        exact_part=exact,
        rounding_part=rounding,
        method=METHOD,
        quantities=quantities,
        assumptions=assumptions_of_all(),
        engine="dense and pruned",
        digest=held.digest,
    )
    return certificate, ""


def _structure_fault(network: MemoryNetwork, radii: tuple[float, float]) -> str:
    """What the error formula takes for granted, looked up in the weights."""
    head = network.head
    e, s, d = head.code_size, head.rank, head.W_Q.shape[1]
    reads_one = torch.zeros(1, d, dtype=head.dtype)
    reads_one[0, e + 1] = 1
    copies = torch.zeros(d, s, dtype=head.dtype)
    copies[e + 2 :] = torch.eye(s, dtype=head.dtype)
    if not torch.equal(head.W_Q, reads_one) or not torch.equal(head.W_O, copies):
        return "W_Q must read the constant and W_O copy, so that both are exact"
    if bool(head.W_K[0, e + 1 :].any()) or bool(head.W_V[:, e:].any()):
        return "W_K and W_V must not read the constant or the empty coordinates"
    # The pruned engine adds log weights to scores as they are, takes exp without a shift, and knows no sentinel.
    if float(head.W_K[0, e]) != 1.0 or (network.reading.mode == "sequence" and bool(head.W_I[:, e].any())):
        return "W_K must read log weights with factor 1, and ids of whole sequences must not read them"
    if largest_score(head) > LARGEST_SCORE:
        return "the scores are beyond what exp can take without a shift"
    codes = head.codes.abs().amax(dim=0) if len(head.codes) else None
    if codes is not None:
        bound = codes * head.place_codes.abs().amax(dim=0) if len(head.place_codes) else codes
        if bool((bound > head.reach).any()):
            return "a code exceeds the stated reach"
    if radii[0] > float(network.radii[0]) or radii[1] > float(network.radii[1]):
        return "the stored search radius is below the proved one"
    return ""


def _lookup(
    readout: SoftmaxLookup, held: Held, gap: float, radius: float, dtype: torch.dtype
) -> tuple[float, float, dict[str, float]]:
    count, precision = len(readout.keys), precision_of(dtype)
    u, largest, size = precision.unit, held.largest, held.size
    beta = float(readout.beta)
    mantissa, exponent = math.frexp(beta)
    halves_right = held.half_error <= half_error(largest, readout.keys.shape[1], dtype)
    if count < 2:
        return 0.0, 0.0, {"score_margin": 0.0, "off_mass": 0.0, "beta": beta}
    margin = (
        0.5 * gap * (gap - 2.0 * radius) - 2.0 * score_error(largest, radius, readout.keys.shape[1], dtype)
    ) / SLACK
    finite = beta * (largest + radius) ** 2 < (2.0**100 if dtype == torch.float32 else 2.0**1000)
    if mantissa != 0.5 or exponent % 2 == 0 or margin <= 0 or not halves_right or not finite:
        return math.inf, math.inf, {}
    drop = beta * margin / SLACK
    other = float(exp_up(np.array(-drop)))
    weight = (
        float(exp_up(np.array(-drop * (1.0 - 2.0 * u)))) * (1.0 + precision.exp_error) + 4.0 * precision.least
    ) * SLACK
    if count * weight >= 0.5 * u:
        return math.inf, math.inf, {}
    mass = (count - 1) * other * SLACK
    least = (
        float(np.nextafter(0.0, 1.0)) if size > 0 else 0.0
    )  # products of tiny labels underflow, their bounds may not
    return (
        max(2.0 * size * mass * SLACK, least),
        max(2.0 * size * weight * count * count * SLACK, least),
        {"score_margin": drop, "off_mass": mass, "beta": beta},
    )


def _half_error(readout: SoftmaxLookup) -> float:
    """Bound of |stored half square - exact one|."""
    keys = readout.keys.double().numpy()
    halves = 0.5 * (keys**2).sum(axis=1)
    off = np.abs(halves - readout.halves.double().numpy()) + (keys.shape[1] + 2) * FLOAT64.unit * halves
    return float(off.max(initial=0.0))


def _ramps(
    readout: ReluReadout, radius: float, largest: float, dtype: torch.dtype
) -> tuple[float, float, dict[str, float]]:
    line = readout.keys.double().numpy()[:, 0]
    slopes, offsets = readout.slopes.double().numpy(), readout.offsets.double().numpy()
    if len(line) < 2:
        return 0.0, 0.0, {"off_mass": 0.0}
    error = 4.0 * precision_of(dtype).unit * (np.abs(slopes) * (largest + radius) + np.abs(offsets))
    # The two sums below are computed in float64, whose rounding the same term covers once more.
    before = slopes * (line[:-1] + radius) + offsets + 2.0 * error
    after = slopes * (line[1:] - radius) + offsets - 2.0 * error
    if (slopes <= 0).any() or (before > 0).any() or (after < 1).any():
        return math.inf, math.inf, {}
    return 0.0, 0.0, {"off_mass": 0.0, "ramp_margin": float(min(-before.max(), after.min() - 1.0))}
