"""Formulas that are undefined somewhere are refused before any work, with the sub-expression and a point."""

from __future__ import annotations

import time

import numpy as np
import pytest

import softwright as sw

_A = np.random.default_rng(4).uniform(-0.8, 0.8, 20).round(2).tolist()


def _sides(dim: int) -> dict[str, tuple[float, float]]:
    return {f"x{i}": (-1.0, 1.0) for i in range(1, dim + 1)}


def _sum(dim: int) -> str:
    return " + ".join(f"x{i}" for i in range(1, dim + 1))


def _ball(dim: int) -> str:
    """0 at one point of the box, which no grid has."""
    return " + ".join(f"(x{i} - {_A[i - 1]})**2" for i in range(1, dim + 1)).replace("- -", "+ ")


ROWS = [
    ("1/x1", 1),
    ("1/(x1*x2 - 0.3)", 2),
    (f"1/({_sum(20)} - 7.3)", 20),
    (f"1/({_ball(20)} - 0.01)", 20),
    (f"({_ball(12)} - 0.01)**-1.0", 12),
    (f"sqrt({_ball(20)} - 0.01)", 20),
    (f"sin(x1)*log({_ball(8)} - 0.001)", 8),
    (f"({_ball(20)} - 0.01)**0.3", 20),
    (f"asin(1.001 - {_ball(6)})" + "*x1", 6),
    (f"acosh(1 + {_ball(15)} - 0.01)", 15),
    (f"xlogy(1 + x1**2, {_ball(5)} - 0.001)", 5),
    ("mod(3, where(x1 < x2, x3, x3))", 3),
]


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Modules are loaded once, by whatever is built first."""
    sw.approximate("x", {"x": (0.0, 1.0)}, strategy="compose")


@pytest.mark.parametrize("strategy", ["auto", "compose"])
@pytest.mark.parametrize(("text", "dim"), ROWS)
def test_refused_with_a_witness(text: str, dim: int, strategy: str) -> None:
    started = time.process_time()
    with pytest.raises(sw.UndefinedFormula) as told:
        sw.approximate(text, sw.Box(_sides(dim)), strategy=strategy)
    assert time.process_time() - started < 1.0
    (place,) = told.value.places
    assert place["certain"]
    assert list(place["point"]) == list(_sides(dim))
    assert all(-1 <= x <= 1 for x in place["point"].values())
    # The sub-expression is a formula by itself, and at the point, or next to it, it has no value of moderate size.
    part = sw.Expression(place["expression"], list(_sides(dim)))
    value = part(np.array([list(place["point"].values())]))[0, 0]
    assert not abs(value) < 1e6


def test_what_cannot_be_ruled_out_is_said_to_be_uncertain() -> None:
    with pytest.raises(sw.UndefinedFormula) as told:
        sw.approximate("1/(x1**2 - 2)**2", {"x1": (0.0, 2.0)})
    (place,) = told.value.places
    assert not place["certain"]
    assert abs(place["point"]["x1"] - 2**0.5) < 1e-6
    assert "may be undefined" in told.value.faults[0]


def test_all_faults_stand_together() -> None:
    with pytest.raises(sw.UndefinedFormula) as told:
        sw.approximate("1/x + log(y)", {"x": (-1, 1), "y": (-1, 1)}, tol=-1)
    assert len(told.value.faults) == 3
    assert [place["expression"] for place in told.value.places] == ["1/x", "log(y)"]


@pytest.mark.parametrize("text", ["sqrt(1 - x**2)", "where(0 < x, x*log(max(x, 0.1)), 0)", "1/(x**2 + 0.001)"])
def test_what_is_defined_is_not_refused(text: str) -> None:
    assert not sw.Expression(text).undefined(sw.Box(x=(-1, 1)))


@pytest.mark.parametrize("text", ["sqrt(x**2 + y**2 - 2*x*y*cos(x - y))", "(x**2 + y**2 - 2*x*y)**0.3"])
def test_what_only_rounding_puts_outside_of_a_domain_is_not_refused(text: str) -> None:
    box = sw.Box(x=(1, 5), y=(1, 5))
    assert not sw.Expression(text).undefined(box)
    assert not sw.Expression("sqrt(1 - (x/3)*(3/x))").undefined(sw.Box(x=(1, 5)))  # at most a rounding away from 0
