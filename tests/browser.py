"""A browser for tests: Chromium as the system has it, driven by Playwright; where there is none, tests skip.

SOFTWRIGHT_CHROMIUM names another executable.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_WIDTH, _HEIGHT = 1280, 900


def executable() -> str | None:
    """Where the browser is."""
    given = os.environ.get("SOFTWRIGHT_CHROMIUM")
    return given or next((found for name in _NAMES if (found := shutil.which(name))), None)


@contextmanager
def started() -> Iterator[Any]:
    """A running browser; the test skips, with the reason, if none can be started."""
    api = pytest.importorskip("playwright.sync_api", reason="no Playwright: pip install 'softwright[dev]'")
    place = executable()
    if place is None:
        pytest.skip("no browser: apt-get install chromium, or set SOFTWRIGHT_CHROMIUM")
    with api.sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=place, args=["--no-sandbox", "--disable-gpu"])
        except api.Error as error:
            pytest.skip(f"{place} does not start: {str(error).splitlines()[0]}")
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page of the browser that remembers what it complained about, and everything that it asked for."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page = browser.new_page(viewport={"width": _WIDTH, "height": _HEIGHT}, **options)
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, place: Path | str) -> Any:
        self.page.goto(place.resolve().as_uri() if isinstance(place, Path) else place)
        return self.page

    def forget(self) -> None:
        """An empty page of the usual size, of which nothing is remembered: a new one would take longer."""
        self.page.goto("about:blank")
        self.page.set_viewport_size({"width": _WIDTH, "height": _HEIGHT})
        self.page.emulate_media(color_scheme="null")
        self.complaints.clear()
        self.asked.clear()

    def close(self) -> None:
        self.page.close()
