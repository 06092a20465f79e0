"""Photograph pages and the studio for the documentation: python docs/make_page_images.py (with Chromium and
softwright[dev]). Pages have the size that suits them; the studio is taken at the width of a desk, a tablet and a phone.
"""

from __future__ import annotations

import importlib
import io
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

import softwright as sw
from softwright.fileformat import write_atomically

IMAGES = Path(__file__).resolve().parent / "images"
BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"  # has a studio of one's own to start
BOX = sw.Box(x=(-1, 1), y=(-2, 2))
TEXTS = ["the cat sees a bird", "a bird sees the cat", "the small dog", "the large red bird", "a dog and a cat"]
LABELS = ["animal", "animal", "size", "colour", "pair"]
BALANCE = "b = sum((s[j] == '(') - (s[j] == ')') for j <= i); b, all(b >= 0) and last(b) == 0"
Shot = tuple[Callable[[], sw.Built[Any]], int, int, str]
SHOTS: dict[str, Shot] = {
    "page-wave.png": (
        lambda: sw.approximate("sin(3*x) * exp(-y**2)", BOX, tol=1e-6, strategy="layer"),
        1100,
        860,
        "light",
    ),
    "page-stack.png": (
        lambda: sw.approximate("sin(3*x)*exp(-y**2) + max(x*y, 0.1)", BOX, tol=1e-5, strategy="compose"),
        1100,
        760,
        "dark",
    ),
    "page-in-context.png": (lambda: sw.in_context("ridge", features=1, penalty=0.1), 820, 780, "light"),
    "page-program.png": (
        lambda: sw.compile(BALANCE, sw.Sequence(length=(1, 16), s=sw.Symbols("()"))),
        900,
        1024,
        "light",
    ),
    "page-memory.png": (lambda: sw.memorize(TEXTS, LABELS), 400, 900, "dark"),
}
STUDIO = {"studio.png": (1240, 900), "studio-tablet.png": (820, 1100), "studio-phone.png": (400, 900)}


def _keep(page: Any, name: str) -> None:
    """The picture of what is seen, with a palette."""
    small = io.BytesIO()
    with Image.open(io.BytesIO(page.screenshot())) as image:
        image.convert("RGB").quantize(128).save(small, format="PNG", optimize=True)
    write_atomically(IMAGES / name, small.getvalue())


def _studio(browser: Any, folder: Path) -> None:
    """Two results of a studio of one's own, compared, at three sizes."""
    sys.path.insert(0, str(BENCHMARKS))
    server = importlib.import_module("studio_server").Server(folder / "studio")
    try:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{server.port}/")
        for formula in ("sin(3*x) * exp(-y**2)", "sin(3*x) * cos(y)"):
            page.get_by_label("formula", exact=True).fill(formula)
            page.get_by_role("button", name="start").click()
            page.locator("#shown", has_text=formula).wait_for()
            page.locator("#state", has_text="done").wait_for(timeout=60_000)
        for name, (width, height) in STUDIO.items():
            page.set_viewport_size({"width": width, "height": height})
            page.get_by_label("compare with").select_option(index=1)
            page.wait_for_timeout(1500)
            if width < 860:  # the result is below the form there
                page.evaluate("document.getElementById('view').scrollIntoView()")
            _keep(page, name)
        context.close()
    finally:
        server.close()


def main() -> None:
    """Build, open, wait until all is drawn, and keep the picture."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (make, width, height, scheme) in SHOTS.items():
            path = Path(folder) / f"{name}.html"
            make().page(path)
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(path.as_uri())
            page.wait_for_timeout(1500)
            _keep(page, name)
            page.close()
        _studio(browser, Path(folder))
        browser.close()


if __name__ == "__main__":
    main()
