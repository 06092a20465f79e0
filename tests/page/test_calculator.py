"""The page that calculates: networks in a browser answer as in Python, and say where nothing is proved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import softwright as sw
from softwright.page.calculator import calculator, write_calculator
from tests.browser import Watched, started

ONE, TWO = sw.Box(x=(1, 2)), sw.Box(x=(1, 2), y=(1, 2))


def _keys() -> dict[str, sw.Built]:
    return {
        "+": sw.approximate("x + y", TWO, tol=1e-3, strategy="compose"),
        "*": sw.approximate("x*y", TWO, tol=1e-3, strategy="compose"),
        "sqrt": sw.approximate("sqrt(x)", ONE, tol=1e-3, strategy="compose"),
        "<": sw.approximate("where(x < y, 1, 0)", TWO, tol=1e-3, strategy="compose", gap=1e-2),
    }


def test_the_keys_answer_as_in_python_within_what_is_proved(tmp_path: Path) -> None:
    keys = _keys()
    write_calculator(keys, tmp_path / "calculator.html")
    with started() as browser:
        watched = Watched(browser)
        page = watched.open(tmp_path / "calculator.html")
        for key, built in keys.items():
            points = built.network.box.sample(40, seed=3)
            found = page.evaluate(
                "([key, points]) => points.map(x => softwright.press(key, x))", [key, points.tolist()]
            )
            answers, wanted = built(points)[:, 0], built.source(points)[:, 0]
            assert np.abs([one["answer"] for one in found] - answers).max() <= built.certificate.rounding_part
            proved = np.array([one["beyond"] == "" for one in found])
            close = np.abs(points[:, 0] - points[:, -1]) < 1e-2 if key == "<" else np.zeros(40, dtype=bool)
            assert np.array_equal(proved, ~close)
            off = np.abs([one["answer"] - one["exact"] for one in found])
            assert off[proved].max() <= built.certificate.bound
            assert np.abs([one["exact"] for one in found] - wanted).max() <= 1e-15
        page.locator("#keys button").nth(1).focus()  # by the keyboard alone
        page.keyboard.press("Enter")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Control+a")
        page.keyboard.type("1.5")
        page.locator("#y").fill("1.25")
        told = page.locator("#answers").inner_text()
        assert "1.875" in told and "nothing" not in told
        page.locator("#y").fill("7")
        assert "y outside" in page.locator("#holds").inner_text()
        page.locator("#y").fill("")
        assert "Type two numbers" in page.locator("#holds").inner_text()
        assert watched.complaints == [] and len(watched.asked) == 1
        watched.close()


def test_the_page_allows_nothing_but_itself_and_escapes_what_it_is_told() -> None:
    page = calculator({"<b>": sw.approximate("x", ONE, tol=1e-3, strategy="compose")})
    assert "default-src 'none'" in page.replace("&#x27;", "'")
    assert "<b>" not in page and "&lt;b&gt;" in page


def test_what_cannot_be_a_key_is_refused_together() -> None:
    line = sw.approximate("sin(x)", ONE, tol=1e-3, dtype="float32")
    other = sw.approximate("2*t", sw.Box(t=(1, 2)), tol=1e-3, strategy="compose")
    with pytest.raises(sw.InvalidInput) as refused:
        calculator({"sin": line, "double": other})
    assert len(refused.value.faults) == 2
    with pytest.raises(sw.InvalidInput, match="no key"):
        calculator({})
