"""A file in the hands of a forger, and the walk over the leaves of its JSON sections."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from softwright.fileformat import weights_sha256

Json = Any
Place = tuple[str | int, ...]


@dataclass
class Forgery:
    """A file as tensors and sections; `texts` are sections that no JSON writer would write."""

    name: str
    tensors: dict[str, np.ndarray]
    sections: dict[str, Json]
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def said(self) -> dict[str, Json]:
        return self.sections["certificate"]

    @property
    def by_boxes(self) -> bool:
        return isinstance(self.sections.get("certificate"), dict) and "tree" in self.said and "hex" in self.said

    @property
    def content(self) -> tuple[Any, ...]:
        """All that makes the file, comparable."""
        tensors = {name: (str(array.dtype), array.shape, array.tobytes()) for name, array in self.tensors.items()}
        return tensors, json.dumps(self.sections), self.texts

    def sign(self) -> None:
        if isinstance(self.sections.get("certificate"), dict):
            self.said["weights_sha256"] = weights_sha256(self.tensors)

    def write(self, path: Path) -> None:
        metadata = {"softwright": "1", **{name: json.dumps(value) for name, value in self.sections.items()}}
        arrays = {name: np.ascontiguousarray(array) for name, array in self.tensors.items()}
        save_file(arrays, str(path), {**metadata, **self.texts})


Mutation = Callable[[Forgery, np.random.Generator, list[Forgery]], str | None]


def pick(rng: np.random.Generator, items: Any) -> Any:
    items = list(items)
    return items[int(rng.integers(len(items)))]


def leaves(value: Json, path: Place = ()) -> Iterator[Place]:
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path
        return
    for key, child in items:
        yield from leaves(child, (*path, key))


def parent(sections: Json, path: Place) -> Json:
    for key in path[:-1]:
        sections = sections[key]
    return sections


def dotted(path: Place) -> str:
    return ".".join(map(str, path))
