"""A relu readout of ids on a line, in real arithmetic and as it runs in float64.

    out_o = b_2 + sum_j c_j relu(w.id - t_j)  [+ id_o],      thresholds t_j in a block of their own for every output o,

one direction w for all relus of a block. Sorted by their thresholds, the relus that are on at z = w.id are the first k,
and prefix sums of c_j, |c_j|, c_j t_j, |c_j t_j| give the value and all that follows in a few operations.

*As it runs.* The computed id is id + delta, |delta_i| <= e_i, the same for all relus. With theta_j in [0, 1], 1 where
the relu is on at all such ids and 0 where it is off at all of them,

    relu(w.(id + delta) - t_j) - relu(w.id - t_j) = theta_j w.delta,

so the id's error moves out_o by at most sum_i |w_i S + [i = o]| e_i at the worst S = sum_j theta_j c_j: slopes of the
piecewise linear function, not the sum of the moduli of its bends. Roundings of the relu's own argument,
lambda_j = gamma |w|.|id| + u |w.id - t_j|, do add up by moduli, sum_j |c_j| lambda_j over the relus that may be on; so
do those of the sum, gamma_k sum_j |c_j| |argument|.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from flint import arb

from softwright.checker.refusal import require
from softwright.checker.theorems.reading import Stage
from softwright.checker.theorems.running import ONE, TINY, UNIT, ZERO, Column, gamma, projection_error, upper
from softwright.checker.theorems.sequences import dot


def sums(numbers: list[arb]) -> list[arb]:
    """0, x_1, x_1 + x_2, ..."""
    return list(accumulate(numbers, initial=ZERO))


@dataclass(frozen=True)
class Line:
    """One block: thresholds ascending, coefficients, the direction w, b_2, and which coordinate is added, if any."""

    thresholds: list[arb]
    coefficients: list[arb]
    direction: list[arb]
    base: arb
    residual: int | None

    @cached_property
    def slopes(self) -> list[arb]:
        """The slope of the piecewise linear function before the first threshold (zero), after it, ..."""
        return sums(self.coefficients)

    @cached_property
    def _moments(self) -> list[arb]:
        return sums([c * t for c, t in zip(self.coefficients, self.thresholds, strict=True)])

    @cached_property
    def _moduli(self) -> tuple[list[arb], list[arb]]:
        pairs = list(zip(self.coefficients, self.thresholds, strict=True))
        return sums([abs(c) for c, _ in pairs]), sums([abs(c) * t for c, t in pairs])

    def first(self, beyond: Callable[[arb], bool]) -> int:
        """How many thresholds, counted from the first, are not `beyond`, which once true stays true."""
        low, high = 0, len(self.thresholds)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if beyond(self.thresholds[middle]) else (middle + 1, high)
        return low

    def height(self, z: arb) -> arb:
        """The piecewise linear function at z, b_2 included."""
        on, some = self.first(lambda t: not t <= z), self.first(lambda t: bool(t > z))
        total = self.base + self.slopes[on] * z - self._moments[on]
        return total + sum((self.coefficients[j] * (z - self.thresholds[j]).max(ZERO) for j in range(on, some)), ZERO)

    def at(self, point: Column) -> arb:
        """What comes out at an id, in real arithmetic."""
        value = self.height(dot(self.direction, point))
        return value if self.residual is None else value + point[self.residual]

    def error(self, point: Column, off: Column) -> arb:
        """How far what float64 computes from an id that is off by `off` at most can be from `at(point)`."""
        z, moved = dot(self.direction, point), dot([abs(w) for w in self.direction], off)
        on = self.first(lambda t: not t <= z - moved)
        low, high = self.slopes[on], self.slopes[on]
        for j in range(on, self.first(lambda t: bool(t > z + moved))):
            c = self.coefficients[j]
            low, high = low + c.min(ZERO), high + c.max(ZERO)
        passed = ZERO
        for i, (w, e) in enumerate(zip(self.direction, off, strict=True)):
            added = ONE if i == self.residual else ZERO
            passed += abs(low * w + added).max(abs(high * w + added)) * e
        size = abs(self.height(z)) + abs(self.at(point)) + passed + sum(off, ZERO)
        return upper(passed + self.own_error(z, moved, projection_error(self.direction, point, off), size))

    def own_error(self, z: arb, moved: arb, projected: arb, size: arb) -> arb:
        """Roundings of the readout itself, at an argument w.id within `moved` of z or below, itself rounded by
        `projected`; `size` is at least the sum before and after the residual is added, but for these roundings.
        """
        near = upper(moved + projected)
        some = self.first(lambda t: bool(t > z + 2 * near))  # the others are off whatever happens
        moduli, weighted = self._moduli
        arguments = upper(moduli[some] * (z + 5 * near) - weighted[some])  # at least sum |c_j| (|z - t_j| + near)
        local = moduli[some] * projected + 2 * UNIT * arguments
        added = gamma(some + 1) * 2 * arguments
        last = 3 * UNIT * (size + local + added)  # b_2 and the residual
        return upper(local + added + last + TINY * (some + 2))


def read_lines(stage: Stage, d: int, units: int, residual: bool) -> list[Line]:
    """The blocks of a feed-forward stage with d outputs and `units` relus for each, all along one direction a block."""
    require(stage.flags == {"residual": residual}, "the readout is of another kind")
    shapes = {"W_1": (d * units, d), "b_1": (d * units, 1), "W_2": (d, d * units), "b_2": (d, 1)}
    for name, shape in shapes.items():
        require(stage[name].shape == shape, f"{name} is not {shape}")
    lines = []
    for o in range(d):
        block = slice(o * units, (o + 1) * units)
        require((stage["W_1"][block] == stage["W_1"][o * units]).all(), "relus of one output read different directions")
        outside = np.delete(stage["W_2"][o], np.arange(d * units)[block])
        require(not outside.any(), "an output reads relus of another one")
        order = np.argsort(-stage["b_1"][block, 0], kind="stable")
        lines.append(
            Line(
                thresholds=[arb(-b) for b in stage["b_1"][block, 0][order].tolist()],
                coefficients=[arb(c) for c in stage["W_2"][o, block][order].tolist()],
                direction=[arb(w) for w in stage["W_1"][o * units].tolist()],
                base=arb(float(stage["b_2"][o, 0])),
                residual=o if residual else None,
            )
        )
    return lines
