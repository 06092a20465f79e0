"""Approximations: |network - target| <= bound at every point, in real arithmetic and as the loaded module runs.

Networks are evaluated from the tensors, by the names that the documentation gives them; floats search, balls decide at
the worst points found. Of an Lp norm, the integral over the box is estimated, and must exceed the claim by a fiftieth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

import softwright as sw
from judging.claim import BITS, NOTHING, CannotJudge, Claim, Seen, bits, dot
from judging.formulas import Formula
from judging.search import Effort, Errors, climb, near, spread


@dataclass
class Layer:
    """One layer of softmax heads by the documented names of its tensors."""

    tensors: dict[str, np.ndarray]
    heads: int

    def of(self, head: int, name: str) -> np.ndarray | None:
        array = self.tensors.get(f"layer.heads.{head}.{name}")
        return None if array is None else array.astype(np.float64)

    def head(self, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        keys, biases, values, slopes = (self.of(i, name) for name in ("keys", "biases", "values", "slopes"))
        if keys is None or biases is None or values is None:
            raise CannotJudge("a head is incomplete")
        return keys, biases, values, slopes

    def at_points(self, points: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, m)"""
        t = (points - self.tensors["center"].astype(float)) * self.tensors["scale"].astype(float)
        total: Any = 0.0
        for i in range(self.heads):
            keys, biases, values, slopes = self.head(i)
            scores = t @ keys.T + biases  # (n, N)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            total = total + weights @ values
            if slopes is not None:
                total = total + np.einsum("nj,jmd,nd->nm", weights, slopes, t)
        return total

    def at_ball(self, point: list[Any]) -> list[Any]:
        center, scale = self.tensors["center"].tolist(), self.tensors["scale"].tolist()
        t = [(x - arb(c)) * arb(s) for x, c, s in zip(point, center, scale, strict=True)]
        total: list[Any] = []
        for i in range(self.heads):
            keys, biases, values, slopes = self.head(i)
            scores = [dot(k, t) + arb(b) for k, b in zip(keys.tolist(), biases.tolist(), strict=True)]
            top = arb(max(float(s.mid()) for s in scores))
            weights = [(s - top).exp() for s in scores]
            whole = sum(weights, arb(0))
            for o in range(values.shape[1]):
                each = [
                    arb(v) + (arb(0) if slopes is None else dot(slopes[j, o].tolist(), t))
                    for j, v in enumerate(values[:, o].tolist())
                ]
                out = sum((w * v for w, v in zip(weights, each, strict=True)), arb(0)) / whole
                total[o : o + 1] = [total[o] + out if i else out]
        return total


def judge(claim: Claim, built: sw.Built, effort: Effort) -> Seen:
    said, model, known = claim.said, claim.sections["model"], claim.known
    text, names = claim.target.get("text", ""), list(model["box"])
    if "stated-bound" in claim.given:
        return NOTHING  # what the verdict is given is the bound itself, at the points of a table or anywhere
    if claim.target["kind"] != "expression":
        if known is None:
            return Seen(np.inf, "there is no formula in the file")
        if known.points is not None and known.values is not None:
            return NOTHING if claim.given else at_points(claim, built, known.points, known.values)
        text = known.text
    low, high = (np.array([claim.box[name][k] for name in names], dtype=float) for k in (0, 1))
    formula, layer = Formula(text, names), Layer(claim.tensors, len(model["heads"]))

    def errors(points: np.ndarray) -> np.ndarray:
        return np.abs(layer.at_points(points) - formula.at_points(points)).max(axis=1)  # (n,)

    if said["norm"] != "sup":
        return _integral(claim, errors, low, high, float(said["p"]))
    sampled = np.concatenate([spread(low, high, effort), near(formula.numbers, low, high, effort)])
    worst = climb(errors, sampled, low, high, effort)
    found = NOTHING
    for point in worst:
        with bits(BITS):
            balls = [arb(x) for x in point.tolist()]
            pairs = zip(layer.at_ball(balls), formula.at_ball(balls), strict=True)
            share = max(claim.share(a - b) for a, b in pairs)
        inside = all(
            said["domain"][name][0] <= x <= said["domain"][name][1] for name, x in zip(names, point, strict=True)
        )
        cause = "the network is off by more" if inside else "off by more outside the certificate's domain"
        found |= Seen(share, cause, f"{share * claim.bound:.3g} at {point.tolist()}, claimed {claim.bound:.3g}")
    if "stated-exact-part" in claim.given and found.share * claim.bound > said["exact_part"]:
        return NOTHING  # what the verdict is given is false here: nothing follows
    if found.share > 1:
        return found
    return found | runs(claim, built, formula, np.concatenate([worst, sampled[::4]]))


def at_points(claim: Claim, built: sw.Built, points: np.ndarray, values: np.ndarray) -> Seen:
    """A table: the network in real arithmetic, and as it runs, at its points."""
    layer, found = Layer(claim.tensors, len(claim.sections["model"]["heads"])), NOTHING
    run = built.network.evaluate(points, claim.said["engine"])
    for point, row, ran in zip(points.tolist(), values.tolist(), run.tolist(), strict=True):
        with bits(BITS):
            exact = layer.at_ball([arb(x) for x in point])
            shares = [claim.share(a - arb(b)) for a, b in zip(exact, row, strict=True)]
            shares += [claim.share(a - b) for a, b in zip(ran, row, strict=True)]
        found |= Seen(max(shares), "the network is off by more at a point of its table", f"at {point}")
    return found


def runs(claim: Claim, built: sw.Built, formula: Formula, points: np.ndarray) -> Seen:
    """The module as it was loaded, at numbers of its own type."""
    box = np.array([claim.box[name] for name in claim.sections["model"]["box"]], dtype=float)
    cast = points.astype(claim.dtype).astype(float)
    cast = cast[((box[:, 0] <= cast) & (cast <= box[:, 1])).all(axis=1)]
    rough, found, engine = formula.at_points(cast), NOTHING, claim.said["engine"]
    for way in ("sdpa", "factorised") if engine == "any" else (engine,):
        run = built.network.evaluate(cast, way)
        bad = ~np.isfinite(run).all(axis=1)
        if bad.any():
            return Seen(np.inf, "the network runs to no number", f"at {cast[bad][0].tolist()}")
        gaps = np.abs(run - rough).max(axis=1)
        for k in np.argsort(-np.where(np.isnan(gaps), np.inf, gaps))[:6]:
            with bits(BITS):
                wanted = formula.at_ball([arb(x) for x in cast[k].tolist()])
                share = max(claim.share(arb(y) - f) for y, f in zip(run[k].tolist(), wanted, strict=True))
            found |= Seen(share, "the network runs off by more", f"{share:.3g} of the bound at {cast[k].tolist()}")
    return found


def _integral(claim: Claim, errors: Errors, low: np.ndarray, high: np.ndarray, p: float) -> Seen:
    d = len(low)
    count = round(20_000 ** (1 / d))
    unit = np.array(np.meshgrid(*[(np.arange(count) + 0.5) / count] * d)).reshape(d, -1).T
    with np.errstate(all="ignore"):
        mean = np.mean(errors(low + unit * (high - low)) ** p)
    norm = float((mean * np.prod(high - low)) ** (1 / p))
    return Seen(claim.share(norm / 1.02), "the norm is larger", f"{norm:.3g}, claimed {claim.bound:.3g}")
