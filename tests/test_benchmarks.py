"""`make bench` knows every benchmark, and its page tells nothing of where it was written."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(FOLDER))
from all import ROWS, without_places  # noqa: E402

# Scripts that others start, or that need what no package index has.
APART = {"all", "studio_server", "tracr_peer"}


def test_every_script_is_a_row_and_every_row_a_script() -> None:
    scripts = {path.stem for path in FOLDER.glob("*.py") if '__name__ == "__main__"' in path.read_text("utf-8")}
    assert {row.script for row in ROWS} == scripts - APART


def test_pages_name_no_folder() -> None:
    said = without_places(f"{FOLDER.parent}/src/x.py and /tmp/abc/d.log at 3/4 of 1e-6")
    assert str(FOLDER.parent) not in said and "/tmp" not in said and "3/4 of 1e-6" in said
