"""Lists in the documentation that are made from the library's own tables, so that a new row appears by itself.

Between "<!-- list NAME -->" and "<!-- end -->" stands what the function of that name returns. `refresh_outputs.py`
writes the lists of all pages; a test demands that they are as the tables say.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from softwright.approximation.catalogue import STRATEGIES, names_in_words

LIST = re.compile(r"<!-- list (.+?) -->.*?<!-- end -->", re.DOTALL)


def strategies() -> str:
    """One line per strategy, with its page."""
    rows = [row for row in STRATEGIES.values() if row.name != "auto"]
    return "\n".join(f"- [{row.name}](strategies/{row.name}.md): {row.summary}" for row in rows)


LISTS: dict[str, Callable[[], str]] = {"strategies": strategies, "strategy names": names_in_words}


def refresh_lists(text: str) -> str:
    """The page with all its lists made anew."""

    def made(match: re.Match[str]) -> str:
        name, content = match.group(1), LISTS[match.group(1)]()
        border = "\n" if "\n" in content else ""
        return f"<!-- list {name} -->{border}{content}{border}<!-- end -->"

    return LIST.sub(made, text)
