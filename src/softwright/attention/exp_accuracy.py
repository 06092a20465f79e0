"""How exact exp is in torch's CPU kernels: measured here, on this processor, for the constant that proofs assume.

Every proof about a run assumes that exp in the kernels is accurate to so many ulp (`precision.py`). For float32 there
are 1.12e9 arguments between -88 and 0, so this can be looked at, all of them if need be, and the number that holds on a
processor need not be believed. What is read is the exp *inside* the attention kernel, which is not torch.exp.

*How it is read.* Of N keys the first has score x, the second score 0, which is the largest, all others -500, whose
weight is 0. With values (1, 0), (1, -w), (0, 1) for the first two tokens the kernel returns, r being its reciprocal of
the sum,

    a = p r,     b = (p - w) r,     c = r,         p = exp(x) as the kernel has it.

p - w is exact where w/2 <= p <= 2 w (Sterbenz), and c = r because exp(0) = 1 (which is looked at first), so b / c is
p - w up to one rounding of itself: with w near p that is far less than an ulp of p. Arguments run through the floats in
order, some thousand at a time with one w for all of them. Tokens in the last N mod 16 places are computed by another
exp, so both are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from softwright.precision import FLOAT32
from softwright.settings import as_proved

_LARGEST = 88.0  # of -x: above, exp(x) may be lost (`exp_floor`)
_WIDEST = 0.1  # arguments of one piece
_FAR = -500.0


@dataclass(frozen=True)
class Kernel:
    """A kernel that takes exp: `values` gives exp(x) (n,) in float64 for float32 x (n,) that lie close together."""

    name: str
    values: Callable[[Tensor], np.ndarray]


@dataclass(frozen=True)
class Measured:
    """The relative error of exp, lowest and highest, in units of 2^-24 (half an ulp), over so many arguments.

    `lost` is the largest exp that came out as 0 or with an error of more than all of it.
    """

    kernel: str
    arguments: int
    lowest: float
    highest: float
    lost: float

    @property
    def ulps(self) -> float:
        """What must be assumed at least."""
        return max(-self.lowest, self.highest) / 2

    def holds(self, ulps: float, floor: float = FLOAT32.exp_floor) -> bool:
        """Whether exp accurate to `ulps`, down to results of `floor`, is what was seen."""
        return self.ulps <= ulps and self.lost < floor


def _attention(tokens: int, place: int) -> Callable[[Tensor], np.ndarray]:
    """exp of the attention kernel for the token at `place` of so many; the largest score is beside it."""
    top = place - 1 if place else 1

    def values(x: Tensor) -> np.ndarray:
        w = float(np.float32(np.exp(float(x[len(x) // 2]))))
        keys, columns = torch.zeros(tokens, 3), torch.zeros(tokens, 3)
        keys[:, 1] = _FAR
        keys[place], keys[top] = torch.tensor([1.0, 0.0, 0.0]), 0.0
        columns[place], columns[top] = torch.tensor([1.0, 1.0, 0.0]), torch.tensor([0.0, -w, 1.0])
        query = torch.stack([x, torch.ones_like(x), torch.zeros_like(x)], dim=1)
        out = scaled_dot_product_attention(query[None, None], keys[None, None], columns[None, None], scale=1.0)[0, 0]
        _, b, c = out.double().numpy().T
        return w + b / c

    return values


def _softmax(tokens: int) -> Callable[[Tensor], np.ndarray]:
    """exp of torch.softmax, its division included: one rounding more than exp alone."""

    def values(x: Tensor) -> np.ndarray:
        scores = torch.full((len(x), tokens), _FAR)
        scores[:, 0], scores[:, 1] = x, 0.0
        weights = scores.softmax(-1).double().numpy()
        return weights[:, 0] / weights[:, 1]

    return values


def _sigmoid(x: Tensor) -> np.ndarray:
    """exp(-x) of torch.sigmoid, its sum and division included: w = e^x/(1 + e^x), of which 1 + e^x is known."""
    return torch.sigmoid(x).double().numpy() * (1 + np.exp(x.double().numpy()))


# One row per kernel that float32 networks run: vectors of 16 and of 8 numbers, the rest of a row, softmax, exp itself,
# and the sigmoid that a softmax over two tokens is.
KERNELS = (
    Kernel("attention, 16 keys", _attention(16, 0)),
    Kernel("attention, 8 keys", _attention(8, 0)),
    Kernel("attention, last of 17 keys", _attention(17, 16)),
    Kernel("attention, 2 keys", _attention(2, 0)),
    Kernel("softmax, 34 numbers", _softmax(34)),
    Kernel("softmax, 2 numbers", _softmax(2)),
    Kernel("exp", lambda x: x.exp().double().numpy()),
    Kernel("sigmoid", _sigmoid),
)


def arguments(stride: int, most: int = 1 << 18) -> Iterator[Tensor]:
    """Every `stride`-th float32 of (-88, 0), in order, by pieces no wider than 0.1."""
    start, last = 1, int(np.float32(_LARGEST).view(np.uint32))
    while start < last:
        near = np.float32(np.uint32(start).view(np.float32) + np.float32(_WIDEST)).view(np.uint32)
        count = min(most, -(-(min(int(near), last) - start) // stride))
        bits = start + stride * np.arange(count, dtype=np.int64)
        yield torch.from_numpy(-bits.astype(np.uint32).view(np.float32))
        start = int(bits[-1]) + stride


def measure(kernel: Kernel, stride: int = 1) -> Measured:
    """The error of one kernel at every `stride`-th argument."""
    lowest = highest = lost = 0.0
    count, floor = 0, FLOAT32.exp_floor
    for x in arguments(stride):
        with torch.no_grad(), as_proved(x):
            found = kernel.values(x)
        true = np.exp(x.double().numpy())
        error = (found - true) / true * 2.0**24
        normal = true >= floor
        if normal.any():
            lowest, highest = min(lowest, float(error[normal].min())), max(highest, float(error[normal].max()))
        below = true[~normal & (np.abs(error) > 2.0**8)]
        lost = max(lost, float(below.max(initial=0.0)))
        count += len(x)
    return Measured(kernel.name, count, lowest, highest, lost)


def exp_at_zero() -> bool:
    """Whether exp(0) is exactly 1 in the attention kernel, which the measurement and proofs of programs rest on."""
    return all(
        torch.equal(
            scaled_dot_product_attention(*(torch.zeros(1, 1, n, 1), torch.zeros(1, 1, n, 1), torch.ones(1, 1, n, 1))),
            torch.ones(1, 1, n, 1),
        )
        for n in (1, 2, 4, 8, 16, 32)
    )
