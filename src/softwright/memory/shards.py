"""A memory in many files: `save_shards` writes a folder, `load_shards` reads it, a shard at a time.

    folder/memory.safetensors        layer 1, labels' names, certificate: an ordinary file, without keys and values
    folder/keys-00000.safetensors    rows of the tensors that have one row per item, in order
    folder/index.json                the files, their rows and their SHA-256

No copy of more than one shard is made beside the network itself. The folder is written under a temporary name and
renamed when it is complete: a killed process leaves nothing under the final name.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from softwright.errors import FileFormatError, InvalidInput
from softwright.fileformat import read_model, weights_sha256, write_atomically, write_model
from softwright.memory.network import MemoryNetwork
from softwright.result.built import Built, from_sections
from softwright.result.constructed import tensors_of

SCHEMA = "softwright-memory-shards/1"
ROWS = 1_000_000
_BY_ROW = ("readout.keys", "readout.halves", "readout.values", "readout.slopes", "readout.offsets")
_BLOCK = 1 << 22


def save_shards(built: Built, folder: str | Path, *, rows: int = ROWS) -> None:
    """Write a memory as a folder of files of at most `rows` items each. An existing folder is not overwritten."""
    target = Path(folder)
    network = built.network
    if not isinstance(network, MemoryNetwork):
        raise InvalidInput("save_shards", [f"a network of kind {built.kind!r} is one file; use Built.save"])
    if rows < 1:
        raise InvalidInput("save_shards", [f"rows = {rows}; give at least 1"])
    if target.exists():
        raise FileFormatError(f"{target}: exists already; remove it or choose another name")
    if not target.parent.is_dir():
        raise FileFormatError(f"{target}: the folder {target.parent} does not exist; create it first")
    temporary = Path(tempfile.mkdtemp(prefix=target.name, suffix=".part", dir=target.parent))
    try:
        _write(built, network, temporary, rows)
        temporary.chmod(0o755)
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def load_shards(folder: str | Path) -> Built[MemoryNetwork]:
    """Read a folder written by `save_shards`; every file must be there and unchanged."""
    source = Path(folder)
    index = _index(source)
    try:
        return _read(source, index)
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, SafetensorError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{source}: the folder does not describe a memory ({error}); save it again") from error


def _write(built: Built[Any], network: MemoryNetwork, folder: Path, rows: int) -> None:
    tensors = tensors_of(network)
    by_row = {name: tensors.pop(name) for name in _BY_ROW if name in tensors}
    write_model(folder / "memory.safetensors", tensors, built.sections())
    files = [{"name": "memory.safetensors", "sha256": _sha256(folder / "memory.safetensors")}]
    for number, at in enumerate(range(0, network.stored, rows)):
        path = folder / f"keys-{number:05d}.safetensors"
        part = {name: np.ascontiguousarray(array[at : at + rows]) for name, array in by_row.items()}
        write_atomically(path, save(part))
        files.append({"name": path.name, "sha256": _sha256(path)})
    shapes = {name: [list(array.shape), array.dtype.name] for name, array in by_row.items()}
    index = {"schema": SCHEMA, "files": files, "tensors": shapes, "rows": rows}
    write_atomically(folder / "index.json", json.dumps(index, indent=1).encode())


def _index(source: Path) -> dict[str, Any]:
    try:
        index = json.loads((source / "index.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{source}: not a folder written by save_shards ({error})") from error
    if not isinstance(index, dict) or index.get("schema") != SCHEMA:
        raise FileFormatError(f"{source}: index.json is not of schema {SCHEMA!r}; save the memory again")
    return index


def _read(source: Path, index: dict[str, Any]) -> Built:
    for entry in index["files"]:
        path = source / Path(entry["name"]).name
        if not path.is_file():
            raise FileFormatError(f"{path}: missing; copy the whole folder")
        if _sha256(path) != entry["sha256"]:
            raise FileFormatError(f"{path}: changed or cut short since it was saved (SHA-256); copy the folder again")
    content = read_model(source / "memory.safetensors")
    arrays = {name: np.empty(shape, dtype=np.dtype(kind)) for name, (shape, kind) in index["tensors"].items()}
    if not set(arrays) <= set(_BY_ROW):
        raise ValueError(f"unknown tensors {sorted(set(arrays) - set(_BY_ROW))}")
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


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
