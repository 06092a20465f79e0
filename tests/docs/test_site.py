"""The documentation site: it builds from the repository alone, every link leads somewhere, and the search finds."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import softwright as sw
from tests.browser import Watched, started

pytest.importorskip("latex2mathml", reason="no latex2mathml: pip install 'softwright[docs]'")
pytest.importorskip("mdit_py_plugins", reason="no mdit-py-plugins: pip install 'softwright[docs]'")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

from website import reference  # noqa: E402
from website.build import build  # noqa: E402
from website.checks import Page, faults_of  # noqa: E402
from website.contents import GROUPS, all_texts, page_of, texts_of  # noqa: E402
from website.words import words_of  # noqa: E402


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The site with a small part of the zoo, built without a network."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    whole = socket.socket.connect

    def refused(*_: Any) -> None:
        raise AssertionError("the site asked for something outside")

    socket.socket.connect = refused  # type: ignore[method-assign]
    try:
        build(folder, ["memory"])
    finally:
        socket.socket.connect = whole  # type: ignore[method-assign]
    yield folder


def test_every_text_is_a_page_and_in_one_group(site: Path) -> None:
    grouped = [path for group in GROUPS for path in texts_of(group)]
    assert sorted(grouped) == sorted(all_texts())
    for text in all_texts():
        assert (site / page_of(text)).is_file()


def test_links_lead_somewhere(site: Path) -> None:
    assert list(faults_of(site)) == []
    leading = [link for path in site.glob("*.html") for link in Page(path.read_text(encoding="utf-8")).links]
    assert len(leading) > 1000


def test_formulas_are_mathml(site: Path) -> None:
    for text in all_texts():
        source = re.sub(r"```.*?```", "", text.read_text(encoding="utf-8"), flags=re.DOTALL)
        shown = (site / page_of(text)).read_text(encoding="utf-8")
        assert shown.count("<math ") >= source.count("$$") // 2, text.name
        assert "\\frac" not in "".join(Page(shown).text), text.name


def test_the_reference_has_every_public_name(site: Path) -> None:
    ids = {name for page in reference.pages() for name in Page((site / page).read_text(encoding="utf-8")).ids}
    assert {name for name in sw.__all__ if not name.startswith("_")} <= ids
    assert {"Built.save", "Built.page", "Box.sample", "zoo.load"} <= ids


def test_the_gallery_has_a_page_for_every_model(site: Path) -> None:
    for name in sw.zoo.names("memory"):
        assert (site / "gallery" / f"zoo-{name}.html").is_file()
    assert len(sw.zoo.groups()) > 5  # `make docs` takes them all


@pytest.mark.parametrize(
    "broken", ["[x](nowhere.html)", "[x](index.html#nothing)", "![x](images/none.png)", "![x](http://a.b/c.png)"]
)
def test_what_is_broken_is_seen(broken: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(words_of(f"# a\n\n{broken}\n", str).html)
    assert len(list(faults_of(tmp_path))) >= 1


def test_markup_in_a_text_is_refused() -> None:
    assert "list" not in words_of("a <!-- list x --> b\n\n<!-- end -->\n", str).html
    with pytest.raises(ValueError, match="Markdown"):
        words_of("# a\n\n<img src=x onerror=alert(1)>\n", str)


def test_docstrings_become_lists_of_arguments() -> None:
    shown = reference.docstring("Do it.\n\nx    a number\n     <b>\ny, z  `two` more")
    assert shown.startswith("<p>Do it.</p>")
    assert "<dt><code>x</code></dt><dd>a number &lt;b&gt;</dd>" in shown
    assert "<dt><code>y, z</code></dt><dd><code>two</code> more</dd>" in shown


def test_search_and_menu_work_from_a_disk(site: Path) -> None:
    with started() as browser:
        watched = Watched(browser)
        page = watched.open(site / "theorems" / "a1.html")
        page.keyboard.press("/")
        page.keyboard.type("rounding part")
        page.locator("#found a").first.wait_for()
        assert "ertificate" in page.locator("#found").inner_text()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.locator("main h1").wait_for()
        assert "a1.html" not in page.url
        page.get_by_role("link", name="Gallery", exact=True).click()
        page.frame_locator("iframe").locator(".badge").wait_for()
        assert watched.complaints == []
        assert all(url.startswith(("file:", "data:")) for url in watched.asked)
        watched.close()
