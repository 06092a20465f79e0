"""Every example script, and every Python block of the README and the documentation, runs as a newcomer would run it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(script.read_text().splitlines()) <= 40
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_mechanism_by_hand_agrees_with_the_network(capsys: pytest.CaptureFixture[str]) -> None:
    found = runpy.run_path(str(ROOT / "examples" / "mechanism.py"))
    assert float((found["by_hand"] - found["built"].network(found["t"])).abs().max()) < 1e-12


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python" in page.read_text()], ids=lambda path: path.stem
)
def test_python_blocks(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page run one after another, as one program, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "page.py"
    program.write_text("\n".join(_BLOCK.findall(page.read_text())))
    runpy.run_path(str(program), run_name="__main__")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if not link.startswith("http"):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
