"""Which engine a network that `approximate` builds runs by, and that the certificate is about that one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import softwright as sw

LINE = sw.Box(x=(-1, 1))


@pytest.mark.parametrize(
    ("dtype", "engine", "runs"),
    [
        ("float64", "auto", "sdpa"),
        ("float32", "auto", "double"),
        ("float32", "sdpa", "sdpa"),
        ("float32", "double", "double"),
    ],
)
def test_the_certificate_is_about_the_engine_that_runs(dtype: str, engine: str, runs: str, tmp_path: Path) -> None:
    built = sw.approximate("sin(3*x)", LINE, tol=1e-4, dtype=dtype, engine=engine, progress=False)
    assert built.engine == built.certificate.engine == runs
    built.save(tmp_path / "f.safetensors")
    assert sw.verify(tmp_path / "f.safetensors")
    again = sw.load(tmp_path / "f.safetensors")
    x = LINE.sample(50)
    assert again.engine == runs and np.array_equal(again(x), built(x))
    again.network.engine = "sdpa" if runs == "double" else "double"
    assert again.certificate is None and runs in again.certificate_void


def test_float64_inside_meets_what_float32_sums_do_not() -> None:
    """The floor of a float32 network is half an ulp of its output, not a hundred roundings of its sums."""
    built = sw.approximate("sin(3*x)", LINE, tol=2e-7, dtype="float32", progress=False)
    assert built.certificate is not None and built.certificate.bound <= 2e-7


def test_many_tokens_run_as_they_are() -> None:
    built = sw.approximate("sin(60*x)", LINE, tol=1e-2, dtype="float32", certify=False, progress=False)
    assert built.network.tokens > 20 and built.engine == "sdpa"


def test_wrong_engines_are_refused_with_the_remedy() -> None:
    with pytest.raises(sw.InvalidInput, match="choose from auto, sdpa, factorised, double"):
        sw.approximate("x", LINE, engine="fast")
    with pytest.raises(sw.InvalidInput, match="is for dtype='float32'"):
        sw.approximate("x", LINE, engine="double")
    with pytest.raises(sw.InvalidInput, match="stacks, which have one engine"):
        sw.approximate("x", LINE, strategy="compose", dtype="float32", engine="double")
    network = sw.approximate("x", LINE, tol=1e-2, progress=False).network
    with pytest.raises(sw.InvalidInput, match="is for float32 networks"):
        sw.certify(network, "x", bound=1.0, engine="double")
