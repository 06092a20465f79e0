"""Engine "window": within its proved bound of the exact head, on any grid, and the plain formula outside the box."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from softwright.attention import AttentionNetwork, Axis, Head, window
from softwright.attention.window import axis_windows
from softwright.attention.window_numba import available, kernels
from softwright.domain import Box
from tests.attention.random_heads import grid_of


def soft_grid(sizes: list[int], seed: int = 0, affine: bool = False, ratio: float = 1.2) -> Head:
    rng = np.random.default_rng(seed)
    axes = []
    for n in sizes:
        centres = np.linspace(-1.1, 1.1, n)
        beta = 1.0 / (ratio * 2.2 / max(n - 1, 1)) ** 2
        axes.append(Axis(beta * centres, -0.5 * beta * centres**2))
    tokens = math.prod(sizes)
    slopes = np.zeros((tokens, 2, len(sizes)))
    slopes[:, :, 0] = rng.normal(size=(tokens, 2))
    return Head.on_grid(axes, rng.normal(size=(tokens, 2)), slopes if affine else None)


def exactly(head: Head, t: np.ndarray) -> np.ndarray:
    """The head in numbers of 64 digits: far more exact than any bound here."""
    k, b, v, x = (a.astype(np.longdouble) for a in (head.keys, head.biases, head.values, t))
    scores = x @ k.T + b
    w = np.exp(scores - scores.max(axis=1, keepdims=True))
    w = w / w.sum(axis=1, keepdims=True)
    y = w @ v
    if head.slopes is not None:
        y = y + np.einsum("qn,nmd,qd->qm", w, head.slopes.astype(np.longdouble), x)
    return y


def unit_network(head: Head, dtype: torch.dtype = torch.float64) -> AttentionNetwork:
    return AttentionNetwork([head], Box.from_bounds(-np.ones(head.dim), np.ones(head.dim)), dtype)


def points(dim: int, count: int = 60) -> np.ndarray:
    t = np.random.default_rng(dim).uniform(-1, 1, (count, dim))
    t[0], t[1], t[2] = -1.0, 1.0, 0.0
    return t


@pytest.fixture(params=[False, True], ids=["plain", "compiled"])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param and not available():
        pytest.skip("numba is not installed")
    monkeypatch.setattr(window, "available", lambda: request.param)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("sizes", [[1], [7], [200], [40, 30], [1, 60], [12, 9, 15]], ids=str)
@pytest.mark.parametrize("affine", [False, True])
def test_within_the_proved_bound(sizes: list[int], affine: bool) -> None:
    head = soft_grid(sizes, affine=affine)
    network = unit_network(head)
    t = points(len(sizes))
    off = np.abs(network.evaluate(t, engine="window") - exactly(network.heads()[0], t)).max()
    assert off <= network.window_error() < 1e-6


@given(st.data())
def test_any_grid(data: st.DataObject) -> None:
    """Keys in no order, hard or soft: windows may then be as wide as the axis, and are never wrong."""
    sizes = data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=3))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    sharpness = data.draw(st.sampled_from([0.3, 8.0, 300.0]))
    network = unit_network(grid_of(rng, sizes, 1, data.draw(st.booleans()), sharpness))
    t = points(len(sizes), 20)
    off = np.abs(network.evaluate(t, engine="window") - exactly(network.heads()[0], t)).max()
    assert off <= network.window_error()


def test_float32_weights_run_in_float64() -> None:
    network = unit_network(soft_grid([50, 40]), torch.float32)
    t = points(2).astype(np.float32).astype(float)
    off = np.abs(network.evaluate(t, engine="window") - exactly(network.heads()[0], t)).max()
    assert off <= network.window_error() < 1e-2  # float32 biases are rounded sums of those of the axes: that counts


def test_windows_are_narrow_whatever_the_number_of_tokens() -> None:
    kept = []
    for n in (100, 1000, 4000):
        axis = soft_grid([n]).axes[0]
        kept.append(axis_windows(torch.from_numpy(axis.keys), torch.from_numpy(axis.biases)).kept)
    assert max(kept) <= 48


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_outside_the_box_the_plain_formula_runs(dtype: torch.dtype) -> None:
    network = unit_network(soft_grid([60, 50])).to(dtype)
    t = np.concatenate([points(2, 5), [[1.7, 0.2], [-3.0, 5.0], [np.nan, 0.0]]])
    run, plain = network.evaluate(t, engine="window"), network.evaluate(t, engine="factorised")
    assert np.allclose(run[:-1], plain[:-1], rtol=0, atol=1e-9 if dtype == torch.float64 else 1e-3)
    assert np.isnan(run[-1]).all()


def test_gradients_take_the_plain_formula() -> None:
    network = unit_network(soft_grid([9, 8]))
    x = torch.tensor(points(2, 4), requires_grad=True)
    (slope,) = torch.autograd.grad(network(x, engine="window").sum(), x)
    (wanted,) = torch.autograd.grad(network(x, engine="factorised").sum(), x)
    assert torch.equal(slope, wanted)


def test_what_is_no_grid_has_no_bound_and_runs() -> None:
    head = soft_grid([30])
    network = unit_network(Head(head.keys, head.biases, head.values))
    assert network.window_error() == math.inf
    t = points(1)
    assert np.allclose(network.evaluate(t, engine="window"), network.evaluate(t, engine="sdpa"), rtol=0, atol=1e-12)


@pytest.mark.skipif(not available(), reason="needs numba (pip install 'softwright[fast]')")
def test_the_written_exp_is_accurate() -> None:
    x = -np.concatenate([np.linspace(0, 700, 200_001), np.random.default_rng(0).uniform(0, 50, 200_000)])
    found = x.copy()
    kernels()[0](found)
    wanted = np.exp(x.astype(np.longdouble))
    assert np.abs(found / wanted - 1).max() <= 2.5 * 2.0**-53
