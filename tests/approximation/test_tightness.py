"""What a certificate states is what was achieved, not what was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import softwright as sw


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("sin(3*x)", {"x": (-1, 1)}),
        ("abs(x - 0.3)", {"x": (-1, 1)}),
        ("sin(3*x)*exp(-y)", {"x": (-1, 1), "y": (0, 1)}),
    ],
)
def test_the_bound_is_close_to_an_error_that_is_there(text: str, box: dict[str, Any], tmp_path: Path) -> None:
    built = sw.approximate(text, sw.Box(**box), tol=1e-4)
    certificate = built.certificate
    assert certificate.bound < 1e-4
    assert certificate.lower <= certificate.bound <= 1.1 * certificate.lower * (1 + 1e-9)
    assert built.observed_error <= certificate.bound
    built.save(tmp_path / "net.safetensors")
    assert sw.verify(tmp_path / "net.safetensors").status == "VERIFIED"


def test_none_states_the_tolerance() -> None:
    assert sw.approximate("sin(3*x)", sw.Box(x=(-1, 1)), tol=1e-4, tightness=None).certificate.bound == 1e-4


def test_a_tightness_that_is_none_is_named_with_all_other_faults() -> None:
    with pytest.raises(sw.InvalidInput, match=r"(?s)tol must.*tightness must lie between"):
        sw.approximate("sin(3*x)", sw.Box(x=(-1, 1)), tol=-1, tightness=1e-9)
