"""Softmax over tokens whose scores are so simple that it has a closed form: the weights that torch.softmax makes, in
fewer operations. Everything else of a head, and what is proved of it, stays as it is.

*Pairs.* Two tokens with scores k_0 s and k_1 s, k_1 - k_0 a number of the type: w_1 = 1/(1 + e^{-(k_1 - k_0) s}), w_0 =
1 - w_1, so values are mixed as v_0 + (v_1 - v_0) w_1. Of relu, silu, sigmoid, tanh and leaky relu this is one sigmoid.

*Even tokens* (GELU, softplus). p keys, evenly spaced by D and symmetric, with symmetric biases, offsets u and slopes v
and 1 - v: relative to the edge token on the side of s, m steps away from it a token has the weight

    e^{b_m - b_0} y^m,     y = e^{-D |s|} <= 1,

so that one exp makes all weights: powers of y are products, at most two of each other. With Z, U, V the sums of these
weights times 1, u_m and v_m over the tokens counted from the left, g(s) = (U + V s)/Z for s < 0, and for s >= 0, where
slopes are 1 - v_m, g(s) = (U + (Z - V) s)/Z; both are

    g(s) = max(s, 0) + (U - V |s|)/Z.

y = 1 + d for y changes the weight of m by m d; relative to token r, which leads, that is (m - r) d. Products are
rounded, and of two powers what both hold cancels (`power_slips`). Z >= 1, so what underflow takes is small beside it.
How much all this is, is in `unit_bounds.py`, and in the checker.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from softwright.precision import PRECISIONS, name_of
from softwright.settings import derivatives_taken, looked_through

_FEWEST = 6  # tokens for which powers are worth their operations
_HIGHEST = 60.0  # of the biases' range: e^60 is a number of every type


def power_steps(tokens: int) -> list[tuple[int, int]]:
    """(m, end): the powers m + 1 .. end of y are those from 1 on times power m."""
    steps, m = [], 1
    while m < tokens - 1:
        steps.append((m, min(2 * m, tokens - 1)))
        m = steps[-1][1]
    return steps


@dataclass(frozen=True, eq=False)
class EvenTokens:
    """D, and the coefficients (3, p) of y^m in Z, U and V, m counted from the left."""

    spacing: float
    coefficients: np.ndarray

    @classmethod
    def of(cls, table: np.ndarray) -> EvenTokens | None:
        """That of tokens (4, p) as stored; None if they are not even, to the last digit."""
        k, b, v, u = table
        if len(k) < _FEWEST or not np.isfinite(table).all() or not k[-1] > 0:
            return None
        spacing = float(k[-1] - k[-2])
        mirrored = all(np.array_equal(x, y[::-1]) for x, y in ((k, -k), (b, b), (u, u), (v, 1.0 - v)))
        asymptotes = v[0] == 0.0 and u[0] == 0.0
        if not (mirrored and asymptotes and np.all(np.diff(k) == spacing) and np.all(np.abs(b - b[0]) <= _HIGHEST)):
            return None
        weights = np.exp(b - b[0])
        return cls(spacing, np.stack([weights, weights * u, weights * v]))


def derived(s: Tensor) -> bool:
    """Whether derivatives are being taken: max(s, 0) and |s| have none at 0, where g has one."""
    return (torch.is_grad_enabled() and s.requires_grad) or derivatives_taken()


def by_powers(s: Tensor, even: EvenTokens) -> Tensor:
    """The head of even tokens at every entry of s."""
    flat = s.reshape(-1)  # (n,)
    coefficients = torch.tensor(even.coefficients, dtype=s.dtype, device=s.device)  # (3, p)
    p = coefficients.shape[1]
    powers = flat.new_empty(p, len(flat))
    powers[0] = 1.0
    size = flat.abs()
    torch.mul(size, -even.spacing, out=powers[1])
    powers[1].exp_()
    for m, end in power_steps(p):
        torch.mul(powers[1 : end - m + 1], powers[m], out=powers[m + 1 : end + 1])
    total, offset, slope = coefficients @ powers
    return torch.addcmul(offset, slope, size, value=-1).div_(total).add_(flat.clamp_min(0.0)).reshape(s.shape)


@dataclass(frozen=True)
class Pair:
    """Two tokens with scores 0 and rate s, up to what they share, and their slopes and offsets."""

    rate: float
    slopes: tuple[float, float]
    offsets: tuple[float, float]

    @classmethod
    def of(cls, table: list[list[float]]) -> Pair | None:
        """That of tokens as stored, where scores have no biases and keys differ by a number of the type."""
        (k, b, v, u) = table
        if len(k) != 2 or any(b) or not (k[0] == 0.0 or k[1] == 0.0 or k[0] == -k[1]):
            return None
        if not all(first == 0.0 or max(abs(first), abs(second)) <= 1.0 for first, second in (v, u)):
            return None  # second - first would be rounded by more than what it is mixed to
        return cls(k[1] - k[0], (v[0], v[1]), (u[0], u[1]))


def by_sigmoid(s: Tensor, pair: Pair) -> Tensor:
    """The head of two tokens at every entry of s."""
    weight = torch.sigmoid(s if pair.rate == 1.0 else s * pair.rate)
    slope, offset = _mixed(weight, *pair.slopes), _mixed(weight, *pair.offsets)
    if slope is None:
        return torch.zeros_like(s) if offset is None else offset
    return slope * s if offset is None else torch.addcmul(offset, slope, s)


def _mixed(weight: Tensor, first: float, second: float) -> Tensor | None:
    """(1 - w) first + w second"""
    if first == 0.0:
        return None if second == 0.0 else weight if second == 1.0 else weight * second
    return weight * (second - first) + first


def closed_form(s: Tensor, tokens: Tensor) -> Pair | EvenTokens | None:
    """What the tokens (4, p) are, if numbers can be looked at."""
    if looked_through():
        return None
    if tokens.shape[1] == 2:
        return Pair.of(tokens.tolist())
    if tokens.shape[1] < _FEWEST or derived(s) or name_of(s.dtype) not in PRECISIONS:
        return None
    content = tokens.double().cpu().numpy().tobytes()
    return _even(content, tokens.shape[1])


@lru_cache(maxsize=64)
def _even(content: bytes, tokens: int) -> EvenTokens | None:
    return EvenTokens.of(np.frombuffer(content, dtype=np.float64).reshape(4, tokens))


def power_slips(tokens: int) -> np.ndarray:
    """(p, p): by how many roundings y^m and y^r, times a coefficient each, differ from y^(m - r) times theirs."""
    powers = [np.zeros(tokens), np.zeros(tokens)]  # which roundings of products a power holds, and how often
    for m, end in power_steps(tokens):
        for i in range(1, end - m + 1):
            own = np.zeros(tokens)
            own[m + i] = 1.0
            powers.append(powers[i] + powers[m] + own)
    held = np.array(powers[:tokens])
    return np.abs(held[:, None] - held[None]).sum(axis=2) + 2.0
