"""What the tests of the constructions share: the check that every instance must pass, and mutations that must not."""

from __future__ import annotations

import math

import pytest
import torch

from softwright.theorems.tools.construction import Construction


def check(made: Construction, *, seed: int = 0, n: int = 400) -> float:
    """Observed within the theorem's bound (plus the proved rounding, if the construction proves one)."""
    observed, count = made.observe(seed=seed, n=n)
    assert count > 0
    assert math.isfinite(made.bound)
    assert made.bound >= 0
    assert made.holds(observed, slack=made.rounding or 0.0), f"observed {observed} against {made.bound}"
    return observed


def change(made: Construction, tensor: str, place: tuple[int, ...], amount: float) -> None:
    """Add to one stored number of the network."""
    with torch.no_grad():
        made.network.state_dict()[tensor][place] += amount


def is_caught(made: Construction, *, seed: int = 0, n: int = 400) -> None:
    """The very check that all instances pass refuses this one."""
    with pytest.raises(AssertionError):
        check(made, seed=seed, n=n)
