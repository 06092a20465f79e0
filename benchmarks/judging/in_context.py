"""Steps in context: one step of the loaded network, from tokens of the stated set, against the step in real arithmetic.

The tokens before a step are written by hand: x, y and what they carry of w, rounded once. Prompts are drawn at the rim
of the set, where covariances are largest, in clusters and alone; the worst are climbed by moves that stay in the set.
Long doubles search; the worst prompt of each kind is decided in balls.

    gradient        basis tokens carry w, data w.x + b; after the step: w - eta (gradient + penalty w), queries alike
    newton_schulz   2 z_i - cov_j(x_j.z_i, z_j) - d cov_p(g_p.z_i, z_p), per unit of the largest coordinate of any z
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from flint import arb

import softwright as sw
from judging.claim import BITS, NOTHING, CannotJudge, Claim, Seen, bits
from judging.search import Effort
from softwright.attention.stack import apply_layer

INSIDE = 1 - 2.0**-20  # keeps rounded numbers inside the norms
Batch = dict[str, np.ndarray]  # name -> (batch, ...), float64 numbers of the network's dtype
Stream = dict[str, torch.Tensor]


def judge(claim: Claim, built: sw.Built, effort: Effort) -> Seen:
    settings = claim.sections["model"]["settings"]
    step = (
        NewtonSchulz(built.network, settings)
        if settings["solver"] == "newton_schulz"
        else Gradient(built.network, settings)
    )
    bounds = np.array([claim.bound, *(claim.said["quantities"][name] for name in step.further)])
    rng, found = np.random.default_rng(effort.seed), NOTHING
    many = max(4, effort.samples // 150)
    for n in sorted({min(int(settings["max_rows"]), n) for n in (1, 2, 3, 8, 40)}):
        batch = step.draw(rng, many, n)
        shares = (step.errors(batch, long_double) / bounds).max(axis=1)  # (batch,)
        for k in range(effort.steps // 4):
            moved = step.moved(rng, batch, 0.3 * 0.8**k)
            new = (step.errors(moved, long_double) / bounds).max(axis=1)
            better = new > shares
            shares = np.where(better, new, shares)
            batch = {name: np.where(_like(better, old), moved[name], old) for name, old in batch.items()}
        worst = {
            name: array[[int(np.argmax(np.where(np.isnan(shares), np.inf, shares)))]] for name, array in batch.items()
        }
        with bits(BITS):
            errors = step.errors(worst, balls)[0]
        share = float((errors / bounds).max())
        found |= Seen(
            np.inf if np.isnan(share) else share, "a step is off by more", f"{n} rows, {share:.3g} of the bound"
        )
    return found


def _like(mask: np.ndarray, array: np.ndarray) -> np.ndarray:
    return mask.reshape(-1, *[1] * (array.ndim - 1))


# --------------------------------------------------------------------------------------- numbers of two kinds in arrays


@dataclass(frozen=True)
class Numbers:
    """How an array is made of floats, and the functions of it."""

    of: Callable[[Any], np.ndarray]
    exp: Callable[[np.ndarray], np.ndarray]
    tanh: Callable[[np.ndarray], np.ndarray]
    size: Callable[[np.ndarray], np.ndarray]  # at least that much, as floats


long_double = Numbers(
    lambda x: np.asarray(x, dtype=np.longdouble), np.exp, np.tanh, lambda x: np.abs(x).astype(np.float64)
)
balls = Numbers(
    lambda x: np.vectorize(arb, otypes=[object])(np.asarray(x, dtype=float)),
    np.vectorize(lambda x: x.exp(), otypes=[object]),
    np.vectorize(lambda x: x.tanh(), otypes=[object]),
    np.vectorize(lambda x: float(abs(x).lower()), otypes=[float]),
)


def times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """sum over the last axis of a b, broadcast."""
    return (a * b).sum(axis=-1)


def rounded(x: np.ndarray, dtype: str) -> np.ndarray:
    return np.asarray(x).astype(dtype).astype(np.float64)


# ---------------------------------------------------------------------------------------------------------- the steps


class Step:
    """What the solvers share: the network, its slots, its numbers."""

    further: tuple[str, ...] = ()

    def __init__(self, network: Any, settings: dict[str, Any]) -> None:
        self.network, self.s = network, settings
        self.d, self.dtype = int(settings["features"]), str(settings["dtype"])

    def slot(self, name: str) -> slice:
        return slice(*self.network.slots[name])

    def tokens(self, batch: int, n: int) -> Stream:
        """All tokens as they are embedded from zeros."""
        kind = getattr(torch, self.dtype)
        inputs = {
            "data": torch.zeros(batch, n, self.d + 2, dtype=kind),
            "query": torch.zeros(batch, 1, self.d + 2, dtype=kind),
        }
        return {name: tokens.clone() for name, tokens in self.network.sequence(inputs).items()}

    def put(self, stream: Stream, segment: str, slot: str, values: np.ndarray, first: int | None = None) -> None:
        place = self.slot(slot)
        place = slice(place.start, place.start + (first or place.stop - place.start))
        stream[segment][..., place] = torch.tensor(values, dtype=stream[segment].dtype)

    def run(self, stream: Stream, layers: int) -> Stream:
        start = int(self.network.head)
        with torch.no_grad():
            for position in range(start, start + layers):
                stream = apply_layer(self.network.layer_at(position), stream)
        return stream

    def inside(self, x: np.ndarray, bound: float) -> np.ndarray:
        """Vectors along the last axis, no longer than the bound, in the network's numbers."""
        length = np.linalg.norm(x, axis=-1, keepdims=True)
        return rounded(x * np.minimum(1.0, bound * INSIDE / np.maximum(length, 1e-300)), self.dtype)

    def draw(self, rng: np.random.Generator, count: int, n: int) -> Batch:
        raise NotImplementedError

    def moved(self, rng: np.random.Generator, batch: Batch, by: float) -> Batch:
        raise NotImplementedError

    def ran(self, batch: Batch) -> list[np.ndarray]:
        """What the network's step writes, from tokens that hold the batch."""
        raise NotImplementedError

    def judged(self, batch: Batch, ran: list[np.ndarray], numbers: Numbers) -> np.ndarray:
        """The errors (batch, bounds) of what was written."""
        raise NotImplementedError

    def errors(self, batch: Batch, numbers: Numbers) -> np.ndarray:
        return self.judged(batch, self.ran(batch), numbers)


class Gradient(Step):
    """Least squares, ridge, logistic, Poisson, robust."""

    further = ("prediction_bound",)

    def __init__(self, network: Any, settings: dict[str, Any]) -> None:
        super().__init__(network, settings)
        self.squares = settings["method"] in ("least_squares", "ridge")
        self.constant = bool(settings["intercept"]) and not self.squares  # a coefficient of its own

    def draw(self, rng: np.random.Generator, count: int, n: int) -> Batch:
        s, d = self.s, self.d
        x = rng.normal(size=(count, n, d))
        kind = rng.integers(0, 4, (count, 1, 1))
        x = np.where(kind == 1, np.sign(x[..., :1]) * rng.normal(size=(count, 1, d)), x)
        x = 1e6 * x * np.where((kind == 2) & (np.arange(n)[:, None] > 0), 0.0, 1.0)
        x = np.where(kind == 3, s["x_bound"] * rng.uniform(-1, 1, x.shape) / np.sqrt(d), x)
        y = np.where(kind[..., 0] < 2, np.sign(x[..., 0]), rng.uniform(-1, 1, (count, n))) * s["y_bound"]
        w = np.concatenate([x[:, 0], np.ones((count, 1))], axis=1) * rng.choice([-1, 1], (count, 1))
        w = np.where(rng.uniform(size=(count, 1)) < 0.5, w, 1e6 * rng.normal(size=w.shape))
        return self.legal({"x": x, "y": y, "w": w, "q": 1e6 * rng.normal(size=(count, 1, d))})

    def moved(self, rng: np.random.Generator, batch: Batch, by: float) -> Batch:
        sizes = {"x": self.s["x_bound"], "y": self.s["y_bound"], "w": self.s["w_bound"], "q": self.s["x_bound"]}
        return self.legal({name: a + by * sizes[name] * rng.normal(size=a.shape) for name, a in batch.items()})

    def legal(self, batch: Batch) -> Batch:
        s, d = self.s, self.d
        x, q = self.inside(batch["x"], s["x_bound"]), self.inside(batch["q"], s["x_bound"])
        w = batch["w"].copy()
        w[:, d] *= self.constant
        w = self.inside(w, s["w_bound"])
        if s["method"] == "poisson":
            top = (np.einsum("bnd,bd->bn", x, w[:, :d]) + w[:, d:]).max(axis=1, keepdims=True)
            w = rounded(w * np.minimum(1.0, np.log(s["rate_bound"]) * INSIDE / np.maximum(top, 1e-9)), self.dtype)
        y = rounded(np.clip(batch["y"], -s["y_bound"] * INSIDE, s["y_bound"] * INSIDE), self.dtype)
        return {"x": x, "y": y, "w": w, "q": q}

    def carried(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        """w.x + b, rounded once."""
        return rounded(np.einsum("bnd,bd->bn", x.astype(np.longdouble), w[:, : self.d]) + w[:, self.d :], self.dtype)

    def ran(self, batch: Batch) -> list[np.ndarray]:
        """The coefficients, and the prediction."""
        d = self.d
        x, y, w, q = (batch[name] for name in ("x", "y", "w", "q"))
        carried, asked = self.carried(x, w), self.carried(q, w)
        stream, slot = self.tokens(len(x), x.shape[1]), "f" if self.squares else "s"
        for name, sign in (("data", 1.0), ("mirror", -1.0)):
            if name in stream:
                self.put(stream, name, "x", sign * x, d)
                self.put(stream, name, "y", sign * y[..., None])
                self.put(stream, name, slot, sign * carried[..., None])
        self.put(stream, "query", "x", q, d)
        self.put(stream, "query", slot, asked[..., None])
        self.put(stream, "basis", slot, w[:, :d, None])
        g = stream["unit"][..., self.slot("g")].double().numpy().astype(np.longdouble)  # (batch, units, coordinates)
        self.put(stream, "unit", slot, rounded(times(g, w[:, None, : g.shape[-1]]), self.dtype)[..., None])
        stream = self.run(stream, 1 if self.squares else 2)
        return [stream[name][..., self.slot(slot).start].double().numpy() for name in ("basis", "query")]

    def judged(self, batch: Batch, ran: list[np.ndarray], numbers: Numbers) -> np.ndarray:
        """(batch, 2): the largest error of a coefficient and of the prediction."""
        s, d = self.s, self.d
        (after, predicted), (x, y, w, q) = ran, (batch[name] for name in ("x", "y", "w", "q"))
        asked = self.carried(q, w)
        X, Y, V, Q = map(numbers.of, (x, y, w, q))
        C = numbers.of(1.0) / numbers.of(float(x.shape[1]))
        S = times(X, V[:, None, :d]) + V[:, d:]
        slope = self.slope(S, Y, numbers)
        if self.squares and s["intercept"]:  # covariance: either factor may be centred
            slope = slope - (slope.sum(axis=1) * C)[:, None]
        eta, penalty = numbers.of(float(s["step_size"])), numbers.of(float(s["penalty"]))
        gradient = (X * slope[..., None]).sum(axis=1) * C + penalty * V[:, :d]
        step = times(Q, gradient[:, None])
        if self.constant:
            step = step + (slope.sum(axis=1) * C)[:, None]
        coefficient = numbers.of(after) - (V[:, :d] - eta * gradient)
        prediction = numbers.of(predicted) - (numbers.of(asked) - eta * step)
        return np.stack([numbers.size(coefficient).max(axis=1), numbers.size(prediction).max(axis=1)], axis=1)

    def slope(self, S: np.ndarray, Y: np.ndarray, numbers: Numbers) -> np.ndarray:
        """Of the loss, in s."""
        one, scale = numbers.of(1.0), numbers.of(float(self.s["loss_scale"]))
        method = self.s["method"]
        if method == "logistic":
            return one / (one + numbers.exp(-S)) - Y
        if method == "poisson":
            return numbers.exp(S) - Y
        if method == "robust":
            return scale * numbers.tanh((S - Y) / scale)
        if self.squares:
            return S - Y
        raise CannotJudge(f"the loss of {method}")


class NewtonSchulz(Step):
    """Tokens carry x and z of any size with |x||z| <= score_bound; those of the penalty g and z."""

    def draw(self, rng: np.random.Generator, count: int, n: int) -> Batch:
        d, size = self.d, 10.0 ** rng.uniform(-6, 6, (count, 1, 1))
        x = rng.normal(size=(count, n, d))
        kind = rng.integers(0, 3, (count, 1, 1))
        x = np.where(kind == 1, np.sign(x[..., :1]) * rng.normal(size=(count, 1, d)), x)
        z = np.where(kind == 2, rng.normal(size=x.shape), x)
        unit = rng.normal(size=(count, d, d))
        return self.legal(
            {"x": x, "z": z, "q": rng.normal(size=(count, 1, d)), "g": np.abs(unit), "u": unit, "size": size}
        )

    def moved(self, rng: np.random.Generator, batch: Batch, by: float) -> Batch:
        lengths = {name: np.abs(a).max(axis=(1, 2), keepdims=True) for name, a in batch.items()}
        return self.legal(
            {n: a if n == "size" else a / lengths[n] + by * rng.normal(size=a.shape) for n, a in batch.items()}
        )

    def legal(self, batch: Batch) -> Batch:
        """|x||z| at most the bound for the longest of each, z of the size drawn."""
        S, size = self.s["score_bound"] * INSIDE, batch["size"]
        z = {name: batch[name] for name in ("z", "q", "u")}
        longest = np.maximum.reduce([np.linalg.norm(a, axis=-1).max(axis=1) for a in z.values()])[:, None, None]
        z = {name: rounded(a / longest * size, self.dtype) for name, a in z.items()}
        reach = S * INSIDE / size
        x = batch["x"] / np.linalg.norm(batch["x"], axis=-1).max(axis=1)[:, None, None] * reach
        g = batch["g"] / np.linalg.norm(batch["g"], axis=-1).max(axis=1)[:, None, None] * reach
        return {"x": rounded(x, self.dtype), "g": rounded(g, self.dtype), **z, "size": size}

    def ran(self, batch: Batch) -> list[np.ndarray]:
        x, z, q, g, u = (batch[name] for name in ("x", "z", "q", "g", "u"))
        stream = self.tokens(len(x), x.shape[1])
        for name, sign in (("data", 1.0), ("mirror", -1.0)):
            if name in stream:
                self.put(stream, name, "x", sign * x, self.d)
                self.put(stream, name, "z", sign * z)
        self.put(stream, "query", "z", q)
        self.put(stream, "basis", "z", 0.0 * u)
        penalised = self.s["penalty"] > 0
        signs = np.tile([1.0, -1.0], self.d)[:, None]
        self.put(stream, "unit", "g", signs * np.repeat(g, 2, axis=1) if penalised else 0.0 * np.repeat(g, 2, axis=1))
        self.put(stream, "unit", "z", signs * np.repeat(u, 2, axis=1))
        return [self.run(stream, 1)["query"][..., self.slot("z")].double().numpy()[:, 0]]  # (batch, d)

    def judged(self, batch: Batch, ran: list[np.ndarray], numbers: Numbers) -> np.ndarray:
        after, penalised = ran[0], self.s["penalty"] > 0
        x, z, q, g, u = (batch[name] for name in ("x", "z", "q", "g", "u"))
        X, Z, Q, G, U = map(numbers.of, (x, z, q[:, 0], g, u))
        C, two, d = numbers.of(1.0) / numbers.of(float(x.shape[1])), numbers.of(2.0), numbers.of(float(self.d))
        t = times(X, Q[:, None])  # (batch, n)
        if self.s["intercept"]:
            t = t - (t.sum(axis=1) * C)[:, None]
        wanted = two * Q - (t[..., None] * Z).sum(axis=1) * C
        if penalised:
            wanted = wanted - d * (times(G, Q[:, None])[..., None] * U).sum(axis=1) / d
        most = np.maximum.reduce([np.abs(a).max(axis=(1, 2)) for a in (z, q, u)])
        return (numbers.size(numbers.of(after) - wanted).max(axis=1) / most)[:, None]
