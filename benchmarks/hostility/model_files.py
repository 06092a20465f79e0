"""Model files of every kind and schema: bytes damaged, headers rewritten, tensors and sections that lie."""

from __future__ import annotations

import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

import softwright as sw
from hostility.folder import Folder
from hostility.mutations import changed, garbled, text, value
from softwright.errors import SoftwrightError

STORED = Path(__file__).resolve().parent.parent.parent / "tests" / "data"
LARGEST = 300_000  # bytes of a stored file that is taken
TYPES = ("F64", "F32", "F16", "I64", "U8", "BOOL", "F8", "Q64", "")


def parted(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and tensors of a safetensors file."""
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def joined(header: Any, tensors: bytes) -> bytes:
    written = json.dumps(header).encode("utf-8", "surrogatepass")
    return len(written).to_bytes(8, "little") + written + tensors


class ModelFiles:
    def prepare(self, folder: Folder) -> None:
        self.files: list[tuple[str, bytes]] = []
        for archive in sorted(STORED.glob("*/files.zip")):
            with zipfile.ZipFile(archive) as stored:
                for entry in sorted(stored.namelist()):
                    if entry.endswith(".safetensors") and stored.getinfo(entry).file_size < LARGEST:
                        self.files.append((entry, stored.read(entry)))

    def content(self, rng: np.random.Generator) -> bytes:
        _, content = self.files[rng.integers(len(self.files))]
        if rng.random() < 0.15:
            return garbled(rng, content)
        header, tensors = parted(content)
        for _ in range(rng.choice([1, 1, 1, 2])):
            self.spoil(rng, header)
        if rng.random() < 0.1:
            tensors = rng.permutation(np.frombuffer(tensors, np.uint8)).tobytes()
        return joined(header, tensors)

    def spoil(self, rng: np.random.Generator, header: dict[str, Any]) -> None:
        """One change to a header: to a section of JSON, most often, or to what is said of a tensor."""
        sections = header.get("__metadata__", {})
        names = [name for name in header if name != "__metadata__"]
        name = names[rng.integers(len(names))] if names else ""
        section = list(sections)[rng.integers(len(sections))] if sections else ""
        match rng.integers(28):
            case 0 if name and isinstance(header[name], dict):
                header[name]["dtype"] = TYPES[rng.integers(len(TYPES))]
            case 1 if name and isinstance(header[name], dict):
                header[name]["shape"] = [int(n) for n in rng.choice([0, 1, 2, 2**31, 2**62], rng.integers(0, 4))]
            case 2 if name and isinstance(header[name], dict):
                header[name]["data_offsets"] = [int(n) for n in rng.choice([0, 8, 2**40, 2**63 - 1], 2)]
            case 3 if name:
                header[str(rng.choice(["layer.heads.00.keys", "scale", text(rng)[:40]]))] = header[name]
            case 4 if section:
                sections[section] = str(rng.choice([text(rng), "[" * 100_000, '{"a":' * 5000, "{", "NaN", ""]))
            case 5 if section:
                sections[text(rng)[:40]] = text(rng)
            case 6 if name:
                header[name] = value(rng)
            case _ if section:
                try:
                    content = json.loads(sections[section])
                except (ValueError, TypeError, RecursionError):
                    return
                for _ in range(rng.choice([1, 1, 2])):
                    content = changed(rng, content)
                sections[section] = json.dumps(content)
            case _:
                header[text(rng)[:40]] = value(rng)

    def attack(self, rng: np.random.Generator, folder: Folder) -> str:
        path = folder.write("m.safetensors", self.content(rng))
        match rng.integers(7):
            case 0 | 1:
                return sw.verify(path, max_seconds=3.0).status
            case 2:
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        repr(sw.load(path))
                except SoftwrightError:
                    return "refused"
                return "loaded"
            case 3:
                return folder.run("info", path, *(("--json",) if rng.random() < 0.5 else ()))
            case 4:
                return folder.run("evaluate", path, "x=0.3", *(("y=0.1",) if rng.random() < 0.3 else ()))
            case 5:
                return folder.run("recall", path, "some text")
            case _:
                ending = str(rng.choice(["npz", "json", "onnx", "pt2", "txt"]))
                return folder.run("export", path, "-o", folder.path / f"e.{ending}")
