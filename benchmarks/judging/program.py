"""Programs over sequences: at every token of every sequence within the bound of what the text says.

The text is read by Python's own parser (tests/programs/plain_python.py); the network runs as it was loaded, on random
sequences, equal elements, ends of ranges and near ties, of all lengths.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

import softwright as sw
from judging.claim import NOTHING, Claim, Seen
from judging.search import Effort
from softwright.programs.fields import Sequence

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.programs.plain_python import Plain

PYTHON = Fraction(1, 10**12)  # what functions of floats may err by, relatively
RUNS = 48


def drawn(tokens: Sequence, count: int, seed: int, dtype: str) -> Iterator[dict[str, list[Any]]]:
    """Sequences by field; reals are numbers of the dtype."""
    rng = np.random.default_rng(seed)
    for trial in range(count):
        n = tokens.longest if trial % 4 == 0 else int(rng.integers(tokens.shortest, tokens.longest + 1))
        rows: dict[str, list[Any]] = {}
        for name, field in tokens.fields.items():
            if field.kind != "real":
                rows[name] = [int(c) for c in rng.choice(tokens.codes(name), n)]
                continue
            values = rng.uniform(field.low, field.high, n)
            if trial % 3 == 1:
                values = rng.choice([field.low, field.high], n)
            elif trial % 6 == 2:
                values = values[0] + 1e-4 * rng.integers(-1, 2, n)
            rows[name] = np.clip(values, field.low, field.high).astype(dtype).astype(float).tolist()
        yield {name: [row[0]] * n for name, row in rows.items()} if trial % 5 == 3 else rows


def judge(claim: Claim, built: sw.Built, effort: Effort) -> Seen:
    text, tokens = claim.target["text"], Sequence.rebuilt(claim.target["tokens"])
    bound, found = Fraction(claim.said["bound"]), NOTHING
    for rows in drawn(tokens, RUNS, effort.seed, claim.dtype):
        wanted = Plain(text, {k: [Fraction(v) for v in row] for k, row in rows.items()}, tokens.symbols).outputs
        x = torch.tensor([rows[name] for name in tokens.names], dtype=torch.float64).T[None].to(built.network.dtype)
        with torch.no_grad():
            values = built.network(x)[0].double().numpy()
        if not np.isfinite(values).all():
            return Seen(np.inf, "the network runs to no number", f"at {rows}")
        for row, got in zip(wanted, values, strict=True):
            for one, number in zip(row, got, strict=True):
                off, exact = abs(Fraction(float(number)) - Fraction(one)), Fraction(one).denominator == 1
                off -= 0 if exact else PYTHON * max(1, abs(Fraction(one)))
                share = float(off / bound) if bound else (np.inf if off > 0 else 0.0)
                found |= Seen(share, "the program is off by more", f"{float(off):.3g} at {rows}")
    return found
