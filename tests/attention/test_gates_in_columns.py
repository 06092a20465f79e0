"""Many points of gates run with points as columns: within the certificate, and only where nobody watches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.attention import gates_in_columns

PRODUCTS = ("x*y - 0.3*x", "exp(-x*y) + x**2", "max(x, y**2)")


@pytest.mark.parametrize("text", PRODUCTS)
def test_columns_stay_within_the_bound_and_equal_the_module(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    box = sw.Box(x=(-1, 1), y=(-2, 1))
    built = sw.approximate(text, box, tol=1e-5, strategy="compose")
    if any(built.network.tables):
        pytest.skip("has tables, which run by the module")
    points = box.sample(5001, 3)
    module = built(points)
    monkeypatch.setattr(gates_in_columns, "MANY", 100)
    monkeypatch.setattr(gates_in_columns, "_AT_ONCE", 700)  # the last part is a smaller one
    monkeypatch.setattr(type(built.network), "forward", _refused)
    columns = built(points)
    wanted = np.asarray(built.source(points)).reshape(columns.shape)
    assert np.abs(columns - wanted).max() <= built.certificate.bound
    assert np.abs(columns - module).max() <= 2 * built.certificate.rounding_part


def test_a_hook_sees_the_call_of_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    built = sw.approximate("x*y", sw.Box(x=(-1, 1), y=(-1, 1)), tol=1e-5, strategy="compose")
    monkeypatch.setattr(gates_in_columns, "MANY", 10)
    seen: list[torch.Size] = []
    handle = built.network.register_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    built(np.zeros((20, 2)))
    handle.remove()
    built(np.zeros((20, 2)))
    assert seen == [torch.Size([20, 1])]


def _refused(*_: object) -> torch.Tensor:
    raise AssertionError("the module ran")
