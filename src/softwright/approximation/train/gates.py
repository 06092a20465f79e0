"""A tensor train as layers of attention: its cores G_k(x_k) by gates (`attention/gated_stack.py`).

Cores are polynomials of low degree in the mapped variable u(t). Centres of gates are uniform in u on a somewhat larger
interval, slopes follow the map, and the maps M_j are a least-squares fit with a ridge that keeps rounding below its
share of the tolerance.

`rounded` makes ranks as small as the tolerance allows: cores are made orthogonal from the right and cut by
singular values from the left, as in every text on tensor trains.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from softwright.approximation.train.axes import Axis, chebyshev
from softwright.approximation.train.cross import Train
from softwright.attention.gated_stack import GateLayer, GateStack, logistic
from softwright.work import count

_REACHES = (1.3, 2.0, 2.8)  # centres lie in [-reach, reach] of the mapped variable
_SLOPES = (0.5, 1.0, 1.7, 2.6, 4.0, 6.0, 9.0, 14.0)
_RIDGES = 10.0 ** np.arange(-15.0, -4.0, 1.5)
_MOST_GATES = 64


def gate_stack(train: Train, tolerance: float, unit: float, points: np.ndarray) -> tuple[GateStack, float]:
    """The stack of a train and its largest deviation from it at points (n, d); `unit` is the roundoff of the dtype."""
    small = rounded(train, 0.2 * tolerance, points)
    values = small(points)
    share, best = 0.5 * tolerance / len(train.cores), None
    for _ in range(4):
        stack = _stack(small, share, unit)
        off = float(np.abs(stack(points) - values).max())
        if best is None or off < best[1]:
            best = (stack, off)
        if off <= 0.5 * tolerance:
            break
        share *= float(np.clip(0.3 * tolerance / off, 0.01, 0.3))
    if best is None:
        raise RuntimeError("at least one stack was made")
    return best[0], float(np.abs(best[0](points) - train(points)).max())


def rounded(train: Train, tolerance: float, points: np.ndarray) -> Train:
    """The train with the smallest ranks found that stays within `tolerance` of it at points."""
    exact = train(points)
    last = train
    for level in (1.0, 0.2, 0.04, 0.008, 0.0):
        last = _cut(train, level * tolerance)
        if np.abs(last(points) - exact).max() <= tolerance:
            break
    return last


def _cut(train: Train, small: float) -> Train:
    """Singular values at every bond are cut where what is left out is at most `small` in the mean."""
    cores, read = list(train.cores), train.read
    for k in range(len(cores) - 1, -1, -1):  # orthogonal from the right
        core = np.einsum("anb,bc->anc", cores[k], read) if k == len(cores) - 1 else cores[k]
        r, n, out = core.shape
        if k == 0:
            cores[0] = core
            break
        q, upper = np.linalg.qr(core.reshape(r, n * out).T)
        cores[k] = q.T.reshape(-1, n, out)
        cores[k - 1] = np.einsum("anb,cb->anc", cores[k - 1], upper)
    for k in range(len(cores) - 1):
        r, n, out = cores[k].shape
        u, s, vt = np.linalg.svd(cores[k].reshape(r * n, out), full_matrices=False)
        left_out = np.sqrt(np.append(np.cumsum(s[::-1] ** 2)[::-1], 0.0))
        rank = max(1, int(np.flatnonzero(left_out <= small)[0]))
        cores[k] = u[:, :rank].reshape(r, n, rank)
        cores[k + 1] = np.einsum("ab,bnc->anc", s[:rank, None] * vt[:rank], cores[k + 1])
    return replace(train, cores=tuple(cores), read=np.eye(cores[-1].shape[2]))


def _stack(train: Train, share: float, unit: float) -> GateStack:
    after = _sizes_after(train)
    layers = [
        _layer(axis, variable, core, weight, share, unit)
        for axis, variable, core, weight in zip(train.axes, train.order, train.cores, after, strict=True)
    ]
    return GateStack(tuple(layers), train.read)


def _sizes_after(train: Train) -> list[np.ndarray]:
    """For every core the sizes (r') of what follows: how much an error in a component of the state counts."""
    sizes = [np.abs(train.read).max(axis=1)]
    gram = train.read @ train.read.T
    for core in reversed(train.cores[1:]):
        gram = np.einsum("anb,bc,dnc->ad", core, gram, core, optimize=True)
        sizes.append(np.sqrt(np.maximum(np.diag(gram), 0.0)))
    return sizes[::-1]


def _layer(axis: Axis, variable: int, core: np.ndarray, after: np.ndarray, share: float, unit: float) -> GateLayer:
    """The fewest gates found whose combinations are the entries of a core, each as exactly as it counts."""
    r, n, out = core.shape
    weighted = (core * after).transpose(1, 0, 2).reshape(n, r * out)
    u, s, _ = np.linalg.svd(weighted, full_matrices=False)
    wanted = u * s  # (n, k): as large as all entries together
    places = np.cos(np.pi * (np.arange(6 * n + 24) + 0.5) / (6 * n + 24))
    polynomials = chebyshev(places, n)
    best: tuple[float, int, np.ndarray, np.ndarray, np.ndarray] | None = None
    for gates in range(1, _MOST_GATES + 1, 1 if n < 8 else 2):
        if gates < n - 3:
            continue
        for reach in _REACHES:
            for steepness in _SLOPES:
                found = _solved(axis, places, polynomials, wanted, gates, reach, steepness, share, unit)
                if found is not None and (best is None or found[0] < best[0]):
                    best = (found[0], gates, *found[1:])
        if best is not None and best[0] <= share:
            break
    if best is None:
        raise RuntimeError("one gate always gives something")
    error, gates, slopes, centres, solution = best
    maps = np.einsum("jn,anb->jab", solution, core)
    return GateLayer(variable, slopes, centres, maps[1:], maps[0], error)


def _solved(
    axis: Axis,
    places: np.ndarray,
    polynomials: np.ndarray,
    wanted: np.ndarray,
    gates: int,
    reach: float,
    steepness: float,
    share: float,
    unit: float,
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray] | None:
    """The error, slopes, centres and (1 + gates, n) combinations for the polynomials; None if they are too large."""
    u = reach * np.linspace(-1, 1, gates) if gates > 1 else np.zeros(1)
    inside = np.clip(u, -1, 1)
    tilt = axis.slope(inside)
    centres, slopes = axis.from_map(inside) + (u - inside) * tilt, steepness / tilt
    columns = np.column_stack([np.ones(len(places)), logistic((axis.from_map(places)[:, None] - centres) * slopes)])
    left, s, right = np.linalg.svd(columns, full_matrices=False)
    count(30_000 + 6 * len(places) * (gates + 1) ** 2)
    target = polynomials @ wanted
    seen = left.T @ target
    best: tuple[float, np.ndarray] | None = None
    for ridge in _RIDGES:
        shrunk = s / (s**2 + (ridge * s[0]) ** 2)
        values = right.T @ (shrunk[:, None] * seen)
        rounding = unit * np.abs(values).sum(axis=0).max()
        error = float(np.linalg.norm(columns @ values - target, axis=1).max()) + rounding
        if best is None or error < best[0]:
            best = (error, right.T @ (shrunk[:, None] * (left.T @ polynomials)))
    return None if best is None else (best[0], slopes, centres, best[1])
