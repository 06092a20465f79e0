"""Callables of six to ten variables: a tensor train from few queries, and peers given as many.

    python benchmarks/callables.py                     all rows
    python benchmarks/callables.py --rows circuit      one of them
    python benchmarks/callables.py --no-peers          without scikit-learn

Every row has a tolerance, relative to half the range on the box, and a number of queries that is not exceeded; those
that observe the error are counted too. Peers get as many points as were asked for, uniform at random with a tenth of
them on faces, and their usual settings: a Gaussian process (anisotropic RBF, at most --gp-most rows, since its time
grows with the cube; its lengths by maximum likelihood on --gp of them), gradient boosting, an MLP of two layers of 64
(lbfgs), and a least-squares polynomial whose degree is chosen by cross-validation. They cannot choose
their points: that is the difference that is shown, no flaw of theirs. All errors are the largest at fresh random points
that nobody saw (100,000; of peers 20,000), over half the range. Times are CPU seconds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import comb, pi
from typing import Any

import numpy as np

import softwright as sw

_FRESH = 100_000
_A = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def circuit(rb1, rb2, rf, rc1, rc2, beta):
    vb1, gain = 12 * rb2 / (rb1 + rb2), beta * (rc2 + 9)
    return (vb1 + 0.74) * gain / (gain + rf) + 11.35 * rf / (gain + rf) + 0.74 * rf * gain / ((gain + rf) * rc1)


def piston(M, S, V0, k, P0, Ta, T0):
    pressure = P0 * S + 19.62 * M - k * V0 / S
    volume = S / (2 * k) * (np.sqrt(pressure**2 + 4 * k * P0 * V0 / T0 * Ta) - pressure)
    return 2 * pi * np.sqrt(M / (k + S**2 * P0 * V0 / T0 * Ta / volume**2))


def sines(*x):
    return np.prod([np.sin(2 * each) for each in x], axis=0)


def rosenbrock(*x) -> Any:
    return sum(100 * (b - a**2) ** 2 + (1 - a) ** 2 for a, b in pairwise(x))


def hartmann(*x) -> Any:
    points = np.stack(x, axis=-1)
    return -sum(
        w * np.exp(-(a * (points - p) ** 2).sum(axis=-1)) for w, a, p in zip((1, 1.2, 3, 3.2), _A, _P, strict=True)
    )


def borehole(rw, r, Tu, Hu, Tl, Hl, L, Kw):
    log = np.log(r / rw)
    return 2 * pi * Tu * (Hu - Hl) / (log * (1 + 2 * L * Tu / (log * rw**2 * Kw) + Tu / Tl))


@dataclass(frozen=True)
class Row:
    fn: Callable[..., np.ndarray]
    box: sw.Box
    tol: float
    queries: int


ROWS = (
    Row(
        circuit,
        sw.Box(rb1=(50, 150), rb2=(25, 70), rf=(0.5, 3), rc1=(1.2, 2.5), rc2=(0.25, 1.2), beta=(50, 300)),
        1e-5,
        5000,
    ),
    Row(
        piston,
        sw.Box(
            M=(30, 60), S=(0.005, 0.02), V0=(0.002, 0.01), k=(1e3, 5e3), P0=(9e4, 1.1e5), Ta=(290, 296), T0=(340, 360)
        ),
        1e-3,
        20_000,
    ),
    Row(sines, sw.Box({f"x{i}": (-1, 1) for i in range(6)}), 1e-6, 10_000),
    Row(rosenbrock, sw.Box({f"x{i}": (-2, 2) for i in range(10)}), 1e-6, 2000),
    Row(hartmann, sw.Box({f"x{i}": (0, 1) for i in range(6)}), 1e-3, 30_000),
    Row(
        borehole,
        sw.Box(
            rw=(0.05, 0.15),
            r=(100, 50_000),
            Tu=(63_070, 115_600),
            Hu=(990, 1110),
            Tl=(63.1, 116),
            Hl=(700, 820),
            L=(1120, 1680),
            Kw=(9855, 12_045),
        ),
        1e-3,
        30_000,
    ),
)


class GaussianProcess:
    """The posterior mean given all rows; lengths and size of the kernel by maximum likelihood on some of them."""

    def __init__(self, dim: int, rows: int) -> None:
        self.dim, self.rows = dim, rows

    def fit(self, t: np.ndarray, y: np.ndarray) -> None:
        from scipy.linalg import cho_factor, cho_solve
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel

        lengths: Any = np.ones(self.dim)
        start = ConstantKernel(1.0, (1e-3, 1e4)) * RBF(lengths, (1e-2, 1e3))
        found: Any = GaussianProcessRegressor(start, alpha=1e-10).fit(t[: self.rows], y[: self.rows]).kernel_
        self.size, self.t = float(found.k1.constant_value), t / found.k2.length_scale
        self.lengths = found.k2.length_scale
        matrix = np.empty((len(t), len(t)))
        for start_row in range(0, len(t), 1000):
            matrix[start_row : start_row + 1000] = self.kernel(self.t[start_row : start_row + 1000])
        matrix[np.diag_indices(len(t))] += 1e-10 * self.size
        while True:
            try:
                factor = cho_factor(matrix, lower=True, check_finite=False)
                break
            except np.linalg.LinAlgError:
                matrix[np.diag_indices(len(t))] += 1e-7 * self.size
        self.weights = cho_solve(factor, y, check_finite=False)

    def kernel(self, a: np.ndarray) -> np.ndarray:
        squares = (a**2).sum(axis=1)[:, None] + (self.t**2).sum(axis=1) - 2 * a @ self.t.T
        return self.size * np.exp(-0.5 * np.maximum(squares, 0))

    def predict(self, t: np.ndarray) -> np.ndarray:
        parts = np.array_split(t / self.lengths, max(1, len(t) // 1000))
        return np.concatenate([self.kernel(part) @ self.weights for part in parts])


def peers(dim: int, count: int, gp_rows: int, gp_most: int) -> dict[str, tuple[Any, int]]:
    """Estimators and how many rows each gets."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures

    degrees = [k for k in range(1, 9) if comb(dim + k, k) <= min(count // 3, 1500)]
    polynomial = GridSearchCV(
        make_pipeline(PolynomialFeatures(), LinearRegression()), {"polynomialfeatures__degree": degrees}, cv=3
    )
    return {
        "GP": (GaussianProcess(dim, gp_rows), min(count, gp_most)),
        "boosting": (HistGradientBoostingRegressor(), count),
        "MLP": (MLPRegressor(hidden_layer_sizes=(64, 64), solver="lbfgs", max_iter=1000, random_state=0), count),
        "polynomial": (polynomial, count),
    }


def measured(row: Row, with_peers: bool, gp_rows: int, gp_most: int) -> list[str]:
    """The cells of one row."""
    box = row.box
    fresh = box.sample(_FRESH, seed=2026)
    wanted = row.fn(*fresh.T)
    half = 0.5 * float(wanted.max() - wanted.min())
    started = time.process_time()
    try:
        built = sw.approximate(row.fn, box, tol=row.tol, relative=True, max_queries=row.queries, progress=False)
    except sw.ToleranceNotReached as missed:
        built = missed.best
    seconds = time.process_time() - started
    if built is None or built.plan.queries is None:
        return [row.fn.__name__, f"{row.tol:g}", "no network"]
    error = float(np.abs(built(fresh)[:, 0] - wanted).max()) / half
    met = "met" if max(error, built.observed_error / half) <= row.tol else "**not met**"
    cells = [row.fn.__name__, str(box.dim), f"{row.tol:g}", f"{built.plan.queries:,} of {row.queries:,}"]
    cells += [str(built.plan.tokens), f"{error:.1e} ({met})", f"{built.observed_error / half:.1e}", f"{seconds:.1f}"]
    if not with_peers:
        return cells
    rng = np.random.default_rng(7)
    t = rng.uniform(-1, 1, (built.plan.queries, box.dim))
    faces = t[: len(t) // 10]
    faces[np.arange(len(faces)), rng.integers(box.dim, size=len(faces))] = rng.choice([-1.0, 1.0], len(faces))
    t = rng.permutation(t)
    y = row.fn(*box.from_unit(t).T)
    asked = box.to_unit(fresh[:20_000])
    for estimator, count in peers(box.dim, len(t), gp_rows, gp_most).values():
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that an optimiser stopped is part of what is measured
            estimator.fit(t[:count], (y[:count] - y.mean()) / y.std())
        guess = estimator.predict(asked) * y.std() + y.mean()
        off = float(np.abs(guess - wanted[: len(asked)]).max()) / half
        cells.append(f"{off:.1e} ({count:,} rows, {time.process_time() - started:.0f} s)")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", default=[row.fn.__name__ for row in ROWS])
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--gp", type=int, default=500, help="rows from which the Gaussian process learns its lengths")
    parser.add_argument("--gp-most", type=int, default=10_000, help="most rows that the Gaussian process gets")
    given = parser.parse_args()
    titles = ["callable", "variables", "tolerance", "queries", "tokens", "error", "observed by itself", "CPU s"]
    if not given.no_peers:
        titles += ["Gaussian process", "gradient boosting", "MLP 64-64", "polynomial"]
    print("| " + " | ".join(titles) + " |")
    print("|" + "---|" * len(titles))
    for row in ROWS:
        if row.fn.__name__ in given.rows:
            print("| " + " | ".join(measured(row, not given.no_peers, given.gp, given.gp_most)) + " |", flush=True)


if __name__ == "__main__":
    main()
