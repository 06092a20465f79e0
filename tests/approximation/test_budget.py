"""Budgets count work: the clock decides nothing unless it must, and then the result says so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import softwright as sw
from softwright.approximation.problem import Budget, OutOfBudget
from softwright.proof import certify
from softwright.result.outcome import Outcome
from softwright.work import SECOND, Allowance, count, done

HARD = "sqrt(abs(x*y))*sin(9*x + y**2)"
SQUARE = sw.Box(x=(-1, 1), y=(-1, 1))


@contextmanager
def slow_clock() -> Iterator[None]:
    """A machine so busy that every look at the clock finds two seconds gone."""
    real, looks = time.monotonic, [0]

    def late() -> float:
        looks[0] += 1
        return real() + 2.0 * looks[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", late)
        yield


def reached(**options: Any) -> sw.Built:
    with pytest.raises(sw.ToleranceNotReached) as caught:
        sw.approximate(HARD, SQUARE, tol=1e-9, **options)
    assert caught.value.best is not None
    return caught.value.best


def test_the_same_call_gives_the_same_network_on_a_busy_machine() -> None:
    with slow_clock():
        busy = reached(max_work=0.35, max_seconds=1e9)
    idle = reached(max_work=0.35)
    assert busy.network.tokens == idle.network.tokens
    assert all(np.array_equal(a.keys, b.keys) for a, b in zip(busy.network.heads(), idle.network.heads(), strict=True))
    assert not any("max_seconds" in reason for reason in busy.plan.reasons + idle.plan.reasons)


def test_the_clock_is_a_last_resort_and_says_so() -> None:
    with slow_clock():
        best = reached(max_seconds=30.0)
    assert any("max_seconds = 30 ended the search" in reason for reason in best.plan.reasons)


def test_a_proof_ends_by_work_or_by_the_clock_and_says_which() -> None:
    network = sw.approximate("sin(9*x)*cos(7*y)", SQUARE, tol=1e-4, strategy="grid", certify=False).network
    claim: dict[str, Any] = {"target": "sin(9*x)*cos(7*y) + 1e-9*x", "tightness": 1e-3}
    found = certify(network, max_work=0.02, **claim)
    assert found.outcome is Outcome.BUDGET
    again = certify(network, max_work=0.02, **claim)
    assert (again.boxes, again.proved_bound) == (found.boxes, found.proved_bound)
    assert certify(network, max_seconds=1e-9, **claim).outcome is Outcome.TIME


def test_an_attempt_cannot_spend_what_belongs_to_the_next() -> None:
    budget = Budget(max_work=8.0)
    with budget.share(0.5):
        count(3.9 * SECOND)
        budget.check()
        with budget.share(0.5):
            count(0.2 * SECOND)
            with pytest.raises(OutOfBudget):
                budget.check()
        with pytest.raises(OutOfBudget):
            budget.check()
    budget.check()
    assert not budget.out_of_work
    count(4.0 * SECOND)
    assert budget.exhausted and budget.out_of_work and not budget.out_of_time


def test_work_is_counted_from_where_an_allowance_begins() -> None:
    count(5 * SECOND)
    before = done()
    allowance = Allowance(1.0)
    count(0.4 * SECOND)
    assert allowance.taken == pytest.approx(0.4) and allowance.left == pytest.approx(0.6) and not allowance.spent
    count(0.7 * SECOND)
    assert allowance.spent and done() - before == pytest.approx(1.1 * SECOND)
