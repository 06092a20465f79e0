"""Torch values, accurate over the whole domain and differentiable, of functions that torch lacks or rounds badly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from softwright.targets import special

Tensor = torch.Tensor
Function = Callable[[Tensor], Tensor]


def with_slope(values: Function, slope: Function) -> Function:
    """The function `values` whose gradient is computed by `slope`."""

    class Composed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Tensor:
            ctx.save_for_backward(*args)
            return values(*args)

        @staticmethod
        def backward(ctx: Any, *grad_outputs: Any) -> Tensor:
            (x,) = ctx.saved_tensors
            return grad_outputs[0] * slope(x)

    return Composed.apply


def _by_scipy(function: Callable[[Any], Any], x: Tensor) -> Tensor:
    """Values by SciPy, on the processor and in float64, returned where and as x is."""
    values = function(x.detach().to("cpu", torch.float64).numpy())
    return torch.as_tensor(values).to(x)


def _cube_root(x: Tensor) -> Tensor:
    size = x.abs()
    guess = size ** (1.0 / 3.0)  # 1/3 is not a float: far from 1 this is some fifty ulps off, which a Newton step mends
    safe = torch.where(size == 0.0, torch.ones_like(x), guess)
    better = safe - (safe - size / (safe * safe)) / 3.0
    return torch.copysign(torch.where((size == 0.0) | torch.isinf(size), guess, better), x)


cbrt = with_slope(_cube_root, lambda x: 1.0 / (3.0 * cbrt(x) ** 2))


def gamma(x: Tensor) -> Tensor:
    """gamma(x) = gamma(x + 1)/x keeps the digits that log gamma loses near 0."""
    small = x < 1.0
    lifted = torch.exp(torch.lgamma(torch.where(small, x + 1.0, x)))
    return torch.where(x > 0.0, torch.where(small, lifted / x, lifted), torch.full_like(x, math.nan))


def lgamma(x: Tensor) -> Tensor:
    return torch.where(x > 0.0, torch.lgamma(x), torch.full_like(x, math.nan))


def softplus(x: Tensor) -> Tensor:
    return torch.logaddexp(x, torch.zeros_like(x))  # torch's own softplus drops log(1 + e^-x) beyond 20


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * torch.erfc(-x * math.sqrt(0.5))  # torch's own takes 1 + erf, which cancels for negative x


def bessel(order: int, x: Tensor) -> Tensor:
    """By SciPy: torch's own bessel_j0 and bessel_j1 are off by 1e-6 between 5 and 8."""
    plain = {0: special.j0, 1: special.j1}
    values = plain.get(order, lambda t: special.jv(order, t))

    def slope(x: Tensor) -> Tensor:
        return 0.5 * (bessel(order - 1, x) - bessel(order + 1, x))

    return with_slope(lambda x: _by_scipy(values, x), slope)(x)


def spherical(order: int, x: Tensor) -> Tensor:
    def slope(x: Tensor) -> Tensor:
        below = order * spherical(order - 1, x) if order else 0.0
        return (below - (order + 1) * spherical(order + 1, x)) / (2 * order + 1)

    return with_slope(lambda x: _by_scipy(lambda t: special.spherical_jn(order, t), x), slope)(x)


def _sine_over(x: Tensor) -> Tensor:
    safe = torch.where(x == 0.0, torch.ones_like(x), x)
    return torch.where(x == 0.0, torch.ones_like(x), torch.sin(safe) / safe)


sinc = with_slope(_sine_over, lambda x: -spherical(1, x))
