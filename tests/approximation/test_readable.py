"""`style="readable"`: values within twice the target's range, a plan that says what tokens add, a proof."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import softwright as sw
from softwright.cli import app

_LINE, _PLANE = sw.Box(x=(-1, 1)), sw.Box(x=(-1, 1), y=(-1, 1))


def _held(built: sw.Built[Any], middle: float) -> float:
    """The largest distance of what a token holds from the middle, over the whole box."""
    (head,) = built.network.heads()
    reach = 0.0 if head.slopes is None else np.abs(head.slopes).sum(axis=2)
    return float((np.abs(head.values - middle) + reach).max())


@pytest.mark.parametrize(
    ("text", "box", "tol", "dtype"),
    [
        ("sin(3*x)", _LINE, 1e-6, "float64"),
        ("exp(x) + 5", _LINE, 1e-4, "float32"),
        ("abs(x - 0.2)", _LINE, 1e-4, "float64"),
        ("sin(2*x)*cos(y)", _PLANE, 1e-4, "float64"),
    ],
)
def test_values_are_bounded_and_the_certificate_holds(
    text: str, box: sw.Box, tol: float, dtype: str, tmp_path: Path
) -> None:
    built = sw.approximate(text, box, tol=tol, style="readable", dtype=dtype)
    points = np.stack(np.meshgrid(*[np.linspace(-1, 1, 201)] * box.dim), axis=-1).reshape(-1, box.dim)
    wanted = np.asarray(built.source(points))
    low, high = float(wanted.min()), float(wanted.max())
    assert _held(built, 0.5 * (low + high)) <= 2 * (high - low) * 1.001
    assert built.certificate is not None
    assert built.certificate.bound <= tol
    assert float(np.abs(built(points) - wanted).max()) <= built.certificate.bound
    said = built.plan.explain()
    assert "times the target's range" in said and "tokens" in said and "a token adds" in said
    assert all(0 <= head["most_added"] <= 2 * (high - low) for head in built.plan.heads)
    built.save(tmp_path / "f.safetensors")
    assert sw.verify(tmp_path / "f.safetensors").status == "VERIFIED"


def test_the_price_is_printed_and_there_is_none_where_values_are_small_anyway() -> None:
    plain, readable = (sw.approximate("sin(3*x)", _LINE, tol=1e-4, style=style) for style in ("plain", "readable"))
    assert _held(readable, 0.0) <= 4.0
    assert f"{readable.plan.tokens} tokens instead of {plain.plan.tokens}" in readable.plan.explain()
    gates = sw.approximate("max(x, y)", _PLANE, tol=1e-4, style="readable")
    assert "the same tokens as without it" in gates.plan.explain()


def test_what_does_not_go_together_is_refused_with_all_faults() -> None:
    with pytest.raises(sw.InvalidInput, match="unknown style 'nice'; choose from plain, readable"):
        sw.approximate("x", _LINE, style="nice")
    with pytest.raises(sw.InvalidInput) as error:
        sw.approximate("x", _LINE, style="readable", strategy="affine", norm="L2")
    assert "leave norm and gap out" in str(error.value) and "strategy='affine'" in str(error.value)
    many = sw.Box({f"x{i}": (0, 1) for i in range(6)})
    with pytest.raises(sw.InvalidInput, match="up to 5 variables"):
        sw.approximate("+".join(many.names), many, style="readable")


@pytest.mark.parametrize(
    ("text", "more", "reason"),
    [
        ("where(x < 0.3, 0, 1)", {}, "may jump"),
        ("sin(3*x)", {"max_tokens": 5}, "at most 5 tokens.*more max_tokens"),
        ("sqrt(x + 1)", {"tol": 1e-4}, "at most 2000 tokens.*larger tol or a smaller box"),
    ],
)
def test_where_no_such_tokens_do_the_reason_is_said(text: str, more: dict[str, Any], reason: str) -> None:
    with pytest.raises(sw.ToleranceNotReached, match=f"(?s){reason}") as error:
        sw.approximate(text, _LINE, **{"tol": 1e-3, **more}, style="readable")
    assert "max_work" not in str(error.value)


def test_the_command_has_the_option() -> None:
    result = CliRunner().invoke(
        app, ["approximate", "cos(x)", "x=-1:1", "--tol", "1e-4", "--style", "readable", "--explain"]
    )
    assert result.exit_code == 0, result.output
    assert "style readable" in result.output
