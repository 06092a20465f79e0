"""`make bench` knows every benchmark, and its page tells nothing of where it was written."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(FOLDER))
bench = importlib.import_module("all")


def test_every_script_runs_and_every_row_is_a_script() -> None:
    scripts = {path.stem for path in FOLDER.glob("*.py") if '__name__ == "__main__"' in path.read_text("utf-8")}
    assert {row.script for row in bench.rows_of()} == scripts - set(bench.APART)


def test_pages_name_no_folder() -> None:
    said = bench.without_places(f"{FOLDER.parent}/src/x.py and /tmp/abc/d.log at 3/4 of 1e-6")
    assert str(FOLDER.parent) not in said and "/tmp" not in said and "3/4 of 1e-6" in said
