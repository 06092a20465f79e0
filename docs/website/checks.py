"""What must hold of every page of the site, read from the written files: links, ids, formulas, and that nothing comes
from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src", "audio": "src"}
_RAW = ("script", "style", "pre", "code", "math", "textarea")


@dataclass
class Page(HTMLParser):
    """The ids of a page, where its links lead, what it loads, and its running text outside of programs."""

    source: str
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    pictures_without_words: int = 0
    text: list[str] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        HTMLParser.__init__(self)
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in _LOADED and _LOADED[tag] in given:
            self.loaded.append(given[_LOADED[tag]])
        if tag == "img" and not given.get("alt"):
            self.pictures_without_words += 1
        if tag in _RAW:
            self.raw.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.raw and self.raw[-1] == tag:
            self.raw.pop()

    def handle_data(self, data: str) -> None:
        if not self.raw:
            self.text.append(data)


def faults_of(folder: Path) -> Iterator[str]:
    """Everything that is wrong, one line each."""
    read = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    for path, page in read.items():
        own = path.relative_to(folder).as_posix()
        for name in sorted({name for name in page.ids if page.ids.count(name) > 1}):
            yield f"{own}: the id {name!r} is there twice"
        for address in page.loaded:
            if not address.startswith("data:") and _fault(address, path, folder, read):
                yield f"{own}: loads {address}: {_fault(address, path, folder, read)}"
            if urlsplit(address).scheme in ("http", "https") or address.startswith("//"):
                yield f"{own}: loads {address} from elsewhere"
        for address in page.links:
            fault = _fault(address, path, folder, read)
            if fault:
                yield f"{own}: links to {address}: {fault}"
        if page.pictures_without_words:
            yield f"{own}: {page.pictures_without_words} picture(s) without a description"
        if "gallery" not in path.parts and "$$" in "".join(page.text):
            yield f"{own}: a formula was not read"


def _fault(address: str, path: Path, folder: Path, read: dict[Path, Page]) -> str:
    parts = urlsplit(address)
    if parts.scheme == "https":
        return "" if parts.netloc else "no host"
    if parts.scheme or parts.netloc:
        return "neither within the site nor https"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
    if not target.is_relative_to(folder.resolve()):
        return "outside of the site"
    if not target.is_file():
        return "no such file"
    known = read.get(folder / target.relative_to(folder.resolve()))
    if parts.fragment and known is not None and unquote(parts.fragment) not in known.ids:
        return f"no place {parts.fragment!r} there"
    return ""
