"""Grid heads in the checker: models by axes contain the head, what runs stays within the rounding bound."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flint import arb, ctx

from softwright.attention.head import Axis, Head
from softwright.attention.network import AttentionNetwork
from softwright.checker import grid
from softwright.checker.grid import GridView, sides_of
from softwright.checker.head import Head as CheckedHead
from softwright.checker.precision import precision_of
from softwright.checker.taylor import Space
from softwright.domain import Box


def exact_value(head: CheckedHead, t: list[arb], output: int) -> arb:
    """The head straight from its definition."""
    scores = [
        sum((arb(float(k)) * x for k, x in zip(row, t, strict=True)), b)
        for row, b in zip(head.keys, head.bias, strict=True)
    ]
    weights = [(s - max(scores, key=float)).exp() for s in scores]
    values = [arb(float(v)) for v in head.values[:, output]]
    for n, i in enumerate(head.sloped):
        values = [v + arb(float(g)) * t[i] for v, g in zip(values, head.slopes[:, output, n], strict=True)]
    return sum((w * v for w, v in zip(weights, values, strict=True)), arb(0)) / sum(weights, arb(0))


@pytest.mark.parametrize("seed", range(24))
def test_models_by_axes_contain_the_head_and_its_run(seed: int) -> None:
    assert not check_models(seed, {2: 7, 3: 5, 4: 3}, None)


def test_models_by_windows_contain_the_head_and_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows so narrow that what the tokens outside weigh is seen: the bounds must know of it."""
    monkeypatch.setattr(grid, "WIDER", 0.0)
    windows = [check_models(seed, {2: 14, 3: 7}, (0.3, 0.05, 1e-3)[seed % 3]) for seed in range(100, 112)]
    assert sum(windows) >= 12


def check_models(seed: int, longest: dict[int, int], smallest: float | None) -> int:
    """`longest`: variables -> tokens of an axis at most; `smallest`: weight below which tokens are left out. Returns on
    how many boxes some were."""
    rng = np.random.default_rng(seed)
    dim, degree = int(rng.integers(2, max(longest) + 1)), int(rng.integers(2, 6))
    sizes = [int(n) for n in rng.integers(1, longest[dim] + 1, dim)]
    N, m, by_axes = int(np.prod(sizes)), int(rng.integers(1, 3)), bool(seed % 2)
    dtype = torch.float32 if seed % 3 == 0 else torch.float64
    hardness, size = 10.0 ** rng.uniform(-1, 2), 10.0 ** rng.uniform(-2, 4)
    axes = [Axis(np.sort(rng.normal(size=n)) * hardness, rng.normal(size=n) * hardness) for n in sizes]
    slopes = None
    if rng.integers(2):
        slopes = np.zeros((N, m, dim))
        slopes[:, :, int(rng.integers(dim))] = rng.normal(size=(N, m)) * size
    box = Box.from_bounds([-1.0] * dim, [1.0] * dim, [f"x{i}" for i in range(dim)])
    network = AttentionNetwork([Head.on_grid(axes, rng.normal(size=(N, m)) * size, slopes)], box, dtype)
    module = next(iter(network.layer))
    names = ("keys", "biases", "values") if slopes is None else ("keys", "biases", "values", "slopes")
    data = {name: getattr(module, name).numpy() for name in names}
    precision = precision_of("float32" if dtype is torch.float32 else "float64")
    head = CheckedHead(data, sizes if by_axes else None, list(range(dim)), precision)
    head.measure(np.ones(dim), np.ones(dim))
    sides = sides_of(head, sizes)
    assert sides is not None and (by_axes or dtype is torch.float64 or sides.off.max() > 0 or sizes.count(1) >= dim - 1)
    space, before, narrower = Space(dim, degree), ctx.prec, 0
    ctx.prec = 160
    try:
        for _ in range(3):
            c = np.round(rng.uniform(-0.5, 0.5, dim) * 64) / 64
            r = 2.0 ** -rng.integers(1, 9, dim)
            frame = [arb(float(x)) for x in c], [arb(float(x)) for x in r]
            with np.errstate(all="ignore"):
                view = GridView(sides) if smallest is None else GridView(sides).narrowed(*frame, smallest)
                (found,) = view.on_boxes(space, [frame], 1e-300)
            narrower += len(view.sides.index) < N
            models, rounding, moduli = found
            s = np.concatenate([np.round(rng.uniform(-1, 1, (2, dim)) * 8) / 8, np.sign(rng.normal(size=(2, dim)))])
            engine = "factorised" if by_axes else "sdpa"
            ran = network.evaluate(c + r * s, engine=engine)
            for point, outputs in zip(s, ran, strict=True):
                t = [arb(float(a + b * x)) for a, b, x in zip(c, r, point, strict=True)]
                monomials = space.powers([arb(float(x)) for x in point])
                for o, model in enumerate(models):
                    value = exact_value(head, t, o)
                    polynomial = sum(map(arb.__mul__, space.coefficients(model.parts), monomials), arb(0))
                    assert not abs(value - polynomial) > model.error
                    assert not abs(value) > arb(moduli[o])
                    assert not abs(value - arb(float(outputs[o]))) > arb(rounding[o])
    finally:
        ctx.prec = before
    return narrower


def test_tokens_that_are_no_grid_are_told_apart() -> None:
    axes = [Axis(np.array([-1.0, 1.0]), np.zeros(2)), Axis(np.array([-2.0, 0.0, 1.0]), np.array([0.1, 0.0, 0.3]))]
    head = Head.on_grid(axes, np.arange(6.0)[:, None])
    data = {"keys": head.keys.copy(), "biases": head.biases.copy(), "values": head.values}
    checked = CheckedHead(data, None, [0, 1], precision_of("float64"))
    assert sides_of(checked, [2, 3]) is not None
    for sizes in ([3, 2], [6, 1], [6], [2, 2], None):  # what a file may say of itself
        assert sides_of(checked, sizes) is None
    data["keys"][4, 1] += 1e-9
    assert sides_of(CheckedHead(data, None, [0, 1], precision_of("float64")), [2, 3]) is None
    data["keys"], data["biases"] = head.keys, head.biases + np.array([0, 0, 0, 0, 0.5, 0])
    assert sides_of(CheckedHead(data, None, [0, 1], precision_of("float64")), [2, 3]) is None
