"""The contract of every theorem: one file, one entry in `LABELS`, and nothing missing. What a row lacks is named."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import softwright.theorems
from softwright.errors import InvalidInput
from softwright.theorems import LABELS, find_theorem, labels_in_words
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.theorem import Theorem

HOME = Path(softwright.theorems.__file__).parent
DOCS = Path(__file__).resolve().parents[2] / "docs"
NO_THEOREMS = {"__init__", "verb", "figure", "cell_error"}
SMALL: dict[str, dict[str, Any]] = {
    **{key: {"points": 20} for key in ("A5", "A6")},
    **{key: {"cells": 4} for key in ("A4", "B2", "B3", "B4")},
    "A1": {"points": 12, "tokens": 6, "dim": 2},
    "A2": {"tokens": 6, "heads": 2, "dim": 2},
    "A3": {"formula": "sin(3*x)", "heads": 4, "knots": 6},
    "C1": {"values": 4},
    "C5": {"levels": 3},
}


@cache
def _made(label: str) -> Construction:
    return find_theorem(label).build(**SMALL.get(label, {}))


def lacks(label: str, stated: Theorem[Any], docs: Path = DOCS) -> list[str]:
    """What is missing of a theorem, in words."""
    missing = [name for name in ("title", "statement", "paper", "conditions", "options") if not getattr(stated, name)]
    if stated.label != label:
        missing.append(f"label {label} (it says {stated.label})")
    if "\n" in stated.title or not stated.statement.endswith("."):
        missing.append("a title of one line and a statement of whole sentences")
    if stated.sweep is None or stated.sweep[0] not in {option.name for option in stated.options}:
        missing.append("sweep along one of its options")
    missing += [f"help of the option {option.name}" for option in stated.options if not option.help]
    page, picture = docs / "theorems" / f"{label}.md", docs / "images" / f"theorem-{label.lower()}.png"
    missing += [str(path.name) for path in (page, picture) if not path.is_file()]
    index = (docs / "theorems" / "index.md").read_text(encoding="utf-8")
    if f"| [{label}]({label}.md) | {stated.title} |" not in index:
        missing.append("its line in docs/theorems/index.md (run docs/make_theorem_pages.py)")
    return missing


@pytest.mark.parametrize("label", LABELS)
def test_no_theorem_lacks_anything(label: str) -> None:
    assert lacks(label, find_theorem(label)) == []


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    stated = find_theorem("A1")
    for name, empty in (("title", ""), ("paper", ""), ("conditions", ()), ("options", ())):
        assert name in lacks("A1", replace(stated, **{name: empty}))

    def silent(**sizes: Any) -> Construction:
        return stated.construct(**sizes)

    assert "statement" in lacks("A1", replace(stated, construct=silent))
    assert any("sweep" in fault for fault in lacks("A1", replace(stated, sweep=None)))
    assert any("label A2" in fault for fault in lacks("A2", stated))
    (tmp_path / "theorems").mkdir()
    (tmp_path / "theorems" / "index.md").write_text("")
    assert {"A1.md", "theorem-a1.png"} < set(lacks("A1", stated, tmp_path))


def test_every_theorem_file_is_listed_and_lists_are_made_from_it() -> None:
    files = {path.stem for path in HOME.glob("*.py")} - NO_THEOREMS
    assert {place.split(":")[0].rsplit(".", 1)[1] for place in LABELS.values()} == files
    first, last = labels_in_words().split(", ")[0].split(" to ")
    assert first == "A1" and last == max(label for label in LABELS if label.startswith("A"))
    with pytest.raises(InvalidInput, match=", ".join(LABELS)):
        find_theorem("Z9")


@pytest.mark.parametrize("label", LABELS)
def test_the_bound_holds_and_the_rest_is_said(label: str) -> None:
    made = _made(label)
    observed, count = made.observe(n=50)
    assert count > 0 and made.holds(observed, made.rounding or 0.0)
    assert (made.label, made.layers > 0, made.heads > 0, made.tokens > 0) == (label, True, True, True)
    assert made.parameters > 0 and made.statement and made.reasons and made.quantities
    again = find_theorem(label).build(**SMALL.get(label, {}))
    inputs = made.sample(np.random.default_rng(1), 4)
    np.testing.assert_array_equal(made.network.evaluate(inputs), again.network.evaluate(inputs))


@pytest.mark.parametrize("label", LABELS)
def test_details_draw(label: str) -> None:
    stated, made = find_theorem(label), _made(label)
    figure = Figure(figsize=(3, 3))
    axes = figure.subplots()
    stated.details(axes, made)
    assert axes.has_data() or axes.texts


def test_plotting_stays_out_of_the_theorems_imports() -> None:
    for path in HOME.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            assert "matplotlib" not in ast.unparse(node) or isinstance(node, ast.If) or path.stem == "figure", path
