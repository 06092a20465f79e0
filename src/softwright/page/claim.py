"""What is proved of a network, in words: the claim with its hypotheses, and the command that proves it again.

All of it is text of the page itself, readable without its script. A page proves nothing; it says what a certificate
says and names the command that proves that again from the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from shlex import quote
from typing import TYPE_CHECKING, Any

from softwright.result.statement import EXACT_ARITHMETIC, SENTENCE, text_of

if TYPE_CHECKING:
    from softwright.result.built import Built

_ABOUT = {"in_context": "one step ", "memory": "labels ", "transpiled_module": "every block "}  # what a bound is of


def badge(built: Built[Any]) -> tuple[str, bool]:
    """The claim in a few words, and whether there is one."""
    proved = built.certificate
    if proved is None:
        return ("certificate void" if built.certificate_void else "not proved"), False
    arithmetic = " in real arithmetic" if EXACT_ARITHMETIC in proved.assumptions else ""
    words = "proved exact" if proved.bound == 0 else f"proved ≤ {proved.bound:.4g}"
    return f"{_ABOUT.get(built.kind, '')}{words}{arithmetic}", True


def claim(built: Built[Any], file: str | None) -> str:
    """The section about the certificate, as markup."""
    proved = built.certificate
    if proved is None:
        reason = built.certificate_void or built.unproved or "no proof was asked for"
        return _section("the claim", f"<p>Nothing is proved of this network: {escape(reason)}.</p>")
    sentence = getattr(proved, "statement", SENTENCE)
    rows = [
        ("claim", sentence),
        ("bound", f"{proved.bound:.6g} ({proved.norm} norm)"),
        ("parts", f"{proved.exact_part:.6g} exact + {proved.rounding_part:.3g} rounding, in {proved.dtype}"),
        ("proved by", f"{proved.method}, {proved.boxes} box(es)" if proved.boxes else proved.method),
        ("weights", f"SHA-256 {proved.weights_sha256}"),
    ]
    domain = getattr(proved, "domain", None)
    if domain:
        sides = ", ".join(f"{name} in [{low:g}, {high:g}]" for name, (low, high) in domain.items())
        rows.insert(1, ("set", sides))
    numbers = getattr(proved, "quantities", None)
    if numbers:
        rows.append(("from", ", ".join(f"{name} = {value:.6g}" for name, value in numbers.items())))
    remain = [text_of(name) for name in proved.hypotheses] or [str(text) for text in proved.assumptions]
    name = file or "network.safetensors"
    first = "" if file else f'<code>built.save("{name}")</code>, then '
    command = f"<code>{escape(f'softwright verify {quote(name)}')}</code>"
    verify = f"<p>To prove it again with independent code: {first}{command}</p>"
    told = "<p>This page was made from a file and tells what the file tells.</p>" if built.told else ""
    rests = f"<h3>it rests on</h3>{_list(remain)}" if remain else ""
    runs = f"<h3>it covers</h3>{_list(proved.runtimes)}" if proved.runtimes else ""
    return _section("the claim", f"{_table(rows)}{rests}{runs}{verify}{told}")


def facts(built: Built[Any]) -> str:
    """The facts that a `Built` prints, as a table."""
    return _section("facts", _table(built.rows()))


def _section(title: str, inside: str) -> str:
    return f'<section class="extra"><h2>{escape(title)}</h2>{inside}</section>'


def _list(texts: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def _table(rows: Iterable[tuple[str, str]]) -> str:
    cells = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(text)}</td></tr>' for name, text in rows)
    return f"<table>{cells}</table>"
