"""Training loops run in autocast: what a network answers there is what it answers elsewhere, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import softwright as sw

HALVES = [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("engine", ["sdpa", "factorised"])
def test_approximations(half: torch.dtype, engine: str) -> None:
    box = sw.Box(x=(-1, 1), y=(-2, 2))
    built = sw.approximate("sin(3*x)*exp(-y**2)", box, tol=3e-4, dtype="float32", certify=False)
    points = torch.tensor(box.sample(500, seed=0), dtype=torch.float32)
    with torch.no_grad():
        outside = built.network(points, engine=engine)
        with torch.autocast("cpu", dtype=half):
            inside = built.network(points, engine=engine)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, outside)


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("engine", ["pruned", "dense"])
@pytest.mark.parametrize("readout", ["attention", "feedforward"])
def test_memories(half: torch.dtype, engine: str, readout: str) -> None:
    stored = [f"a{i} b{i % 7} c" for i in range(40)]
    memory = sw.memorize(stored, list(range(40)), dtype="float32", readout=readout, certify=False)
    outside = memory.network.recall(stored, engine=engine)
    with torch.autocast("cpu", dtype=half):
        inside = memory.network.recall(stored, engine=engine)
    assert list(inside.labels) == list(outside.labels) == list(range(40))
    assert np.array_equal(inside.weight, outside.weight)


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_theorems(half: torch.dtype) -> None:
    network = sw.theorem("B2").build(cells=4, dtype="float32").network
    points = np.random.default_rng(0).uniform(-1, 1, (50, 2, 1))
    outside = network.evaluate(points)
    with torch.autocast("cpu", dtype=half):
        inside = network.evaluate(points)
    assert np.array_equal(inside, outside)
