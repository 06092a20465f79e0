"""Prompts of a batch, and targets of a prompt, that must not share one unit.

A prompt is put in units of its own size (`widening`), and a batch has one stack. Where what it holds differs in size by
more than a few binades, the smaller prompts would lose to the unit of the largest what their own would give them, so
these are asked one at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from softwright.methods.constants import Constants
from softwright.methods.methods import METHODS

_APART = 2.0**10  # of sizes within one batch


def _differ(sizes: np.ndarray) -> bool:
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return bool(sizes.size) and bool(sizes.max() / _APART > sizes.min())


def apart(constants: Constants, x: Any, y: Any) -> bool:
    """Whether prompts or targets differ so much in size that they need units of their own."""
    row = METHODS[constants.method]
    try:
        rows, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    except (TypeError, ValueError):
        return False  # the prompt is at fault, which is found out where it is read
    several = values.ndim == rows.ndim
    if rows.ndim < 2 or values.ndim not in (rows.ndim, rows.ndim - 1) or (rows.ndim == 2 and not several):
        return False
    if not rows.size or not values.size:
        return False
    with np.errstate(all="ignore"):
        if (row.y_units or row.follows_y) and _differ(np.abs(values).max(axis=rows.ndim - 2)):
            return True
        follows = not row.scaled or row.follows is not None
        first = slice(None) if row.follows is None else row.follows
        return follows and _differ(np.ptp(rows[..., first], axis=-2).max(axis=-1))


def one_at_a_time(ask: Callable[..., Any], x: Any, y: Any, *others: Any) -> list[Any]:
    """What `ask` says of every prompt, or of every target of one prompt: it is called with its part of each."""
    rows, values = np.asarray(x), np.asarray(y)
    if rows.ndim > 2:
        return [
            ask(rows[i], values[i], *(None if part is None else np.asarray(part)[i] for part in others))
            for i in range(len(rows))
        ]
    return [ask(rows, values[:, k], *others) for k in range(values.shape[1])]
