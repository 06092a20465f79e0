"""Whether distances have their digits: what is asked of a prompt before a stack takes distances of it.

A stack finds |x|^2 by heads of the reach x_bound (`squares`), with a rounding error of about d x_bound^2 times a small
number, whatever the row: one outlier costs all rows digits. Here distances are taken directly, outside the attention,
and a prompt is refused where that error could change an answer by more than its last digits:

    kernels      scores err by delta = d x_bound^2/h^2 times the error. An answer moves by at most delta times the share
                 of all rows but the nearest, in ranges of y; where one row has all the weight nothing moves
    neighbours   the k-th distance and the next must differ by more than the error, or be equal
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softwright.chunks import in_chunks, rows_within
from softwright.errors import Faults
from softwright.methods.answers.two_layers import STEPS
from softwright.methods.constants import Constants

_ERROR = {"float64": 2e-15, "float32": 1e-6}  # of a squared distance, over d x_bound^2
_ALLOWED = {"float64": 1e-7, "float32": 1e-2}  # of an answer
_LARGEST = {"float64": 2.0**17, "float32": 2.0**10}  # features of a network that is trained
_PRODUCT = {"float64": 1e-15, "float32": 1e-6}  # error of an own product, over the square of its reach
_MOVED = {"float64": 1e-6, "float32": 1.0}  # what hidden units may be moved by
_SAME = {"float64": 1.2e-10, "float32": 1.2e-3}  # over d x_bound^2: distances so near each other are taken for equal


def _distances(queries: Tensor, x: Tensor) -> Tensor:
    """(m, n): squared distances, by differences."""
    return ((queries[:, None] - x[None]) ** 2).sum(dim=-1)


def _worst(x: Tensor, queries: Tensor, look: str, value: float) -> float:
    """The largest of what `look` finds for a query, over all queries of all prompts."""
    n, d = x.shape[-2:]
    count, worst = math.prod(x.shape[:-2]), 0.0
    for rows, asked in zip(x.reshape(count, n, d), queries.reshape(count, queries.shape[-2], d), strict=True):
        if len(asked):
            step = rows_within(3 * n * d * x.element_size())
            found = in_chunks(lambda some, rows=rows: _LOOKS[look](_distances(some, rows), value), asked, step)
            worst = max(worst, float(found.max()))
    return worst


def _others(distances: Tensor, bandwidth: float) -> Tensor:
    """The share of all rows but the nearest in a kernel mean."""
    return 1.0 - torch.softmax(-0.5 * distances / bandwidth**2, dim=1).amax(dim=1)


def _undecided(distances: Tensor, k: float) -> Tensor:
    """How near the distance after the k-th comes to it, as its inverse; equal ones share the place."""
    ordered = distances.sort(dim=1).values
    edge = ordered[:, min(int(k), ordered.shape[1]) - 1][:, None]
    gap = (ordered - edge).abs()
    equal = gap <= 32.0 * torch.finfo(distances.dtype).eps * edge
    return torch.where(equal, torch.inf, gap).amin(dim=1).reciprocal()


_LOOKS = {"others": _others, "undecided": _undecided}


def _delta(constants: Constants) -> float:
    h = constants.option("bandwidth")
    return _ERROR[constants.dtype] * constants.features * (constants.x_bound / h) ** 2


def _say(constants: Constants, faults: Faults) -> None:
    ratio = constants.x_bound / constants.option("bandwidth")
    faults.add(
        f"x and queries span up to {ratio:.2g} bandwidths, so that the distances between near rows lose their digits; "
        "raise bandwidth, or remove what lies far off"
    )


def weights_apart(x: Tensor, queries: Tensor, constants: Constants, faults: Faults) -> None:
    """Of kernel means."""
    delta, allowed = _delta(constants), _ALLOWED[constants.dtype]
    if delta > allowed and delta * _worst(x, queries, "others", constants.option("bandwidth")) > allowed:
        _say(constants, faults)


def few_bandwidths(x: Tensor, queries: Tensor, constants: Constants, faults: Faults) -> None:
    """Of kernel equations, where every row counts."""
    if _delta(constants) > _ALLOWED[constants.dtype]:
        _say(constants, faults)


def small_numbers(x: Tensor, queries: Tensor, constants: Constants, faults: Faults) -> None:
    """Of gradient steps on features as given: a weight moves by x times the rate, a pre-activation by its square."""
    most = max((float(part.abs().amax()) for part in (x, queries) if part.numel()), default=0.0)
    limit = _LARGEST[constants.dtype]
    faults.check(
        most <= limit,
        f"x and queries go up to {most:.2g}, where a gradient step moves units by more than their digits hold "
        f"(beyond {limit:g}); scale the features",
    )
    reach = constants.y_bound + constants.w_bound
    steps = float(constants.option("rate")) * (constants.steps or STEPS)
    lost = constants.features * most**2 * steps * _PRODUCT[constants.dtype] * reach**2
    faults.check(
        lost <= _MOVED[constants.dtype],
        f"products of errors up to {constants.y_bound:.2g} and weights up to {constants.w_bound:.2g} move the hidden "
        f"units by up to {lost:.1g} of rounding alone over all steps; bring x and y to size 1, or take a smaller rate",
    )


def neighbours_apart(x: Tensor, queries: Tensor, constants: Constants, faults: Faults) -> None:
    """Of the k nearest."""
    size = constants.features * constants.x_bound**2
    least = _SAME[constants.dtype] * size
    k = int(constants.option("neighbours"))
    if least * _worst(x, queries, "undecided", float(k)) > 1.0:
        faults.add(
            f"the {k} nearest rows of a query cannot be told from the next: their squared distances differ by less "
            f"than {least:.2g}, what {constants.dtype} resolves over this range of rows; remove what lies far off, "
            "or choose another number of neighbours"
        )
