"""Theorems: what each of them says of its network, from the sizes and what was drawn, as the file holds them.

A row of `TASKS` gives inputs of the theorem's set (q, d, n), with those where a construction errs most, and what the
network should give there. Floats search and climb; at the worst inputs the chain is evaluated in balls, and run.
`GAPS` are theorems about distances between ids, in digits: long balls compute all of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

import softwright as sw
from judging.chain import Chain
from judging.claim import BITS, NOTHING, CannotJudge, Claim, Seen, bits
from judging.formulas import Formula
from judging.search import Effort

Rng = np.random.Generator
LONG = 4000  # bits that tell ids apart
NAMED = {  # targets of B3 and B4 that are known by a name: formula, box
    "sign": ("sign(x)", {"x": [-1.0, 1.0]}),
    "floor": ("floor(3*x)", {"x": [-1.0, 1.0]}),
    "disc": ("where(x**2 + y**2 < 0.36, 1, 0)", {"x": [-1.0, 1.0], "y": [-1.0, 1.0]}),
    "root": ("1/sqrt(sqrt(x))", {"x": [0.0, 1.0]}),
}


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


def judge(claim: Claim, built: sw.Built, effort: Effort) -> Seen:
    label = claim.target["label"]
    sizes, drawn = claim.target["sizes"], claim.target.get("drawn", {})
    chain = Chain.of(claim)
    if label in GAPS:
        with bits(LONG):
            return GAPS[label](claim, chain, sizes, drawn)
    if label not in TASKS:
        raise CannotJudge(f"theorem {label}")
    task, rng = TASKS[label](sizes, drawn), np.random.default_rng(effort.seed)

    def errors(X: np.ndarray) -> np.ndarray:
        gaps = np.abs(chain.at_points(X) - task.wanted(X)).reshape(len(X), -1).max(axis=1)
        return np.where(np.isnan(gaps), np.inf, gaps)

    many = max(60, effort.samples // 6)
    X = task.draw(rng, many)
    if not len(X):
        return NOTHING
    if task.norm is not None:
        X = task.draw(rng, 12 * many)
        norm = float((task.volume * (errors(X) ** task.norm).mean()) ** (1 / task.norm))
        return Seen(claim.share(norm / 1.1), "the norm is larger", f"{norm:.3g}, claimed {claim.bound:.3g}")
    best = X[np.argsort(-errors(X))[: effort.starts]]
    by = 0.02 * task.width
    for _ in range(effort.steps // 2):
        moves = best[:, None] + by * rng.uniform(-1, 1, (len(best), 6, *best.shape[1:]))
        moves = task.legal(moves.reshape(-1, *best.shape[1:])).reshape(moves.shape)
        tried = np.concatenate([best[:, None], moves], axis=1)
        chosen = errors(tried.reshape(-1, *best.shape[1:])).reshape(len(best), -1).argmax(axis=1)
        best, by = tried[np.arange(len(best)), chosen], by * 0.8
    found, run = NOTHING, built.network.evaluate(best)
    real = claim.said["rounding_part"] == 0.0
    for x, ran in zip(best, run, strict=True):
        with bits(BITS):
            exact, wanted = chain.at_ball(x), task.balls(x)
            gap = _largest(exact, wanted)
            found |= Seen(
                claim.share(gap), "the network is off by more", f"claimed {claim.bound:.3g} at {x.tolist()}"[:150]
            )
            if not real and found.share <= 1:
                rows = [[arb(y) if np.isfinite(y) else arb.nan() for y in row] for row in ran.tolist()]
                bad = not np.isfinite(ran).all()
                share = np.inf if bad else claim.share(_largest(rows, wanted))
                found |= Seen(share, "the network runs off by more", f"claimed {claim.bound:.3g} at {x.tolist()}"[:150])
    return found


def _largest(one: list[list[Any]], other: list[list[Any]]) -> float:
    gaps = [abs(a - b) for rows in zip(one, other, strict=True) for a, b in zip(*rows, strict=True)]
    return max(float(gap.lower()) if gap.is_finite() else 0.0 for gap in gaps)


def _floats(array: Any) -> list[list[Any]]:
    return [[arb(float(x)) for x in row] for row in np.asarray(array, dtype=float)]


# ----------------------------------------------------------------------------------------------------- clipping: A1, A2


def _clipping(s: dict[str, Any], drawn: dict[str, Any]) -> Task:
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


def _formula_names(text: str) -> list[str]:
    """Variables in the order in which they first stand in the text."""
    import re

    from judging.formulas import FUNCTIONS

    words = re.findall(r"[A-Za-z_]\w*", text)
    return list(dict.fromkeys(w for w in words if w not in FUNCTIONS and w not in ("max", "min", "where", "pi", "e")))


def _on_box(text: str, box: dict[str, list[float]], shape: tuple[int, int], walls: int, norm: float | None) -> Task:
    """A formula of the first entries of the input, which are its variables."""
    names, (rows, columns) = list(box), shape
    formula, m = Formula(text, names), len(box)
    low, high = (np.array([box[name][k] for name in names], dtype=float) for k in (0, 1))

    def points(X: np.ndarray) -> np.ndarray:
        return X.reshape(len(X), -1)[:, :m] if rows == 1 else X[:, :m, 0]

    def shaped(P: np.ndarray) -> np.ndarray:
        return P.reshape(len(P), 1, m) if rows == 1 else np.repeat(P[:, :, None], columns, axis=2)

    def draw(rng: Rng, count: int) -> np.ndarray:
        unit = rng.random((count, m))
        if norm is None:
            third = count // 3
            wall = rng.integers(0, walls + 1, (third, m)) / walls
            unit[:third] = np.clip(wall + rng.choice([0.0, 1e-9, -1e-9, 1e-3, -1e-3], (third, m)), 0, 1)
        return shaped(np.clip(low + unit * (high - low), low, high))

    def legal(X: np.ndarray) -> np.ndarray:
        return shaped(np.clip(points(X), low, high))

    def wanted(X: np.ndarray) -> np.ndarray:
        return formula.at_points(points(X))[:, :, None]

    def balls(x: np.ndarray) -> list[list[Any]]:
        return [[y] for y in formula.at_ball([arb(v) for v in points(x[None])[0].tolist()])]

    return Task(draw, legal, wanted, balls, float((high - low).max()), norm, float(np.prod(high - low)))


def _centred(s: dict[str, Any], drawn: dict[str, Any]) -> Task:
    names, r = _formula_names(s["formula"]), s["radius"]
    return _on_box(s["formula"], {name: [-r, r] for name in sorted(names)}, (1, len(names)), s["cells"], None)


def _equivariant(s: dict[str, Any], drawn: dict[str, Any]) -> Task:
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


def _descent(s: dict[str, Any], drawn: dict[str, Any]) -> Task:
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


def _labels(s: dict[str, Any], drawn: dict[str, Any]) -> Task:
    sequences, labels = (np.array(drawn[name], dtype=float) for name in ("sequences", "labels"))
    by_content = {x.tobytes(): y for x, y in zip(sequences + 0.0, labels, strict=True)}

    def wanted(X: np.ndarray) -> np.ndarray:
        return np.stack([by_content[(x + 0.0).tobytes()] for x in X])

    return Task(lambda rng, count: sequences, lambda X: X, wanted, lambda x: _floats(wanted(x[None])[0]), 0.0)


TASKS: dict[str, Callable[[dict[str, Any], dict[str, Any]], Task]] = {
    "A1": _clipping,
    "A2": _clipping,
    "A4": _centred,
    "A5": _descent,
    "C4": _labels,
    "C5": _equivariant,
    "C6": _labels,
}


# --------------------------------------------------------------------------------------- distances of ids: C1, C2, C3


def _apart(outputs: dict[Any, list[Any]]) -> float:
    """-log10 of the least distance between different outputs; infinite where two cannot be told apart."""
    worst = -math.inf
    for one, other in itertools.combinations(outputs.values(), 2):
        gap = max((abs(a - b).lower() for a, b in zip(one, other, strict=True)), key=lambda ball: ball.mid())
        worst = max(worst, float((-(gap.log() / arb(10).log())).upper()) if gap > 0 else math.inf)
    return worst


def _sets(claim: Claim, chain: Chain, s: dict[str, Any], drawn: dict[str, Any]) -> Seen:
    """C1: the network gives boltz of every set, and any two are told apart."""
    found: dict[Any, list[Any]] = {}
    for members in itertools.combinations(drawn["entries"], s["length"]):
        weights = [arb(a).exp() for a in members]
        boltz = sum((arb(a) * w for a, w in zip(members, weights, strict=True)), arb(0)) / sum(weights, arb(0))
        out = chain.at_ball(np.array([members]))[0]
        if any(abs(y - boltz) > arb(2) ** -1000 for y in out):
            return Seen(np.inf, "the network is not boltz", f"at {members}")
        found[members] = [boltz]
    lost = _apart(found)
    return Seen(claim.share(lost / (1 + 1e-9)), "ids are closer", f"{lost:.6g} digits, claimed {claim.bound:.6g}")


def _contexts(claim: Claim, chain: Chain, s: dict[str, Any], drawn: dict[str, Any]) -> Seen:
    """C2: ids of different (set, token) are told apart."""
    found: dict[Any, list[Any]] = {}
    for x in np.array(drawn["sequences"], dtype=float) + 0.0:
        tokens, out = [tuple(column) for column in x.T.tolist()], chain.at_ball(x)
        for k, token in enumerate(tokens):
            found[frozenset(tokens), token] = [row[k] for row in out]
    if len(found) < 2:
        return NOTHING
    lost = _apart(found)
    return Seen(claim.share(lost / (1 + 1e-9)), "ids are closer", f"{lost:.6g} digits, claimed {claim.bound:.6g}")


def _hardmax(claim: Claim, chain: Chain, s: dict[str, Any], drawn: dict[str, Any]) -> Seen:
    """C3: the token 1 gets one id in both sequences."""
    d, ids = s["dim"], []
    for tokens in ((1, 2, 5, 6), (1, 3, 4, 6)):
        ids.append([row[0] for row in chain.at_ball(np.tile(np.array(tokens) / d, (d, 1)))])
    gap = max(float(abs(a - b).lower()) for a, b in zip(*ids, strict=True))
    return Seen(np.inf if gap > 1e-9 * (1 + claim.bound) and gap > claim.bound else 0.0, "the ids differ", f"{gap:.3g}")


GAPS: dict[str, Callable[[Claim, Chain, dict[str, Any], dict[str, Any]], Seen]] = {
    "C1": _sets,
    "C2": _contexts,
    "C3": _hardmax,
}
