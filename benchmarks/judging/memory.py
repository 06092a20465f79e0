"""Memories: the readout gives every key's own label within the bound, also at inputs off the key by its rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb

import softwright as sw
from judging.claim import BITS, NOTHING, ROUNDOFF, Claim, Seen, bits, dot
from judging.search import Effort


def judge(claim: Claim, built: sw.Built, effort: Effort) -> Seen:
    keys, values = (claim.tensors[f"readout.{name}"].astype(float) for name in ("keys", "values"))
    unit, found = ROUNDOFF[claim.dtype], NOTHING
    if claim.target["items"] != len(keys):
        return Seen(np.inf, "the number of items is wrong", f"{claim.target['items']}, stored are {len(keys)}")
    exact = claim.sections["model"]["labels"] == "classes"
    chosen = range(len(keys))
    if len(keys) > effort.samples // 10:
        chosen = np.random.default_rng(effort.seed).choice(len(keys), effort.samples // 10, replace=False).tolist()
    for j in chosen:
        nearest = keys[np.argsort(np.abs(keys - keys[j]).sum(axis=1))[: min(3, len(keys))]]
        for towards in nearest:
            length = float(np.linalg.norm(towards - keys[j])) or 1.0
            with bits(BITS):
                moved = unit * float(np.abs(keys[j]).max()) / length
                pairs = zip(keys[j].tolist(), towards.tolist(), strict=True)
                at = [arb(k) + arb(moved) * (arb(t) - arb(k)) for k, t in pairs]
                attends = claim.sections["model"]["readout"] == "attention"
                out = lookup(claim.tensors, at) if attends else ramps(claim.tensors, at[0])
                gap = max(float(abs(a - arb(v)).lower()) for a, v in zip(out, values[j].tolist(), strict=True))
            detail = f"key {j} gives {[float(a) for a in out]}, its label is {values[j].tolist()}"
            share = gap / 0.5 if exact else claim.share(gap)
            found |= Seen(share, "a key does not give its label", detail)
    return found


def lookup(tensors: dict[str, np.ndarray], at: list[Any]) -> list[Any]:
    keys, halves, values = (tensors[f"readout.{name}"].astype(float) for name in ("keys", "halves", "values"))
    beta = arb(float(tensors["readout.beta"].reshape(())[()]))
    scores = [beta * (dot(k, at) - arb(h)) for k, h in zip(keys.tolist(), halves.tolist(), strict=True)]
    top = arb(max(float(s.mid()) for s in scores))
    weights = [(s - top).exp() for s in scores]
    return [dot(column, weights) / sum(weights, arb(0)) for column in values.T.tolist()]


def ramps(tensors: dict[str, np.ndarray], at: Any) -> list[Any]:
    slopes, offsets, values = (tensors[f"readout.{name}"].astype(float) for name in ("slopes", "offsets", "values"))
    nothing = arb(0)
    rises = [(arb(a) * at + arb(b)).max(nothing) for a, b in zip(slopes.tolist(), offsets.tolist(), strict=True)]
    steps = [(1 - rise).max(nothing) for rise in rises]
    cells = [(a - b).max(nothing) for a, b in zip([*steps, arb(1)], [nothing, *steps], strict=True)]
    return [dot(column, cells) for column in values.T.tolist()]
