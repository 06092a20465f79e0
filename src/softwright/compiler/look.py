"""Looking at a compiled network: that it is the formula's, and points where its error hides.

`check_rewriting` compares the program with the formula in ball arithmetic at points of the box: a net under the
rewriting rules, whose side conditions are what is proved. `gate_points` finds points at the scale of every gate: a gate
of slope B errs within a few 1/B of the surface where its argument is 0, which random points never meet.
`contradiction` compares a run with a proved bound, exactly, at one point; `within` says of which points bounds speak.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb

from softwright.compiler.build import Compiled
from softwright.compiler.features import COPY, EXPONENTIAL, INPUT, MAXIMUM, PRODUCT, STEP, TABLE, Program
from softwright.compiler.forms import Form
from softwright.compiler.nodes import Ball, Expression, constant_ball, evaluate, precision
from softwright.domain import Box
from softwright.errors import ContradictedProof

_BITS = 300
_POINTS = 48
_BESIDE = np.array([-8.0, -2.0, -1.2, -1.01, -1.0001, 1.0001, 1.01, 1.2, 2.0, 8.0])  # in gaps
_OFFSETS = np.array([-8.0, -4.0, -2.0, -1.3, -0.6, 0.0, 0.6, 1.3, 2.0, 4.0, 8.0])


def exact_outputs(program: Program, point: np.ndarray) -> list[Ball]:
    """The exact outputs of a program at one point."""
    values: dict[int, Ball] = {}

    def of(form: Form) -> Ball:
        return sum((constant_ball(c) * values[k] for k, c in form), constant_ball(form.constant))

    for f in program.features:
        if f.kind == INPUT:
            values[f.number] = arb(float(point[f.number]))
        elif f.kind == TABLE and f.function is not None:
            values[f.number] = evaluate(f.function, {"u": of(f.score)})
        elif f.kind == COPY:
            values[f.number] = of(f.score)
        elif f.kind == PRODUCT:
            values[f.number] = of(f.score) * of(f.value)
        elif f.kind == EXPONENTIAL:
            values[f.number] = of(f.score).exp() * of(f.value)
        elif f.kind == MAXIMUM:
            values[f.number] = of(f.score).max(arb(0)) + of(f.base)
        elif f.kind == STEP:
            values[f.number] = of(f.value) * _indicator(of(f.score), f.gap)
    return [of(form) for form in program.outputs]


def _indicator(c: Ball, gap: float) -> Ball:
    """[c > 0]; not a number inside the band, where nothing is claimed."""
    if c >= gap:
        return arb(1)
    return arb(0) if c <= -gap else arb("nan")


def outside_bands(program: Program, box: Box, points: np.ndarray) -> np.ndarray:
    """Which points (n,) keep away from all jumps of a program."""
    return _away(program.differences, program.gap, box, points)


def within(built: Any, points: np.ndarray) -> np.ndarray:
    """Of points (q, d) those of which a certificate's rounding part speaks: outside of the bands that it leaves out."""
    certificate = built.certificate
    left_out = [certificate.outside] if certificate.outside else certificate.parts.get("bands", [])
    keep = np.ones(len(points), dtype=bool)
    for bands in left_out:
        keep &= _away(bands["of"], bands["gap"], built.network.box, points.astype(float))
    return points[keep]


def _away(differences: Sequence[str], gap: float, box: Box, points: np.ndarray) -> np.ndarray:
    """Where no difference is within the gap of 0, by a hair more than the gap: floats decide here."""
    found = np.ones(len(points), dtype=bool)
    for written in differences:
        at = Expression(written, box)(points)[:, 0]
        found &= np.abs(at) >= gap * (1 + 1e-9) + 1e-15 * np.abs(at)
    return found


def check_rewriting(program: Program, expression: Expression, box: Box) -> None:
    """Raise if the program differs from the formula at some point."""
    points = np.concatenate([box.sample(_POINTS, seed=11), box.corners(16)])
    with precision(_BITS):
        for point in points:
            named = {name: arb(float(x)) for name, x in zip(box.names, point, strict=True)}
            for node, mine in zip(expression.nodes, exact_outputs(program, point), strict=True):
                wanted = evaluate(node, named)
                if wanted.is_finite() and mine.is_finite() and not (wanted - mine).contains(0):
                    place = ", ".join(f"{name} = {x:.17g}" for name, x in zip(box.names, point, strict=True))
                    raise ContradictedProof(f"the compiled formula differs from the one given at {place}")


def contradiction(compiled: Compiled, expression: Expression, point: np.ndarray, outputs: np.ndarray) -> None:
    """Raise if what ran at a point is certainly farther from the formula than what was proved."""
    with precision(_BITS):
        named = {name: arb(float(x)) for name, x in zip(compiled.box.names, point, strict=True)}
        for node, ran in zip(expression.nodes, outputs, strict=True):
            gap = abs(evaluate(node, named) - arb(float(ran)))
            if gap.is_finite() and gap > arb(compiled.proof.bound):
                raise ContradictedProof(
                    f"the error {float(gap.mid()):.6g} at {dict(named)} exceeds the proved bound "
                    f"{compiled.proof.bound:.6g}; please report this formula and box"
                )


def gate_points(compiled: Compiled, count: int = 40, seed: int = 5) -> np.ndarray:
    """Points (n, d) of the box at the scale of every maximum's gate, and just outside the band of every jump."""
    program, box = compiled.program, compiled.box
    meaning = {f.number: f.meaning for f in program.features}
    found = [np.zeros((0, box.dim))]
    walls = [
        (
            Expression.from_nodes([f.score.node(meaning)], box.names),
            1.0 / compiled.heads.maxima[f.number].slope,
            _OFFSETS,
        )
        for f in program.features
        if f.kind == MAXIMUM
    ]
    walls += [(Expression(written, box), program.gap, _BESIDE) for written in program.differences]
    for number, (score, scale, offsets) in enumerate(walls):
        first, second = (box.sample(20 * count, seed=seed + shift + number) for shift in (0, 7919))
        at_first, at_second = score(first)[:, 0], score(second)[:, 0]
        crossing = np.flatnonzero(np.sign(at_first) * np.sign(at_second) < 0)[:count]
        if not len(crossing):
            continue
        low, high = first[crossing], second[crossing]
        rising = at_first[crossing] < 0
        for _ in range(60):
            middle = 0.5 * (low + high)
            below = (score(middle)[:, 0] < 0) == rising
            low, high = np.where(below[:, None], middle, low), np.where(below[:, None], high, middle)
        direction = second[crossing] - first[crossing]
        slope = np.abs(at_second - at_first)[crossing]  # of the score along the segment, roughly
        step = scale / np.maximum(slope, 1e-300)
        near = low[:, None] + (offsets[None, :, None] * step[:, None, None]) * direction[:, None]
        found.append(np.clip(near.reshape(-1, box.dim), box.lower, box.upper))
    return np.concatenate(found)
