"""Files of theorems as a forger would write them: one thing changed, everything signed anew.

`hold` is the oracle: it runs the stored network at the construction's own inputs and compares with the stated bound. A
changed file may be VERIFIED only where what it says still holds.
"""

from __future__ import annotations

import copy
import functools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import softwright as sw
from softwright.checker.verdict import Verdict
from softwright.checker.verify import reprove
from softwright.fileformat import ModelFile, weights_sha256
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.network import TheoremNetwork

SLACK = 1e-11  # rounding of the run, where the theorem says nothing of it


@dataclass
class TheoremFile:
    """A file in pieces."""

    tensors: dict[str, np.ndarray]
    sections: dict[str, Any]
    made: Construction

    def verdict(self) -> Verdict:
        said = self.sections["certificate"]
        self.sections["certificate"] = {
            **said,
            "weights_sha256": weights_sha256(self.tensors),
            "target": self.sections["target"],
        }
        return reprove(ModelFile(self.tensors, copy.deepcopy(self.sections)))

    def holds(self, seed: int = 1, count: int = 150) -> bool:
        """Whether the stored network keeps the stated bound where it was looked at."""
        network = TheoremNetwork.rebuilt(self.sections["model"], self.tensors)
        inputs = self.made.sample(np.random.default_rng(seed), count)
        gap = np.abs(network.evaluate(inputs) - self.made.target(inputs)).max(initial=0.0)
        return bool(gap <= self.sections["certificate"]["bound"] * (1 + 1e-9) + SLACK)

    def copied(self) -> TheoremFile:
        return TheoremFile(
            {name: array.copy() for name, array in self.tensors.items()}, copy.deepcopy(self.sections), self.made
        )


def sections_of(built: sw.Built[Any]) -> dict[str, Any]:
    """The sections of a file, its certificate with all entries side by side: forgers change one of them."""
    return json.loads(json.dumps({**built.sections(), "certificate": built.certificate.flat()}))


@functools.cache
def _built(label: str, sizes: str) -> TheoremFile:
    built = sw.theorem(label).build(progress=False, **json.loads(sizes))
    tensors = {name: tensor.numpy() for name, tensor in built.network.state_dict().items()}
    return TheoremFile(tensors, sections_of(built), built.source)


def theorem_file(label: str, **sizes: Any) -> TheoremFile:
    return _built(label, json.dumps(sizes)).copied()


def changed_tensors(file: TheoremFile, seed: int = 0) -> Iterator[tuple[str, TheoremFile]]:
    """Every tensor negated, scaled, reversed along each axis, shifted, with single entries changed."""
    rng = np.random.default_rng(seed)
    for name, array in file.tensors.items():
        variants = {"negated": -array, "scaled": array * (1 + 1e-3), "zeroed": np.zeros_like(array)}
        for axis in range(array.ndim):
            variants[f"reversed {axis}"] = np.flip(array, axis)
            variants[f"rolled {axis}"] = np.roll(array, 1, axis)
        for k in range(6):
            place = tuple(int(rng.integers(n)) for n in array.shape)
            variants[f"entry {place} {k}"] = other = array.copy()
            other[place] += (1.0, -0.3, 1e-3)[k % 3] * (1.0 if k < 3 else abs(other[place]) + 0.1)
        for what, other in variants.items():
            if not np.array_equal(other, array):
                changed = file.copied()
                changed.tensors[name] = np.ascontiguousarray(other)
                yield f"{name} {what}", changed


def leaves(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else None
    if items is None:
        yield path, data
        return
    for key, value in items:
        yield from leaves(value, (*path, key))


def put(data: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        data = data[key]
    data[path[-1]] = value


def changed_leaves(file: TheoremFile, section: str, most: int = 60) -> Iterator[tuple[tuple[Any, ...], TheoremFile]]:
    """Every number, word and flag of a JSON section changed, but of long lists only some."""
    found = list(leaves(file.sections[section]))
    stride = max(1, len(found) // most)
    for path, value in [entry for i, entry in enumerate(found) if i % stride == 0 or len(entry[0]) < 3]:
        others: list[Any] = []
        if isinstance(value, bool):
            others = [not value]
        elif isinstance(value, int):
            others = [value + 1, value - 1, float(value)]
        elif isinstance(value, float):
            others = [value * 1.01 + 1e-3, -value if value else 1.0, math.nextafter(value, math.inf)]
        elif isinstance(value, str):
            others = [value + "x", ""]
        for other in others:
            changed = file.copied()
            put(changed.sections[section], path, other)
            yield path, changed


def lowered(file: TheoremFile) -> Iterator[tuple[str, TheoremFile]]:
    """Bound and parts lowered together, as a forger would."""
    said = file.sections["certificate"]
    for factor in (0.5, 0.1, 1e-3):
        for name in ("exact_part", "rounding_part"):
            if said[name]:
                changed = file.copied()
                new = changed.sections["certificate"]
                new[name] = said[name] * factor
                new["bound"] = (new["exact_part"] + new["rounding_part"]) * (1 + 1e-15)
                yield f"{name} times {factor}", changed
