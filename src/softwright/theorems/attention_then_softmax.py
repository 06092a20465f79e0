"""A4 of paper A: one attention layer, then one softmax, with linear maps between, for a continuous f on [-B, B]^m.

A grid of N = G^m centres v_j, spacing h = 2B/G, makes the partition into nearest centres; s_j = v_j.x - |v_j|^2/2 is
largest for the nearest. The input is a sequence of m numbers, X (1 x m).

    linear map     p > N tokens, column j carries s_j (its own weights v_j and offset -|v_j|^2/2), the rows of A1
    attention      one head of A1: column j becomes s_j, clipped to [a, b], which holds all scores; error at most E
    linear map     the row of N scores becomes a column, times beta
    softmax        over the N scores: selects the cell
    linear map     reads f(v_j)

*Bound.* Some centre lies within R = h sqrt(m)/2 of x; one farther than rho = h sqrt(m) has a score lower by at least
(rho^2 - R^2)/2 = (3/8) m h^2, computed scores by at least g = (3/8) m h^2 - 2E. So with beta = log(2 N |f|/eps0)/g

    |network - f| <= omega_f(h sqrt(m)) + 2 |f| N e^{-beta g}  <=  L h sqrt(m) + eps0,

L a bound of |grad f| on the box and |f| one of the values, both from interval arithmetic; where the slope has no bound
(roots), omega_f itself is enclosed (`modulus`). The number p of points is
taken so that E <= m h^2/16 unless it is given; the theorem needs 2 E < (3/8) m h^2.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from softwright.domain import Box
from softwright.errors import Faults, InvalidInput
from softwright.targets import Expression
from softwright.theorems.activations import Clip, activation_layer
from softwright.theorems.tools.construction import in_full
from softwright.theorems.tools.drawing import Line, LineConstruction, draw_line
from softwright.theorems.tools.interpolation import Points, check_eps0, check_scores
from softwright.theorems.tools.modulus import Modulus, jumping
from softwright.theorems.tools.network import Linear, Softmax, TheoremNetwork, Tokens
from softwright.theorems.tools.rivals import Rivals, by_approximate
from softwright.theorems.tools.theorem import PAPER_A, Theorem, options

_SAFE = 1.0 + 1e-12
_MOST_CENTRES = 1024
_MOST_POINTS = 60_000


def size_and_slope(formula: Expression, box: Box, pieces: int = 4096) -> tuple[np.ndarray, float]:
    """Bounds of |f| (outputs,) and of the Euclidean norm of the gradient of any output, by enclosures on a grid."""
    per_axis = max(2, round(pieces ** (1.0 / box.dim)))
    edges = [np.linspace(low, high, per_axis + 1) for low, high in zip(box.lower, box.upper, strict=True)]
    lower = np.array(list(itertools.product(*[edge[:-1] for edge in edges])))
    upper = np.array(list(itertools.product(*[edge[1:] for edge in edges])))
    low, high, _ = formula.enclose(lower, upper)
    square = np.zeros_like(low)
    for name in formula.names:
        least, most, defined = formula.derivative(name).enclose(lower, upper)
        with np.errstate(over="ignore"):  # a slope whose square float64 does not hold is as good as infinite
            square += np.where(defined[:, None], np.maximum(np.abs(least), np.abs(most)), np.inf) ** 2
    size = np.maximum(np.abs(low), np.abs(high)).max(axis=0)
    return size, float(np.sqrt(square).max()) * _SAFE


def _read(faults: Faults, formula: str, radius: float) -> tuple[Expression | None, float, float]:
    """The formula, a bound of |f| and one of its slope, which may be infinite."""
    try:
        f = Expression(formula)
        box = Box(dict.fromkeys(f.names, (-radius, radius)))
        faults.found += f.find_undefined(box)
    except InvalidInput as error:
        faults.found += error.faults
        return None, 0.0, 0.0
    if faults.found:
        return None, 0.0, 0.0
    jumps = jumping(f, box)
    faults.check(not jumps, f"the formula jumps where {', '.join(jumps)} = 0; the theorem is for continuous functions")
    size, slope = size_and_slope(f, box)
    if any(kink.jump for kink in f.kinks()):
        slope = math.inf  # derivatives do not show jumps, so that none may decide how far f changes
    return f, max(float(size.max()), 1e-12), slope


def _modulus(f: Expression, radius: float, slope: float, h: float) -> tuple[float, str]:
    """omega_f(h sqrt(m)), by the slope where it is bounded, and what is known in words."""
    m = len(f.names)
    if math.isfinite(slope):
        return slope * h * math.sqrt(m) * _SAFE, f"|grad f| <= {slope:.4g}"
    reach = h * math.sqrt(m) * _SAFE
    change = Modulus(f, Box(dict.fromkeys(f.names, (-radius, radius)))).oscillation(reach / radius * _SAFE)
    return change, f"f changes by at most {change:.4g} over {reach:.3g}"


def _construct(formula: str, cells: int, radius: float, eps0: float, points: int) -> LineConstruction:
    """One attention layer followed by one softmax, with linear maps between, comes as close as asked to a
    continuous function on a compact set: attention makes the affine scores of a partition, the softmax selects the
    cell, a linear map reads the values. The error is the oscillation of f over a cell, plus eps0.
    """
    faults = Faults("theorem A4")
    faults.check(cells >= 1, f"cells must be at least 1 along each axis, got {cells}")
    good = faults.check(radius > 0, f"the theorem is for a compact set: [-radius, radius]^m, got radius {radius:g}")
    check_eps0(faults, eps0)
    faults.check(points >= 0, f"points must be positive, or 0 to choose them, got {points}")
    f, size, slope = _read(faults, formula, radius) if good else (None, 0.0, 0.0)
    faults.raise_if_any()
    if f is None:
        raise RuntimeError("unreachable: a missing formula is a fault")
    m = len(f.names)
    N, h = cells**m, 2.0 * radius / cells
    faults.check(N <= _MOST_CENTRES, f"{cells}^{m} = {N} centres; at most {_MOST_CENTRES} are built, take fewer cells")
    squares = 4.0 * m * radius * radius
    faults.check(
        math.isfinite(squares), f"scores are squares of the box, beyond floats with radius {radius:g}; lower it"
    )
    faults.raise_if_any()
    change, known = _modulus(f, radius, slope, h)
    faults.check(math.isfinite(change), "no bound of how the formula changes over a cell was found; take another box")
    centre_line = -radius + (np.arange(cells) + 0.5) * h
    largest = (abs(centre_line).max() * radius + 0.5 * (centre_line**2).max()) * m * _SAFE  # |s_j| on the box
    largest = max(largest, m * h * h / 16)  # a single cell has the score 0 alone
    a, b, leak = -largest, largest, min(1e-6, eps0)
    p = points or max(
        N + 1, 8, math.ceil((b - a) / (m * h * h / 16 - largest * leak)) if _room(m, h, largest, leak) else 0
    )
    faults.check(p > N, f"the theorem needs p > N, more points than centres; got p = {p}, N = {N}")
    faults.check(p <= _MOST_POINTS, f"{p} points; at most {_MOST_POINTS} are built, take fewer cells")
    faults.raise_if_any()
    grid = Points(a, b, p, leak)
    error = grid.bound()
    gap = 0.375 * m * h * h / _SAFE - 2.0 * error * _SAFE
    faults.check(
        gap > 0,
        f"the theorem needs 2 E < (3/8) m h^2: scores are off by E = {error:.3g} with p = {p}, "
        f"but {0.375 * m * h * h:.3g} is what tells cells apart; raise points or take fewer cells",
    )
    faults.raise_if_any()
    beta = math.log(2 * N * size / eps0) / gap * _SAFE if 2 * N * size > eps0 else 1.0 / gap
    check_scores(
        faults, max(2.0 * grid.beta * p * 2.0 * largest, beta * largest), max(beta, grid.beta), grid.stored_error
    )
    faults.raise_if_any()

    centres = np.array(list(itertools.product(centre_line, repeat=m)))  # (N, m)
    stages, _, _ = activation_layer(centres.T[None], -0.5 * (centres**2).sum(axis=1), [Clip(a, b)], p, leak)
    turn = Tokens(beta * np.eye(N)[:, :, None], np.eye(N)[:, :, None], np.zeros((N, 1)))  # 1 x N -> N x 1, times beta
    values = f(centres)  # (N, outputs)
    network = TheoremNetwork("A4", [*stages, turn, Softmax(), Linear(values.T)], (1, m))

    def target(X: Any) -> np.ndarray:
        x = np.asarray(X, dtype=float)
        return f(x.reshape(-1, m)).reshape(*x.shape[:-2], f.outputs, 1)

    def sample(rng: np.random.Generator, count: int) -> np.ndarray:
        X = rng.uniform(-radius, radius, (count, 1, m))
        third = count // 3
        wall = -radius + rng.integers(0, cells + 1, (third, 1, m)) * h  # walls between cells, and the faces
        X[:third] = np.clip(wall + rng.choice([0.0, 1e-9, -1e-9, 1e-3, -1e-3], (third, 1, m)) * h, -radius, radius)
        return X

    def along(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return network.evaluate(s[:, None, None])[:, 0, 0], f(s[:, None])[:, 0]

    return LineConstruction(
        network=network,
        bound=(change + eps0) * _SAFE,
        sizes={"formula": formula, "cells": cells, "radius": radius, "eps0": eps0, "points": points},
        drawn={"variables": list(f.names)},
        tokens=p,
        statement=f"the output is within the bound of f(x), for x in [-{in_full(radius)}, {in_full(radius)}]^{m}",
        target=target,
        sample=sample,
        quantities={
            "beta": beta, "beta of the head": grid.beta, "eps0": eps0, "spacing": h, "score error": error,
            "points": float(p),
        },
        reasons=(
            f"{N} cells; {p} points keep the scores within {error:.3g}, cells differ by {0.375 * m * h * h:.3g}",
            f"|f| <= {size:.4g} and {known}, from interval arithmetic",
        ),
        line=Line(along, -radius, radius) if f.outputs == m == 1 else None,
    )  # fmt: skip


def _rival(made: LineConstruction) -> Rivals:
    f, radius = Expression(made.sizes["formula"]), made.sizes["radius"]
    if f.outputs > 1:
        return {}
    return by_approximate(f.text, dict.fromkeys(f.names, (-radius, radius)), made.tokens)


def _room(m: int, h: float, largest: float, leak: float) -> bool:
    return m * h * h / 16 > largest * leak


A4 = Theorem(
    label="A4",
    title="one attention layer followed by a softmax, for a continuous function on a box",
    paper=f"{PAPER_A}, one-layer version of Theorem 3.3",
    conditions=("f continuous on a compact box", "p > N", "2 E < (3/8) m h^2", "0 < eps0 <= 1/2"),
    options=options(
        """
        formula  sin(3*x)  the function; its variables are the tokens, commas separate outputs
        cells    16        cells G along each axis
        radius   1.0       inputs lie in [-radius, radius]
        eps0     1e-06     allowed error of the selection
        points   0         interpolation tokens p of the attention layer; 0 chooses them
        """
    ),
    construct=_construct,
    sweep=("cells", (4, 8, 16, 32)),
    details=draw_line,
    rival=_rival,
)
