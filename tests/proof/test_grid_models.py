"""Models of grid heads by axes: they contain the head that runs, in ball arithmetic, for both engines."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flint import arb

from softwright.attention.head import Axis, Head
from softwright.attention.network import AttentionNetwork
from softwright.domain import Box
from softwright.errors import InvalidInput
from softwright.proof import certify
from softwright.proof.arithmetic.balls import precision
from softwright.proof.arithmetic.series import basis
from softwright.proof.models import grid_head, grid_windows
from softwright.proof.models.exact_heads import exact_heads, float_values
from softwright.proof.models.grid import Grid
from softwright.proof.models.grid_head import head_on_boxes
from softwright.proof.models.taylor_head import tokens_on_boxes
from softwright.proof.search import probe
from tests.proof.prover_support import head_value, model_gap, points_in


def grid_network(
    rng: np.random.Generator, sizes: list[int], *, outputs: int = 1, sloped: int | None = None, hardness: float = 5.0,
    size: float = 1.0, dtype: torch.dtype = torch.float64,
) -> AttentionNetwork:  # fmt: skip
    """A grid head with random axes; biases as they come, so that stored sums are rounded."""
    dim = len(sizes)
    axes = [Axis(np.sort(rng.normal(size=n)) * hardness, rng.normal(size=n) * hardness) for n in sizes]
    tokens = int(np.prod(sizes))
    slopes = None
    if sloped is not None:
        slopes = np.zeros((tokens, outputs, dim))
        slopes[:, :, sloped] = rng.normal(size=(tokens, outputs)) * size
    low = rng.uniform(-3, 3, dim)
    box = Box.from_bounds(low, low + rng.uniform(0.3, 4, dim), [f"x{i}" for i in range(dim)])
    head = Head.on_grid(axes, rng.normal(size=(tokens, outputs)) * size, slopes)
    return AttentionNetwork([head.centred() if rng.integers(2) else head], box, dtype)


@pytest.mark.parametrize("seed", range(30))
def test_models_by_axes_contain_the_head_and_its_run(seed: int) -> None:
    check_models(seed, {2: 8, 3: 5, 4: 4, 5: 3})


def test_models_by_windows_contain_the_head_and_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows so narrow that what the tokens outside weigh is seen: the bounds must know of it."""
    for name, value in (("_MANY", 1), ("_GAIN", 0), ("_SMALLEST_BLOCK", 1)):
        monkeypatch.setattr(grid_windows, name, value)
    found: list[grid_windows.Window] = []

    def windows(grid: Grid, frame: np.ndarray) -> list[grid_windows.Window] | None:
        some = grid_windows.windows(grid, frame)
        found.extend(some or [])
        return some

    monkeypatch.setattr(grid_head, "windows", windows)
    for seed in range(100, 108):
        monkeypatch.setattr(grid_windows, "DEPTH", 1.0 + seed % 3)
        check_models(seed, {2: 16, 3: 7})
    assert sum(window.weight > 1e-3 for window in found) >= 3


def check_models(seed: int, longest: dict[int, int]) -> None:
    """`longest`: variables -> tokens of an axis at most."""
    rng = np.random.default_rng(seed)
    dim, order = int(rng.integers(2, max(longest) + 1)), int(rng.integers(1, 7))
    sizes = [int(n) for n in rng.integers(1, longest[dim] + 1, dim)]
    engine = ("sdpa", "factorised")[seed % 2]
    dtype = torch.float32 if seed % 5 == 0 else torch.float64
    network = grid_network(
        rng, sizes, outputs=int(rng.integers(1, 3)), sloped=int(rng.integers(dim)) if rng.integers(2) else None,
        hardness=10.0 ** rng.uniform(-1, 2.5), size=10.0 ** rng.uniform(-2, 5), dtype=dtype,
    )  # fmt: skip
    head = exact_heads(network, engine)[0]
    shape = basis(dim, order)
    radius = (network.box.halfwidth * 10.0 ** rng.uniform(-4, -0.5, dim)).astype(np.float32).astype(float)
    first = network.box.from_unit(rng.uniform(-0.5, 0.5, dim))
    centers = (first + radius * 2 * rng.integers(-1, 2, (6, dim))).astype(np.float32).astype(float)
    with np.errstate(all="ignore"):
        radii = np.broadcast_to(radius, centers.shape)
        found = head_on_boxes(head, shape, centers, radii, [np.arange(6)], accuracy=1e300)  # never all tokens
    with precision(200):
        for b in range(len(centers)):
            points = np.array([*points_in(rng, centers[b], radius, 2)])
            points = np.clip(points, centers[b] - radius, centers[b] + radius)
            for point in points:
                run_at = point.astype(np.float32).astype(float) if dtype is torch.float32 else point
                ran = network.evaluate(run_at[None], engine=engine)[0]
                inside = np.all(np.abs(run_at - centers[b]) <= radius)
                exact = head_value(head, run_at)
                for o, (model, value) in enumerate(zip(found.models, head_value(head, point), strict=True)):
                    gap = model_gap(model, b, centers[b], radius, point, value=value)
                    assert not gap > arb(float(np.nan_to_num(model.remainder[b], nan=np.inf)))
                    assert not abs(value) > arb(float(found.size[o, b]))
                    if inside:
                        error = abs(exact[o] - arb(float(ran[o])))
                        assert not error > arb(float(found.rounding[o, b])), (error, found.rounding[o, b])


def test_axes_are_sharper_than_all_tokens_and_fall_back_where_noise_decides() -> None:
    rng = np.random.default_rng(5)
    network = grid_network(rng, [4, 5, 4], hardness=3.0)
    head = exact_heads(network, "sdpa")[0]
    shape = basis(3, 6)
    centers = np.repeat(network.box.center[None], 2, axis=0)
    radii = np.repeat(0.2 * network.box.halfwidth[None], 2, axis=0)
    groups = [np.array([0]), np.array([1])]
    with np.errstate(all="ignore"):
        by_axes = head_on_boxes(head, shape, centers, radii, groups, accuracy=1e-6)
        by_tokens = tokens_on_boxes(head, shape, centers, radii, groups, accuracy=1e-6)
        exacting = head_on_boxes(head, shape, centers, radii, groups, accuracy=1e-15)
        tokens = tokens_on_boxes(head, shape, centers, radii, groups, accuracy=1e-15)
    assert np.all(by_axes.models[0].remainder < 0.5 * by_tokens.models[0].remainder)
    np.testing.assert_array_equal(exacting.models[0].coefficients, tokens.models[0].coefficients)


def test_keys_that_are_no_grid_are_not_taken_for_one() -> None:
    network = grid_network(np.random.default_rng(1), [3, 4])
    head = next(iter(network.layer))
    with torch.no_grad():
        head.keys[5, 0] += 1.0
    assert exact_heads(network, "sdpa")[0].grid is None
    assert exact_heads(network, "factorised")[0].grid is not None  # reads the edges alone


@pytest.mark.parametrize("engine", ["window", "tree"])
def test_engines_without_certificate_are_refused_with_what_bounds_them(engine: str) -> None:
    network = grid_network(np.random.default_rng(1), [3, 4])
    with pytest.raises(InvalidInput, match=rf"no certificate speaks of engine '{engine}'.*network\.{engine}_error\(\)"):
        certify(network, "x0 + x1", bound=1.0, engine=engine)


@pytest.mark.parametrize("engine", ["sdpa", "factorised"])
def test_four_variables_are_proved_and_false_claims_are_not(engine: str) -> None:
    line = Axis(np.array([-1.2, 0.0, 1.2]), np.array([-0.6, 0.0, -0.6]))
    x = np.linspace(-1, 1, 60)
    weights = line.weights(x)
    v = np.linalg.lstsq(weights, np.exp(-(x**2) / 2), rcond=None)[0]
    box = Box(a=(-1, 1), b=(-1, 1), c=(-1, 1), d=(-1, 1))
    values = np.multiply.outer(np.multiply.outer(v, v), np.multiply.outer(v, v)).reshape(-1, 1)
    network = AttentionNetwork([Head.on_grid([line] * 4, values)], box)
    text = "exp(-(a**2 + b**2 + c**2 + d**2)/2)"
    found = certify(network, text, tightness=0.1, engine=engine)
    assert found.proved and found.bound <= 1.1001 * found.lower + 1e-9
    assert not certify(network, text, bound=0.99 * found.lower, engine=engine).proved


@pytest.mark.parametrize("sizes", [[4, 3], [2, 5, 3]], ids=str)
def test_samples_of_a_grid_are_those_of_all_its_tokens(sizes: list[int]) -> None:
    network = grid_network(np.random.default_rng(1), sizes, outputs=2)
    points = network.box.sample(50, 0)
    for engine in ("sdpa", "factorised"):
        found = float_values(exact_heads(network, engine), points)
        assert np.abs(found - network.evaluate(points)).max() < 1e-12


def test_leading_tokens_are_found_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, steps = np.random.default_rng(2), np.linspace(0, 1, 9)
    slope, bias = rng.normal(size=50), rng.normal(size=50)
    monkeypatch.setattr(probe, "_AT_ONCE", 7)
    assert np.array_equal(probe._leading(steps, slope, bias), np.argmax(np.outer(steps, slope) + bias, axis=1))
    network = grid_network(rng, [5, 4])
    head = exact_heads(network, "sdpa")[0]
    start, end = network.box.sample(2, 0)
    t = (start + steps[:, None] * (end - start) - head.center) * head.scale
    assert head.grid is not None
    found = probe._on_axes(head, head.grid, start, end, steps)
    assert np.array_equal(found, np.argmax(t @ head.keys.T + head.bias, axis=1))
