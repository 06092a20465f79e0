"""Measure and draw the pages of the theorems: python docs/make_theorem_pages.py [LABEL ...]

For every label: the figure docs/images/theorem-<label>.png, and in docs/theorems/<label>.md the text between the lines
"<!-- measured -->" and "<!-- end -->", a table of the theorem's own sweep with softwright's constructions beside it.
All else in a page is written by hand; a page that does not exist is begun with the statement and the conditions. The
list in docs/theorems/index.md, between the same two lines, is made anew.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from make_images import IMAGES, write

from softwright.cli.theorem import table_of
from softwright.fileformat import write_atomically
from softwright.theorems import LABELS, find_theorem
from softwright.theorems.tools.theorem import Theorem
from softwright.theorems.verb import finish, row, sweep_rows

DOCS = Path(__file__).resolve().parent
PAGES = DOCS / "theorems"
MEASURED = re.compile(r"<!-- measured -->\n.*?<!-- end -->", re.DOTALL)


def table(stated: Theorem) -> str:
    """The theorem's sweep, then its default sizes with our proof and our constructions."""
    rows = sweep_rows(stated, {})
    rows.append(row(stated.build(), size="default sizes"))
    header, cells = table_of(rows)
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def begun(stated: Theorem) -> str:
    conditions = "\n".join(f"- {condition}" for condition in stated.conditions)
    picture = f"![{stated.label}](../images/theorem-{stated.label.lower()}.png)"
    return (
        f"# {stated.label}: {stated.title}\n\n{stated.statement}\n\n{stated.paper}.\n\n"
        f"## Conditions\n\n{conditions}\n\n## Measured\n\n<!-- measured -->\n<!-- end -->\n\n{picture}\n"
    )


def draw(stated: Theorem) -> None:
    write(finish(stated, stated.build()).plot(), f"theorem-{stated.label.lower()}.png", dpi=100)


def put(page: Path, text: str, measured: str) -> None:
    fresh = MEASURED.sub(lambda _: f"<!-- measured -->\n{measured}\n<!-- end -->", text, count=1)
    write_atomically(page, fresh.encode())


def main(labels: list[str]) -> None:
    IMAGES.mkdir(exist_ok=True)
    for label in labels:
        stated = find_theorem(label)
        page = PAGES / f"{stated.label}.md"
        draw(stated)
        put(page, page.read_text() if page.exists() else begun(stated), table(stated))
    listed = []
    for label in LABELS:
        name = f"[{label}]({label}.md)" if (PAGES / f"{label}.md").exists() else label
        listed.append(f"| {name} | {find_theorem(label).title} |")
    index = PAGES / "index.md"
    put(index, index.read_text(), "\n".join(["| label | what it builds |", "| --- | --- |", *listed]))


if __name__ == "__main__":
    main(sys.argv[1:] or list(LABELS))
