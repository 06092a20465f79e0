"""The page of a network: one file that opens from disk, asks for nothing else and runs no text that a file holds.

    policy    default-src 'none'; the page's own script and style are allowed by their SHA-256 alone
    data      JSON in an element that no browser runs, every < > & written as an escape
    texts     escaped here, or put into the page as text by the script; never read as markup

`html_of` is the page, `inline` the compact page in a sandboxed frame for notebooks.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softwright.errors import InvalidInput
from softwright.fileformat import write_atomically
from softwright.page.claim import badge, claim, facts
from softwright.page.content import Content
from softwright.precision import PRECISIONS, name_of
from softwright.result.kinds import kind_of, loaded

if TYPE_CHECKING:
    from softwright.result.built import Built

_JSON = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
INLINE_HEIGHT = 560
LARGEST_INLINE = 3_000_000  # characters of a page that a notebook is given


@cache
def asset(name: str) -> str:
    """A file of the folder `assets`."""
    return (files("softwright.page") / "assets" / name).read_text(encoding="utf-8")


def content_of(built: Built[Any]) -> Content:
    """What fills the page; a kind without a page of its own shows its facts and its claim."""
    row, dtype = kind_of(built.kind), name_of(built.network.dtype)
    if dtype not in PRECISIONS:
        raise InvalidInput(
            "page", [f"the network is {dtype}; pages run {' and '.join(PRECISIONS)}, cast it to one of them"]
        )
    if row.page:
        return loaded(row.page)(built)
    return Content(str(built.target.get("name") or built.kind), f"a network of kind {built.kind}")


def html_of(built: Built[Any], *, file: str | None = None, compact: bool = False) -> str:
    """The whole page; `file` is the name under which the network was saved, for the command that verifies it."""
    content, (words, proved) = content_of(built), badge(built)
    return document(content, words, proved, [claim(built, file), facts(built)], compact=compact)


def document(content: Content, words: str, proved: bool, sections: Iterable[str], *, compact: bool = False) -> str:
    """A page of that content: a badge of a few words, the content's fragments, then sections of markup."""
    script = "\n".join(asset(name) for name in ("kit.js", *content.scripts))
    style = asset("page.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    data = json.dumps(content.data, separators=(",", ":"), allow_nan=False).translate(_JSON)
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>{escape(content.title)} - softwright</title><style>{style}</style></head>",
            f'<body class="{"compact" if compact else "full"}"><main><header><h1>{escape(content.title)}</h1>',
            f'<p><span class="badge{"" if proved else " none"}">{escape(words)}</span>{escape(content.headline)}</p>',
            "<noscript><p>The pictures of this page need JavaScript; what was proved stands below.</p></noscript>",
            '</header><p id="said" class="hidden" role="status"></p><div class="grid">',
            *(asset(name) for name in content.fragments),
            *sections,
            f'</div></main><script type="application/json" id="data">{data}</script>',
            f"<script>{script}</script></body></html>",
        ]
    )


def write_page(built: Built[Any], path: str | Path, *, file: str | None = None) -> None:
    """Write the page; it appears under its name when it is complete."""
    write_atomically(path, html_of(built, file=file).encode())


def inline(built: Built[Any]) -> str | None:
    """A compact page in a frame that may run its script and nothing else; None if it would be too large, or there is
    no page of such a network."""
    try:
        page = html_of(built, compact=True)
    except InvalidInput:
        return None
    if len(page) > LARGEST_INLINE:
        return None
    frame = f'sandbox="allow-scripts" loading="lazy" title="softwright: {escape(content_of(built).title)}"'
    return f'<iframe srcdoc="{escape(page)}" {frame} width="100%" height="{INLINE_HEIGHT}" frameborder="0"></iframe>'


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
