"""Files for other programs: `EXPORTERS`, one row per format.

An exporter is an object with the fields of `Exporter`, in a file of its own; its row here names it as "module:object"
and is loaded when it is asked for, so that a format's own packages are needed by those alone who write it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from softwright.errors import FileFormatError, InvalidInput
from softwright.result.kinds import KINDS, loaded

if TYPE_CHECKING:
    import numpy as np

    from softwright.result.built import Built


@runtime_checkable
class Exporter(Protocol):
    """A format in which what was built can be written."""

    name: str
    suffix: str  # with its dot: a path that ends in it asks for this format
    kinds: frozenset[str]  # the kinds of networks (rows of `result.kinds`) that the format can hold
    needs: str  # the extra that installs what writing takes, as in softwright[onnx]; empty: nothing
    summary: str  # what the file holds, in one line

    def write(self, built: Built[Any], path: Path) -> None:
        """Write the file; it appears under its name only when it is complete."""
        ...


EXPORTERS: dict[str, str] = {
    "safetensors": "softwright.export.safetensors_file:EXPORTER",
    "numpy": "softwright.export.numpy_file:EXPORTER",
    "onnx": "softwright.export.onnx_file:EXPORTER",
    "c": "softwright.export.c_source:EXPORTER",
    "jax": "softwright.export.python_source:JAX",
    "python": "softwright.export.python_source:NUMPY",
    "hf": "softwright.export.hugging_face:EXPORTER",
}


def exporter_named(name: str) -> Exporter:
    """The exporter of a row."""
    if name not in EXPORTERS:
        raise InvalidInput("export", [f"unknown format {name!r}; choose from {', '.join(EXPORTERS)}"])
    return loaded(EXPORTERS[name])


def exporter_for(path: Path) -> Exporter:
    """The exporter that a path's ending asks for."""
    rows = [exporter_named(name) for name in EXPORTERS]
    for row in rows:
        if path.name.endswith(row.suffix):
            return row
    known = ", ".join(f"{row.suffix} ({row.name})" for row in rows)
    raise InvalidInput("export", [f"{path.name!r} has no ending that names a format; use {known}, or give the format"])


def check_model_file(path: str | Path) -> None:
    """Refuse a name whose ending asks for a format of another program: what `Built.save` writes is a model file."""
    name = Path(path).name
    asked = name.lower()  # some systems know no other
    for row in () if asked.endswith(".safetensors") else map(exporter_named, EXPORTERS):
        if asked.endswith(row.suffix):
            fault = f"{name!r} asks for {row.name}, and what is saved is a model file; save it as .safetensors, then "
            raise InvalidInput("save", [f"{fault}built.export({name!r}) or softwright export FILE -o {name}"])


def spoken_of(built: Built[Any], given: np.ndarray) -> np.ndarray:
    """Of inputs of a network's set those that its claim speaks of: all, unless the kind has hypotheses on them."""
    place = KINDS[built.kind].within
    return loaded(place)(built, given) if place and built.certificate is not None else given


def drawn_for(built: Built[Any], count: int, seed: int) -> tuple[np.ndarray, ...] | None:
    """So many inputs that the network takes, where its kind says how they are drawn."""
    place = KINDS[built.kind].drawn
    return loaded(place)(built.network, count, seed) if place else None


def export(built: Built[Any], path: str | Path, format: str | None = None) -> Exporter:
    """Write what was built in the format of the path's ending, or in the one named; returns the exporter."""
    target = Path(path)
    row = exporter_for(target) if format is None else exporter_named(format)
    if built.kind not in row.kinds:
        others = [name for name in EXPORTERS if built.kind in exporter_named(name).kinds]
        use = f"use {', '.join(others)}" if others else f"no format holds it; kinds are {', '.join(KINDS)}"
        raise InvalidInput("export", [f"{row.name} cannot hold a network of kind {built.kind!r}; {use}"])
    if not target.parent.is_dir():
        raise FileFormatError(f"{target}: the folder {target.parent} does not exist; create it first")
    row.write(built, target)
    return row
