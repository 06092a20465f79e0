"""Stacks that compute a formula: |network - formula| <= bound everywhere, in real arithmetic and as the module runs.

The stack is evaluated from its tensors by the documented equation, over the whole sequence in every layer,

    x  <-  x + sum_h softmax((x Wq_h) (X Wk_h)^T) (X Wv_h) Wo_h,      X = [x, fixed tokens],

without knowing which heads are tables or gates; floats search, balls decide. In real arithmetic the error must stay
within the exact part alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from flint import arb, arb_mat

import softwright as sw
from judging.claim import BITS, NOTHING, CannotJudge, Claim, Seen, bits
from judging.formulas import Formula
from judging.search import Effort, climb, spread


class Stack:
    """The tensors, layer by layer as the model's program says."""

    def __init__(self, tensors: dict[str, np.ndarray], model: dict[str, Any]) -> None:
        numbers = {name: array.astype(np.float64) for name, array in tensors.items()}
        self.base, self.embed = numbers["base_data"], numbers["embed_data"]
        self.bank, self.read = numbers["base_bank"], numbers["read"]
        self.layers = [
            [numbers[f"layers.{place}.{kind}"] for kind in ("Wq", "Wk", "Wv", "Wo")] for place in model["program"]
        ]

    def at_points(self, points: np.ndarray) -> np.ndarray:
        """(n, d) -> (n, m)"""
        x = points @ self.embed + self.base
        for Wq, Wk, Wv, Wo in self.layers:
            added = np.zeros_like(x)
            for q, k, v, o in zip(Wq, Wk, Wv, Wo, strict=True):
                query = x @ q  # (n, 2)
                own, fixed = np.einsum("nk,nk->n", query, x @ k), query @ (self.bank @ k).T
                scores = np.concatenate([own[:, None], fixed], axis=1)
                weights = np.exp(scores - scores.max(axis=1, keepdims=True))
                weights /= weights.sum(axis=1, keepdims=True)
                mixed = weights[:, :1] * (x @ v) + weights[:, 1:] @ (self.bank @ v)
                added += mixed @ o
            x = x + added
        return x @ self.read

    def at_ball(self, point: list[Any]) -> list[Any]:
        x = _balls(np.zeros((1, len(point))))
        for i, value in enumerate(point):
            x[0, i] = value
        x = x * _balls(self.embed) + _balls(self.base)
        for Wq, Wk, Wv, Wo in self.layers:
            new = x
            for q, k, v, o in zip(Wq, Wk, Wv, Wo, strict=True):
                query, key, value = x * _balls(q), x * _balls(k), x * _balls(v)
                # Fixed tokens are exact: products with their codes in floats would round.
                keys = arb_mat([key.tolist()[0], *(_balls(self.bank) * _balls(k)).tolist()])
                values = arb_mat([value.tolist()[0], *(_balls(self.bank) * _balls(v)).tolist()])
                scores = (query * keys.transpose()).tolist()[0]
                top = arb(max(float(s.mid()) for s in scores))
                weights = arb_mat([[(s - top).exp() for s in scores]])
                whole = sum(weights.tolist()[0], arb(0))
                new = new + (weights * values) * _balls(o) * (1 / whole)
            x = new
        return (x * _balls(self.read)).tolist()[0]


def _balls(array: np.ndarray) -> Any:
    return arb_mat([[arb(float(entry)) for entry in row] for row in array])


def judge(claim: Claim, built: sw.Built, effort: Effort) -> Seen:
    model, names = claim.sections["model"], list(claim.sections["model"]["box"])
    if claim.target["kind"] != "expression":
        raise CannotJudge("a stack that is compared with something else than a formula")
    formula, stack = Formula(claim.target["text"], names), Stack(claim.tensors, model)
    low, high = (np.array([claim.box[name][k] for name in names], dtype=float) for k in (0, 1))

    def errors(points: np.ndarray) -> np.ndarray:
        return np.abs(stack.at_points(points) - formula.at_points(points)).max(axis=1)

    sampled = spread(low, high, effort)
    worst = climb(errors, sampled, low, high, effort)
    found = NOTHING
    for point in worst[:2]:
        with bits(BITS):
            balls = [arb(x) for x in point.tolist()]
            pairs = list(zip(stack.at_ball(balls), formula.at_ball(balls), strict=True))
            off = max(float(abs(a - b).lower()) if (a - b).is_finite() else 0.0 for a, b in pairs)
        exact = float(claim.said["exact_part"])
        share = off / exact if exact > 0 else (np.inf if off > 0 else 0.0)
        found |= Seen(share, "the stack is off by more", f"{off:.3g} at {point.tolist()}, claimed {exact:.3g}")
    return found if found.share > 1 else found | _runs(claim, built, formula, np.concatenate([worst, sampled[::4]]))


def _runs(claim: Claim, built: sw.Built, formula: Formula, points: np.ndarray) -> Seen:
    """The module as it was loaded, with tokens left out that have no weight, and over the whole sequence."""
    box = np.array([claim.box[name] for name in claim.sections["model"]["box"]], dtype=float)
    cast = points.astype(claim.dtype).astype(float)
    cast = cast[((box[:, 0] <= cast) & (cast <= box[:, 1])).all(axis=1)]
    rough, found = formula.at_points(cast), NOTHING
    tensor = torch.tensor(cast).to(getattr(torch, claim.dtype))
    with torch.no_grad():
        runs = built.network(tensor).double().numpy(), built.network.whole_sequence(tensor[:300]).double().numpy()
    for run in runs:
        bad = ~np.isfinite(run).all(axis=1)
        if bad.any():
            return Seen(np.inf, "the network runs to no number", f"at {cast[: len(run)][bad][0].tolist()}")
        gaps = np.abs(run - rough[: len(run)]).max(axis=1)
        for k in np.argsort(-np.where(np.isnan(gaps), np.inf, gaps))[:4]:
            with bits(BITS):
                wanted = formula.at_ball([arb(x) for x in cast[k].tolist()])
                share = max(claim.share(arb(y) - f) for y, f in zip(run[k].tolist(), wanted, strict=True))
            found |= Seen(share, "the network runs off by more", f"{share:.3g} of the bound at {cast[k].tolist()}")
    return found
