"""Evaluation stays within a stated amount of memory: a small run of `benchmarks/memory.py`, with the limit lowered."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from softwright.chunks import arrays_in_chunks, in_chunks, rows_within

BENCHMARK = Path(__file__).resolve().parent.parent / "benchmarks" / "memory.py"
LIMIT = 64 << 20


@pytest.mark.parametrize(("kind", "points"), [("affine 4000", 10_000), ("transpiled", 60_000)])
def test_many_points_take_no_more_than_the_limit(kind: str, points: int) -> None:
    command = [sys.executable, str(BENCHMARK), "--child", kind, "--points", str(points), "--limit", str(LIMIT)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert found["above"] <= LIMIT


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 25])
def test_chunks_change_nothing(count: int) -> None:
    x = torch.arange(2.0 * count).reshape(count, 2)
    seen: list[int] = []

    def run(part: torch.Tensor) -> torch.Tensor:
        seen.append(len(part))
        return part.sum(dim=1, keepdim=True) ** 2

    assert torch.equal(in_chunks(run, x, 10), x.sum(dim=1, keepdim=True) ** 2)
    assert max(seen) <= 10
    assert np.array_equal(arrays_in_chunks(lambda part: part**2, x.numpy(), 10), x.numpy() ** 2)


def test_gradients_pass_through_chunks() -> None:
    x = torch.arange(25.0, requires_grad=True)
    in_chunks(torch.square, x, 10).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, 2 * x.detach())


def test_there_is_always_a_row() -> None:
    assert rows_within(10**12) == 1
    assert rows_within(0) > 1
