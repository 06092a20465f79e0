"""Jumps with a gap: right outside the bands, between the two values inside, refused without a gap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import softwright as sw
from softwright.compiler.build import compile_formula
from softwright.compiler.layout import network_of
from softwright.compiler.look import gate_points, outside_bands
from softwright.compiler.nodes import CannotCompile, Expression
from softwright.precision import precision_of

SQUARE = {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}
ROWS = [
    ("where(x**2 + y**2 < 0.5, sin(3*x), cos(2*y))", 1e-6, 1e-9, "float64"),
    ("where(x < y and y < 0.5 or x > 0.8, exp(x), 2)", 1e-6, 1e-6, "float64"),
    ("where(sign(x)*y > 0.1, x, log(1.5 + sign(x - 0.2)*y**2))", 1e-6, 1e-5, "float64"),
    ("floor(3*x) + round(x*y) - mod(y, 0.4)*x", 1e-5, 1e-4, "float64"),
    ("sqrt(where(x > 0, x, -x) + 0.1)", 1e-6, 1e-3, "float64"),
    ("where(sin(3*x) + y**2 > 0.3, x, y)*exp(y)", 1e-2, 1e-2, "float32"),
]


@pytest.mark.parametrize(("text", "tol", "gap", "dtype"), ROWS)
def test_proved_outside_the_bands_down_to_their_edges(text: str, tol: float, gap: float, dtype: str) -> None:
    box = sw.Box(SQUARE)
    expression = Expression(text, box)
    compiled = compile_formula(expression, box, tol, precision_of(dtype), gap=gap)
    assert compiled.proved
    network = network_of(compiled)
    points = np.concatenate([box.sample(5000, seed=8), box.corners(), gate_points(compiled, 300, seed=17)])
    cast = points.astype(dtype).astype(float)
    cast = cast[box.contains(cast)]
    claimed = outside_bands(compiled.program, box, cast)
    assert 0.2 < claimed.mean() <= 1.0
    error = np.abs(network.evaluate(cast) - expression(cast)).max(axis=1)
    assert error[claimed].max() <= compiled.proof.bound
    # at the very edges: points within a tenth of a gap of a band exist, and were looked at
    nearest = np.min([np.abs(Expression(d, box)(cast[claimed])[:, 0]) for d in compiled.program.differences])
    assert nearest < 1.1 * gap


def test_between_the_two_values_inside_a_band() -> None:
    box, gap = sw.Box(SQUARE), 0.05
    compiled = compile_formula(Expression("where(x < y, 2 + x, y)", box), box, 1e-6, precision_of("float64"), gap=gap)
    points = box.sample(4000, seed=1)
    inside = points[np.abs(points[:, 0] - points[:, 1]) < gap]
    values = network_of(compiled).evaluate(inside)[:, 0]
    assert len(inside) > 100
    assert np.all(values >= inside[:, 1] - compiled.proof.bound)
    assert np.all(values <= 2 + inside[:, 0] + compiled.proof.bound)


def test_a_condition_that_no_table_meets_within_the_gap_is_not_proved() -> None:
    box = sw.Box(SQUARE)
    expression = Expression("where(sin(3*x) > exp(y)/2, 0, 1)", box)
    with pytest.raises(CannotCompile, match="accurate enough"):
        compile_formula(expression, box, 1e-3, precision_of("float64"), gap=1e-16)


@pytest.mark.parametrize("text", ["where(x < y, x, 2*y)", "sign(x) + y", "floor(3*x)*y", "mod(x, 0.4)", "round(x*y)"])
def test_without_a_gap_a_jump_is_refused_and_the_option_named(text: str) -> None:
    box = sw.Box(SQUARE)
    with pytest.raises(CannotCompile, match="gap=1e-6"):
        compile_formula(Expression(text, box), box, 1e-3, precision_of("float64"))
    with pytest.raises((sw.ToleranceNotReached, sw.InvalidInput), match="gap=1e-6"):
        sw.approximate("where(x < 0, 0, 1 + x)", sw.Box(x=(-1, 1)), tol=1e-4)


def test_what_is_undefined_between_the_two_values_is_refused() -> None:
    """log of a jump from -1 to 1 would pass 0 inside the band, however it is chosen outside."""
    box = sw.Box(x=(-1.0, 1.0))
    with pytest.raises(CannotCompile):
        compile_formula(
            Expression("log(sign(x)**2*(1 + x**2)*sign(x))", box), box, 1e-3, precision_of("float64"), gap=0.1
        )


def test_comparisons_that_are_decided_cost_nothing_and_exclude_nothing() -> None:
    box = sw.Box(SQUARE)
    compiled = compile_formula(
        Expression("where(x < 2, x*y, 0) + floor(0.3 + x/5)", box), box, 1e-6, precision_of("float64"), gap=0.1
    )
    assert compiled.proved and not compiled.program.differences


def test_the_claim_names_the_bands_and_a_file_keeps_them(tmp_path: Path) -> None:
    built = sw.approximate("where(x < y, x, 2*y)", SQUARE, tol=1e-6, gap=1e-4)
    assert built.certificate is not None
    assert built.certificate.outside == {"gap": 1e-4, "of": ["y - x"]}
    assert "where y - x is not within 0.0001 of 0" in built.certificate.statement
    assert any("proved where none of y - x is within 0.0001 of 0" in reason for reason in built.plan.reasons)
    built.save(tmp_path / "jump.safetensors")
    again = sw.load(tmp_path / "jump.safetensors").certificate
    assert again is not None and again.outside == built.certificate.outside


def test_a_gap_is_checked_with_all_other_input() -> None:
    with pytest.raises(sw.InvalidInput) as caught:
        sw.approximate("sign(x)", sw.Box(x=(-1, 1)), gap=-1.0, strategy="grid", tol=-1)
    assert len(caught.value.faults) == 3
    with pytest.raises(sw.InvalidInput, match="jumps of a formula"):
        sw.approximate(np.sin, sw.Box(x=(-1, 1)), gap=0.1)
