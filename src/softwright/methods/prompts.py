"""What a stack is given: observations, queries and weights, checked and brought to one shape before a token is made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softwright.errors import Faults
from softwright.methods.constants import Constants
from softwright.methods.methods import METHODS
from softwright.settings import looked_through

UNITS = (1e-13, 4e9)  # ranges of features that the scaling in context can bring to size 1
NO_WEIGHT = -1e30  # the log weight of an observation that does not count: its softmax weight is exactly 0


@dataclass(frozen=True)
class Prompt:
    """x (B, n, d), y (B, n), queries (B, m, d), log_weights (B, n), and the leading shape the user gave."""

    x: Tensor
    y: Tensor
    queries: Tensor
    log_weights: Tensor
    leading: tuple[int, ...]

    def at(self, which: Tensor) -> Prompt:
        """Some prompts of the batch."""
        return Prompt(self.x[which], self.y[which], self.queries[which], self.log_weights[which], (len(which),))

    def unbatched(self, values: Tensor) -> Tensor:
        return values.reshape((*self.leading, *values.shape[1:]))


def read_prompt(
    x: Any,
    y: Any,
    queries: Any | None,
    sample_weight: Any | None,
    constants: Constants,
    dtype: torch.dtype,
    check: bool,
) -> Prompt:
    """All faults of a prompt are listed together; `check` adds those that look at the values, where there are any."""
    faults = Faults("in_context")
    d = constants.features
    xs, ys = _tensor(x, "x", dtype, faults), _tensor(y, "y", dtype, faults)
    given = None if queries is None else _tensor(queries, "queries", dtype, faults)
    weights = None if sample_weight is None else _tensor(sample_weight, "sample_weight", dtype, faults)
    faults.raise_if_any()
    faults.check(
        xs.ndim >= 2 and xs.shape[-1] == d,
        f"x has shape {tuple(xs.shape)}; the stack was built for {d} feature(s), so give (n, {d}) or (batch, n, {d})",
    )
    faults.raise_if_any()
    n, leading = xs.shape[-2], tuple(xs.shape[:-2])
    faults.check(tuple(ys.shape) == (*leading, n), f"y has shape {tuple(ys.shape)}; x asks for {(*leading, n)}")
    if given is not None:
        good = given.ndim == len(leading) + 2 and tuple(given.shape[:-2]) == leading and given.shape[-1] == d
        faults.check(good, f"queries have shape {tuple(given.shape)}; x asks for {(*leading, 'm', d)}")
    if weights is not None:
        faults.check(
            tuple(weights.shape) == (*leading, n), f"sample_weight has shape {tuple(weights.shape)}, y {(*leading, n)}"
        )
    faults.raise_if_any()
    if given is None:
        given = xs.new_zeros(*leading, 0, d)
    if check and not looked_through():
        _check_values(xs, ys, given, weights, constants, faults)
        faults.raise_if_any()
    logs = xs.new_zeros(*leading, n)
    if weights is not None:
        logs = torch.where(weights > 0, weights.clamp_min(torch.finfo(dtype).tiny).log(), logs + NO_WEIGHT)
    batch, m = math.prod(leading), given.shape[-2]
    return Prompt(
        xs.reshape(batch, n, d), ys.reshape(batch, n), given.reshape(batch, m, d), logs.reshape(batch, n), leading
    )


def _tensor(values: Any, name: str, dtype: torch.dtype, faults: Faults) -> Tensor:
    try:
        array = values if isinstance(values, Tensor) else np.asarray(values)
        if isinstance(array, np.ndarray) and not array.flags.writeable:
            array = array.copy()  # torch warns of memory that it may not write to, as of columns of pandas
        return torch.as_tensor(array, dtype=dtype)
    except (TypeError, ValueError, RuntimeError):
        faults.add(f"{name} is not an array of numbers; give real numbers")
        return torch.zeros(0, dtype=dtype)


def _check_values(
    x: Tensor, y: Tensor, queries: Tensor, weights: Tensor | None, constants: Constants, faults: Faults
) -> None:
    method = METHODS[constants.method]
    n = x.shape[-2]
    for name, tensor in (("x", x), ("y", y), ("queries", queries), ("sample_weight", weights)):
        if tensor is not None:
            bad = int((~torch.isfinite(tensor)).sum())
            faults.check(bad == 0, f"{name} holds {bad} value(s) that are nan or infinite; remove or impute those rows")
    if faults.found:
        return
    counted = torch.full(y.shape[:-1], float(n)) if weights is None else (weights > 0).sum(dim=-1).double()
    if weights is not None:
        faults.check(bool((weights >= 0).all()), "sample_weight holds negative values; weights are 0 or more")
    least = int(counted.amin()) if counted.numel() else n
    unknowns = constants.features + int(constants.intercept)
    solvable = constants.penalty > 0 or not method.needs_rows
    faults.check(
        solvable or least >= unknowns,
        f"{least} row(s) for {unknowns} unknowns: the solution is not unique; give more rows, or a penalty (ridge)",
    )
    faults.check(least >= 2, f"{least} row(s): a fit needs at least 2")
    if least >= 2:
        _check_columns(x, weights, constants, faults)
    method.check(y, faults)


def _check_columns(x: Tensor, weights: Tensor | None, constants: Constants, faults: Faults) -> None:
    """Columns that do not vary (or, without an intercept, vanish) have no coefficient of their own; others must have a
    range that the cells of the scaling hold."""
    if weights is not None:
        inside = (weights > 0)[..., None]
        top = torch.where(inside, x, x.new_tensor(-torch.inf)).amax(dim=-2)
        bottom = torch.where(inside, x, x.new_tensor(torch.inf)).amin(dim=-2)
    else:
        top, bottom = x.amax(dim=-2), x.amin(dim=-2)
    size = torch.maximum(top.abs(), bottom.abs())
    spread = top - bottom if constants.intercept else size
    flat = (spread <= 64 * torch.finfo(x.dtype).eps * size) | (spread <= 0)
    wild = (spread > UNITS[1]) | (spread < UNITS[0]) if constants.scaling else torch.zeros_like(flat)
    for which, what in (
        (flat, "do not vary; remove them, an intercept stands for them"),
        (wild & ~flat, f"span less than {UNITS[0]:g} or more than {UNITS[1]:g}; give them in other units"),
    ):
        columns = which.reshape(-1, which.shape[-1]).any(dim=0).nonzero()[:, 0].tolist()
        faults.check(not columns, f"column(s) {', '.join(map(str, columns[:8]))} of x {what}")
