"""Texts of the documentation as HTML: CommonMark with tables, formulas as MathML, programs in colour.

Formulas are turned into MathML when the site is built, so a page needs no script and no font for them. The only HTML
that a text may hold are comments, which are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import Any

from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

Link = Callable[[str], str]  # an address in the text -> the address in the site
_COMMENT = re.compile(r"<!--.*?-->\s*", re.DOTALL)
_BARE = HtmlFormatter(nowrap=True)


@dataclass
class Words:
    """A text as HTML, its title, and its sections for the search: (id, heading, plain text)."""

    title: str = ""
    html: str = ""
    sections: list[tuple[str, str, str]] = field(default_factory=list)


def coloured(source: str, language: str) -> str:
    """A program as the inside of <pre>; plain text where the language is not known."""
    try:
        return highlight(source, get_lexer_by_name(language), _BARE)
    except ClassNotFound:
        return escape(source)


def block_of(source: str, language: str) -> str:
    """A program in a frame that the keyboard can scroll."""
    label = f"{language or 'text'} block"
    return f'<pre tabindex="0" role="region" aria-label="{label}"><code>{coloured(source, language)}</code></pre>\n'


def formula_of(source: str, display: bool) -> str:
    """A formula as MathML."""
    return convert(source.strip(), display="block" if display else "inline")


def anchor_of(heading: str, taken: set[str]) -> str:
    """The id of a heading, as GitHub makes it."""
    plain = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") or "section"
    name, count = plain, 0
    while name in taken:
        count += 1
        name = f"{plain}-{count}"
    taken.add(name)
    return name


def words_of(text: str, link: Link) -> Words:
    """A text of the documentation; `link` says where its addresses lead in the site."""
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    reader.use(dollarmath_plugin, allow_space=True, double_inline=True)
    rules: dict[str, Any] = {
        "fence": lambda s, tokens, i, *_: block_of(tokens[i].content, tokens[i].info.split(" ")[0]),
        "code_block": lambda s, tokens, i, *_: block_of(tokens[i].content, ""),
        "math_inline": lambda s, tokens, i, *_: formula_of(tokens[i].content, False),
        "math_inline_double": lambda s, tokens, i, *_: formula_of(tokens[i].content, True),
        # a wide formula scrolls, so the keyboard must reach it
        "math_block": lambda s, tokens, i, *_: (
            f'<p class="formula" tabindex="0">{formula_of(tokens[i].content, True)}</p>\n'
        ),
        "html_block": lambda s, tokens, i, *_: _without_comments(tokens[i].content),
        "html_inline": lambda s, tokens, i, *_: _without_comments(tokens[i].content),
        "table_open": lambda *_: '<div class="wide" tabindex="0" role="region" aria-label="table"><table>\n',
        "table_close": lambda *_: "</table></div>\n",
    }
    for name, rule in rules.items():
        reader.add_render_rule(name, rule)
    tokens = reader.parse(text)
    found = Words()
    _give_ids(tokens, found)
    for token in tokens:
        if token.type in ("th_open", "td_open") and "style" in token.attrs:  # the policy allows no style in markup
            token.attrSet("class", str(token.attrs.pop("style")).removeprefix("text-align:"))
        for inside in token.children or []:
            for name in ("href", "src"):
                given = inside.attrGet(name)
                if given is not None:
                    inside.attrSet(name, link(str(given)))
    found.html = reader.renderer.render(tokens, reader.options, {})
    return found


def _without_comments(source: str) -> str:
    rest = _COMMENT.sub("", source)
    if rest.strip():
        raise ValueError(f"HTML in a text of the documentation: {rest.strip()[:60]!r}; write Markdown")
    return ""


def _give_ids(tokens: list[Token], found: Words) -> None:
    """Ids for headings, and the sections that begin at them."""
    taken: set[str] = set()
    parts: list[tuple[str, str, list[str]]] = [("", "", [])]
    for i, token in enumerate(tokens):
        if token.type == "heading_open":
            heading = _plain(tokens[i + 1])
            name = anchor_of(heading, taken)
            token.attrSet("id", name)
            if not found.title:
                found.title, parts[0] = heading, (name, heading, parts[0][2])
            else:
                parts.append((name, heading, []))
        elif token.type == "inline" and tokens[i - 1].type != "heading_open":
            parts[-1][2].append(_plain(token))
        elif token.type == "fence":
            parts[-1][2].append(token.content)
    found.sections = [(name, heading, " ".join(" ".join(texts).split())) for name, heading, texts in parts]


def _plain(token: Token) -> str:
    kinds = ("text", "code_inline", "math_inline")
    return "".join(
        inside.content if inside.type in kinds else " " if inside.type == "softbreak" else ""
        for inside in token.children or []
    )
