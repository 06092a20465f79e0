"""The automatic choice between one layer and a stack: fewer tokens among what is proved, and the plan says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import softwright as sw

CUBE = {"x": (1.0, 2.0), "y": (1.0, 2.0), "z": (-1.0, 1.0)}


@pytest.mark.parametrize(
    ("text", "sides", "strategy"),
    [
        ("exp(-(x*y)**2/2)*sin(3*z)/(1 + x)", CUBE, "compose"),  # a grid would need more
        ("x*y*z", CUBE, "grid"),  # two tokens an axis, some of them none: no stack has fewer
        ("abs(x**2 + y**2 - 4)", {"x": (-3.0, 3.0), "y": (-3.0, 3.0)}, "compose"),  # a curved kink stalls in one layer
        ("sin(5*x)*exp(-3*y**2)", {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}, "compose"),
        ("exp(5*x)", {"x": (-1.0, 1.0)}, "compose"),  # one gate
        ("sin(3*x)", {"x": (-1.0, 1.0)}, "affine"),  # affine values: no table has so few
        ("+".join(f"exp(x{i}*x{i + 1})" for i in range(1, 5)), {f"x{i}": (-1.0, 1.0) for i in range(1, 6)}, "compose"),
    ],
)
def test_fewer_tokens_among_what_is_proved(
    text: str, sides: dict[str, tuple[float, float]], strategy: str, tmp_path: Path
) -> None:
    built = sw.approximate(text, sides, tol=1e-4)
    assert built.plan.strategy == strategy and built.certificate is not None
    assert any("stack of" in reason for reason in built.plan.reasons)
    other = sw.approximate(text, sides, tol=1e-4, strategy="compose")
    if strategy == "compose":
        assert built.plan.tokens == other.plan.tokens
        built.save(tmp_path / "chosen.safetensors")
        assert sw.verify(tmp_path / "chosen.safetensors").verified
    else:
        assert built.plan.tokens <= other.plan.tokens


@pytest.mark.parametrize("text", ["exp(-x*y)", "sin(x)*cos(y)", "x**2/(2 + y)", "max(x + y, 0.3)"])
def test_one_layer_by_name_never_has_fewer_tokens(text: str) -> None:
    sides = {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}
    alone = sw.approximate(text, sides, tol=1e-3, strategy="layer")
    assert alone.kind == "approximation" and alone.certificate is not None
    assert sw.approximate(text, sides, tol=1e-3).plan.tokens <= alone.plan.tokens


def test_the_plan_says_why_there_is_no_stack() -> None:
    built = sw.approximate("atan2(y, x) + gamma(x + 3)", {"x": (-0.5, 1.0), "y": (1.0, 2.0)}, tol=1e-2)
    assert built.kind == "approximation"
    assert any("no stack is compiled (atan2(y, x)" in reason for reason in built.plan.reasons)


def test_what_is_not_to_be_proved_is_not() -> None:
    built = sw.approximate("abs(x*y - 0.1)", {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}, tol=1e-4, certify=False)
    assert built.plan.strategy == "compose"
    assert built.certificate is None and built.unproved == "not asked for"


def test_a_limit_of_tokens_holds_for_stacks_too() -> None:
    with pytest.raises(sw.ToleranceNotReached):
        sw.approximate("sin(5*x*y*z)*exp(x)", CUBE, tol=1e-9, max_tokens=6, max_work=1.0)


@pytest.mark.parametrize("text", ["where(y*y >= y - y, 1, 0)", "where(x < y, 2, 2)", "sign(x)*sign(y)", "floor(x/10)"])
@pytest.mark.parametrize("options", [{}, {"gap": 1e-3}, {"gap": 1e-3, "strategy": "compose"}, {"norm": "L1"}])
def test_what_is_affine_once_its_comparisons_are_decided_is_one_token(
    text: str, options: dict[str, Any], tmp_path: Path
) -> None:
    built = sw.approximate(text, sw.Box(x=(1, 4), y=(1, 4)), tol=1e-4, **options)
    assert built.kind == "approximation" and built.plan.tokens == 1
    built.save(tmp_path / "f.safetensors")
    assert sw.verify(tmp_path / "f.safetensors").verified
