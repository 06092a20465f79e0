"""The safetensors file of `Built.save`: weights, description, plan and certificate; `load` and `verify` read it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from softwright.result.kinds import KINDS

if TYPE_CHECKING:
    from softwright.result.built import Built


class SafetensorsFile:
    """A row of `EXPORTERS`."""

    name = "safetensors"
    suffix = ".safetensors"
    kinds = frozenset(name for name, kind in KINDS.items() if kind.stored)
    needs = ""
    summary = "weights and everything said about them, as Built.save writes them"

    def write(self, built: Built[Any], path: Path) -> None:
        built.save(path)


EXPORTER = SafetensorsFile()
