"""Tables of measurements: fits that say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softwright as sw

SD = 0.2


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    x = rng.uniform(0, 2, 240)
    return x[:, None], (np.sin(3 * x) + SD * rng.normal(size=len(x)))[:, None]


@pytest.mark.parametrize("noise", ["auto", SD])
def test_noise_is_not_repeated(rows: Any, noise: Any, tmp_path: Path) -> None:
    built = sw.approximate(sw.Table(*rows, names=["x"]), noise=noise, progress=False)
    x = np.linspace(0.05, 1.95, 200)
    truth = np.sqrt(np.mean((built(x[:, None])[:, 0] - np.sin(3 * x)) ** 2))
    assert truth < 0.4 * SD  # interpolation of the rows has about sd
    told = built.plan.noise
    assert told is not None and 0.8 * SD < told["rms"][0] < 1.3 * SD and 0.9 < told["coverage"] <= 1
    assert built.certificate is None and "fit" in built.unproved
    assert "a fit, no bound" in repr(built)
    built.save(tmp_path / "fit.safetensors")
    assert sw.load(tmp_path / "fit.safetensors").plan == built.plan
    built.plot(tmp_path / "residuals.svg")
    assert (tmp_path / "residuals.svg").stat().st_size > 1000


@pytest.mark.parametrize("noise", ["some", -1.0, 0, float("nan"), True])
def test_noise_is_auto_or_a_standard_deviation(rows: Any, noise: Any) -> None:
    with pytest.raises(sw.InvalidInput, match="noise must be"):
        sw.approximate(sw.Table(*rows, names=["x"]), noise=noise)


def test_formulas_have_no_noise() -> None:
    with pytest.raises(sw.InvalidInput, match="noise= is for tables"):
        sw.approximate("x", {"x": (0, 1)}, noise="auto")


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("tol", 2 + 1j),
        ("gap", [1.0]),
        ("norm", None),
        ("norm", np.ones(2)),
        ("noise", np.ones(2)),
        ("relative", np.ones(2)),
        ("certify", None),
        ("strategy", []),
        ("max_work", "much"),
        ("max_seconds", None),
    ],
)
def test_options_of_a_foreign_kind_are_named(option: str, given: Any) -> None:
    options: dict[str, Any] = {option: given}
    with pytest.raises(sw.InvalidInput, match=option):
        sw.approximate("x", {"x": (0, 1)}, **options)
