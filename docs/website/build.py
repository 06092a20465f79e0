"""`build`: the whole site into a folder. Nothing is fetched; what is wrong with a text, a link or a formula is listed
together and nothing is left half written."""

from __future__ import annotations

import json
import posixpath
import shutil
import tempfile
from pathlib import Path

from softwright.errors import Faults
from website.checks import faults_of
from website.contents import GROUPS, ROOT, all_texts, page_of, texts_of
from website.gallery import write_gallery
from website.layout import framed, relative
from website.reference import body_of, pages
from website.words import Words, block_of, words_of

ASSETS = Path(__file__).with_name("assets")
_LONGEST = 6000  # characters of a section that the search reads
Section = tuple[str, str, str]


def build(folder: Path, zoo: list[str] | None = None) -> int:
    """Write the site and return the number of its pages; `zoo` names the groups of the gallery, all unless given."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        count = _write(Path(made) / "site", zoo)
        if folder.exists():
            shutil.rmtree(folder)
        (Path(made) / "site").rename(folder)
    return count


def _write(folder: Path, zoo: list[str] | None) -> int:
    folder.mkdir()
    faults = Faults("site")
    grouped = {path for group in GROUPS for path in texts_of(group)}
    for text in all_texts():
        faults.check(
            text in grouped, f"{text.relative_to(ROOT)} is in no group; give it one in docs/website/contents.py"
        )
    bodies: dict[str, tuple[str, str, list[Section]]] = {}
    for text in all_texts():
        try:
            words = words_of(text.read_text(encoding="utf-8"), lambda given, text=text: _address(given, text))
        except ValueError as error:
            faults.add(f"{text.relative_to(ROOT)}: {error}")
            words = Words(text.stem)
        bodies[page_of(text)] = (words.title or text.stem, words.html, words.sections)
    for page, title in pages().items():
        html, sections = body_of(page)
        bodies[page] = (title, html, sections)
    bodies["examples.html"] = _examples()
    html, sections = write_gallery(folder, zoo)
    bodies["gallery.html"] = ("Gallery", html, sections)
    faults.raise_if_any()
    titles = {page: title.removeprefix("softwright: ").capitalize() for page, (title, _, _) in bodies.items()}
    titles = {**titles, "index.html": "softwright"}
    for page, (title, html, _) in bodies.items():
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        (folder / page).write_text(framed(page, title, html, titles), encoding="utf-8")
    _copy(folder)
    _write_index(folder, {page: sections for page, (_, _, sections) in bodies.items()}, titles)
    for fault in faults_of(folder):
        faults.add(fault)
    faults.raise_if_any()
    return sum(1 for _ in folder.rglob("*.html"))


def _address(given: str, text: Path) -> str:
    """Where an address in a text leads in the site; what leads nowhere is found by the check of the links."""
    if given.startswith(("https://", "http://", "#", "mailto:")):
        return given
    name, _, part = given.partition("#")
    target = (text.parent / name).resolve()
    part = f"#{part}" if part else ""
    page = page_of(text)
    if target.suffix == ".md" and target.is_file():
        return relative(page_of(target), page) + part
    if target.is_relative_to(ROOT / "docs" / "images"):
        return relative(f"images/{target.name}", page)
    if target.is_relative_to(ROOT / "examples"):
        return relative("examples.html", page) + (f"#{target.stem}" if target.suffix == ".py" else "")
    return posixpath.normpath(name) + part


def _examples() -> tuple[str, str, list[Section]]:
    """The scripts of examples/, each with what it says of itself."""
    parts, sections = ["<h1>Examples</h1><p>Whole programs; the tests run every one of them.</p>"], []
    for script in sorted((ROOT / "examples").glob("*.py")):
        source = script.read_text(encoding="utf-8")
        parts.append(f'<h2 id="{script.stem}"><code>examples/{script.name}</code></h2>{block_of(source, "python")}')
        sections.append((script.stem, f"examples/{script.name}", source))
    return "Examples", "\n".join(parts), sections


def _copy(folder: Path) -> None:
    shutil.copytree(ROOT / "docs" / "images", folder / "images")
    for asset in ("site.css", "site.js"):
        shutil.copy(ASSETS / asset, folder / asset)


def _write_index(folder: Path, sections: dict[str, list[Section]], titles: dict[str, str]) -> None:
    """The words of all sections: a script, because a page opened from a disk may load one but fetch nothing."""
    rows = [
        [page + (f"#{name}" if name else ""), titles[page], heading, text[:_LONGEST]]
        for page, parts in sections.items()
        for name, heading, text in parts
    ]
    written = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    (folder / "words.js").write_text(f"window.softwrightWords = {written};\n", encoding="utf-8")
