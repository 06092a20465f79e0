"""The lists of the documentation say what the tables of the library say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LISTS = runpy.run_path(str(ROOT / "docs" / "lists.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lists_are_as_the_tables_say(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert LISTS["refresh_lists"](text) == text, f"run: python docs/refresh_outputs.py {page.relative_to(ROOT)}"


def test_every_list_is_shown_somewhere() -> None:
    shown = {name for page in PAGES for name in LISTS["LIST"].findall(page.read_text(encoding="utf-8"))}
    assert shown == set(LISTS["LISTS"])


def test_a_list_that_is_out_of_date_is_seen() -> None:
    text = "a\n<!-- list strategies -->\n- old\n<!-- end -->\n| <!-- list strategy names -->x<!-- end --> |\n"
    fresh = LISTS["refresh_lists"](text)
    assert "- old" not in fresh and "[cells](strategies/cells.md)" in fresh
    assert "| <!-- list strategy names -->auto, " in fresh
    assert LISTS["refresh_lists"](fresh) == fresh
