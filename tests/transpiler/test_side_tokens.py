"""The tokens of softsign: what is proved of them holds wherever it is climbed, in balls, and more tokens are nearer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flint import arb, ctx
from torch import nn

import softwright as sw
from softwright.checker.transpiled.sides import largest_side_error
from softwright.errors import SoftwrightError
from softwright.targets.mlp import Activation
from softwright.transpiler.sides.proof import proved_side_error
from softwright.transpiler.sides.tokens import log_rates
from softwright.transpiler.token_proof import proved_error
from softwright.transpiler.token_table import TokenTable
from softwright.transpiler.tokens import fitted_table, table_for, token_counts

SOFTSIGN = Activation("softsign")
ERRORS = {8: 5.2e-3, 14: 3.2e-4, 24: 1.9e-5, 32: 1.1e-6, 48: 2.0e-8, 64: 7.6e-10, 80: 4.1e-11}
TABLES = [(count, "float64") for count in ERRORS] + [(count, "float32") for count in (8, 14, 24)]
_EACH = pytest.mark.parametrize(("count", "dtype"), TABLES)


def error_at(table: TokenTable, s: float) -> float:
    """|g(s) - s/(1 + |s|)| at least, of the tokens as stored."""
    x = arb(s)
    scores = [arb(float(k)) * x + arb(float(b)) for k, b in zip(table.keys, table.biases, strict=True)]
    lead = scores[int((table.keys * s + table.biases).argmax())]
    weights = [(score - lead).exp() for score in scores]
    mean = sum((w * float(u) for w, u in zip(weights, table.offsets, strict=True)), arb(0)) / sum(weights, arb(0))
    return float(abs(mean - x / (1 + abs(x))).lower())


def climbed(table: TokenTable, rng: np.random.Generator, rounds: int) -> float:
    """The largest error that steps of all sizes on the scale of log |s| find, from 1e-12 to 1e12 on both sides."""
    logs = np.log(10) * np.linspace(-12, 12, 120)
    found = sorted(((error_at(table, float(np.exp(x))), float(x)) for x in logs), reverse=True)[:4]
    best = 0.0
    for start in found:
        (height, place), step = start, 0.2
        for _ in range(rounds):
            other = place + step * rng.normal()
            value = error_at(table, float(np.exp(other)))
            if value > height:
                place, height = other, value
            else:
                step *= 0.85
        best = max(best, height, error_at(table, -float(np.exp(place))))
    return best


def test_the_sizes_are_those_of_the_row_and_more_tokens_are_nearer() -> None:
    assert token_counts(SOFTSIGN) == sorted(ERRORS)
    found = [proved_error(SOFTSIGN, fitted_table(SOFTSIGN, count, "float64")) for count in ERRORS]
    assert all(error <= most for error, most in zip(found, ERRORS.values(), strict=True))
    assert found == sorted(found, reverse=True)
    assert table_for(SOFTSIGN, "float64").tokens == 80 and table_for(SOFTSIGN, "float32").tokens == 24


@_EACH
def test_no_climb_leaves_the_proved_error_and_it_is_no_idle_one(count: int, dtype: str) -> None:
    table = fitted_table(SOFTSIGN, count, dtype)
    bound, again = proved_side_error(table), largest_side_error(table.stacked)
    before = ctx.prec
    try:
        ctx.prec = 200
        seen = climbed(table, np.random.default_rng(count), 40)
    finally:
        ctx.prec = before
    assert seen <= again <= bound <= 1.04 * again  # the checker, with code of its own, comes to the same
    assert again <= 1.05 * seen


@_EACH
def test_tokens_are_their_own_mirror_image_and_numbers_of_the_dtype(count: int, dtype: str) -> None:
    table = fitted_table(SOFTSIGN, count, dtype)
    keys, biases, slopes, offsets = table.stacked
    assert np.array_equal(keys, -keys[::-1]) and np.array_equal(biases, biases[::-1]) and not slopes.any()
    assert np.array_equal(offsets, -offsets[::-1]) and np.abs(offsets).max() < 20
    assert np.array_equal(table.stacked, table.stacked.astype(dtype).astype(np.float64))
    assert np.frexp(keys[-1])[0] == 0.5 and biases[-1] == 0.0  # the leading score is not rounded


def test_rates_rise_and_are_sparser_where_they_are_small() -> None:
    logs = log_rates(31, -18.8, 2.6)
    steps = np.diff(logs)
    assert logs[0] == -18.8 and abs(logs[-1] - 2.6) < 1e-12
    assert (steps > 0).all() and (np.diff(steps) < 0.02).all()


def test_other_tokens_get_larger_errors_or_none() -> None:
    table = fitted_table(SOFTSIGN, 14, "float64")
    rng = np.random.default_rng(0)
    for row, size in ((0, 1e-2), (1, 1e-2), (3, 1e-3)):
        stacked = table.stacked
        change = size * rng.normal(size=7)
        stacked[row] += np.concatenate([change if row == 1 else -change, change[::-1]])
        other = TokenTable(*stacked)
        seen = max(error_at(other, float(s)) for s in np.geomspace(1e-6, 1e6, 300))
        assert seen <= proved_side_error(other) and seen <= largest_side_error(stacked)
    stacked = table.stacked
    stacked[3, 0] += 1e-9
    with pytest.raises(SoftwrightError, match="mirror"):
        proved_side_error(TokenTable(*stacked))


@pytest.mark.parametrize("layout", ["softmax", "sdpa", "multihead", "sequence"])
def test_networks_stay_within_their_bounds_at_inputs_of_all_sizes(layout: str) -> None:
    torch.manual_seed(1)
    source = nn.Sequential(nn.Linear(2, 3), nn.Softsign(), nn.Linear(3, 2)).double().eval()
    built = sw.transpile(source, box=(-1e9, 1e9), tol=1e-3, layout=layout)
    x = torch.cat([size * torch.randn(60, 2, dtype=torch.float64).clamp(-1, 1) for size in 10.0 ** np.arange(-9, 10)])
    with torch.no_grad():
        errors = (built.network(x) - source(x)).abs()
    assert float(errors.max()) <= built.certificate.bound <= 1e-3
