"""exp in torch's float32 kernels, on the processor that runs this: what proofs assume of it holds.

A stride through all arguments; `benchmarks/exp_accuracy.py` looks at every float32.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from softwright.attention.exp_accuracy import KERNELS, Kernel, arguments, exp_at_zero, measure
from softwright.precision import EXP_ULPS, FLOAT32

_STRIDE = 20_011


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_exp_is_as_exact_here_as_proofs_assume(kernel: Kernel) -> None:
    found = measure(kernel, _STRIDE)
    assert found.arguments > 50_000
    assert found.holds(EXP_ULPS[0]), f"{found}: set SOFTWRIGHT_EXP_ULPS={EXP_ULPS[1]} on this processor"
    assert exp_at_zero()


def test_every_argument_is_looked_at_once() -> None:
    pieces = [x.numpy() for x in arguments(1_000_003)]
    x = np.concatenate(pieces)
    bits = (-x).view(np.uint32).astype(np.int64)
    assert bits[0] == 1 and np.all(np.diff(bits) == 1_000_003) and 88.0 - 8.0 < -float(x[-1]) < 88.0
    assert all(float(piece[0] - piece[-1]) <= 0.11 for piece in pieces)


@pytest.mark.parametrize("ulps", [0.5, 3.0, 5.0, 40.0])
def test_what_is_less_exact_is_seen(ulps: float) -> None:
    def values(x: torch.Tensor) -> np.ndarray:
        return np.exp(x.double().numpy()) * (1.0 + 2.0 * ulps * FLOAT32.unit)

    found = measure(Kernel("worse", values), _STRIDE)
    assert found.ulps == pytest.approx(ulps, rel=1e-6)
    assert [found.holds(known) for known in EXP_ULPS] == [ulps <= known for known in EXP_ULPS]


def test_what_is_lost_too_early_is_seen() -> None:
    def values(x: torch.Tensor) -> np.ndarray:
        true = np.exp(x.double().numpy())
        return np.where(true < 2.0**-120, 0.0, true)

    assert not measure(Kernel("flushing", values), _STRIDE).holds(32)
