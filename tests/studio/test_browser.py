"""The studio in a browser: build, look, stop, compare, download, verify, reload, without a complaint."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from softwright.studio.limits import Limits
from softwright.studio.serve import hosts_of
from tests.browser import Watched, started

pytest.importorskip("starlette", reason="no starlette: pip install 'softwright[studio]'")
pytest.importorskip("uvicorn", reason="no uvicorn: pip install 'softwright[studio]'")

HOSTILE = "<img src=x onerror='window.harmed = 1'>"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    import uvicorn

    from softwright.studio.app import Studio

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    studio = Studio(tmp_path_factory.mktemp("studio"), Limits(workers=2, seconds=90.0))
    application: Any = studio.application(hosts_of("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(application, port=port, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{port}/"
    server.should_exit = True
    thread.join(timeout=10)
    studio.pool.close()


def test_the_way_of_a_user(address: str, tmp_path: Path) -> None:
    with started() as browser:
        watched = Watched(browser)
        page = watched.open(address)
        page.set_default_timeout(60_000)

        def build(formula: str, domain: str, tol: str) -> None:
            page.get_by_label("formula", exact=True).fill(formula)
            page.get_by_label("domain").fill(domain)
            page.get_by_label("tolerance").fill(tol)
            page.get_by_role("button", name="start").click()
            page.locator("#shown", has_text=formula).wait_for()

        build("sin(3*x)", "x=-1:1", "1e-3")
        page.locator("#state", has_text="done").wait_for()
        frame = page.frame_locator("#frames iframe").first
        assert frame.locator(".badge").inner_text().startswith("proved")
        build("cos(2*x)", "x=-1:pi", "1e-4")
        page.locator("#state", has_text="done").wait_for()
        page.get_by_label("compare with").select_option(index=1)
        page.locator("#facts", has_text="sin(3*x)").wait_for()
        assert page.locator("#frames iframe").count() == 2
        with page.expect_download() as got:
            page.get_by_role("link", name="network.safetensors").click()
        got.value.save_as(tmp_path / "n.safetensors")
        page.locator("#what").select_option("verify")
        page.get_by_label("file").set_input_files(tmp_path / "n.safetensors")
        page.get_by_role("button", name="start").click()
        page.locator("#state", has_text="VERIFIED").wait_for()
        page.locator("#what").select_option("zoo")
        page.get_by_label("find a model").fill("logistic function")
        page.locator("#models").select_option("sigmoid")
        page.get_by_role("button", name="start").click()
        page.locator("#shown", has_text="sigmoid").wait_for()
        page.locator("#state", has_text="done").wait_for()
        page.locator("#what").select_option("compile")
        page.get_by_role("button", name="start").click()
        page.locator("#shown", has_text="count").wait_for()
        page.locator("#state", has_text="done").wait_for()
        page.frame_locator("#frames iframe").first.get_by_label("values of s").wait_for()
        page.locator("#what").select_option("approximate")
        build("sin(40*x*y)*exp(sin(17*x+3*y))", "x=-3:3 y=-3:3", "1e-9")
        page.get_by_role("button", name="stop").click()
        page.locator("#state", has_text="stopped").wait_for()
        build(HOSTILE, "x=-1:1", "1e-3")
        page.locator("#state", has_text="failed").wait_for()
        assert page.evaluate("window.harmed") is None
        page.reload()
        page.locator("#jobs li").nth(6).wait_for()
        assert page.locator("#jobs li").count() == 7
        assert page.evaluate("window.harmed") is None
        assert watched.complaints == []
        assert all(url.startswith((address, "blob:", "about:")) for url in watched.asked)
        watched.close()
