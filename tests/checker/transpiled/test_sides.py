"""The tokens of softsign in the checker: tables that are not as they should be are refused or get their true error."""

from __future__ import annotations

import time

import numpy as np
import pytest

from softwright.checker.refusal import NotProvedError
from softwright.checker.transpiled.sides import largest_side_error
from softwright.targets.mlp import Activation
from softwright.transpiler.tokens import fitted_table
from tests.checker.transpiled_files import made

TABLE = fitted_table(Activation("softsign"), 14, "float64").stacked


def seen(table: np.ndarray) -> float:
    """The largest error at many places, in long double."""
    s = np.concatenate([np.geomspace(1e-9, 1e9, 4001), -np.geomspace(1e-9, 1e9, 4001)]).astype(np.longdouble)
    k, b, v, u = table.astype(np.longdouble)
    scores = s[:, None] * k + b
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    mean = (weights * (s[:, None] * v + u)).sum(axis=1) / weights.sum(axis=1)
    return float(np.abs(mean - s / (1 + np.abs(s))).max())


def mirrored(row: int, place: int, change: float) -> np.ndarray:
    """The table with one number of the right side changed, and its mirror image."""
    table = TABLE.copy()
    table[row, -place] += change
    table[row, place - 1] += change if row == 1 else -change
    return table


@pytest.mark.parametrize("row", [0, 1, 3])
@pytest.mark.parametrize("place", [1, 2, 4, 7])
@pytest.mark.parametrize("change", [-0.3, -1e-6, 1e-3, 0.5])
def test_changed_tokens_get_their_true_error(row: int, place: int, change: float) -> None:
    table = mirrored(row, place, change)
    try:
        found = largest_side_error(table)
    except NotProvedError:
        assert row == 0  # keys that change places
        return
    errors = seen(table)
    assert errors * (1 - 1e-9) <= found <= 1.01 * errors


@pytest.mark.parametrize(
    "table",
    [
        TABLE[:, 1:],
        TABLE[:, ::-1],
        TABLE * np.array([[1], [1], [1], [-1]]) + np.array([[0], [0], [0], [1e-3]]),
        TABLE + np.array([[0], [0], [1e-300], [0]]),
        TABLE + np.array([[1e-9], [0], [0], [0]]),
        np.concatenate([TABLE[:, :7], TABLE[:, 7:] + np.array([[0], [1e-12], [0], [0]])], axis=1),
        TABLE * 0,
        np.array([[-1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [-np.nan, np.nan]]),
    ],
)
def test_tables_that_are_no_mirror_image_are_refused(table: np.ndarray) -> None:
    with pytest.raises(NotProvedError):
        largest_side_error(table)


@pytest.mark.parametrize("factor", [1e-60, 1e-9, 1e9, 1e90])
def test_keys_of_other_sizes_take_no_longer_and_get_their_error(factor: float) -> None:
    """The head is another function then, nearly a step or nearly 0, and its error is about 1."""
    start = time.process_time()
    found = largest_side_error(TABLE * np.array([[factor], [1], [1], [1]]))
    assert 0.2 < found < 20 and time.process_time() - start < 20


def test_what_a_file_says_of_softsign_is_not_made_smaller() -> None:
    base = made("softsign")
    assert base.verdict() and base.holds()
    for names in (["bound", "exact_part"], ["exact_part"], ["bound"]):
        for factor in (0.95, 0.5, 1e-6):
            file = base.copied()
            for name in names:
                file.said[name] *= factor
            assert not file.verdict(), (names, factor)
    for name in [name for name in base.tensors if name.endswith("tokens")]:
        for row, change in ((0, 0.5), (1, 0.5), (2, 1e-6), (3, 0.1)):
            for places in ([0], [0, -1]):
                file = base.copied()
                file.tensors[name][row, places] += change
                assert not file.verdict(), (name, row, places)
