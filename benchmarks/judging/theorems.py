"""Theorems: what each of them says of its network, from the sizes and what was drawn, as the file holds them.

Floats search and climb over the inputs of a theorem's set (`tasks`); at the worst of them the chain is evaluated in
balls, and run.
`GAPS` are theorems about distances between ids, in digits: long balls compute all of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb

import softwright as sw
from judging.chain import Chain
from judging.claim import BITS, NOTHING, CannotJudge, Claim, Seen, bits
from judging.search import Effort
from judging.tasks import TASKS, Sizes

LONG = 4000  # bits that tell ids apart


def judge(claim: Claim, built: sw.Built, effort: Effort) -> Seen:
    label = claim.target["label"]
    sizes, drawn = claim.target["sizes"], claim.target.get("drawn", {})
    chain = Chain.of(claim)
    if label in GAPS:
        with bits(LONG):
            return GAPS[label](claim, chain, sizes, drawn)
    if label not in TASKS:
        raise CannotJudge(f"theorem {label}")
    try:
        task, rng = TASKS[label](sizes, drawn), np.random.default_rng(effort.seed)
    except KeyError as error:
        raise CannotJudge(f"theorem {label}: the file does not say {error}") from error

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


# --------------------------------------------------------------------------------------- distances of ids: C1, C2, C3


def _apart(outputs: dict[Any, list[Any]]) -> float:
    """-log10 of the least distance between different outputs; infinite where two cannot be told apart."""
    worst = -math.inf
    for one, other in itertools.combinations(outputs.values(), 2):
        gap = max((abs(a - b).lower() for a, b in zip(one, other, strict=True)), key=lambda ball: ball.mid())
        worst = max(worst, float((-(gap.log() / arb(10).log())).upper()) if gap > 0 else math.inf)
    return worst


def _sets(claim: Claim, chain: Chain, s: Sizes, drawn: Sizes) -> Seen:
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


def _contexts(claim: Claim, chain: Chain, s: Sizes, drawn: Sizes) -> Seen:
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


def _hardmax(claim: Claim, chain: Chain, s: Sizes, drawn: Sizes) -> Seen:
    """C3: the token 1 gets one id in both sequences."""
    d, ids = s["dim"], []
    for tokens in ((1, 2, 5, 6), (1, 3, 4, 6)):
        ids.append([row[0] for row in chain.at_ball(np.tile(np.array(tokens) / d, (d, 1)))])
    gap = max(float(abs(a - b).lower()) for a, b in zip(*ids, strict=True))
    return Seen(np.inf if gap > 1e-9 * (1 + claim.bound) and gap > claim.bound else 0.0, "the ids differ", f"{gap:.3g}")


GAPS: dict[str, Callable[[Claim, Chain, Sizes, Sizes], Seen]] = {
    "C1": _sets,
    "C2": _contexts,
    "C3": _hardmax,
}
