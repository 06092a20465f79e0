"""The distance to the exact solution: what its proof uses of the layers holds, and so does the bound, at the edges."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import softwright as sw
from softwright.methods.prompts import read_prompt
from softwright.methods.solution.at_prompt import least_eigenvalue
from softwright.methods.solution.bound import RANGE_HIGH, RANGE_LOW, SPREAD_HIGH, SPREAD_LOW, Prompts, distance

D, ROWS, CONDITION, LEVERAGE = 3, 100, 100.0, 10.0
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "least squares": ("least_squares", {}),
    "no intercept": ("least_squares", {"intercept": False}),
    "as given": ("least_squares", {"scaling": False}),
    "ridge": ("ridge", {"penalty": 0.01}),
    "ridge as given": ("ridge", {"penalty": 0.3, "scaling": False}),
}


@cache
def built(name: str) -> sw.Built[Any]:
    method, options = CASES[name]
    limits = {"condition": CONDITION, "max_rows": ROWS, "score_bound": LEVERAGE}
    return sw.in_context(method, D, sample=False, **limits, **options)


def prompt(rng: np.random.Generator, condition: float, offset: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of bounded leverage and about this condition, in units that differ."""
    u, _ = np.linalg.qr(rng.uniform(-1, 1, (ROWS, D)))
    turn, _ = np.linalg.qr(rng.normal(size=(D, D)))
    x = u * np.sqrt(ROWS) * np.geomspace(1, condition**-0.5, D) @ turn.T
    x = (x - x.mean(axis=0)) / x.std(axis=0) + offset
    y = x @ rng.normal(size=D) + rng.normal(size=ROWS)
    return x, y


@pytest.mark.parametrize("name", CASES)
def test_the_distance_is_proved_for_the_set_and_holds_at_prompts(name: str) -> None:
    certificate = built(name).certificate
    assert certificate is not None and "exact" in certificate.statement and certificate.bound < 1e-4
    rng, proved = np.random.default_rng(3), []
    for condition, offset in ((1.0, 0.0), (20.0, 0.0), (20.0, 300.0 if name == "least squares" else 0.5)):
        x, y = prompt(rng, condition, offset)
        found = built(name).certify_at(x, y, x[:9])
        proved.append(found)
        assert 0 < found.seen <= found.bound
        shown = found.quantities
        if shown["leverage"] <= LEVERAGE and shown["condition"] <= CONDITION:
            assert found.bound <= certificate.bound * shown["rms of y"]
    assert abs(sum(proved[0].budget.values()) - proved[0].bound) <= 1e-9 * proved[0].bound
    x, y = prompt(rng, 2.0)
    assert built(name).certify_at(torch.tensor(x), torch.tensor(y)) == built(name).certify_at(x, y)


@pytest.mark.parametrize("units", [(1.0, 1.0, 1.0), (1e-5, 3.0, 1e5), (2.0**-19, 0.7390851332151607, 2.0**17)])
def test_scales_are_what_the_proof_says(units: tuple[float, ...]) -> None:
    stack, rng = built("least squares").network, np.random.default_rng(8)
    c, place = stack.constants, stack.slots
    most = 2 * distance(stack, Prompts(ROWS, CONDITION, 100.0, 1024.0, 1.0)).inverse
    for _ in range(8):
        x, y = prompt(rng, float(10 ** rng.uniform(0, 1.3)))
        x = x * np.array(units)
        if rng.random() < 0.5:  # at the edge of a cell
            x[:, 1] *= 0.7390851332151607 * 2.0 ** rng.integers(-9, 9) / np.ptp(x[:, 1])
        read = read_prompt(x, y, x[:2], None, c, torch.float64, True)
        states = list(stack.states(stack.embed(read)))
        units_after = states[6]["unit"][0].numpy()
        for p in range(D):
            for token in (2 * p, 2 * p + 1):
                r1, r2 = (abs(float(units_after[token, place[name][0] + p])) for name in ("scale1", "scale2"))
                scaled, spread = r1 * np.ptp(x[:, p]), r1 * r2 * x[:, p].std()
                assert float(RANGE_LOW.mid()) <= scaled <= float(RANGE_HIGH.mid())
                assert float(SPREAD_LOW.mid()) <= spread <= float(SPREAD_HIGH.mid())
        z = np.stack([(states[-14]["unit"][0].numpy()[2 * p, slice(*place["z"])]) for p in range(D)])
        tokens = states[6]["data"][0].numpy()[:, slice(*place["x"])]
        off = np.linalg.norm(np.eye(D) - z @ np.cov(tokens.T, bias=True), 2)
        assert off <= most


def test_bounds_grow_with_the_set() -> None:
    stack = built("least squares").network
    least = Prompts(50, 10.0, 5.0, 10.0, 0.5)
    wider = [Prompts(100, 10.0, 5.0, 10.0, 0.5), Prompts(50, 50.0, 5.0, 10.0, 0.5), Prompts(50, 10.0, 9.0, 10.0, 0.5)]
    wider += [Prompts(50, 10.0, 5.0, 1000.0, 0.5), Prompts(50, 10.0, 5.0, 10.0, 2.0)]
    first = distance(stack, least).total
    assert all(distance(stack, more).total > first for more in wider)


@pytest.mark.parametrize(
    "kind", ["dependent", "constant", "zero y", "tiny y", "huge range", "outlier query", "no query", "complex"]
)
def test_prompts_outside_are_refused_with_the_reason(kind: str) -> None:
    rng = np.random.default_rng(5)
    x, y = prompt(rng, 2.0)
    queries = x[:2].copy()
    said = {"dependent": "dependent|conditioned", "constant": "vary|constant", "zero y": "nothing to fit"}
    said |= {"tiny y": "2\\^-64", "huge range": "2\\^20", "outlier query": "range_bound|leverage"}
    said |= {"no query": "no queries", "complex": "real numbers"}
    if kind == "dependent":
        x[:, 2] = x[:, 0] - x[:, 1]
    if kind == "constant":
        x[:, 1] = 4.0
    if kind == "zero y":
        y = np.zeros(ROWS)
    if kind == "tiny y":
        y = y * 1e-30
    if kind == "huge range":
        x, queries = x * 1e7, queries * 1e7
    if kind == "outlier query":
        queries[0] = 1e4
    if kind == "no query":
        queries = queries[:0]
    if kind == "complex":
        x = x + 1j
    with pytest.raises(sw.InvalidInput, match=said[kind]):
        built("least squares").certify_at(x, y, queries)


@pytest.mark.parametrize("share", [1e-9, 0.01])
def test_a_stack_that_was_changed_has_no_distance(share: float) -> None:
    """Not only heads: what prepares, selects and reads is believed to be as it was built."""
    x, y = prompt(np.random.default_rng(6), 2.0)
    found, rng = built("least squares"), np.random.default_rng(7)
    before = found.certify_at(x, y, x[:2])
    tensors = [tensor for tensor in found.network.state_dict().values() if bool((tensor != 0).any())]
    for place in rng.choice(len(tensors), 8, replace=False):
        kept = tensors[place].clone()
        tensors[place].mul_(1 + share)
        with pytest.raises(sw.InvalidInput, match="build it again"):
            found.certify_at(x, y, x[:2])
        tensors[place].copy_(kept)
    assert found.certify_at(x, y, x[:2]) == before


def test_what_is_observed_only_is_called_so() -> None:
    for method, solver in (("least_squares", "newton_schulz"), ("lasso", None)):
        other = sw.in_context(method, 1, solver=solver, sample=False, condition=20.0)
        assert any("observed only" in reason for reason in other.plan.reasons)
        with pytest.raises(sw.InvalidInput, match="observed only"):
            other.certify_at([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    with pytest.raises(sw.InvalidInput, match="one input"):
        sw.memorize([[1, 2], [2, 1]], [0.5, -1.0]).certify_at([0.3])


def test_eigenvalues_are_shown_from_below() -> None:
    from flint import arb, arb_mat

    rng = np.random.default_rng(0)
    for d in (1, 2, 5):
        a = rng.normal(size=(d, d))
        a = a @ a.T
        shown = least_eigenvalue(arb_mat([[arb(float(entry)) for entry in row] for row in a]))
        true = float(np.linalg.eigvalsh(a)[0])
        assert 0.9 * true < shown <= true * (1 + 1e-9)
    assert least_eigenvalue(arb_mat([[arb(1), arb(1)], [arb(1), arb(1)]])) == 0.0
