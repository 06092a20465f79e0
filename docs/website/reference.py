"""The reference: every public name with its signature and its docstring, and the public methods of classes.

Docstrings of softwright are plain text. A paragraph whose lines begin with a name and two blanks is a list of
arguments; deeper lines belong to the name above them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from html import escape
from importlib import import_module
from typing import Any

import softwright
from website.words import block_of

_ROW = re.compile(r"^(\S+(?:, \S+)*)\s{2,}(\S.*)$")
_CODE = re.compile(r"`([^`]+)`")
_TITLES = {
    "api-verbs.html": "Reference: verbs",
    "api-results.html": "Reference: results and errors",
    "api-targets.html": "Reference: targets, boxes and networks",
}
_TARGETS = ("Box", "Expression", "Function", "Table", "Sequence", "Symbols", "Integers", "Truths", "Head")
_MODULES = ("zoo", "sklearn")  # public modules with names of their own


def pages() -> dict[str, str]:
    """The addresses of the reference and their titles."""
    return dict(_TITLES)


def names_on(page: str) -> list[str]:
    """The public names of a page; every name is on one."""
    public = [name for name in softwright.__all__ if not name.startswith("_")]
    verbs = [name for name in public if not inspect.isclass(getattr(softwright, name))]
    targets = [name for name in public if name in (*_TARGETS, "AttentionNetwork")]
    results = [name for name in public if name not in verbs and name not in targets]
    return {"api-verbs.html": verbs, "api-targets.html": targets, "api-results.html": results}[page]


def body_of(page: str) -> tuple[str, list[tuple[str, str, str]]]:
    """A page of the reference, and its sections for the search."""
    entries = [(f"softwright.{name}", name, getattr(softwright, name)) for name in names_on(page)]
    if page == "api-verbs.html":
        for module in _MODULES:
            held = import_module(f"softwright.{module}")
            entries += [(f"softwright.{module}.{name}", f"{module}.{name}", getattr(held, name)) for name in _own(held)]
    parts = [f"<h1>{escape(_TITLES[page])}</h1>"]
    sections = [("", _TITLES[page], " ".join(short for _, short, _ in entries))]
    for full, short, thing in entries:
        parts.append(f'<h2 id="{escape(short)}"><code>{escape(full)}</code></h2>{_entry(short, thing)}')
        sections.append((short, full, inspect.getdoc(thing) or ""))
        for name, member in _members(thing):
            anchor = f"{short}.{name}"
            parts.append(f'<h3 id="{escape(anchor)}"><code>{escape(anchor)}</code></h3>{_entry(name, member)}')
            sections.append((anchor, f"{full}.{name}", inspect.getdoc(member) or ""))
    return "\n".join(parts), sections


def _own(module: Any) -> list[str]:
    named = getattr(module, "__all__", None) or [
        name for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__
    ]
    return [name for name in named if not name.startswith("_")]


def _members(thing: Any) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that say what they do."""
    if not inspect.isclass(thing):
        return
    for name, held in vars(thing).items():
        member = held.fget if isinstance(held, property) else getattr(held, "__func__", held)
        if not name.startswith("_") and inspect.isfunction(member) and inspect.getdoc(member):
            yield name, held if isinstance(held, property) else member


def _entry(name: str, thing: Any) -> str:
    words = docstring(inspect.getdoc(thing) or "")
    if isinstance(thing, property):
        return f'<p class="soft">property</p>{words}'
    try:
        signature = _signature(name, thing)
    except (TypeError, ValueError):  # what has none, such as an exception of its own making
        return words
    return block_of(signature, "python") + words


def _signature(name: str, thing: Any) -> str:
    """The signature as a call, in one line if it is short."""
    found, last = inspect.signature(thing), name.rpartition(".")[2]
    parts, starred = [], False
    for one in found.parameters.values():
        starred = starred or one.kind is inspect.Parameter.VAR_POSITIONAL
        if one.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        parts.append(_parameter(one))
    ending = "" if found.return_annotation is found.empty else f" -> {_written(found.return_annotation)}"
    short = f"{last}({', '.join(parts)}){ending}"
    if len(short) <= 100:
        return short
    return f"{last}(\n" + "".join(f"    {part},\n" for part in parts) + f"){ending}"


def _parameter(one: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(one.kind, "")
    text = stars + one.name
    if one.annotation is not one.empty:
        text += f": {_written(one.annotation)}"
    if one.default is one.empty:
        return text
    return f"{text} = {one.default!r}" if one.annotation is not one.empty else f"{text}={one.default!r}"


def _written(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def docstring(text: str) -> str:
    """A docstring as HTML."""
    return "\n".join(_paragraph(part.split("\n")) for part in re.split(r"\n\s*\n", text) if part.strip())


def _paragraph(lines: list[str]) -> str:
    least = min(len(line) - len(line.lstrip()) for line in lines)
    lines = [line[least:].rstrip() for line in lines]
    if not _ROW.match(lines[0]):
        if least >= 4:
            return (
                f'<pre tabindex="0" role="region" aria-label="example"><code>{escape(chr(10).join(lines))}</code></pre>'
            )
        return f"<p>{_inline(' '.join(lines))}</p>"
    rows: list[tuple[str, list[str]]] = []
    for line in lines:
        match = _ROW.match(line)
        if match:
            rows.append((match.group(1), [match.group(2)]))
        else:
            rows[-1][1].append(line.strip())
    return "<dl>" + "".join(f"<dt><code>{escape(n)}</code></dt><dd>{_held(said)}</dd>" for n, said in rows) + "</dl>"


def _held(lines: list[str]) -> str:
    """What is said of one argument; lines that are rows themselves stand alone."""
    said = ""
    for line in lines:
        row = _ROW.match(line)
        if row:
            said += f"<br><code>{escape(row.group(1))}</code> {_inline(row.group(2))}"
        else:
            said += (" " if said else "") + _inline(line)
    return said


def _inline(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text, quote=False))
