"""Gates: the error law of hard gates is sharp, piecewise-linear targets are exact, and kinks cost a few tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softwright.approximation.strategies.line import fit_line, line_breaks
from softwright.approximation.strategies.pieces import fit_pieces, gate_head, line_error
from softwright.attention import evaluate
from tests.approximation.problems import black_box, formula_problem, unit_box

TWO_GATE = 0.2785  # W0(1/e) rounded up


@pytest.mark.parametrize("beta", [10.0, 1e3, 1e6])
@pytest.mark.parametrize("knot", [0.0, -0.31])
def test_two_gates_err_by_exactly_what_the_theory_says(beta: float, knot: float) -> None:
    left, right = -0.4, 2.1
    jump = right - left
    head = gate_head(
        np.array([knot]), np.array([[-left * knot], [-right * knot]]), np.array([[left], [right]]), np.array([beta])
    )
    t = np.unique(np.clip(np.concatenate([np.linspace(-1, 1, 4001), knot + np.linspace(-30, 30, 6001) / beta]), -1, 1))
    wanted = np.where(t < knot, left * (t - knot), right * (t - knot))
    error = np.abs(head(t[:, None])[:, 0] - wanted).max()
    assert 0.278 * jump / beta <= error <= TWO_GATE * jump / beta * (1 + 1e-6) + 1e-15
    assert head.tokens == 2
    assert head.structure == "gates"


@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_continuous_piecewise_linear_targets_take_one_token_a_piece(knots: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = np.sort(rng.choice(np.arange(-18, 19), knots, replace=False) / 20 + 0.01)
    slopes = rng.permutation(np.arange(-5, 6))[: knots + 1].astype(float)

    def target(t: np.ndarray) -> np.ndarray:
        jumps = np.diff(slopes)
        return slopes[0] * t[:, 0] + (jumps * np.maximum(t - places, 0)).sum(axis=1)

    tolerance = 1e-6
    fit = fit_pieces(black_box(target, 1, tolerance), places.tolist())
    assert fit is not None
    assert fit.tokens == knots + 1
    # At a knot the two neighbours are off by W0(1/e) C / beta; far knots add nothing.
    close = 10.0 ** np.linspace(-12, -1, 200)
    t = np.clip(np.concatenate([np.linspace(-1, 1, 2003), *[x + s * close for x in places for s in (-1, 1)]]), -1, 1)
    assert np.abs(evaluate(fit.in_unit_frame(), t[:, None])[:, 0] - target(t[:, None])).max() <= tolerance


@pytest.mark.parametrize(
    ("text", "most_tokens"),
    [
        ("abs(x)", 2),
        ("max(x, 0)", 2),
        ("min(max(x, -0.3), 0.4)", 3),
        ("abs(sin(5*x))", 28),
        ("max(sin(3*x), cos(2*x))", 16),
        ("abs(x - 0.1)*exp(x)", 12),
    ],
)
def test_kinks_of_formulas(text: str, most_tokens: int) -> None:
    problem, _ = formula_problem(text, unit_box("x"), 1e-7)
    fit = fit_line(problem)
    assert fit.strategy == "pieces"
    assert fit.error <= 1e-7
    assert fit.tokens <= most_tokens


def test_kinks_of_a_black_box() -> None:
    problem = black_box(lambda t: np.abs(t[:, 0] - 0.123) + np.cos(2 * t[:, 0]), 1, 1e-7)
    assert line_breaks(problem) == [pytest.approx(0.123, abs=1e-9)]
    fit = fit_line(problem)
    assert fit.error <= 1e-7
    assert fit.tokens <= 12


def test_a_jump_is_switched_in_a_narrow_band_and_said() -> None:
    problem, _ = formula_problem("where(x < 0.2, 0, 1)", unit_box("x"), 1e-4)
    fit = fit_pieces(problem, [0.2])
    assert fit is not None
    assert any("jumps by 1" in reason for reason in fit.reasons)
    t = np.concatenate([np.linspace(-1, 0.2 - 1e-5, 2000), np.linspace(0.2 + 1e-5, 1, 2000)])[:, None]
    assert np.abs(evaluate(fit.in_unit_frame(), t)[:, 0] - (t[:, 0] >= 0.2)).max() <= 1e-4


@pytest.mark.parametrize(
    "text",
    [
        "sign(x)*abs(x)**(1/3)",
        "where(x < 0, -sqrt(-x), sqrt(x))",
        "where(abs(x) < 1e-12, 0, x*log(abs(x) + 1e-300))",
        "where(x > 0, x*log(x), 0)",
    ],
)
def test_an_unbounded_slope_is_no_jump(text: str) -> None:
    problem, _ = formula_problem(text, unit_box("x"), 1e-3)
    fit = fit_pieces(problem, line_breaks(problem))
    assert fit is not None and not fit.jumps
    assert fit.error <= 1e-3


def test_a_jump_beside_an_unbounded_slope_has_its_own_size() -> None:
    problem, _ = formula_problem("where(x < 0.3, sqrt(abs(x - 0.3)), 0.05 + sqrt(abs(x - 0.3)))", unit_box("x"), 1e-3)
    fit = fit_pieces(problem, line_breaks(problem))
    assert fit is not None
    assert [reason.split(" at ")[0] for reason in fit.jumps] == ["the target jumps by 0.05"]


def test_a_singularity_at_an_end_is_graded() -> None:
    problem = black_box(lambda t: np.sqrt(np.maximum(1 + t[:, 0], 0)), 1, 1e-3)
    fit = fit_pieces(problem, [])
    assert fit is not None
    assert fit.error <= 1e-3


def test_the_check_sees_a_gate_between_samples() -> None:
    # A gate in the wrong place by 1e-9: invisible to any uniform sample, seen at the scale of the break.
    head = gate_head(np.array([1e-9]), np.zeros((2, 1)), np.array([[-1.0], [1.0]]), np.array([1e13]))
    error = line_error(lambda t: np.abs(t)[:, None], [head], [0.0], 0.0)
    assert 1e-9 <= error <= 2.1e-9
