"""What the theorems say: the inputs of their sets, with those where a construction errs most, and what is wanted there.

Everything is read from the sizes and from what was drawn, as a file holds them. One row of `TASKS` per theorem.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from flint import arb

from judging.claim import CannotJudge, dot
from judging.formulas import Formula
from judging.transpiled import ACTIVATIONS

Rng = np.random.Generator
Sizes = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """Inputs that are allowed, and what is wanted: floats for many inputs, balls for one where they are known."""

    draw: Callable[[Rng, int], np.ndarray]
    legal: Callable[[np.ndarray], np.ndarray]  # the nearest allowed input, or nearly
    wanted: Callable[[np.ndarray], np.ndarray]
    balls: Callable[[np.ndarray], list[list[Any]]]
    width: float  # of the set, for moves
    norm: float | None = None  # p of an Lp norm over all inputs that `draw` gives evenly
    volume: float = 1.0


def _floats(array: Any) -> list[list[Any]]:
    return [[arb(float(x)) for x in row] for row in np.asarray(array, dtype=float)]


# ----------------------------------------------------------------------------------------------------- clipping: A1, A2


def _clipping(s: Sizes, drawn: Sizes) -> Task:
    w, t = np.array(drawn["weights"], dtype=float), np.array(drawn["offsets"], dtype=float)
    n, d, a, b = s["tokens"], s["dim"], s["a"], s["b"]
    limit = s["limit"] or 1e3

    def draw(rng: Rng, count: int) -> np.ndarray:
        X = rng.uniform(-1, 1, (count, d, n)) * limit ** rng.uniform(0, 1, (count, 1, 1))
        points = s.get("points") or s["heads"] * (n - 2)
        place = a + (rng.integers(-1, points + 2, (count, n)) + rng.choice([0.5, 0.5, 0.48, 0.0], (count, n))) * (
            (b - a) / points
        )
        square = (w**2).sum(axis=1)
        by = (place - np.einsum("nd,qdn->qn", w, X) - t) / np.where(square > 0, square, 1.0)
        near = X + by[:, None] * w.T
        return legal(np.where(rng.random((count, 1, 1)) < 0.8, near, X))

    def legal(X: np.ndarray) -> np.ndarray:
        return np.clip(X, -limit, limit)

    def wanted(X: np.ndarray) -> np.ndarray:
        out = np.zeros((len(X), s["outputs"], n))
        out[:, s["coordinate"]] = np.clip(np.einsum("nd,qdn->qn", w, X) + t, a, b)
        return out

    def balls(x: np.ndarray) -> list[list[Any]]:
        sums = [
            sum((arb(p) * arb(q) for p, q in zip(w[i].tolist(), x[:, i].tolist(), strict=True)), arb(t[i]))
            for i in range(n)
        ]
        row = [value.max(arb(a)).min(arb(b)) for value in sums]
        return [row if o == s["coordinate"] else [arb(0)] * n for o in range(s["outputs"])]

    return Task(draw, legal, wanted, balls, 2.0)


# ----------------------------------------------------------------------------------------- formulas: A4, B2, B3, B4, C5


def _on_box(text: str, box: dict[str, list[float]], layout: Layout, walls: int, norm: float | None) -> Task:
    """A formula of variables that stand somewhere in the input."""
    names = list(box)
    formula, m = Formula(text, names), len(box)
    low, high = (np.array([box[name][k] for name in names], dtype=float) for k in (0, 1))

    def draw(rng: Rng, count: int) -> np.ndarray:
        unit = rng.random((count, m))
        if norm is None:
            third = count // 3
            wall = rng.integers(0, walls + 1, (third, m)) / walls
            unit[:third] = np.clip(wall + rng.choice([0.0, 1e-9, -1e-9, 1e-3, -1e-3], (third, m)), 0, 1)
        return layout.shaped(np.clip(low + unit * (high - low), low, high))

    def legal(X: np.ndarray) -> np.ndarray:
        return layout.shaped(np.clip(layout.flat(X), low, high))

    def wanted(X: np.ndarray) -> np.ndarray:
        return formula.at_points(layout.flat(X))[:, :, None]

    def balls(x: np.ndarray) -> list[list[Any]]:
        return [[y] for y in formula.at_ball([arb(v) for v in layout.flat(x[None])[0].tolist()])]

    return Task(draw, legal, wanted, balls, float((high - low).max()), norm, float(np.prod(high - low)))


@dataclass(frozen=True)
class Layout:
    """Where points (n, m) stand in inputs (n, rows, columns): column after column."""

    rows: int
    columns: int

    def shaped(self, points: np.ndarray) -> np.ndarray:
        return np.swapaxes(points.reshape(-1, self.columns, self.rows), 1, 2).copy()

    def flat(self, X: np.ndarray) -> np.ndarray:
        return np.swapaxes(X, 1, 2).reshape(len(X), -1)


def _centred(s: Sizes, drawn: Sizes) -> Task:
    """A4"""
    names, r = drawn["variables"], s["radius"]
    return _on_box(s["formula"], {name: [-r, r] for name in names}, Layout(1, len(names)), s["cells"], None)


def _cells(s: Sizes, drawn: Sizes) -> Task:
    """B2, B3, B4"""
    box = dict(zip(drawn["variables"], drawn["box"], strict=True))
    norm = str(s.get("p", s.get("norm", "sup"))).removeprefix("L")
    columns = s["columns"]
    p = None if norm == "sup" else float(norm)
    return _on_box(drawn["formula"], box, Layout(len(box) // columns, columns), s["cells"], p)


def _hidden(s: Sizes, drawn: Sizes) -> Task:
    """A3: a network with one hidden layer of relus, or a formula; tokens are read one after another."""
    d, n, low, high = s["dim"], s["tokens"], s["low"], s["high"]
    layout = Layout(d, n)
    if "network" not in drawn:
        names = drawn["variables"]
        task = _on_box(s["formula"], {name: [low, high] for name in names}, layout, s["knots"], None)
        return replace(
            task,
            wanted=lambda X: np.swapaxes(task.wanted(X), 1, 2),
            balls=lambda x: [[row[0] for row in task.balls(x)]],
        )
    W, t, C, c = (np.array(drawn["network"][name], dtype=float) for name in ("W", "t", "C", "c"))
    rows = len(c) // n

    def wanted(X: np.ndarray) -> np.ndarray:
        return Layout(rows, n).shaped(np.maximum(layout.flat(X) @ W.T + t, 0) @ C.T + c)

    def balls(x: np.ndarray) -> list[list[Any]]:
        flat = [arb(v) for v in layout.flat(x[None])[0].tolist()]
        hidden = [(dot(row, flat) + arb(b)).max(arb(0)) for row, b in zip(W.tolist(), t.tolist(), strict=True)]
        y = [dot(row, hidden) + arb(b) for row, b in zip(C.tolist(), c.tolist(), strict=True)]
        return [[y[j * rows + i] for j in range(n)] for i in range(rows)]

    def draw(rng: Rng, count: int) -> np.ndarray:
        X = rng.uniform(low, high, (count, d, n))
        X[: count // 3] = rng.choice([low, high], X[: count // 3].shape)
        return X

    return Task(draw, lambda X: np.clip(X, low, high), wanted, balls, high - low)


def _units(s: Sizes, drawn: Sizes) -> Task:
    """A6: a network of clipped units."""
    layers = [tuple(np.array(layer[name], dtype=float) for name in ("weights", "offsets")) for layer in drawn["layers"]]
    r, d, name = s["radius"], s["dim"], s["activation"].replace("hard_", "hard")
    own = {"leaky_relu": [s["slope"]], "hardtanh": [-1.0, 1.0], "hardsigmoid": [1 / 6, 0.5]}
    parameters = own.get(name, [])
    if name not in ("relu", "leaky_relu", "hardtanh", "hardsigmoid"):
        raise CannotJudge(f"units of {name}")
    phi, ball = ACTIVATIONS[name]

    def wanted(X: np.ndarray) -> np.ndarray:
        h = X[:, :, 0]
        for W, t in layers[:-1]:
            h = phi(h @ W.T + t, *parameters)
        W, t = layers[-1]
        return (h @ W.T + t)[:, None, :].astype(float)

    def balls(x: np.ndarray) -> list[list[Any]]:
        h = [arb(v) for v in x[:, 0].tolist()]
        for i, (W, t) in enumerate(layers):
            h = [dot(row, h) + arb(b) for row, b in zip(W.tolist(), t.tolist(), strict=True)]
            h = [ball(y, *parameters) for y in h] if i < len(layers) - 1 else h
        return [h]

    def draw(rng: Rng, count: int) -> np.ndarray:
        X = rng.uniform(-r, r, (count, d, 1))
        X[: count // 4] = rng.choice([-r, r], X[: count // 4].shape)
        return X

    return Task(draw, lambda X: np.clip(X, -r, r), wanted, balls, 2 * r)


def _partition(s: Sizes, drawn: Sizes) -> Task:
    """B1: the indicator of the leading piece, where it leads by width/2 times the least distance of slopes."""
    A, b = np.array(drawn["slopes"], dtype=float), np.array(drawn["offsets"], dtype=float)
    N, d = A.shape
    nearest = min(float(np.linalg.norm(A[i] - A[j])) for i, j in itertools.combinations(range(N), 2))
    margin = 0.5 * s["width"] * nearest * (1 + 1e-12)

    def ahead(X: np.ndarray) -> np.ndarray:
        scores = np.sort(X[:, :, 0] @ A.T + b, axis=1)
        return scores[:, -1] - scores[:, -2]

    def legal(X: np.ndarray) -> np.ndarray:
        """Moved away from the nearest wall; what is still in the band is replaced by what is not."""
        points = np.clip(X, -2, 2)[:, :, 0]
        order = np.argsort(points @ A.T + b, axis=1)
        normal = A[order[:, -1]] - A[order[:, -2]]
        step = np.maximum(margin - ahead(points[:, :, None]), 0.0) / (normal**2).sum(axis=1) * (1 + 1e-9)
        moved = np.clip(points + step[:, None] * normal, -2, 2)[:, :, None]
        good = ahead(moved) >= margin
        return np.where(good[:, None, None], moved, moved[np.argmax(good)]) if good.any() else moved[:0]

    def wanted(X: np.ndarray) -> np.ndarray:
        return np.eye(N)[np.argmax(X[:, :, 0] @ A.T + b, axis=1)][:, :, None]

    def draw(rng: Rng, count: int) -> np.ndarray:
        return legal(rng.uniform(-1, 1, (count, d, 1)))

    return Task(draw, legal, wanted, lambda x: _floats(wanted(x[None])[0]), 2.0)


def _equivariant(s: Sizes, drawn: Sizes) -> Task:
    d, n, grain = s["dim"], s["length"], 2.0**-24
    names = ["x", "m"] if d == 1 else [*(f"x{i + 1}" for i in range(d)), *(f"m{i + 1}" for i in range(d))]
    formula = Formula(s["formula"], names)

    def draw(rng: Rng, count: int) -> np.ndarray:
        return np.round(rng.random((count, d, n)) / grain) * grain

    def wanted(X: np.ndarray) -> np.ndarray:
        means = np.broadcast_to(X.mean(axis=2, keepdims=True), X.shape)
        points = np.concatenate([X, means], axis=1).swapaxes(1, 2).reshape(-1, 2 * d)
        return formula.at_points(points).reshape(len(X), n, -1).swapaxes(1, 2)

    return Task(draw, lambda X: np.clip(X, 0, 1), wanted, lambda x: _floats(wanted(x[None])[0]), 1.0, float(s["p"]))


# ------------------------------------------------------------------------------------------------ gradient descent: A5


def _descent(s: Sizes, drawn: Sizes) -> Task:
    d, n, X_max, W_max = s["dim"], s["tokens"], s["x_max"], s["w_max"]
    squares = s["loss"] == "squares"
    Y_max = s["y_max"] if squares else 1.0

    def legal(Z: np.ndarray) -> np.ndarray:
        Z = Z.copy()
        Z[:, :d] = np.clip(Z[:, :d], -X_max, X_max)
        Z[:, d] = np.clip(Z[:, d], -Y_max, Y_max) if squares else np.where(Z[:, d] > 0.5, 1.0, 0.0)
        Z[:, d + 1 : 2 * d + 1] = np.clip(Z[:, d + 1 : 2 * d + 1, :1], -W_max, W_max)
        Z[:, 2 * d + 1] = 1.0
        return Z

    def draw(rng: Rng, count: int) -> np.ndarray:
        Z = rng.uniform(-1, 1, (count, 2 * d + 2, n)) * max(X_max, Y_max, W_max)
        Z[: count // 2] *= 1e3
        return legal(Z)

    def wanted(Z: np.ndarray) -> np.ndarray:
        Z = Z.copy()
        x, y, w = Z[:, :d], Z[:, d], Z[:, d + 1 : 2 * d + 1, 0]
        for _ in range(s["steps"]):
            u = np.einsum("qd,qdn->qn", w, x)
            g = (u if squares else 1 / (1 + np.exp(-u))) - y
            w = w - s["eta"] * np.einsum("qn,qdn->qd", g, x) / n
        Z[:, d + 1 : 2 * d + 1] = w[..., None]
        return Z

    def balls(z: np.ndarray) -> list[list[Any]]:
        Z = _floats(z)
        w = [Z[d + 1 + i][0] for i in range(d)]
        for _ in range(s["steps"]):
            u = [sum((w[i] * Z[i][j] for i in range(d)), arb(0)) for j in range(n)]
            g = [(v if squares else 1 / (1 + (-v).exp())) - Z[d][j] for j, v in enumerate(u)]
            w = [w[i] - arb(s["eta"]) * sum((g[j] * Z[i][j] for j in range(n)), arb(0)) / n for i in range(d)]
        return [*Z[: d + 1], *[[v] * n for v in w], Z[2 * d + 1]]

    return Task(draw, legal, wanted, balls, 2.0)


# -------------------------------------------------------------------------------------------------- sequences: C4, C6


def _labels(s: Sizes, drawn: Sizes) -> Task:
    sequences, labels = (np.array(drawn[name], dtype=float) for name in ("sequences", "labels"))
    by_content = {x.tobytes(): y for x, y in zip(sequences + 0.0, labels, strict=True)}

    def wanted(X: np.ndarray) -> np.ndarray:
        return np.stack([by_content[(x + 0.0).tobytes()] for x in X])

    return Task(lambda rng, count: sequences, lambda X: X, wanted, lambda x: _floats(wanted(x[None])[0]), 0.0)


TASKS: dict[str, Callable[[Sizes, Sizes], Task]] = {
    "A1": _clipping,
    "A2": _clipping,
    "A3": _hidden,
    "A4": _centred,
    "A5": _descent,
    "A6": _units,
    "B1": _partition,
    **dict.fromkeys(("B2", "B3", "B4"), _cells),
    "C4": _labels,
    "C5": _equivariant,
    "C6": _labels,
}
