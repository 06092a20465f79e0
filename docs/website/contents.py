"""What the site holds and in which order: one row per group, with the texts of the repository that belong to it.

Every text of docs/ stands in exactly one group; the build fails otherwise. A pattern stands for all texts it fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HOME = "README.md"
_OUTSIDE = {"README.md": "index.html", "docs/index.md": "start.html"}


@dataclass(frozen=True)
class Group:
    """A part of the menu: `texts` are files of the repository, `made` pages that the build writes itself."""

    name: str
    texts: tuple[str, ...] = ()
    made: tuple[str, ...] = ()


GROUPS = (
    Group("Start", (HOME, "docs/index.md", "docs/how-it-works.md"), ("gallery.html",)),
    Group("Tutorials", ("docs/tutorials/*.md",)),
    Group(
        "What it makes",
        tuple(
            f"docs/{name}.md"
            for name in ("compile", "formulas", "memorize", "transpile", "in_context", "sequences", "tables", "zoo")
        ),
    ),
    Group("Look and use", ("docs/attention.md", "docs/page.md", "docs/studio.md", "docs/cli.md", "docs/exports.md")),
    Group("Proofs", ("docs/certificates.md", "docs/cluster.md", "docs/files.md")),
    Group("Strategies", ("docs/strategies/*.md",)),
    Group("Theorems", ("docs/theorems/index.md", "docs/theorems/[A-C]*.md")),
    Group("Reference", (), ("api-verbs.html", "api-results.html", "api-targets.html", "examples.html")),
    Group("Project", ("docs/benchmarks.md", "CONTRIBUTING.md", "CHANGELOG.md")),
)


def texts_of(group: Group) -> list[Path]:
    """The files of a group, each once, in the order of its patterns."""
    found = [path for pattern in group.texts for path in sorted(ROOT.glob(pattern))]
    return list(dict.fromkeys(found))


def all_texts() -> list[Path]:
    """Everything that becomes a page, in the order of the menu; what the groups miss comes last, in no group."""
    listed = [path for group in GROUPS for path in texts_of(group)]
    return listed + [path for path in sorted((ROOT / "docs").rglob("*.md")) if path not in listed]


def page_of(text: Path) -> str:
    """The address of a text within the site."""
    name = text.relative_to(ROOT).as_posix()
    if name in _OUTSIDE:
        return _OUTSIDE[name]
    return name.removeprefix("docs/").removesuffix(".md").lower() + ".html"
