"""A memory in a folder of shards, for the checker: its index read strictly, its rows handed over a shard at a time.

    index.json               the files in order with their SHA-256, the shapes of the tensors that they hold rows of
    memory.safetensors       an ordinary file without these tensors
    keys-00000.safetensors   rows of each of them, and nothing else

Everything that a reader of the folder goes by is compared with what the files hold: names, digests, shapes, types, the
number of rows of a shard and the range of their first coordinate, by which ids are looked for in one shard and not in
another. What the weights are worth, the certificate's own digest and the proof say.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, cast

import numpy as np
from safetensors import safe_open

from softwright.checker.entries import Test, check_entries, is_count, is_number, is_object, is_text
from softwright.checker.limits import check_time
from softwright.checker.memory.entries import InShards
from softwright.checker.refusal import require
from softwright.errors import FileFormatError
from softwright.fileformat import ModelFile, check_header, parse_json, read_model, reading

SCHEMA = "softwright-memory-shards/1"
LARGEST_INDEX = 32 * 2**20  # bytes
MOST_JOINED = 2**31  # bytes of tensors that are proved as a whole
SOFTMAX = frozenset(("readout.keys", "readout.halves", "readout.values"))
RELUS = frozenset(("readout.keys", "readout.values", "readout.slopes", "readout.offsets"))
INDEX: dict[str, Test] = {
    "schema": lambda value: value == SCHEMA,
    "files": lambda value: isinstance(value, list) and len(value) > 0,
    "tensors": is_object,
    "rows": is_count,
}
FILE: dict[str, Test] = {"name": is_text, "sha256": is_text}
SHARD: dict[str, Test] = {**FILE, "rows": is_count, "from": is_number, "to": is_number}
RANGE = ("rows", "from", "to")  # of the shards of `memorize_shards` alone
_BLOCK = 1 << 22


def read_folder(folder: str | Path) -> ModelFile:
    """The memory of a folder; tensors with a row for each item are `InParts`."""
    place = Path(folder)
    index = read_index(place)
    check_entries(index, INDEX, "the index")
    whole, shards = index["files"][0], index["files"][1:]
    check_entries(whole, FILE, "the index's first file")
    names = ["memory.safetensors", *(f"keys-{number:05d}.safetensors" for number in range(len(shards)))]
    named = [entry.get("name") for entry in index["files"] if isinstance(entry, dict)]
    require(named == names, "the index does not name its files in order")
    for entry in index["files"]:
        require(sha256_of(place / entry["name"]) == entry["sha256"], f"{entry['name']} is not the one of the index")
    file, tensors = read_model(place / names[0]), index["tensors"]
    require(tensors.keys() in (SOFTMAX, RELUS), "the index names other tensors than those of a memory's rows")
    require(file.tensors.keys().isdisjoint(tensors), "a tensor stands in two files")
    paths = [place / name for name in names[1:]]
    parted = {name: in_shards(name, tensors[name], paths) for name in sorted(tensors)}
    for entry, path in zip(shards, paths, strict=True):
        check_shard(entry, path, parted)
    if tensors.keys() == RELUS:
        joined = sum(int(np.prod(t.shape)) * t.dtype.itemsize for t in parted.values())
        require(joined <= MOST_JOINED, "a memory of relus so large is not proved in parts")
        held = {name: np.concatenate(list(tensor.parts())) for name, tensor in parted.items()}
        return ModelFile({**file.tensors, **held}, file.sections)
    return ModelFile({**file.tensors, **cast(dict[str, np.ndarray], parted)}, file.sections)


def read_index(place: Path) -> Any:
    """index.json, as text that all readers read alike."""
    path = place / "index.json"
    with reading(place, "a folder that describes a memory", "copy the whole folder"):
        if path.stat().st_size > LARGEST_INDEX:
            raise FileFormatError(f"{path}: more than {LARGEST_INDEX} bytes; save the memory again")
        return parse_json(path.read_text(encoding="utf-8"))


def sha256_of(path: Path) -> str:
    """The digest of a file, which must be there."""
    if not path.is_file():
        raise FileFormatError(f"{path}: missing; copy the whole folder")
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
            check_time()
    return digest.hexdigest()


def in_shards(name: str, said: Any, paths: list[Path]) -> InShards:
    """A tensor of the index, whose rows the shards hold."""
    good = isinstance(said, list) and len(said) == 2 and isinstance(said[0], list) and all(map(is_count, said[0]))
    require(good and 0 < len(said[0]) <= 2 and said[1] in ("float64", "float32"), f"the shape of {name} is damaged")
    shape, found = tuple(said[0]), [shape_in(path, name) for path in paths]
    fit = all(kind == said[1] and tuple(own[1:]) == shape[1:] and len(own) == len(shape) for own, kind in found)
    require(fit and sum(own[0] for own, _ in found) == shape[0], f"the shards do not hold {name} as the index says")

    def part(number: int) -> np.ndarray:
        check_time()
        path = paths[number]
        with reading(path, "a shard of a memory", "copy the folder again"), safe_open(str(path), "numpy") as opened:
            return opened.get_tensor(name)

    return InShards(shape, np.dtype(said[1]), lambda: map(part, range(len(paths))), part)


def shape_in(path: Path, name: str) -> tuple[list[int], str]:
    """Shape and type of a tensor in a shard, without reading it."""
    kinds = {"F64": "float64", "F32": "float32"}
    with reading(path, "a shard of a memory", "copy the folder again"):
        check_header(path)
        with safe_open(str(path), "numpy") as opened:
            part = opened.get_slice(name)
            return list(part.get_shape()), kinds.get(part.get_dtype(), "")


def check_shard(entry: Any, path: Path, parted: dict[str, InShards]) -> None:
    """A shard holds rows of these tensors, as many of each and as the index says, and nothing else."""
    ranged = isinstance(entry, dict) and not entry.keys().isdisjoint(RANGE)
    check_entries(entry, SHARD if ranged else FILE, "a shard in the index")
    with reading(path, "a shard of a memory", "copy the folder again"), safe_open(str(path), "numpy") as opened:
        names, told = set(opened.keys()), opened.metadata()
        keys = opened.get_tensor("readout.keys")
    check_time()
    require(names == parted.keys() and not told, f"{path.name} holds something else than rows")
    require(keys.ndim == 2 and keys.shape[1] > 0, f"{path.name} holds no keys")
    first = keys[:, 0].astype(np.float64)
    if "readout.slopes" not in parted:  # which are between keys: there is one less of them
        rows = {shape_in(path, name)[0][0] for name in parted}
        require(rows == {len(first)}, f"{path.name} has keys without values, or values without keys")
    if ranged:
        ends = (float(first.min()), float(first.max())) if len(first) else (0.0, 0.0)
        require(entry["rows"] == len(first), f"{path.name} has {len(first)} rows, the index says {entry['rows']}")
        require((entry["from"], entry["to"]) == ends, f"{path.name} has other keys than those of its range")
