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
MOST_PENALTY = 2.0**20  # times the squared range of a feature: more is beyond the cells of its spread
LOST_PENALTY = 2.0**23  # and here its coefficient has lost its digits, although predictions, without it, have theirs
_FEWEST = {"float64": 1e-9, "float32": 1e-2}  # observations, where weights count them
NO_WEIGHT = -1e30  # the log weight of an observation that does not count: its softmax weight is exactly 0


@dataclass(frozen=True)
class Prompt:
    """x (B, n, d), y (B, n), queries (B, m, d), log_weights (B, n), units (B, d) that x and queries were multiplied
    with, and the leading shape the user gave."""

    x: Tensor
    y: Tensor
    queries: Tensor
    log_weights: Tensor
    units: Tensor
    leading: tuple[int, ...]

    def at(self, which: Tensor) -> Prompt:
        """Some prompts of the batch."""
        x, y, queries = self.x[which], self.y[which], self.queries[which]
        return Prompt(x, y, queries, self.log_weights[which], self.units[which], (len(which),))

    def each_query(self) -> Prompt:
        """The same rows once per query, (B m) prompts with one query each."""
        m = self.queries.shape[1]
        rows = [part.repeat_interleave(m, dim=0) for part in (self.x, self.y, self.log_weights, self.units)]
        x, y, log_weights, units = rows
        return Prompt(x, y, self.queries.reshape(-1, 1, x.shape[2]), log_weights, units, (x.shape[0],))

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
        if METHODS[constants.method].weights != "counts" and weights.numel():
            weights = weights * _unit_of(weights.amax(dim=-1, keepdim=True))
        logs = torch.where(weights > 0, weights.clamp_min(torch.finfo(dtype).tiny).log(), logs + NO_WEIGHT)
    batch, m = math.prod(leading), given.shape[-2]
    units = xs.new_ones(batch, d)
    xs, given = xs.reshape(batch, n, d), given.reshape(batch, m, d)
    as_given = constants.penalty > 0 or METHODS[constants.method].as_given
    if check and constants.scaling and not as_given and not looked_through():
        units = _units(xs)
        if not bool((units == 1).all()):
            xs, given = xs * units[:, None], given * units[:, None]
    return Prompt(xs, ys.reshape(batch, n), given, logs.reshape(batch, n), units, leading)


def _units(x: Tensor) -> Tensor:
    """(B, d): powers of two that bring columns into the range of the cells; 1 where they are there, so that nothing
    changes, and exact elsewhere. A penalty acts on coefficients of the features as given, so it allows none."""
    spread = (0.5 * x.amax(dim=1) - 0.5 * x.amin(dim=1)) if x.shape[1] else x.new_ones(len(x), x.shape[2])
    inside = (spread >= 0.5 * UNITS[0]) & (spread <= 0.25 * UNITS[1])
    exponent = torch.frexp(torch.where(inside | (spread == 0), 1.0, spread)).exponent.clamp(-1000, 1000)
    return torch.where(inside, 1.0, 2.0 ** -exponent.to(x.dtype))


def _unit_of(largest: Tensor) -> Tensor:
    """Powers of two that bring the largest weights of prompts to about 1; 1 where they are near it."""
    near = (largest >= 2.0**-20) & (largest <= 2.0**20)
    exponent = torch.frexp(torch.where(near | (largest <= 0), 1.0, largest)).exponent.clamp(-1000, 1000)
    return torch.where(near, 1.0, 2.0 ** -exponent.to(largest.dtype))


def as_numbers(values: Any) -> Any:
    """Tensors as NumPy arrays, and arrays of Python's numbers (pandas' own dtypes and columns of objects become such)
    in float64; texts are no numbers, also where they look like some. What cannot be read is left for `read_prompt`."""
    if values is None:
        return None
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return (values if values.dtype.is_complex else values.double()).numpy()
    try:
        array = np.asarray(values)
        if array.dtype == object and not any(isinstance(value, str | bytes | complex) for value in array.flat):
            return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return values
    return array if array.dtype != object else values


def _tensor(values: Any, name: str, dtype: torch.dtype, faults: Faults) -> Tensor:
    try:
        array = values if isinstance(values, Tensor) else np.asarray(as_numbers(values))
        if isinstance(array, np.ndarray) and not array.flags.writeable:
            array = array.copy()  # torch warns of memory that it may not write to, as of columns of pandas
        if array.dtype.is_complex if isinstance(array, Tensor) else np.iscomplexobj(array):
            raise TypeError  # a cast would drop the imaginary parts
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
    varying = 0 if method.loss is not None else method.varying  # elsewhere columns that do not vary do no harm
    solvable = constants.penalty > 0 or not method.needs_rows
    faults.check(
        solvable or least >= unknowns,
        f"{least} row(s) for {unknowns} unknowns: the solution is not unique; give more rows, or a penalty (ridge)",
    )
    of_weight = "" if weights is None else " whose sample_weight is above 0"
    faults.check(least >= 2, f"{least} row(s){of_weight}: a fit needs at least 2")
    if weights is not None:
        _check_meaning(weights, constants, faults)
    if least < 2:
        return
    if varying is not None:
        _check_columns(x, weights, constants, faults, varying)
    method.check(y, constants, faults)
    method.check_rows(x, queries, constants, faults)
    if method.check_size is not None:
        method.check_size(y, constants, faults)
    if method.resolved is not None:
        method.resolved(x, queries, constants, faults)


def _check_meaning(weights: Tensor, constants: Constants, faults: Faults) -> None:
    """Weights that a method would ignore are refused."""
    kind = METHODS[constants.method].weights
    if kind == "none":
        equal = bool((weights == weights[..., :1]).all())
        faults.check(equal, f"{constants.method} takes no sample_weight: every observation counts alike; leave it out")
    if kind == "counts":
        least = _FEWEST[constants.dtype]
        few = float(weights.sum(dim=-1).amin()) if weights.numel() else least
        faults.check(
            few >= least,
            f"sample_weight counts observations in {constants.method}, here {few:.2g} of them, and less than {least:g} "
            "leave the variance no digits; give larger weights",
        )
    if kind == "positive":
        good = bool((weights > 0).all())
        faults.check(good, f"{constants.method} counts every row; remove those whose sample_weight is 0")


def _check_columns(x: Tensor, weights: Tensor | None, constants: Constants, faults: Faults, first: int) -> None:
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
    given = METHODS[constants.method].as_given
    if constants.penalty == 0 and not given:  # columns are brought into the range by powers of two
        wild = wild & ((spread > 2.0**900) | (spread < 2.0**-900)) & (x.dtype == torch.float64)
    beside = ", as a penalty acts on the coefficients of what is given" if constants.penalty > 0 or given else ""
    heavy, why = too_penalised(spread, constants)
    far = f"span less than {UNITS[0]:g} or more than {UNITS[1]:g}; give them in other units{beside}"
    for which, what in (
        (flat, "do not vary; remove them, an intercept stands for them"),
        (wild & ~flat & heavy, why),
        (wild & ~flat & ~heavy, far),
    ):
        columns = which.reshape(-1, which.shape[-1]).any(dim=0).nonzero()[:, 0].tolist()
        columns = [column for column in columns if column >= first]
        faults.check(not columns, f"column(s) {', '.join(map(str, columns[:8]))} of x {what}")


def too_penalised(spread: Tensor, constants: Constants, limit: float = MOST_PENALTY) -> tuple[Tensor, str]:
    """Which features, of these ranges, have a penalty that leaves nothing of them, and the words for it."""
    if constants.penalty == 0 or METHODS[constants.method].penalty_power != 2:
        return torch.zeros_like(spread, dtype=torch.bool), ""
    share = torch.where(spread > 0, constants.penalty / spread / spread, 0.0)
    most = float(share.max()) if share.numel() else 0.0
    why = (
        f"have a penalty of up to {most:.2g} times their squared range, so that nothing is left of their coefficients; "
        "lower the penalty, or give them in smaller units, as larger numbers"
    )
    return share > limit, why
