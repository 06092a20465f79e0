"""A memory in many files: `save_shards` writes a folder, `load_shards` reads it, a shard at a time.

    folder/memory.safetensors        layer 1, labels' names, certificate: an ordinary file, without keys and values
    folder/keys-00000.safetensors    rows of the tensors that have one row per item, in order
    folder/index.json                the files, their rows and their SHA-256

No copy of more than one shard is made beside the network itself. The folder appears under its name when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

from softwright.errors import FileFormatError, InvalidInput
from softwright.fileformat import read_model, reading, weights_sha256, write_atomically, write_folder, write_model
from softwright.memory.network import MemoryNetwork
from softwright.precision import precision_of
from softwright.result.built import Built, from_sections
from softwright.result.constructed import tensors_of

SCHEMA = "softwright-memory-shards/1"
ROWS = 1_000_000
BY_ROW = ("readout.keys", "readout.halves", "readout.values", "readout.slopes", "readout.offsets")
_BLOCK = 1 << 22


def save_shards(built: Built, folder: str | Path, *, rows: int = ROWS) -> None:
    """Write a memory as a folder of files of at most `rows` items each. An existing folder is not overwritten."""
    network = built.network
    if not isinstance(network, MemoryNetwork):
        raise InvalidInput("save_shards", [f"a network of kind {built.kind!r} is one file; use Built.save"])
    if rows < 1:
        raise InvalidInput("save_shards", [f"rows = {rows}; give at least 1"])
    write_folder(folder, lambda place: _write(built, network, place, rows))


def load_shards(folder: str | Path) -> Built[MemoryNetwork]:
    """Read a folder written by `save_shards`; every file must be there and unchanged."""
    source = Path(folder)
    index = read_index(source)
    with reading(source, "a folder that describes a memory", "save it again"):
        return _read(source, index)


def _write(built: Built[Any], network: MemoryNetwork, folder: Path, rows: int) -> None:
    sections = built.sections()
    tensors = tensors_of(network)
    by_row = {name: tensors.pop(name) for name in BY_ROW if name in tensors}
    write_model(folder / "memory.safetensors", tensors, sections)
    files = [{"name": "memory.safetensors", "sha256": sha256_of(folder / "memory.safetensors")}]
    for number, at in enumerate(range(0, network.stored, rows)):
        path = folder / f"keys-{number:05d}.safetensors"
        part = {name: np.ascontiguousarray(array[at : at + rows]) for name, array in by_row.items()}
        write_atomically(path, save(part))
        files.append({"name": path.name, "sha256": sha256_of(path)})
    shapes = {name: [list(array.shape), array.dtype.name] for name, array in by_row.items()}
    index = {"schema": SCHEMA, "files": files, "tensors": shapes, "rows": rows}
    write_atomically(folder / "index.json", json.dumps(index, indent=1).encode())


def read_index(source: Path) -> dict[str, Any]:
    """What a folder says of its files."""
    with reading(source, "a folder written by save_shards", "copy the whole folder"):
        index = json.loads((source / "index.json").read_text(encoding="utf-8"))
    if not isinstance(index, dict) or index.get("schema") != SCHEMA:
        raise FileFormatError(f"{source}: index.json is not of schema {SCHEMA!r}; save the memory again")
    return index


def _read(source: Path, index: dict[str, Any]) -> Built:
    for entry in index["files"]:
        path = source / Path(entry["name"]).name
        if not path.is_file():
            raise FileFormatError(f"{path}: missing; copy the whole folder")
        if sha256_of(path) != entry["sha256"]:
            raise FileFormatError(f"{path}: changed or cut short since it was saved (SHA-256); copy the folder again")
    content = read_model(source / "memory.safetensors")
    if not set(index["tensors"]) <= set(BY_ROW):
        raise ValueError(f"unknown tensors {sorted(set(index['tensors']) - set(BY_ROW))}")
    held = sum((source / Path(entry["name"]).name).stat().st_size for entry in index["files"])
    claimed = sum(
        math.prod(shape) * np.dtype(precision_of(kind).name).itemsize for shape, kind in index["tensors"].values()
    )
    if claimed > held or any(min(shape, default=0) < 0 for shape, _ in index["tensors"].values()):
        raise ValueError(f"the index speaks of {claimed} bytes, the files hold {held}")
    arrays = {name: np.empty(shape, dtype=kind) for name, (shape, kind) in index["tensors"].items()}
    done = dict.fromkeys(arrays, 0)
    for entry in index["files"][1:]:
        with safe_open(str(source / Path(entry["name"]).name), framework="numpy") as opened:
            for name, array in arrays.items():
                part = opened.get_tensor(name)
                array[done[name] : done[name] + len(part)] = part
                done[name] += len(part)
    short = [name for name, array in arrays.items() if done[name] != len(array)]
    if short:
        raise ValueError(f"rows of {short} are missing")
    tensors = {**content.tensors, **arrays}
    return from_sections(content.sections, tensors, weights_sha256(tensors), source)


def sha256_of(path: Path) -> str:
    """The digest of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
