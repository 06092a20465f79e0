"""L_p norms of the error of stacks with jumps: a sup bound outside thin bands, and the measure of the bands.

Outside of the bands |c_k| < g round its jumps, a stack errs by at most b, which is proved (`prove.py`); inside, its
output is within b of the program's with some t_k of [0, 1] in place of each comparison, so it errs by at most

    M  =  sup over the box of |program for any t - formula| + b.

So  int |network - formula|^p  <=  b^p vol(box) + sum over small boxes B of  M_B^p mu_B,  mu_B at least the measure of
the part of B that lies in a band. For one difference c,

    mu_B  <=  2 g / s_i * prod_{j != i} w_j      if  |dc/dx_i| >= s_i > 0 on B,

since on each line along x_i the band is one interval of length 2 g/s_i at most (Fubini); it is 0 where c keeps away
from 0 on B, and never more than vol(B). Derivatives say nothing across a jump of c itself: there only the last bound
counts. Boxes are halved until the sum meets its goal: where c has a slope, a box as large as that slope keeps its sign
is enough, however thin the band is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from softwright.compiler.build import Compiled, compile_formula
from softwright.compiler.forward import Forward, Functions
from softwright.compiler.nodes import CannotCompile, Expression, Operation, differentiate, has_jump
from softwright.compiler.steps import jumps_of
from softwright.domain import Box
from softwright.precision import Precision
from softwright.result.certificate import sum_rounded_up
from softwright.work import count

_DECIDING = ("less", "less_equal", "sign", "floor", "round", "mod")
MOST_BOXES = 60_000  # looked at for one integral
_SAMPLES, _TRIES = 2000, 4
_FIRST_GAP = 1e-9  # with which jumps are looked for
ROOM = 1.5  # of the sum over bands, for who finds it again with other boxes


@dataclass(frozen=True)
class NormProof:
    """What is claimed of the L_p norm over the box: exact + rounding <= bound."""

    p: int
    bound: float
    exact: float
    rounding: float

    @property
    def name(self) -> str:
        return f"L{self.p}"


def volume_above(box: Box) -> float:
    total = 1.0
    for width in box.upper - box.lower:
        total = float(np.nextafter(total * np.nextafter(width, np.inf), np.inf))
    return total


def _up(array: np.ndarray) -> np.ndarray:
    """Rounded up generously after a few operations on numbers that are not negative."""
    return array * (1.0 + 1e-13) + 1e-320


class Bands:
    """Where differences come close to 0, on boxes."""

    def __init__(self, differences: Sequence[str], box: Box) -> None:
        self.box = box
        self.values = [Expression(text, box) for text in differences]
        self.slopes = [
            Expression.from_nodes([differentiate(c.nodes[0], name) for name in box.names], box.names)
            for c in self.values
        ]
        self._inner = [_Inner(c, box) if has_jump(c.nodes[0]) else None for c in self.values]

    def measures(self, lower: np.ndarray, upper: np.ndarray, gap: float) -> tuple[np.ndarray, np.ndarray]:
        """Upper bounds (n,) of the measure of the bands in boxes (n, d), and how much (n, d) each side matters."""
        widths = np.nextafter(upper - lower, np.inf)
        volume = _up(np.prod(widths, axis=1))
        total, weight = np.zeros(len(lower)), np.zeros_like(widths)
        away = np.ones(len(lower), dtype=bool)
        for c, slopes, inner in zip(self.values, self.slopes, self._inner, strict=True):
            count(2.0 * (100_000 + 30.0 * len(lower)) * (len(c.tape) + len(slopes.tape)))
            low, high, defined = c.enclose(lower, upper)
            clear = defined & ((low[:, 0] >= gap) | (high[:, 0] <= -gap))
            sl, sh, known = slopes.enclose(lower, upper)
            known = known & defined & np.isfinite(sl).all(axis=1) & np.isfinite(sh).all(axis=1)
            turning = widths if inner is None else inner.weight(lower, upper, widths)
            known &= True if inner is None else inner.steady(lower, upper)
            with np.errstate(all="ignore"):
                least = np.where(known[:, None], np.maximum(np.maximum(sl, -sh), 0.0), 0.0)  # (n, d)
                across = np.where(least > 0, np.minimum(widths, _up(2.0 * gap / least)), widths)
                measure = _up(volume[:, None] / widths * (1 + 1e-13) * across).min(axis=1)
                steep = np.where(known[:, None], np.maximum(np.abs(sl), np.abs(sh)) * widths, turning)
                part = steep / np.maximum(steep.max(axis=1, keepdims=True), 1e-300)
            measure = np.where(clear, 0.0, np.minimum(measure, volume))
            total, away = _up(total + measure), away & clear
            weight += part * (measure / volume)[:, None]
        return np.where(away, 0.0, np.minimum(total, volume)), weight


class _Inner:
    """The jumps inside a difference: on which boxes there are none, and along which sides they turn."""

    def __init__(self, c: Expression, box: Box) -> None:
        self._kinks = [kink.expression for kink in c.kinks() if kink.jump]
        arguments = [
            argument
            for step in c.tape.steps
            if isinstance(step.node, Operation) and step.node.name in _DECIDING
            for argument in step.node.arguments
        ]
        slopes = [differentiate(argument, name) for argument in arguments for name in box.names]
        self._slopes = Expression.from_nodes(slopes, box.names) if slopes else None

    def steady(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        found = np.full(len(lower), bool(self._kinks))
        for c in self._kinks:
            low, high, defined = c.enclose(lower, upper)
            found &= defined & ((low[:, 0] > 0) | (high[:, 0] < 0))
        return found

    def weight(self, lower: np.ndarray, upper: np.ndarray, widths: np.ndarray) -> np.ndarray:
        """How much (n, d) each side moves what decides the jumps: where boxes are worth halving."""
        if self._slopes is None:
            return widths
        low, high, _ = self._slopes.enclose(lower, upper)
        size = np.nan_to_num(np.maximum(np.abs(low), np.abs(high)), nan=1.0, posinf=1.0)
        found = size.reshape(len(lower), -1, widths.shape[1]).sum(axis=1) * widths
        return np.where(found.max(axis=1, keepdims=True) > 0, found, widths)


def integral(
    bands: Bands, gap: float, largest: Callable[[np.ndarray, np.ndarray], np.ndarray], goal: float, most: int
) -> float:
    """An upper bound of the integral of `largest` over the bands: boxes are halved until it meets the goal."""
    lower, upper = bands.box.lower[None].copy(), bands.box.upper[None].copy()
    sides = np.maximum(upper - lower, 1e-300)
    done, spent = np.zeros(0), 0
    while True:
        measure, weight = bands.measures(lower, upper, gap)
        there = measure > 0
        lower, upper, measure, weight = lower[there], upper[there], measure[there], weight[there]
        part = _up(measure * largest(lower, upper))
        spent += len(lower)
        total = float(_up(np.asarray(done.sum() + part.sum())))
        split = part > 0.1 * goal / max(1, len(part) + len(done))
        if total <= goal or spent + 2 * int(split.sum()) > most or not split.any():
            return total
        done = np.concatenate([done, part[~split]])
        lower, upper, weight = lower[split], upper[split], weight[split]
        weight = np.where(upper > lower, weight + 1e-3 * (upper - lower) / sides, -1.0)
        rows, axis = np.arange(len(lower)), weight.argmax(axis=1)
        middle = lower[rows, axis] + 0.5 * (upper[rows, axis] - lower[rows, axis])
        under, over = upper.copy(), lower.copy()
        under[rows, axis], over[rows, axis] = middle, middle
        lower, upper = np.vstack([lower, over]), np.vstack([under, upper])


def chosen_gap(bands: Bands, size: float, p: int, goal: float, start: float) -> float:
    """A gap for which bands of jumps of at most `size` take about `goal` of the integral."""
    gap = start
    for _ in range(40):
        found = integral(bands, gap, lambda low, _: np.full(len(low), size**p), goal, MOST_BOXES // 4)
        if found <= goal:
            return gap
        gap *= max(1e-3, min(0.5, 0.7 * goal / found))
    raise CannotCompile(None, "the bands round its jumps cannot be made thin: a condition may be 0 on a whole region")


def norm_proof(compiled: Compiled, expression: Expression, p: int) -> NormProof:
    """The L_p norm that follows from a proof outside of the bands; infinite where that is none."""
    proof, program, box = compiled.proof, compiled.program, compiled.box
    volume = volume_above(box)
    inside = 0.0
    if proof.faults or not math.isfinite(proof.bound):
        return NormProof(p, math.inf, math.inf, math.inf)
    if program.differences:
        bands, functions = Bands(program.differences, box), Functions()

        def largest(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
            if not len(lower):
                return np.zeros(0)
            forward, found = Forward(program.features, program.known, lower, upper, functions), np.zeros(len(lower))
            low, high, defined = expression.enclose(lower, upper)
            with np.errstate(all="ignore"):
                for output, form in enumerate(program.outputs):
                    ran = forward.form(form)
                    found = np.maximum(found, np.maximum(ran.upper - low[:, output], high[:, output] - ran.lower))
                found = _up(_up(np.maximum(found, 0.0)) + proof.bound) ** p * (1 + 1e-12)
            return np.where(defined, found, np.inf)

        goal = 0.5 * (compiled.tolerance**p) * volume
        inside = ROOM * integral(bands, program.gap, largest, goal, MOST_BOXES)
    return plain_norm(p, volume, proof.exact, proof.rounding, inside)


def plain_norm(p: int, volume: float, exact: float, rounding: float, inside: float = 0.0) -> NormProof:
    """The norm where |error| <= exact + rounding on a set of at most this volume, and bands add `inside` to its power.

    The two parts are those of Minkowski's inequality.
    """
    root = float(np.nextafter(volume ** (1.0 / p) * (1 + 1e-14), np.inf))
    power = exact**p * volume * (1 + 1e-13) + inside + 1e-300  # what underflows is less
    stated, rounded = float(power ** (1.0 / p) * (1 + 1e-12)), rounding * root * (1 + 1e-13)
    return NormProof(p, sum_rounded_up(stated, rounded), stated, rounded)


def compile_in_norm(
    expression: Expression,
    box: Box,
    tolerance: float,
    p: int,
    precision: Precision,
    check: Callable[[], None] = lambda: None,
) -> tuple[Compiled, NormProof]:
    """A stack whose L_p norm of the error meets the tolerance, else the last one tried.

    Half of tolerance^p is for the error outside of the bands, a quarter for the bands: the gap is the largest that
    leaves them so little. Raises `CannotCompile` like `compile_formula`, and if the bands stay thick however small the
    gap is.
    """
    volume = volume_above(box)
    outside = 0.98 * tolerance * (0.5 / volume) ** (1.0 / p)
    values = expression(box.sample(_SAMPLES, seed=3))
    size = float(np.ptp(values[np.isfinite(values)])) + outside if len(values) else outside
    jumps, _ = jumps_of(expression, box, _FIRST_GAP)
    bands, goal = Bands(jumps.differences, box), 0.2 * tolerance**p
    gap = chosen_gap(bands, size, p, goal, _widest(bands)) if jumps.differences else _FIRST_GAP
    found: tuple[Compiled, NormProof] | None = None
    for _ in range(_TRIES):
        check()
        compiled = compile_formula(expression, box, outside, precision, check, gap)
        found = compiled, norm_proof(compiled, expression, p)
        if found[1].bound <= tolerance or compiled.proof.faults:
            break
        over = found[1].exact > found[1].rounding
        gap, outside = (gap / 4.0 if over else gap), 0.6 * outside
    if found is None:
        raise RuntimeError("at least one stack was tried")
    return found


def _widest(bands: Bands) -> float:
    """A gap that is a twentieth of the largest difference that samples show."""
    seen = [np.abs(c(bands.box.sample(_SAMPLES, seed=3))) for c in bands.values]
    return 0.05 * max(float(a[np.isfinite(a)].max(initial=0.0)) for a in seen) + 1e-300
