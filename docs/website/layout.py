"""The frame of every page: menu, search, policy. A page asks for nothing outside the site and runs the site's script
only; without the script everything but the search is there."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from html import escape

from softwright.version import __version__
from website.contents import GROUPS, page_of, texts_of

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)


def relative(to: str, page: str) -> str:
    """The address of a file of the site as a page of the site writes it."""
    return posixpath.relpath(to, posixpath.dirname(page) or ".")


def menu(page: str, titles: Mapping[str, str]) -> str:
    """All pages by group; the group of this page is open."""
    parts = []
    for group in GROUPS:
        addresses = [*(page_of(text) for text in texts_of(group)), *group.made]
        here = page in addresses
        entries = "".join(
            f'<li><a href="{escape(relative(address, page))}"{" aria-current=page" if address == page else ""}>'
            f"{escape(titles[address])}</a></li>"
            for address in addresses
        )
        opened = " open" if here or group.name in ("Start", "Tutorials") else ""
        parts.append(f"<details{opened}><summary>{escape(group.name)}</summary><ul>{entries}</ul></details>")
    return "\n".join(parts)


def framed(page: str, title: str, body: str, titles: Mapping[str, str]) -> str:
    """A whole page of the site."""
    root = relative(".", page)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>{escape(title)} - softwright</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="{root}/site.css">
<script src="{root}/site.js" defer></script></head>
<body data-root="{root}/"><a class="skip" href="#content">to the text</a>
<header><a class="name" href="{root}/index.html">softwright</a> <span class="soft">{escape(__version__)}</span>
<div role="search"><label for="search">search</label>
<input id="search" type="search" autocomplete="off" spellcheck="false" aria-controls="found"></div></header>
<div id="found" role="region" aria-label="what was found" aria-live="polite" hidden></div>
<div class="columns"><nav aria-label="pages">
{menu(page, titles)}
</nav><main id="content" tabindex="-1">
{body}
</main></div></body></html>
"""
