"""The bound of one layer of bilinear heads holds where it is hardest, and is void when a weight changes."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.attention.stack import apply_layer
from softwright.errors import InvalidInput
from softwright.methods.prompts import read_prompt
from softwright.methods.step_bound import Asked, Group, Numbers, bilinear_bound


def _layer_error(built: sw.Built, x: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    """The largest error of a coefficient after one gradient layer that starts at w (float64, long double beside it)."""
    stack = built.network
    layer = next(layer for layer in stack.distinct if layer.label == "gradient")
    stream = stack.embed(read_prompt(x, y, None, None, stack.constants, stack.dtype, False))
    f = stack.slots["f"][0]
    fits = torch.tensor(np.einsum("bnd,bd->bn", x, w))
    for name, sign in (("data", 1.0), ("mirror", -1.0)):
        stream[name] = stream[name].clone()
        stream[name][..., f] = sign * fits
    stream["basis"] = stream["basis"].clone()
    stream["basis"][..., f] = torch.tensor(w)
    after = apply_layer(layer, stream)["basis"][..., f].numpy()
    X, F, Y = (np.asarray(v, dtype=np.longdouble) for v in (x, fits.numpy(), y))
    exact = w - np.longdouble(stack.constants.step_size) * np.einsum("bnd,bn->bd", X, F - Y) / x.shape[1]
    return float(np.abs(after - exact).max())


@pytest.mark.parametrize("order", [1, 3, 6])
def test_a_gradient_step_stays_within_its_bound(order: int) -> None:
    built = sw.in_context(
        "least_squares", 3, solver="gradient", intercept=False, steps=1, step_size=0.4, order=order, sample=False
    )
    c = built.network.constants
    rng = np.random.default_rng(order)
    for _ in range(6):
        n = int(rng.integers(2, 60))
        direction = rng.normal(size=(50, 1, 3))
        x = direction * np.sign(rng.normal(size=(50, n, 1)))  # two clusters at the rim: the largest cumulants
        x[25:] = rng.normal(size=(25, n, 3))
        x *= (c.x_bound * (1 - 1e-12)) / np.linalg.norm(x, axis=2, keepdims=True)
        y = c.y_bound * np.sign(x[..., 0])
        w = rng.normal(size=(50, 3))
        w *= c.w_bound * (1 - 1e-12) / np.linalg.norm(w, axis=1, keepdims=True)
        assert _layer_error(built, x, y, w) <= built.certificate.bound


def test_a_penalised_newton_schulz_layer_stays_within_its_bound() -> None:
    """The penalty's heads write to the same slot as those of the data: 60 features and crude heads show it."""
    d = 60
    built = sw.in_context(
        "ridge", d, solver="newton_schulz", penalty=1.0, order=1, angle=0.3, max_rows=4, score_bound=10.0,
        intercept=False, sample=False,
    )  # fmt: skip
    stack = built.network
    layer = next(layer for layer in stack.distinct if layer.label == "newton-schulz")
    rows = np.zeros((1, 4, d))
    stream = stack.embed(read_prompt(rows, rows[..., 0], rows[:, :1], None, stack.constants, stack.dtype, False))
    stream = {name: tokens.clone() for name, tokens in stream.items()}
    z, g = (stack.slots[name][0] for name in ("z", "g"))
    signs = torch.tensor([1.0, -1.0]).repeat(d).double()
    stream["query"][..., z] = 1.0
    stream["unit"][..., z : z + d] = stream["unit"][..., g : g + d] = 0.0
    stream["unit"][..., z], stream["unit"][..., g] = signs, 10.0 * signs
    after = float(apply_layer(layer, stream)["query"][0, 0, z])
    assert abs(after - (2.0 - d * 10.0)) <= built.certificate.bound


def test_the_exact_part_is_not_far_from_the_worst_case() -> None:
    """Two keys t = +-rho with v = +-B make F = B tanh(rho s): the bound is above that error and within a factor 30."""
    delta = 0.08
    group = Group((delta, -delta), (0.5 / delta, -0.5 / delta), 8, 2)
    bound = bilinear_bound(group, Fraction(1), Asked(1.0, 1.0, 2, "float64", 1.0, Numbers(1.0, 1.0)))
    worst = abs(np.tanh(delta) / delta - 1)
    assert worst <= bound.exact <= 30 * worst


def test_more_rows_and_larger_data_never_lower_the_bound() -> None:
    def bound(**bounds: float) -> float:
        options = {"solver": "gradient", "steps": 1, "step_size": 0.1, "score_bound": 400.0, "sample": False, **bounds}
        return sw.in_context("ridge", 3, penalty=0.1, **options).certificate.bound  # pyright: ignore[reportArgumentType]

    base = bound()
    for larger in ({"x_bound": 16.0}, {"y_bound": 16.0}, {"w_bound": 16.0}, {"max_rows": 5000}):
        assert bound(**larger) > base


def test_the_certificate_is_stored_and_void_after_a_change(tmp_path: Path) -> None:
    built = sw.in_context("least_squares", 3, sample=False)
    built.save(tmp_path / "stack.safetensors")
    assert sw.load(tmp_path / "stack.safetensors").certificate == built.certificate
    assert sw.verify(tmp_path / "stack.safetensors").status == "VERIFIED"
    built.network.layer_at(3).Wo.mul_(1.5)
    with pytest.warns(UserWarning, match="weights were changed"):
        built.save(tmp_path / "changed.safetensors")
    assert sw.load(tmp_path / "changed.safetensors").certificate is None
    assert not sw.verify(tmp_path / "changed.safetensors")


def test_scores_beyond_the_radius_are_refused() -> None:
    group = Group((2.0, -2.0), (0.25, -0.25), 8, 2)
    with pytest.raises(InvalidInput, match="score_bound"):
        bilinear_bound(group, Fraction(1), Asked(1.0, 1.0, 2, "float64", 1.0, Numbers(1.0, 1.0)))
