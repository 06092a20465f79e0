"""Pages in a browser: the numbers are Python's, a pointer is followed, nothing is asked for and nothing complains."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softwright as sw
from softwright.page.formula import tape_of
from softwright.targets import Expression
from softwright.targets.formula.functions import ROWS
from tests.browser import Watched, started
from tests.contracts.kinds_made import MADE

BOX1, BOX2 = sw.Box(x=(-1, 2)), sw.Box(x=(-1, 1), y=(-2, 2))
BOX3 = sw.Box(x=(-1, 1), y=(-2, 2), z=(0, 1))
FUNCTIONS = {
    "one variable": lambda: sw.approximate("sin(3*x)*exp(-x)", BOX1, tol=1e-6),
    "kinks": lambda: sw.approximate("abs(sin(3*x))", BOX1, tol=1e-4),
    "float32": lambda: sw.approximate("sin(3*x)*exp(-y**2)", BOX2, tol=1e-4, dtype="float32"),
    "three variables, two outputs": lambda: sw.approximate("sin(x) + cos(y*z), x*z", BOX3, tol=1e-3),
    "stack": lambda: sw.approximate("sin(3*x)*exp(-y**2) + max(x*y, 0.1)", BOX2, tol=1e-5, strategy="compose"),
    "stack in float32": lambda: sw.approximate("x*y*exp(x)", BOX2, tol=1e-1, strategy="compose", dtype="float32"),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started() as running:
        yield running


@pytest.fixture
def watched(browser: Any) -> Iterator[Watched]:
    page = Watched(browser)
    yield page
    assert page.complaints == []
    assert len(page.asked) == 1
    page.close()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_the_numbers_of_python(name: str, watched: Watched, tmp_path: Path) -> None:
    built = FUNCTIONS[name]()
    built.page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    points = built.network.box.sample(100, seed=5)
    if name.endswith("float32"):
        points = points.astype(np.float32).astype(float)
    found = np.array(page.evaluate("points => points.map(x => softwright.net(x))", points.tolist()))
    assert np.abs(found - built(points)).max() <= built.certificate.rounding_part
    wanted = np.array(page.evaluate("points => points.map(x => softwright.target(x))", points.tolist()))
    assert np.abs(wanted - built.source(points)).max() <= 1e-14 * (1 + np.abs(wanted).max())


def test_the_pointer_the_fields_and_the_keys_move_the_point(watched: Watched, tmp_path: Path) -> None:
    built = FUNCTIONS["three variables, two outputs"]()
    built.page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    page.locator("#seen", has_text="largest error").wait_for()
    box = page.locator("#function").bounding_box()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.4 * box["height"])
    here = page.evaluate("softwright.here()")
    assert 0.2 < here[0] < 0.8
    assert 0.0 < here[1] < 1.0
    page.get_by_label("z, exactly").fill("0.25")
    page.get_by_label("z, exactly").press("Enter")
    page.get_by_label("x", exact=True).focus()
    page.keyboard.press("ArrowRight")
    moved = page.evaluate("softwright.here()")
    assert moved[0] > here[0]
    assert moved[2] == 0.25
    page.get_by_label("output").select_option(label="2")
    page.locator("#where", has_text="output 2").wait_for()
    shown = float(page.inner_text("#where").splitlines()[1].split()[-1])
    assert shown == pytest.approx(float(built(np.array([moved]))[0, 1]), abs=built.certificate.rounding_part)
    weights = page.locator("#strongest tbody tr").all_inner_texts()
    strongest = built.attention(np.array([moved])).heads
    best = max((head.strongest()[0] for head in strongest), key=lambda pair: pair[1])
    assert best[0] in weights[0]


def test_a_value_is_followed_through_the_stack(watched: Watched, tmp_path: Path) -> None:
    built = FUNCTIONS["stack"]()
    built.page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    point = np.array([[0.3, 0.7]])
    page.evaluate("x => softwright.move(x)", point[0].tolist())
    page.get_by_role("button", name="u4 = u1*exp(-u2)").focus()
    page.keyboard.press("Enter")
    rows = page.locator("#chosen tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in rows] == ["x", "y", "u1 = sin(3*x)", "u2 = y**2", "u4 = u1*exp(-u2)"]
    columns = built.network.columns(point)
    states = np.array(page.evaluate("x => softwright.states(x)", point[0].tolist()))
    held = np.array([values[0] for values in columns.values()])
    assert np.abs(states[-1][: len(held)] - held).max() <= 1e-12 * np.abs(held).max()
    page.get_by_label("after layer", exact=True).fill("1")
    assert "not written yet" in page.get_by_role("button", name="u4 = u1*exp(-u2)").text_content()


def test_targets_without_a_formula_are_shown_at_their_points(watched: Watched, tmp_path: Path) -> None:
    table = sw.Table.grid([np.linspace(0, 1, 5), np.linspace(0, 1, 4)], np.random.default_rng(0).normal(size=(5, 4)))
    built = sw.approximate(table, tol=1e-3)
    built.page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    page.locator("#seen", has_text="20 points of the table").wait_for()
    seen = float(page.inner_text("#seen").split("table ")[1].split(";")[0])
    assert seen == pytest.approx(np.abs(built(table.points) - table.values).max(), rel=0.01, abs=1e-12)


def test_functions_of_formulas_have_the_values_of_numpy(watched: Watched, tmp_path: Path) -> None:
    MADE["approximation"]().page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    for row in ROWS:
        names = list(row.example)
        box = sw.Box(
            {name: side if side[0] < side[1] else (side[0], side[0] + 1) for name, side in row.example.items()}
        )
        expression = Expression(f"{row.name}({', '.join(names)})", names)
        points = np.vstack([box.sample(40, seed=1), box.corners()])
        found = page.evaluate("([tape, points]) => points.map(formula(tape))", [tape_of(expression), points.tolist()])
        wanted = expression(points)
        assert np.allclose(np.array(found), wanted, rtol=4e-14, atol=4e-15), row.name


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 800, 1400])
def test_pages_fit_the_screen(browser: Any, scheme: str, width: int, tmp_path: Path) -> None:
    FUNCTIONS["stack"]().page(tmp_path / "f.html")
    watched = Watched(browser, color_scheme=scheme)
    watched.page.set_viewport_size({"width": width, "height": 800})
    page = watched.open(tmp_path / "f.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert watched.complaints == []
    watched.close()


def test_hostile_labels_do_not_run(watched: Watched, tmp_path: Path) -> None:
    def target(x: np.ndarray) -> np.ndarray:
        return np.tanh(x)

    target.__name__ = "</script><script>window.harmed = 1</script><img src=x onerror='window.harmed = 1'>"
    sw.approximate(target, sw.Box(x=(-1, 1)), tol=1e-3).page(tmp_path / "f.html")
    page = watched.open(tmp_path / "f.html")
    assert page.evaluate("window.harmed") is None
    assert target.__name__ in page.inner_text("h1")


def test_a_notebook_gets_a_frame_that_runs(browser: Any, tmp_path: Path) -> None:
    framed = MADE["approximation"]()._repr_html_()
    (tmp_path / "notebook.html").write_text(f"<!doctype html><title>n</title>{framed}", encoding="utf-8")
    watched = Watched(browser)
    page = watched.open(tmp_path / "notebook.html")
    frame = page.frame_locator("iframe")
    frame.locator("#where").get_by_text("network").wait_for()
    assert frame.locator(".badge").inner_text().startswith("proved")
    assert watched.complaints == []
    watched.close()
