"""Pages in a browser: python benchmarks/pages.py [--axe FILE] [--only kinds pointer studio site]. Needs Chromium,
Playwright and, for axe-core, npm.

For a page of every kind: its size beside that of its weights, the time to the first paint, and what axe-core finds, in
light and dark and on a small screen. For networks of up to 2,000 tokens: how long the page takes to answer the pointer,
from the event to the next frame after it, and how much work of its thread that is, which a busy machine does not
change. Times are those of the browser.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from playwright.sync_api import Browser, BrowserContext, sync_playwright

import softwright as sw

BOX = sw.Box(x=(-1, 1), y=(-2, 2))
SERIOUS = ("serious", "critical")
_POINTER = """async () => {
  const box = document.getElementById("function").getBoundingClientRect(), times = [];
  const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)));
  for (let k = 0; k < 40; k++) {
    const start = performance.now();
    const x = box.left + box.width * (0.2 + 0.015 * k), y = box.top + box.height * 0.5;
    document.getElementById("function").dispatchEvent(new PointerEvent("pointermove", {clientX: x, clientY: y}));
    await frame();
    times.push(performance.now() - start);
  }
  return times;
}"""


def _mlp() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(3, 12), torch.nn.GELU(), torch.nn.Linear(12, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)]
    return torch.nn.Sequential(*layers).double().eval()


TOKENS = sw.Sequence(length=(1, 16), s=sw.Symbols("abcd"), x=(-1, 1))
MADE: dict[str, Callable[[], sw.Built[Any]]] = {
    "approximation": lambda: sw.approximate("sin(3*x) * exp(-y**2)", BOX, tol=1e-6, strategy="layer"),
    "composition": lambda: sw.approximate("sin(3*x)*exp(-y**2) + max(x*y, 0.1)", BOX, tol=1e-5, strategy="compose"),
    "memory": lambda: sw.memorize(["a b", "b a", "c a b"], ["one", "two", "one"]),
    "transpiled": lambda: sw.transpile(_mlp(), box=(-1, 1)),
    "transpiled_module": lambda: sw.transpile(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()),
    "in_context": lambda: sw.in_context("ridge", features=2, penalty=0.1),
    "program": lambda: sw.compile("count(s[j] == s[i]), sum(x[j] for j <= i)", TOKENS),
    "theorem": lambda: sw.theorem("A1").build(points=12, tokens=3, dim=2),
}


def axe_source(given: str | None) -> str:
    """The script of axe-core: a file, or the newest package of npm; empty where neither is to be had."""
    if given:
        return Path(given).read_text(encoding="utf-8")
    if shutil.which("npm") is None:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(["npm", "pack", "axe-core", "--silent"], cwd=folder, capture_output=True, check=False)
        found = list(Path(folder).glob("axe-core-*.tgz"))
        if packed.returncode or not found:
            return ""
        with tarfile.open(found[0]) as archive:
            member = archive.extractfile("package/axe.min.js")
            return "" if member is None else member.read().decode()


def faults_of(page: Any, axe: str) -> list[str]:
    """What axe-core calls serious or critical on an open page, frames left out."""
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {iframes: false}).then(r => r.violations)")
    return [
        f"{one['id']} x {len(one['nodes'])}: {one['nodes'][0]['html'][:90]}"
        for one in found
        if one["impact"] in SERIOUS
    ]


def _weights(built: sw.Built[Any]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in built.network.state_dict().values())


def _seen(browser: Browser, scheme: Any, width: int) -> BrowserContext:
    return browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)


def every_kind(browser: Browser, folder: Path, axe: str) -> int:
    worst = 0
    print(f"{'kind':20}{'bytes':>9}{'weights':>9}{'first paint':>13}  axe-core, serious and critical")
    for kind, make in MADE.items():
        built, path = make(), folder / f"{kind}.html"
        built.page(path)
        found: set[str] = set()
        paint = 0.0
        for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390)):
            context = _seen(browser, scheme, width)
            page = context.new_page()
            page.goto(path.as_uri())
            page.wait_for_timeout(1200)
            paint = max(
                paint, page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN")
            )
            if axe:
                found |= set(faults_of(page, axe))
            context.close()
        said = "; ".join(sorted(found)) if axe else "not asked: no axe-core"
        print(f"{kind:20}{path.stat().st_size:9}{_weights(built):9}{paint:10.0f} ms  {said or 'none'}")
        worst += len(found)
    return worst


def _reached(table: sw.Table) -> sw.Built[Any]:
    """The network of a table, however near it came: here it is only looked at."""
    try:
        return sw.approximate(table, tol=1e-2, certify=False)
    except sw.ToleranceNotReached as error:
        return error.best


def _work(session: Any) -> float:
    """Seconds that the page's thread has worked."""
    found = session.send("Performance.getMetrics")["metrics"]
    return next(one["value"] for one in found if one["name"] == "TaskDuration")


def pointer(browser: Browser, folder: Path) -> None:
    print("\n tokens    bytes  first paint  pointer: drawn, median   slowest   work of the thread")
    for side in (10, 32, 44):
        axes = [np.linspace(0, 1, side), np.linspace(0, 1, side)]
        built = _reached(sw.Table.grid(axes, np.random.default_rng(0).normal(size=(side, side))))
        path = folder / f"{side}.html"
        built.page(path)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(path.as_uri())
        page.wait_for_timeout(4000)
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN")
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        before = _work(session)
        times = np.array(page.evaluate(_POINTER))
        work = 1e3 * (_work(session) - before) / len(times)
        sizes = f"{built.network.tokens:7}{path.stat().st_size:9}{paint:10.0f} ms"
        print(f"{sizes}{statistics.median(times):20.1f} ms{times.max():8.0f} ms{work:15.1f} ms")
        page.close()


def studio(browser: Browser, folder: Path, axe: str) -> int:
    from studio_server import Client, Server

    server = Server(folder / "studio")
    try:
        Client(server.port)
        found: set[str] = set()
        for scheme, width in (("light", 1280), ("dark", 390)):
            context = _seen(browser, scheme, width)
            page = context.new_page()
            page.set_default_timeout(120_000)
            page.goto(f"http://127.0.0.1:{server.port}/")
            for formula in ("sin(3*x)", "cos(x)"):
                page.get_by_label("formula", exact=True).fill(formula)
                page.get_by_label("domain").fill("x=-1:1")
                page.get_by_role("button", name="start").click()
                page.locator("#shown", has_text=formula).wait_for()
                page.locator("#state", has_text="done").wait_for()
            page.get_by_label("compare with").select_option(index=1)
            page.locator("#facts", has_text="cos(x)").wait_for()
            found |= set(faults_of(page, axe))
            context.close()
        print(f"\nstudio: {'; '.join(sorted(found)) or 'no serious or critical fault'}")
        return len(found)
    finally:
        server.close()


def site(browser: Browser, folder: Path, axe: str) -> int:
    """axe-core on every page of the documentation site, one of the gallery's, and the search with something found."""
    root = Path(__file__).resolve().parent.parent
    made = subprocess.run(
        [sys.executable, str(root / "docs" / "make_site.py"), str(folder / "site"), "--zoo", "memory"], check=False
    )
    if made.returncode:
        return 1
    found: set[str] = set()
    pages = sorted(path for path in (folder / "site").rglob("*.html") if path.parent.name != "gallery")
    for scheme, width, some in (("light", 1280, pages), ("dark", 390, pages[::6])):
        context = _seen(browser, scheme, width)
        page = context.new_page()
        for path in some:
            page.goto(path.as_uri())
            found |= {f"{path.name}: {fault}" for fault in faults_of(page, axe)}
        page.fill("#search", "rounding part")
        page.locator("#found a").first.wait_for()
        found |= set(faults_of(page, axe))
        context.close()
    print(f"\nsite, {len(pages)} pages: {'; '.join(sorted(found)) or 'no serious or critical fault'}")
    return len(found)


PARTS = ("kinds", "pointer", "studio", "site")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--axe", help="axe.min.js; npm is asked for it otherwise")
    options.add_argument("--only", nargs="*", choices=PARTS, default=PARTS, help="parts to measure; all unless given")
    given = options.parse_args()
    axe = axe_source(given.axe)
    if axe:
        print("axe-core", json.dumps(axe[:60].split("v")[-1].split("\n")[0].strip()))
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as place:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        worst = every_kind(browser, Path(place), axe) if "kinds" in given.only else 0
        if "pointer" in given.only:
            pointer(browser, Path(place))
        if axe and "studio" in given.only:
            worst += studio(browser, Path(place), axe)
        if axe and "site" in given.only:
            worst += site(browser, Path(place), axe)
        print(f"\n{worst} serious or critical faults" if axe else "\naxe-core was not to be had")
        browser.close()


if __name__ == "__main__":
    main()
