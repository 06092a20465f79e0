"""What a file tells beside its proof is of the right type and printable, or it is refused; nothing else is written."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import softwright as sw
from softwright.fileformat import read_model, write_model
from tests.contracts.kinds_made import MADE


def put(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(sections: dict[str, Any]) -> None:
        place = sections
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = to

    change.__name__ = f"{'.'.join(map(str, path))} = {to!r}"
    return change


@pytest.mark.parametrize(
    "change",
    [
        put("plan", "strategy", to="\x1b[2K\rVERIFIED"),
        put("plan", "strategy", to=3),
        put("plan", "seconds", to="soon"),
        put("plan", "remark", to="proved"),
        put("plan", "reasons", to=["a\nVERIFIED: really"]),
        put("plan", "reasons", to=[1]),
        put("plan", "heads", 0, "largest_score", to="large"),
        put("observed", "error", to="none"),
        put("observed", "points", to=1.5),
        put("observed", "point", to=[None]),
        put("observed", to=[]),
        put("target", "text", to="sin(x)\u202e"),
        put("model", "kind", to="approximation\n"),
    ],
    ids=lambda change: change.__name__,
)
def test_a_file_that_tells_what_cannot_be_shown_is_refused(change: Callable[[Any], None], tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    MADE["approximation"]().save(path)
    file = read_model(path)
    sections = copy.deepcopy(file.sections)
    change(sections)
    write_model(path, file.tensors, sections)
    with pytest.raises(sw.FileFormatError):
        sw.load(path)
    assert sw.verify(path).status == "NOT VERIFIED"


def test_what_no_reader_takes_is_not_written(tmp_path: Path) -> None:
    built = MADE["approximation"]()
    hostile = replace(built, plan=replace(built.plan, reasons=["a\nb"]))
    with pytest.raises(sw.InvalidInput, match="'plan' has control characters"):
        hostile.save(tmp_path / "m.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_who_loads_is_told_that_it_is_the_files_word(tmp_path: Path) -> None:
    built = MADE["approximation"]()
    built.save(tmp_path / "m.safetensors")
    assert "told by a file" not in repr(built)
    assert "told by a file" in repr(sw.load(tmp_path / "m.safetensors"))
