"""Figures: every kind of result draws, says what it shows, and leaves no trace in matplotlib's global state."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import softwright as sw
from softwright.approximation.figure import plot_built
from softwright.approximation.problem import Fit
from softwright.report import style

LINE = sw.Box(x=(-1, 1))
PLANE = sw.Box(x=(-1, 1), y=(-1, 1))


def titles(figure: object) -> str:
    parts = [axis.get_title(loc="left") + axis.get_title() for axis in figure.axes]  # type: ignore[attr-defined]
    return "\n".join([figure.get_suptitle(), *parts])  # type: ignore[attr-defined]


def test_one_variable_shows_the_mechanism_and_the_tolerance() -> None:
    built = sw.approximate("sin(3*x)", LINE, tol=1e-5)
    figure = plot_built(built)
    assert len(figure.axes) == 3
    assert "softmax weights" in titles(figure)
    assert "sin(3*x)" in titles(figure)
    levels = {float(line.get_ydata()[0]) for line in figure.axes[-1].lines if len(line.get_ydata()) == 2}  # type: ignore[index,arg-type]
    assert {1e-5, -1e-5} <= levels


def test_several_heads_and_outputs() -> None:
    figure = plot_built(sw.approximate("abs(sin(5*x))", LINE, tol=1e-4, strategy="layer"))
    assert "head 2" in titles(figure)
    figure = plot_built(sw.approximate("sin(x), cos(x)", LINE, tol=1e-4))
    assert len(figure.axes[0].lines) == 4


@pytest.mark.parametrize("formula", ["exp(-x**2 - y**2)", "max(abs(x - y), 0.2)", "x + y", "max(x, 0) + max(y, 0)"])
def test_two_variables(formula: str, tmp_path: Path) -> None:
    path = tmp_path / "plane.png"
    figure = plot_built(sw.approximate(formula, PLANE, tol=1e-3, strategy="layer", certify=False), path)
    assert path.stat().st_size > 10_000
    assert "network minus target" in titles(figure)


def test_more_variables() -> None:
    built = sw.approximate("sin(x) + y*z", sw.Box(x=(-1, 1), y=(-1, 1), z=(0, 2)), tol=1e-3)
    assert "slices through the centre" in titles(plot_built(built))


def test_tables() -> None:
    x = np.linspace(0, 1, 25)
    figure = plot_built(sw.approximate(sw.Table(x, np.exp(x)), tol=1e-4))
    assert "points of the table" in titles(figure)
    points = np.random.default_rng(0).uniform(size=(60, 2))
    figure = plot_built(sw.approximate(sw.Table(points, points.sum(axis=1) ** 2), tol=1e-2))
    assert "table's points" in titles(figure)


def test_a_loaded_callable_has_no_target_to_draw(tmp_path: Path) -> None:
    path = tmp_path / "f.safetensors"
    sw.approximate(np.exp, LINE, tol=1e-3).save(path)
    assert "not stored" in titles(plot_built(sw.load(path)))


def test_formats_and_missing_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = sw.approximate("x", LINE)
    plot_built(built, tmp_path / "f.svg")
    assert (tmp_path / "f.svg").read_text().lstrip().startswith("<?xml")
    with pytest.raises(sw.InvalidInput, match="change the ending"):
        plot_built(built, tmp_path / "f.doc")
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    with pytest.raises(sw.InvalidInput, match=r"softwright\[plot\]"):
        plot_built(built)


def test_no_global_state() -> None:
    plot_built(sw.approximate("x**2", LINE, tol=1e-3))
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []


def test_large_grids_leave_the_dots_out() -> None:
    from softwright.approximation.plan import make_plan
    from softwright.attention import AttentionNetwork, Axis, Head
    from softwright.result.built import Built

    axis = Axis(np.linspace(-40, 40, 45), np.linspace(-1, 1, 45) ** 2)
    head = Head.on_grid([axis, axis], np.zeros((45 * 45, 1)))
    network = AttentionNetwork([head], PLANE)
    plan = make_plan(Fit([head], 0.0, "grid"), network, [head], 1e-3, 0.0)
    figure = plot_built(Built(network, plan, {"kind": "function", "name": "f"}))
    assert "dots" not in titles(figure)
