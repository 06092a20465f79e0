"""L_p norms of stacks with jumps: measures of bands hold, what is proved holds, what cannot be is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import softwright as sw
from softwright.compiler.integrals import Bands, integral, plain_norm, volume_above

LINE, SQUARE = {"x": (-1.0, 1.0)}, {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}
ROWS = [
    ("sign(x)", LINE, "L1", 1e-3),
    ("floor(3*x)*x", LINE, "L2", 1e-3),
    ("where(x**2 + y**2 < 0.5, 1, 0)", SQUARE, "L1", 1e-3),
    ("where(x**2 + y**2 < 0.5, sin(3*x), cos(2*y))", SQUARE, "L1", 1e-6),
    ("where(x*y > 0, 1, x)", SQUARE, "L2", 1e-3),
    ("sqrt(2 + sign(x - y))*exp(y)", SQUARE, "L2", 1e-3),
]


@pytest.mark.parametrize(("text", "sides", "norm", "tol"), ROWS)
def test_jumps_are_proved_in_the_mean_and_verified(
    text: str, sides: dict[str, tuple[float, float]], norm: str, tol: float, tmp_path: Path
) -> None:
    built = sw.approximate(text, sides, norm=norm, tol=tol)
    proved = built.certificate
    assert proved is not None
    assert (proved.norm, proved.outside) == (norm, {})
    assert proved.bound <= tol
    built.save(path := tmp_path / "jump.safetensors")
    verdict = sw.verify(path)
    assert verdict.verified, verdict
    assert f"{norm} norm of |network - target|" in verdict.reason
    assert sw.load(path).certificate == proved


def test_the_norm_of_a_step_as_an_integral_shows_it() -> None:
    """|sigma(B x) 2 - 1 - sign(x)| has the integral 4 log(2)/B over the line: near to what is seen, below what is
    proved."""
    built = sw.approximate("sign(x)", LINE, norm="L1", tol=1e-2)
    gap = built.certificate.parts["bands"][0]["gap"]  # type: ignore[union-attr]
    fine = np.concatenate([np.linspace(0, 40 * gap, 40_001), np.geomspace(40 * gap, 1, 4001)[1:]])
    error = np.abs(built(fine[:, None])[:, 0] - np.sign(fine))
    area = 2 * float(np.sum(0.5 * (error[1:] + error[:-1]) * np.diff(fine)))
    assert 0.01 * built.certificate.bound < area < built.certificate.bound  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["x**2 + y**2 - 0.5", "x*y", "sin(3*x) - y", "abs(x) - y**2", "x + floor(2*y)"])
def test_measures_of_bands_are_no_less_than_points_show(text: str) -> None:
    box, gap = sw.Box(SQUARE), 0.03
    bands = Bands([text], box)
    found = integral(bands, gap, lambda low, _: np.ones(len(low)), 0.0, 3000)
    points = box.sample(200_000, seed=2)
    share = float(np.mean(np.abs(sw.Expression(text, box)(points)) < gap)) * 4.0
    assert share <= found <= 1.6 * share + 0.05


def test_a_network_without_jumps_has_the_norm_that_its_sup_norm_gives(tmp_path: Path) -> None:
    box = sw.Box(x=(-1, 1), y=(-1, 2), z=(0, 1))
    for text, sides in (("exp(x)*sin(y*z)", box), ("sin(3*x)", sw.Box(LINE))):
        built = sw.approximate(text, sides, norm="L2", tol=1e-3)
        built.save(path := tmp_path / "smooth.safetensors")
        assert sw.verify(path).verified
        assert built.certificate.bound <= 1e-3  # type: ignore[union-attr]
    assert volume_above(box) >= 6.0
    assert plain_norm(2, 4.0, 1.0, 0.5).bound >= 3.0  # |e| <= 1.5 on a set of measure 4


def test_what_is_wrong_with_a_norm_is_said_together() -> None:
    with pytest.raises(sw.InvalidInput) as told:
        sw.approximate("sign(x)", LINE, norm="L9", gap=0.1, strategy="grid")
    assert len(told.value.faults) == 4
    with pytest.raises(sw.InvalidInput, match="for formulas"):
        sw.approximate(lambda x: x, LINE, norm="L1")
    with pytest.raises(sw.InvalidInput, match="not known"):
        sw.approximate("x", LINE, norm="L0.5")


def test_a_jump_on_a_whole_region_and_one_that_is_too_sharp_are_refused() -> None:
    with pytest.raises(sw.InvalidInput, match="whole region"):
        sw.approximate("where(max(x, 0) > 0, 1, 0)", LINE, norm="L1", tol=1e-3)
    with pytest.raises(sw.ToleranceNotReached, match="larger tol"):
        sw.approximate("where(x**2 + y**2 < 0.5, 1, 0)", SQUARE, norm="L2", tol=1e-8)
