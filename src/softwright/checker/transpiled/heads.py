"""From an activation and the stored tokens of its head to a `Unit`: one way for each family."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from flint import arb

from softwright.checker.refusal import NotProvedError, require
from softwright.checker.transpiled.activations import Activation
from softwright.checker.transpiled.fitted import largest_error
from softwright.checker.transpiled.groups import grouped_unit
from softwright.checker.transpiled.pieces import above, gate_unit
from softwright.checker.transpiled.powers import power_unit
from softwright.checker.transpiled.sides import largest_side_error
from softwright.checker.transpiled.smooth import smooth_run
from softwright.checker.transpiled.unit import Array, Run, Unit

MOST_TOKENS = 96


def unit_of(activation: Activation, table: Array, run: Run, shared: bool = False) -> Unit:
    """How far a head with these tokens, as stored, is from the activation; `shared`: four of them in one softmax."""
    if shared:
        return grouped_unit(unit_of(activation, table, run), run)
    require(
        table.ndim == 2 and len(table) == 4 and 1 <= table.shape[1] <= MOST_TOKENS, "the tokens of a head are damaged"
    )
    require(np.abs(table).max() < 1e100, "tokens of 1e100 and more cannot be checked")
    row = activation.row
    if row.pieces is not None:
        return gate_unit(activation, table, run)
    if row.powers:
        return power_unit(activation, table, run)
    ran = smooth_run(table, run)
    if row.sides:
        return Unit(table, _side_error(table.astype(np.float64).tobytes()), ran, ran.mixing, ran.offset)
    if row.smooth is None:
        return Unit(table, exact_tokens(activation, table, run), ran, ran.mixing, ran.offset)
    smooth = row.smooth(*activation.parameters)
    error = _fitted_error(activation, np.ascontiguousarray(table, dtype=np.float64).tobytes())
    return Unit(table, error, ran, ran.mixing, ran.offset, jump=smooth.jump)


@lru_cache(maxsize=64)
def _side_error(stored: bytes) -> float:
    return largest_side_error(np.frombuffer(stored, dtype=np.float64).reshape(4, -1))


@lru_cache(maxsize=64)
def _fitted_error(activation: Activation, stored: bytes) -> float:
    """What fitted tokens, given in all their bits, are off by: a second's work for tokens that many files share."""
    smooth = activation.row.smooth
    if smooth is None:
        raise NotProvedError(f"{activation} has no fitted tokens")
    return largest_error(np.frombuffer(stored, dtype=np.float64).reshape(4, -1), smooth(*activation.parameters))


def exact_tokens(activation: Activation, table: Array, run: Run) -> float:
    """The distance of tokens that are phi itself: 0, but for a bias of log 2 that is stored rounded.

    Of mish both such biases are off by d, and |dg/dd| = |s| w_0 w_2 <= 0.4: for s >= 0, w_0 <= 2 e^{-2s} e^{2d}; for
    s < 0, w_2 <= e^{2s} e^{2d}/2.
    """
    tokens = np.array(activation.row.tokens, dtype=np.float64).T  # (4, p)
    require(table.shape == tokens.shape, f"a head of {activation} has {tokens.shape[1]} tokens")
    rounded = np.isnan(tokens)
    found = table[rounded]
    require(np.array_equal(table[~rounded], tokens[~rounded]), f"the tokens are not those of {activation}")
    if not len(found):
        return 0.0
    off = above(abs(arb(float(found[0])) - arb.const_log2()))
    require(
        (found == found[0]).all() and off <= (run.precision.rounded or run.precision.unit),
        f"log 2 in the tokens of {activation} is another number",
    )
    return math.nextafter(0.4 * off, math.inf)
