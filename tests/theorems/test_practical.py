"""The practical rows of theorems: their kinds of maps as programs, with `compile`'s proof."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import softwright as sw
from softwright.cli import app
from softwright.errors import InvalidInput
from softwright.theorems import LABELS, find_theorem
from softwright.theorems.verb import row

PRACTICAL = [label for label in LABELS if find_theorem(label).practical is not None]


def test_sequences_and_equivariant_maps_have_a_practical_row() -> None:
    assert PRACTICAL == ["A3", "C5"]
    assert all(find_theorem(label).practical.program in repr(sw.theorem(label)) for label in PRACTICAL)  # type: ignore[union-attr]


def test_products_of_several_tokens_are_taken_by_a3() -> None:
    with pytest.raises(InvalidInput, match="--program"):
        sw.theorem("A3").build(formula="sin(x)*y + abs(x)", knots=155)
    built = sw.theorem("A3").compile("sin(x)*next(x, 1, default=0)", "length=1:6 x=-1:1")
    x = np.array([0.5, -0.25, 1.0])
    assert np.abs(built(x=x) - np.sin(x) * np.array([-0.25, 1.0, 0.0])).max() <= built.certificate.bound <= 1e-6


def test_equivariant_targets_of_several_fields_move_with_their_tokens(tmp_path: Path) -> None:
    """rho(x_i, mean phi(x_j)) in three dimensions, from the command line, verified from the file."""
    path = tmp_path / "c5.safetensors"
    text = "tanh(x1 + mean(x2*x3)) * x3, median(x1) - x2"
    tokens = "length=1:6 x1=0:1 x2=0:1 x3=0:1"
    asked = ["theorem", "C5", "--program", text, "--tokens", tokens, "--tol", "1e-3", "-o", str(path)]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    built = sw.load(path)
    assert sw.verify(path, progress=False).status == "VERIFIED"
    X = np.random.default_rng(0).random((3, 5))
    order = np.array([3, 1, 4, 0, 2])
    fields = dict(zip(("x1", "x2", "x3"), X, strict=True))
    found = built(**fields)
    moved = built(**{name: value[order] for name, value in fields.items()})
    wanted = np.stack([np.tanh(X[0] + (X[1] * X[2]).mean()) * X[2], np.sort(X[0])[2] - X[1]], axis=1)
    assert np.abs(found - wanted).max() <= 1e-3
    assert np.abs(moved - found[order]).max() <= 2e-3


@pytest.mark.parametrize(
    "text", ["x + i", "prev(x, 1)", "smooth(x, 0.3)", "sum(x[j] for j <= i)", "sorted(x)[i]", "first(x)", "x[n-1-i]"]
)
def test_what_depends_on_places_is_no_target_of_c5(text: str) -> None:
    with pytest.raises(InvalidInput, match="places"):
        sw.theorem("C5").compile(text, "length=1:6 x=-1:1")


def test_what_is_beyond_a_row_is_refused_with_a_remedy() -> None:
    with pytest.raises(InvalidInput, match="no real number"):
        sw.theorem("A3").compile("count(s[j] == s[i])", "length=1:6 s=abc")
    with pytest.raises(InvalidInput, match="tokens"):
        sw.theorem("C5").compile("x")
    with pytest.raises(InvalidInput, match="A3 and C5"):
        sw.theorem("A1").compile("x", "length=1:6 x=-1:1")


def test_the_same_map_as_a_program_stands_beside_c5() -> None:
    found = row(find_theorem("C5").build(levels=3), proofs=False).softwright
    assert found["softwright compile (proved)"].error <= 1e-6
