"""auto_LiRPA's CROWN as a peer of `benchmarks/certify.py`: linear relaxation of the residual network on boxes.

auto_LiRPA is not a dependency; the package of that name on the index is too old for current torch, the repository
(github.com/Verified-Intelligence/auto_LiRPA, 0.7.1, the newest, of May 2026) works with torch 2.13 though it asks for
an older one (`pip install --no-deps`, and appdirs, tqdm, ninja, graphviz). Its softmax bound has an epsilon in a
denominator, so what it calls a bound is not one for sharp heads; it is counted as if it were. Its warnings and prints
are silenced.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from softwright.attention.network import AttentionNetwork

_BATCH = 64


def _installed() -> str | None:
    try:
        return version("auto_LiRPA")
    except PackageNotFoundError:
        return None


LIRPA = _installed()  # its version


class Residual(nn.Module):
    """g - f with the change of frame folded into the keys, out of operators that auto_LiRPA knows."""

    def __init__(self, network: AttentionNetwork, target: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        head = network.heads()[0]
        scale, center = network.scale.numpy(), network.center.numpy()
        keys = head.keys * scale
        self.scores = nn.Linear(*keys.T.shape, dtype=torch.float64)
        self.values = nn.Linear(len(keys), 1, bias=False, dtype=torch.float64)
        with torch.no_grad():
            self.scores.weight.copy_(torch.tensor(keys))
            self.scores.bias.copy_(torch.tensor(head.biases - keys @ center))
            self.values.weight.copy_(torch.tensor(head.values.T))
        self.target = target

    def forward(self, x: Tensor) -> Tensor:
        """(B, d) -> (B, 1)"""
        return self.values(torch.softmax(self.scores(x), dim=1)) - self.target(x)


def crown_bound(
    network: AttentionNetwork, target: Callable[[Tensor], Tensor]
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """centres (B, d), radii (B, d) -> what CROWN says of |g - f| (B,)."""
    from auto_LiRPA import BoundedModule, BoundedTensor  # type: ignore[import-not-found]
    from auto_LiRPA.perturbations import PerturbationLpNorm  # type: ignore[import-not-found]

    dim = len(network.names)
    with _silence():
        module: Any = BoundedModule(Residual(network, target), torch.zeros(_BATCH, dim, dtype=torch.float64))

    def bound(centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
        found = []
        for first in range(0, len(centers), _BATCH):
            c, r = centers[first : first + _BATCH], radii[first : first + _BATCH]
            fill = np.resize(np.arange(len(c)), _BATCH)  # the traced graph has a fixed batch
            x, low, high = (torch.tensor(a[fill]) for a in (c, c - r, c + r))
            try:
                with _silence(), torch.no_grad():
                    lower, upper = module.compute_bounds(
                        x=(BoundedTensor(x, PerturbationLpNorm(norm=np.inf, x_L=low, x_U=high)),), method="CROWN"
                    )
            except AssertionError:  # large boxes: its bound of a denominator reaches zero; smaller ones may pass
                found.append(np.full(len(c), np.inf))
                continue
            found.append(torch.maximum(lower.abs(), upper.abs())[: len(c), 0].numpy())
        return np.concatenate(found)

    return bound


@contextlib.contextmanager
def _silence() -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # it mixes types otherwise
    try:
        yield from _quiet()
    finally:
        torch.set_default_dtype(before)


def _quiet() -> Any:
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
