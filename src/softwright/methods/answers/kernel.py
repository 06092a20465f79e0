"""Kernel methods in context: a kernel is what softmax attention computes, so these are exact up to rounding.

    k(x, x') = e^(-|x - x'|^2 / (2 h^2)),   h the bandwidth, features as they are given

With |x_j|^2 in the tokens (`squares`) the score x.x_j/h^2 - |x_j|^2/(2 h^2) is log k but for a constant of the query.

Nadaraya and Watson's estimate is then one head: sum_j k(x, x_j) y_j / sum_j k(x, x_j). Where all weights underflow, far
from the data, the head still answers: it is the nearest observations that count.

Kernel ridge regression: f = 1/n sum_j k(x, x_j) b_j with (K/n + penalty) b = y, which scikit-learn calls alpha = n
penalty, b = n dual_coef. One head with counting tokens (`glm`) is the mean 1/n sum_j k(x_i, x_j) b_j; the equations are
solved by Richardson's iteration of second order,

    b <- b + a (y - K b/n - penalty b) + m (b - b_before),

with the best a and m for eigenvalues in [penalty, 1 + penalty]: one and the same layer at every step, the error shrinks
by (sqrt k - 1)/(sqrt k + 1) in each, k = 1 + 1/penalty.
"""

from __future__ import annotations

import math

import numpy as np

from softwright.methods.answers.squares import own_squares
from softwright.methods.constants import Constants
from softwright.methods.frame import FitBlueprint, Frame, LayerWeights, head, layer
from softwright.methods.guards import Guard
from softwright.methods.standardise import centre_layer

_SINK = {"float64": 32.0, "float32": 14.0}
NO_COEFFICIENT = ""


def begin(frame: Frame, c: Constants, rows: tuple[str, ...] = ("data", "query")) -> tuple[list[LayerWeights], Guard]:
    """Centring, and |x|^2 at the tokens `rows`; what is taken off are the means."""
    heads, R = own_squares(frame, c.dtype, "x", "square", c.x_bound)
    first = [
        centre_layer(frame, ("offset",) if c.intercept else (), False, c.intercept),
        layer("square", rows, ("unit", "null"), heads, R),
    ]
    remedy = "a row or query lies further from the mean, in some coordinate, than x_bound; raise x_bound"
    return first, Guard("scores", 1, c.x_bound, remedy, "x", "e", ("data", "query"), ("unit",))


def nadaraya_watson(constants: Constants) -> FitBlueprint:
    """Three layers: centre, square, read."""
    c, h = constants, constants.option("bandwidth")
    frame = Frame(c.features, True, constant=False, extra={"square": 1, "f": 1})
    s = frame.slots
    first, guard = begin(frame, c)
    pairs = [
        frame.weighted,
        (s.select("x") / h**2, s.select("x")),
        (s.vector(one=1.0), s.vector(square=-0.5 / h**2)),
    ]
    read = layer("read", ("query",), ("data",), [head(pairs, s.vector(y=1.0), s.vector(f=1.0))])
    return FitBlueprint(
        s.places, frame.segments, [*first, read], read=s.vector(f=1.0, offset=1.0),
        coefficient=(NO_COEFFICIENT, s.vector()), guards=[guard], head=len(first), tail=1,
    )  # fmt: skip


def kernel_ridge(constants: Constants) -> FitBlueprint:
    c, h, penalty = constants, constants.option("bandwidth"), constants.penalty
    frame = Frame(c.features, True, constant=False, extra={"square": 1, "f": 1, "b": 1, "before": 1}, counting=True)
    s = frame.slots
    first, guard = begin(frame, c)
    sink = _SINK[c.dtype]
    kernel = [
        frame.weighted,
        (s.select("x") / h**2, s.select("x")),
        (s.vector(one=1.0), s.vector(square=-0.5 / h**2, count=sink)),
        (s.vector(square=-0.5 / h**2), s.vector(data=1.0)),
    ]
    largest, smallest = math.sqrt(1.0 + penalty), math.sqrt(penalty)
    step, momentum = 4.0 / (largest + smallest) ** 2, ((largest - smallest) / (largest + smallest)) ** 2
    count = c.steps or math.ceil(1.2 * math.log(100.0 / c.accuracy) / -math.log(math.sqrt(momentum)))
    R = s.residual(
        ("b", "b", 1.0 + momentum - step * penalty), ("before", "b", -momentum), ("b", "before", 1.0),
        ("before", "before", 0.0), ("y", "b", step),
    )  # fmt: skip
    mean = math.exp(sink)
    b = s.vector(b=1.0)
    solve = layer("solve", ("data",), ("data", "count"), [head(kernel, b, -step * mean * b)], R)
    read = layer("read", ("query",), ("data", "count"), [head(kernel, b, mean * s.vector(f=1.0))])
    program = [*first, *[solve] * count, read]
    remedy = "the weights still move in the last iteration; raise steps"
    settled = Guard(
        "settled", len(program) - 1, 1e-8 if c.dtype == "float64" else 1e-3, remedy, "b", "b", ("data",), (), 1
    )
    return FitBlueprint(
        s.places, frame.segments, program, read=s.vector(f=1.0, offset=1.0), coefficient=(NO_COEFFICIENT, s.vector()),
        guards=[guard, settled], head=len(first), tail=1,
    )  # fmt: skip


def _kernel(a: np.ndarray, b: np.ndarray, h: float) -> np.ndarray:
    return np.exp(-((a[:, None] - b[None]) ** 2).sum(axis=2) / (2 * h * h))


def exact_nadaraya_watson(x: np.ndarray, y: np.ndarray, queries: np.ndarray, c: Constants) -> np.ndarray:
    distances = ((queries[:, None] - x[None]) ** 2).sum(axis=2)
    weights = np.exp(-(distances - distances.min(axis=1, keepdims=True)) / (2 * c.option("bandwidth") ** 2))
    return weights @ y / weights.sum(axis=1)


def exact_kernel_ridge(x: np.ndarray, y: np.ndarray, queries: np.ndarray, c: Constants) -> np.ndarray:
    h, n = c.option("bandwidth"), len(y)
    mean = float(y.mean()) if c.intercept else 0.0
    dual = np.linalg.solve(_kernel(x, x, h) / n + c.penalty * np.eye(n), y - mean)
    return _kernel(queries, x, h) @ dual / n + mean
