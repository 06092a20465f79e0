"""Transpiled networks: the loaded network as it runs against its source in real arithmetic, the weights in the file.

The source is a chain phi(W x + b), or W_d (phi(W_g x + b_g) * (W_u x + b_u)) + b_d. Its weights are the reference
tensors, or those of the network where the target says so; the target's digest must be theirs. Long doubles search, and
climb by the sign of differences; the worst inputs are decided in balls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb
from scipy import special

import softwright as sw
from judging.claim import BITS, NOTHING, CannotJudge, Claim, Seen, bits, dot
from judging.search import Effort, climb, spread

Long = np.longdouble


def _sigmoid(x: Any) -> Any:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, Long(1)) / (1 + small)


def _ball_sigmoid(x: Any) -> Any:
    return 1 / (1 + (-x).exp())


def _softplus(x: Any, beta: float, threshold: float) -> Any:
    z = Long(beta) * x
    return np.where(z > threshold, x, (np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))) / Long(beta))


def _ball_softplus(x: Any, beta: float, threshold: float) -> Any:
    z = arb(beta) * x
    if z > threshold:
        return x
    return z.exp().log1p() / arb(beta)


def _cubic(rate: Any, cubic: Any) -> Callable[[Any], Any]:
    return lambda x: x / 2 * (1 + np.tanh(Long(rate) * (x + Long(cubic) * x**3)))


def _ball_cubic(rate: Any, cubic: Any) -> Callable[[Any], Any]:
    return lambda x: x / 2 * (1 + (rate * (x + cubic * x**3)).tanh())


def _erfc(x: Any) -> Any:
    return special.erfc(np.asarray(x, dtype=float)).astype(Long)


def _pieces(x: Any, low: Any, high: Any) -> Any:
    return x.max(low).min(high)


ZERO, ONE = arb(0), arb(1)
ACTIVATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "identity": (lambda x: x, lambda x: x),
    "relu": (lambda x: np.maximum(x, 0), lambda x: x.max(ZERO)),
    "leaky_relu": (lambda x, a: np.where(x > 0, x, Long(a) * x), lambda x, a: x if x > 0 else arb(a) * x),
    "hardtanh": (lambda x, a, b: np.clip(x, Long(a), Long(b)), lambda x, a, b: _pieces(x, arb(a), arb(b))),
    "hardsigmoid": (
        lambda x, s, o: np.clip(Long(s) * x + Long(o), 0, 1),
        lambda x, s, o: _pieces(arb(s) * x + arb(o), ZERO, ONE),
    ),
    "sigmoid": (_sigmoid, _ball_sigmoid),
    "tanh": (np.tanh, lambda x: x.tanh()),
    "softsign": (lambda x: x / (1 + np.abs(x)), lambda x: x / (1 + abs(x))),
    "silu": (lambda x: x * _sigmoid(x), lambda x: x * _ball_sigmoid(x)),
    "mish": (lambda x: x * np.tanh(_softplus(x, 1.0, 1e9)), lambda x: x * x.exp().log1p().tanh()),
    "elu": (
        lambda x, a: np.where(x > 0, x, Long(a) * np.expm1(np.minimum(x, 0))),
        lambda x, a: x if x > 0 else arb(a) * x.expm1(),
    ),
    "gelu": (lambda x: x / 2 * _erfc(-x / np.sqrt(Long(2))), lambda x: x / 2 * (-x / arb(2).sqrt()).erfc()),
    "gelu_tanh": (
        _cubic(np.sqrt(Long(2) / Long(np.pi)), 0.044715),
        lambda x: x / 2 * (1 + ((2 / arb.pi()).sqrt() * (x + arb("0.044715") * x**3)).tanh()),
    ),
    "gelu_erf": (
        lambda x, r, d: x / 2 * _erfc(-(Long(r) * x) / Long(d)),
        lambda x, r, d: x / 2 * (-(arb(r) * x) / arb(d)).erfc(),
    ),
    "gelu_cubic": (lambda x, r, c: _cubic(r, c)(x), lambda x, r, c: _ball_cubic(arb(r), arb(c))(x)),
    "softplus": (_softplus, _ball_softplus),
}


@dataclass
class Source:
    """Weights, biases and activations, layer by layer; of a gated block gate, value, output."""

    layers: list[tuple[np.ndarray, np.ndarray]]
    activations: list[tuple[str, list[float]]]
    gated: bool

    @property
    def digest(self) -> str:
        found = hashlib.sha256()
        for (weight, bias), (name, parameters) in zip(self.layers, self.activations, strict=True):
            found.update(f"{ {'name': name, 'parameters': list(parameters)} }|{weight.shape}|".encode())
            found.update(np.ascontiguousarray(weight, "<f8").tobytes() + np.ascontiguousarray(bias, "<f8").tobytes())
        return found.hexdigest()

    def at_points(self, points: np.ndarray) -> np.ndarray:
        x = points.astype(Long)
        if self.gated:
            gate, value = (x @ W.T.astype(Long) + b for W, b in self.layers[:2])
            W, b = self.layers[2]
            return (self._long(0, gate) * value) @ W.T.astype(Long) + b
        for i, (W, b) in enumerate(self.layers):
            x = self._long(i, x @ W.T.astype(Long) + b)
        return x

    def at_ball(self, point: np.ndarray) -> list[Any]:
        x = [arb(float(v)) for v in point]
        if self.gated:
            gate, value = (self._affine(i, x) for i in (0, 1))
            return self._affine(2, [self._ball(0, g) * v for g, v in zip(gate, value, strict=True)])
        for i in range(len(self.layers)):
            x = [self._ball(i, y) for y in self._affine(i, x)]
        return x

    def _affine(self, i: int, x: list[Any]) -> list[Any]:
        W, b = self.layers[i]
        return [dot(row, x) + arb(float(c)) for row, c in zip(W.tolist(), b, strict=True)]

    def _long(self, i: int, x: np.ndarray) -> np.ndarray:
        name, parameters = self.activations[i]
        with np.errstate(all="ignore"):
            return ACTIVATIONS[name][0](x, *parameters)

    def _ball(self, i: int, x: Any) -> Any:
        name, parameters = self.activations[i]
        return ACTIVATIONS[name][1](x, *parameters)


def source_of(claim: Claim) -> Source:
    """The source as the file holds it, if its digest is the target's."""
    source = read_source(claim.tensors, claim.sections["model"], claim.target)
    if source.digest != claim.target["sha256"]:
        raise CannotJudge("the weights of the source are not those of the target's digest")
    return source


def read_source(tensors: dict[str, np.ndarray], model: dict[str, Any], target: dict[str, Any]) -> Source:
    """Weights from where the target says that they are."""
    steps = model["steps"]
    gated = steps[0]["step"] == "gated"
    activations = [(entry["name"], entry["parameters"]) for entry in target["activations"]]
    if gated:
        activations += [("identity", [])] * 2
    if any(name not in ACTIVATIONS for name, _ in activations):
        raise CannotJudge("an activation")
    if target.get("weights", "network") == "reference":
        names = [(f"reference.layers.{i}.weight", f"reference.layers.{i}.bias") for i in range(len(activations))]
        layers = [(tensors[w].astype(float), tensors[b].astype(float)) for w, b in names]
    else:
        layout = model["layout"]
        layers = [layer for i, step in enumerate(steps) for layer in _stored(tensors, layout, f"steps.{i}.", step)]
    return Source(layers, activations, gated)


def _stored(
    t: dict[str, np.ndarray], layout: str, prefix: str, step: dict[str, Any]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The affine maps of a step, from the network's own tensors."""

    def heads(at: str, H: int, d: int) -> tuple[np.ndarray, np.ndarray]:
        if f"{at}weight" in t:
            return t[f"{at}weight"].astype(float), t[f"{at}bias"].astype(float)
        biased = t[f"{at}tokens"][1].any()  # heads are as wide as their keys have numbers: (k_j, b_j), or k_j alone
        at += "attention."
        if f"{at}in_proj_weight" in t:
            v = np.split(t[f"{at}in_proj_weight"].astype(float), 3)[2]
        else:
            v = t[f"{at}v_proj_weight"].astype(float)
        offset = np.split(t[f"{at}in_proj_bias"].astype(float), 3)
        if v.shape[1] == d:  # one token and a sink: keys and values are the neurons
            return v[:H], offset[2][:H]
        width = 2 if biased else 1
        rows = v[: width * H : width]
        return rows[:, :d], rows[:, d]

    if step["step"] == "linear":
        return [(t[f"{prefix}weight"].astype(float), t[f"{prefix}bias"].astype(float))]
    H, d = step["heads"], step["inputs"]
    if step["step"] == "heads":
        return [heads(prefix, H, d)]
    value = t[f"{prefix}value_weight"].astype(float), t[f"{prefix}value_bias"].astype(float)
    if step["activated"]:
        return [heads(f"{prefix}gate.", H, d), value]
    return [(t[f"{prefix}gate_weight"].astype(float), t[f"{prefix}gate_bias"].astype(float)), value]


def judge(claim: Claim, built: sw.Built, effort: Effort) -> Seen:
    source, box = source_of(claim), claim.target["box"]
    d = source.layers[0][0].shape[1]
    wide = 1e3 if claim.dtype == "float64" else 1e2
    low, high = (np.full(d, -wide), np.full(d, wide)) if box is None else (np.array(side, dtype=float) for side in box)

    def legal(points: np.ndarray) -> np.ndarray:
        cast = np.clip(points, low, high).astype(claim.dtype).astype(float)
        return np.where((cast < low) | (cast > high), np.nextafter(cast, 0).astype(claim.dtype).astype(float), cast)

    def errors(points: np.ndarray) -> np.ndarray:
        points = legal(points)
        return np.abs(built.network.evaluate(points) - source.at_points(points)).max(axis=1).astype(float)

    points = spread(low, high, effort)
    if box is None:
        points = np.concatenate([points, points * 10.0 ** -np.random.default_rng(0).uniform(0, 6, (len(points), 1))])
    inside = [((low <= x) & (x <= high)).all() for x in legal(points)]
    points = points[np.array(inside)]
    if not len(points):
        return NOTHING
    found = NOTHING
    for point in legal(climb(errors, points, low, high, effort)):
        if not ((low <= point) & (point <= high)).all():
            continue
        run = built.network.evaluate(point[None])[0]
        if not np.isfinite(run).all():
            if box is None and np.abs(point).max() > 1:  # a claim on all inputs is of real arithmetic, which has no end
                continue
            return Seen(np.inf, "the network runs to no number", f"at {point.tolist()}")
        with bits(BITS):
            wanted = source.at_ball(point)
            error = max(float(abs(arb(float(y)) - f).lower()) for y, f in zip(run, wanted, strict=True))
        # What is said of all inputs is said of real arithmetic: a run may err by its rounding besides.
        share = claim.share(error if box is not None else max(error - _rounding(claim, source, point), 0.0))
        found |= Seen(share, "the network runs off by more", f"{share:.3g} of the bound at {point.tolist()}"[:150])
    return found


def _rounding(claim: Claim, source: Source, point: np.ndarray) -> float:
    """Far more than running may add: a thousand units in the last place of the largest sum."""
    size = 1.0 + float(np.abs(point).max())
    for W, b in source.layers:
        size = float(np.abs(W).sum(axis=1).max()) * size + float(np.abs(b).max())
    return size * (1e-12 if claim.dtype == "float64" else 1e-3)
