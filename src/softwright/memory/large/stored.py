"""`StoredMemory`: a memory that stays on disk, asked shard by shard.

Shards that `memorize_shards` wrote hold ranges of the first coordinate of the ids, and their index says which: an id is
looked for in the one or two shards that its proved radius touches. Any other folder of `save_shards` is gone through
from its first shard to its last. One shard is in memory at a time.

`engine="dense"` is attention over all stored keys, literally: scores against every key of every shard, with the largest
score, the sum of exponentials and the weighted sum of values carried along from shard to shard.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from softwright.errors import Faults, FileFormatError, InvalidInput
from softwright.fileformat import read_model, reading
from softwright.memory.context_head import TENSORS
from softwright.memory.large.merge import head_of
from softwright.memory.nearest_keys import NearestKeys
from softwright.memory.network import ENGINES, Recall
from softwright.memory.sequences import Packed, Reading, pack
from softwright.memory.shards import read_index
from softwright.memory.tokenizer import tokenizer_from

_SCORES = 1 << 24  # of the dense engine, held at a time


class StoredMemory:
    """A memory of whole sequences in a folder of shards, with a softmax readout."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._index = read_index(self.folder)
        content = read_model(self.folder / "memory.safetensors")
        with reading(self.folder, "a folder that describes a memory", "save it again"):
            model, tensors = content.sections["model"], content.tensors
            if not _whole_sequences(model):
                fault = "only memories of whole sequences with readout='attention' are asked shard by shard"
                raise FileFormatError(f"{self.folder}: {fault}; read it with sw.load")
            self.head = head_of(Reading(**model["reading"]), {name: tensors[f"head.{name}"] for name in TENSORS})
            self.classes = json.loads(tensors["class_text"].tobytes()) if model["labels"] == "classes" else None
            self.tokenizer = tokenizer_from(model.get("tokenizer"), tensors["tokenizer_text"].tobytes())
            self.radius, self.gap = float(tensors["radii"][0]), float(tensors["gap"].reshape(())[()])
            self.beta = float(tensors["readout.beta"].reshape(())[()])
            self.stored = int(self._index["tensors"]["readout.keys"][0][0])
            self.outputs = int(self._index["tensors"]["readout.values"][0][1])
            self._entries = [_shard(entry) for entry in self._index["files"][1:]]
        self.certificate, self.observed = content.sections.get("certificate"), content.sections.get("observed")

    def __len__(self) -> int:
        return self.stored

    def summary(self) -> dict[str, Any]:
        """What is stored and what is proved of it, in a few entries."""
        told, seen = self.certificate or {}, self.observed or {}
        return {
            "kind": "memory",
            "stored": self.stored,
            "rank": self.head.rank,
            "shards": len(self._entries),
            "gap": self.gap,
            "bound": told.get("claim", {}).get("bound"),
            "observed_error": seen.get("error"),
            "asked": seen.get("points", 0),
        }

    def shards(self) -> Iterator[tuple[dict[str, Any], int]]:
        """The entry of every shard, and the number of items before it."""
        before = 0
        for entry in self._entries:
            yield entry, before
            before += entry["rows"] or len(self._tensor(entry, "readout.halves"))

    def recall(self, sequences: Any, *, unknown: str = "nearest", engine: str = "pruned") -> Recall:
        """The labels of sequences; those never stored get None or nan with unknown="abstain"."""
        faults = Faults("recall")
        # The nearest key of an id far from all is in any shard: finding it would mean searching every one of them.
        faults.check(unknown in ("nearest", "abstain"), f"unknown = {unknown!r}; choose nearest or abstain")
        faults.check(engine in ENGINES, f"engine = {engine!r}; choose from {', '.join(ENGINES)}")
        packed = self._packed(sequences, faults)
        faults.raise_if_any()
        if packed is None:
            raise RuntimeError("unreachable: sequences that cannot be packed are a fault")
        return self.recall_packed(packed, unknown, engine)

    def recall_packed(self, packed: Packed, unknown: str = "nearest", engine: str = "pruned") -> Recall:
        foreign, ids = self.head.foreign(packed), self.head.ids(packed)
        found = self._pruned(ids) if engine == "pruned" else self._dense(ids)
        known = (found["distance"] <= self.radius) & ~foreign
        if unknown == "nearest" and engine == "pruned" and not known.all():
            others = np.flatnonzero(~known)
            for name, part in self._nearest(ids[others]).items():
                found[name][others] = part
        near = np.where(known, found["distance"], 0.0)
        exponent = 0.5 * ((self.gap - near) ** 2 - near**2)
        with np.errstate(invalid="ignore", over="ignore"):
            mass = np.where(known, (self.stored - 1) * np.exp(-np.minimum(self.beta * exponent, 745.0)), 1.0)
        weight = found.pop("weight", 1.0 - np.minimum(mass, 1.0))
        labels = self._labels(found["values"], known | (unknown == "nearest"))
        return Recall(labels, known, found["distance"], weight, mass, found["index"])

    def values(self, packed: Packed) -> np.ndarray:
        """The numbers (N, m) that stand for the labels of sequences; nan where none is stored."""
        found, foreign = self._pruned(self.head.ids(packed)), self.head.foreign(packed)
        return np.where((foreign | (found["index"] < 0))[:, None], np.nan, found["values"])

    def _packed(self, sequences: Any, faults: Faults) -> Packed | None:
        if isinstance(sequences, str):
            sequences = [sequences]
        if isinstance(sequences, list | tuple) and sequences and all(isinstance(x, str) for x in sequences):
            if self.tokenizer is None:
                faults.add("this memory was built without a tokenizer; give rows of integers")
                return None
            sequences = self.tokenizer.encode(list(sequences))
        packed = pack(sequences, faults)
        wanted = self.head.code_size if self.head.takes_vectors else 0
        if packed is not None and len(packed) and packed.longest and packed.width != wanted:
            kind = f"vectors of {wanted} numbers" if wanted else "integer tokens"
            faults.add(f"this memory holds {kind}; got an array of shape {packed.content.shape}")
        return packed

    def _tensor(self, entry: dict[str, Any], name: str) -> np.ndarray:
        path = self.folder / entry["name"]
        with reading(path, "a shard of a memory", "copy the folder again"), safe_open(str(path), "numpy") as opened:
            return opened.get_tensor(name)

    def _pruned(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        """The key within the radius of each id, where there is one."""
        found = _nothing(len(ids), self.outputs)
        for entry, before in self.shards():
            reached = (ids[:, 0] + self.radius >= entry["from"]) & (ids[:, 0] - self.radius <= entry["to"])
            some = np.flatnonzero(reached)
            if not len(some):
                continue
            index, distance = NearestKeys(self._tensor(entry, "readout.keys")).within(ids[some], self.radius)
            better = (index >= 0) & (distance < found["distance"][some])
            some, index = some[better], index[better]
            found["index"][some], found["distance"][some] = index + before, distance[better]
            found["values"][some] = self._tensor(entry, "readout.values")[index]
        return found

    def _nearest(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        """The nearest of all keys, for ids that no stored sequence has."""
        found = _nothing(len(ids), self.outputs)
        for entry, before in self.shards():
            distance, index = NearestKeys(self._tensor(entry, "readout.keys")).nearest(ids, 1)
            better = distance[:, 0] < found["distance"]
            index = index[better, 0]
            found["index"][better], found["distance"][better] = index + before, distance[better, 0]
            found["values"][better] = self._tensor(entry, "readout.values")[index]
        return found

    def _dense(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        """Softmax attention over every stored key."""
        count = len(ids)
        top, total = np.full(count, -np.inf), np.zeros(count)
        mixed, found = np.zeros((count, self.outputs)), _nothing(count, self.outputs)
        for entry, before in self.shards():
            keys, halves = self._tensor(entry, "readout.keys"), self._tensor(entry, "readout.halves")
            values = self._tensor(entry, "readout.values").astype(np.float64)
            step = max(1, _SCORES // max(1, len(keys)))
            for at in range(0, count if len(keys) else 0, step):
                part = slice(at, at + step)
                scores = self.beta * (ids[part] @ keys.T.astype(np.float64) - halves)  # (q, rows)
                best = scores.argmax(axis=1)
                here = scores[np.arange(len(best)), best]
                higher = np.maximum(top[part], here)
                old = np.exp(top[part] - higher)
                weights = np.exp(scores - higher[:, None])
                total[part] = total[part] * old + weights.sum(axis=1)
                mixed[part] = mixed[part] * old[:, None] + weights @ values
                won = np.flatnonzero(here > top[part])
                apart = np.sqrt(((ids[part][won] - keys[best[won]]) ** 2).sum(axis=1))
                found["index"][at + won], found["distance"][at + won] = best[won] + before, apart
                top[part] = higher
        return {**found, "values": mixed / total[:, None], "weight": 1.0 / total}

    def _labels(self, values: np.ndarray, shown: np.ndarray) -> list[Any] | np.ndarray:
        if self.classes is None:
            values = np.where(shown[:, None], values, np.nan)
            return values[:, 0] if self.outputs == 1 else values
        places = np.rint(values[:, 0]).astype(np.int64)
        return [self.classes[p] if s else None for p, s in zip(places.tolist(), shown.tolist(), strict=True)]


def _shard(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of the index, all of it read before any of it is used."""
    return {
        "name": Path(entry["name"]).name,
        "rows": int(entry.get("rows", 0)),
        "from": float(entry.get("from", -np.inf)),
        "to": float(entry.get("to", np.inf)),
    }


def _whole_sequences(model: dict[str, Any]) -> bool:
    return model["readout"] == "attention" and model["reading"]["mode"] == "sequence"


def shard_by_shard(folder: Path) -> bool:
    """Whether a folder holds a memory that can be asked without reading all of it."""
    with reading(folder, "a folder that describes a memory", "save it again"):
        return _whole_sequences(read_model(folder / "memory.safetensors").sections["model"])


def open_shards(folder: str | Path) -> StoredMemory:
    """A memory of any size to ask, without reading more than one of its shards at a time."""
    if not Path(folder).is_dir():
        raise InvalidInput(
            "open_shards", [f"{folder} is no folder; give one that memorize_shards or save_shards wrote"]
        )
    return StoredMemory(folder)


def _nothing(count: int, outputs: int) -> dict[str, np.ndarray]:
    return {
        "index": np.full(count, -1, dtype=np.int64),
        "distance": np.full(count, np.inf),
        "values": np.zeros((count, outputs)),
    }
