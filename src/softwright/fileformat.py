"""The file: one safetensors file holds the weights, and in its header, as JSON text, everything said about them.

    tensors    center (d,), scale (d,), layer.heads.<i>.keys (N, d), .biases (N,), .values (N, m), .slopes (N, m, d)
    metadata   softwright  schema of this layout ("1")
               model       {"kind", "box": {name: [low, high]}, "dtype", "heads": [{"structure", "axis_sizes"}, ...]}
               target, plan, observed, certificate   one JSON text each, where known

Nothing here imports torch, so that a checker can read a file without it; nothing here is executable, so that loading
a file cannot run anything. Files are written under a temporary name and then renamed: a killed process leaves no half
file.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save

from softwright.errors import FileFormatError, ForeignFile

SCHEMA = "1"
_SECTIONS = ("model", "target", "plan", "observed", "certificate")


@dataclass(frozen=True)
class ModelFile:
    """The content of a file: tensors as stored, and the JSON sections of its header."""

    tensors: dict[str, np.ndarray]
    sections: dict[str, Any]

    @property
    def weights_sha256(self) -> str:
        return weights_sha256(self.tensors)


def weights_sha256(tensors: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over names, types, shapes and bytes of all tensors, in order of their names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"{name}|{array.dtype.newbyteorder('<').str}|{array.shape}|".encode())
        digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()


def write_model(path: str | Path, tensors: Mapping[str, np.ndarray], sections: Mapping[str, Any]) -> None:
    """Write tensors and JSON sections; the file appears under its name only when it is complete."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileFormatError(f"{target}: the folder {target.parent} does not exist; create it first")
    metadata = {"softwright": SCHEMA}
    for name, section in sections.items():
        if section is not None:
            metadata[name] = json.dumps(section, allow_nan=False)  # in the order given: it is that of the variables
    content = _ordered(save({name: np.ascontiguousarray(array) for name, array in tensors.items()}, metadata))
    replace_file(target, content)


def replace_file(path: str | Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it: it is never there by half, and an old one is not lost."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=target.name, suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _ordered(content: bytes) -> bytes:
    """The file with its header's keys in order: safetensors has none of its own, equal models want equal bytes."""
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


def read_model(path: str | Path) -> ModelFile:
    """Read a file written by `write_model`; anything else is a `FileFormatError` that says what it is instead."""
    from safetensors import safe_open

    source = Path(path)
    if not source.is_file():
        raise FileFormatError(f"{source}: no such file")
    try:
        with safe_open(str(source), framework="numpy") as opened:
            metadata = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
        raise FileFormatError(
            f"{source}: not a readable safetensors file ({error}); was it cut short, or saved by something else?"
        ) from error
    schema = metadata.get("softwright")
    if schema is None:
        raise ForeignFile(f"{source}: a safetensors file, but not written by softwright")
    if schema != SCHEMA:
        raise FileFormatError(
            f"{source}: file schema {schema!r}, this version reads {SCHEMA!r}; upgrade softwright or rebuild the file"
        )
    sections: dict[str, Any] = {}
    for name in _SECTIONS:
        if name in metadata:
            try:
                sections[name] = json.loads(metadata[name])
            except ValueError as error:
                raise FileFormatError(f"{source}: the section {name!r} is not valid JSON ({error})") from error
    if not isinstance(sections.get("model"), dict):
        raise FileFormatError(f"{source}: the section 'model' is missing; the file cannot be rebuilt")
    return ModelFile(tensors, sections)
