"""Constructions of papers B and C as results: certificates, files, figures, tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import softwright as sw
from softwright.attention import Constructed
from softwright.cli import app
from softwright.result.closed_form import EXACT_ARITHMETIC
from softwright.theorems import find_theorem
from softwright.theorems.verb import row, sweep_rows

SIZES = {
    "B1": {"pieces": 4},
    "B2": {"formula": "x*y", "cells": 4, "columns": 2},
    "B3": {"target": "root", "p": 1, "cells": 6},
    "B4": {"formula": "disc", "norm": "L2", "cells": 4, "eps0": 0.2},
    "C1": {"values": 4},
    "C2": {"vocabulary": 3, "sequences": 2},
    "C3": {"dim": 2},
    "C4": {"sequences": 2},
    "C5": {"levels": 3},
    "C6": {"data": [[[1.0, 2.0]], [[2.0, 3.0]]]},
}


@pytest.mark.parametrize("label", SIZES)
def test_built_survives_its_file(label: str, tmp_path: Path) -> None:
    built = sw.theorem(label).build(**SIZES[label])
    assert isinstance(built.network, Constructed)
    made, certificate = built.source, built.certificate
    assert certificate.method == f"theorem {label}"
    assert certificate.exact_part == made.bound
    assert (EXACT_ARITHMETIC in certificate.assumptions) == (made.rounding is None)
    assert built.observed_error <= certificate.bound
    path = tmp_path / "theorem.safetensors"
    built.save(path)
    again = sw.load(path)
    assert again.certificate == certificate
    inputs = made.sample(np.random.default_rng(1), 40)
    np.testing.assert_array_equal(again.network.evaluate(inputs), made.network.evaluate(inputs))
    rebuilt = find_theorem(label).build(**again.target["sizes"])  # what the file says is enough to build it again
    assert rebuilt.bound == made.bound
    np.testing.assert_array_equal(rebuilt.network.evaluate(inputs), made.network.evaluate(inputs))


@pytest.mark.parametrize("label", ["B1", "B3", "C1", "C2", "C3", "C4", "C5"])
def test_figures_are_drawn_from_a_file(label: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    sw.theorem(label).build(**SIZES[label]).save(tmp_path / "theorem.safetensors")
    figure = sw.load(tmp_path / "theorem.safetensors").plot(tmp_path / "figure.png")
    assert len(figure.axes) >= 2
    assert (tmp_path / "figure.png").stat().st_size > 5000


def test_an_lp_row_holds_the_enclosed_error() -> None:
    line = row(find_theorem("B3").build(target="sign", p=2, cells=8), rivals=False)
    assert line.proved is not None
    assert line.proved <= line.bound
    assert abs(line.proved - line.observed) <= 0.05 * line.proved


def test_sizes_that_do_not_go_with_the_sweep_are_left_out() -> None:
    rows = sweep_rows(find_theorem("C5"), {"length": 3})  # three tokens need more than three levels
    assert [line.size for line in rows] == ["levels 4", "levels 5", "levels 6"]


def test_command_prints_both_sequences_of_the_counterexample() -> None:
    result = CliRunner().invoke(app, ["theorem", "C3"])
    assert result.exit_code == 0
    assert "(1, 2, 5, 6) and (1, 3, 4, 6)" in result.stdout


def test_command_names_the_condition() -> None:
    result = CliRunner().invoke(app, ["theorem", "B2", "--eps0", "0"])
    assert result.exit_code == 2
    assert "0 < eps0 < 1" in result.output
