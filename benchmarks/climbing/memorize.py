"""Memories of tokens, vectors and sets, with labels of every kind: every stored item recalls its own, in both engines.

The nearest strangers, sequences that differ from a stored one in one place, must not be taken for a stored one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from judging.claim import Claim, Seen

import softwright as sw
from climbing.job import Job
from softwright.errors import SoftwrightError


def draw(rng: np.random.Generator) -> Job | None:
    dtype, readout = str(rng.choice(["float64", "float32"])), str(rng.choice(["attention", "feedforward"]))
    count, length, words = int(rng.integers(2, 40)), int(rng.integers(1, 6)), int(rng.integers(3, 12))
    vectors, positional = rng.random() < 0.25, bool(rng.random() < 0.8)
    if vectors:
        sequences: Any = rng.normal(size=(count, length, 2)).tolist()
    else:
        drawn = {tuple(rng.integers(0, words, int(rng.integers(1, length + 1))).tolist()) for _ in range(count)}
        if not positional:
            drawn = {tuple(sorted(row)) for row in drawn}
        sequences = [list(row) for row in sorted(drawn)]
    n = len(sequences)
    labels: Any = (rng.normal(size=n) * 10.0 ** rng.uniform(-3, 3)).tolist()
    if rng.random() < 0.4:
        labels = [f"class {k}" for k in rng.integers(0, 5, n)]
    elif rng.random() < 0.3:
        labels = rng.normal(size=(n, 2)).tolist()
    rank: dict[str, Any] = {"rank": 2} if rng.random() < 0.3 else {}
    try:
        built = sw.memorize(sequences, labels, dtype=dtype, readout=readout, positional=positional, **rank)
    except SoftwrightError:  # sets that cannot be told apart, or too close for float32
        return None

    def further(claim: Claim, loaded: sw.Built) -> Seen:
        return _recall(claim, loaded, sequences, labels) | _strangers(loaded, rng, sequences, words, positional)

    what = f"{n} {'vectors' if vectors else 'sequences'} by {readout}, {dtype}"
    return Job(what, built, further=further)


def _recall(claim: Claim, loaded: sw.Built, sequences: Any, labels: Any) -> Seen:
    worst = Seen(0.0)
    for engine in ("pruned", "dense"):
        found = loaded.network.recall(sequences, engine=engine)
        if isinstance(labels[0], str):
            wrong = [k for k, (a, b) in enumerate(zip(found.labels, labels, strict=True)) if a != b]
            share, where = (np.inf, wrong[0]) if wrong else (0.0, 0)
        else:
            gaps = np.abs(
                np.asarray(found.labels, dtype=float).reshape(len(labels), -1)
                - np.array(labels).reshape(len(labels), -1)
            )
            where = int(np.argmax(gaps.max(axis=1)))
            share = claim.share(float(gaps.max()))
        worst |= Seen(share, f"a stored item is not recalled ({engine})", f"item {where}, {share:.3g} of the bound")
        if not np.all(found.known):
            worst |= Seen(
                np.inf, f"a stored item is taken for a stranger ({engine})", f"item {int(np.argmin(found.known))}"
            )
    return worst


def _strangers(loaded: sw.Built, rng: np.random.Generator, sequences: Any, words: int, positional: bool) -> Seen:
    if not isinstance(sequences[0][0], int):
        return Seen(0.0)
    stored = {tuple(row if positional else sorted(row)) for row in sequences}
    near = []
    for row in sequences[:20]:
        other = list(row)
        other[int(rng.integers(len(row)))] = int(rng.integers(0, words))
        if tuple(other if positional else sorted(other)) not in stored:
            near.append(other)
    if not near:
        return Seen(0.0)
    for engine in ("pruned", "dense"):
        known = np.asarray(loaded.network.recall(near, engine=engine).known)
        if known.any():
            return Seen(np.inf, f"a stranger is taken for a stored item ({engine})", str(near[int(np.argmax(known))]))
    return Seen(0.0)
