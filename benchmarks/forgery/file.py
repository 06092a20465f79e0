"""A file in the hands of a forger: its tensors, its JSON and where a statement says what, in either schema.

softwright-certificate/1, softwright-closed-form/1   all entries side by side; parts of a proof in a list `tree`
softwright-statement/2                               claim, evidence, trust, told
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from judging.claim import CannotJudge
from judging.transpiled import read_source
from safetensors.numpy import save

from softwright.fileformat import ModelFile

Json = Any
Place = tuple[str | int, ...]
NUMBERS = ("bound", "exact", "rounding")


@dataclass
class Forgery:
    """A file as tensors and sections; `texts` are sections that no JSON writer would write, `raw` changes its bytes."""

    name: str
    tensors: dict[str, np.ndarray]
    sections: dict[str, Json]
    texts: dict[str, str] = field(default_factory=dict)
    raw: list[Callable[[bytes], bytes]] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return self.name.partition("-")[0]

    @property
    def said(self) -> dict[str, Json]:
        return self.sections["certificate"]

    @property
    def new(self) -> bool:
        """Whether the statement is one of claim, evidence and trust."""
        return "claim" in self.said

    @property
    def claim(self) -> dict[str, Json]:
        return self.said["claim"] if self.new else self.said

    @property
    def by_boxes(self) -> bool:
        return isinstance(self.sections.get("certificate"), dict) and self.domain is not None

    @property
    def domain(self) -> dict[str, list[float]] | None:
        return self.claim.get("set", {}).get("domain") if self.new else self.said.get("domain")

    def restate_domain(self, name: str, low: float, high: float) -> None:
        """A side of the domain, in both its forms."""
        if self.domain is not None:
            self.domain[name] = [low, high]
            twin = self.claim["set"]["hex"] if self.new else self.said["hex"]["domain"]
            twin[name] = [low.hex(), high.hex()]

    @property
    def target(self) -> dict[str, Json]:
        return self.claim["reference"]["target"] if self.new else self.said["target"]

    def set_target(self, target: dict[str, Json]) -> None:
        """What is approximated, wherever it is written."""
        self.sections["target"] = json.loads(json.dumps(target))
        (self.claim["reference"] if self.new else self.said)["target"] = json.loads(json.dumps(target))

    @property
    def pieces(self) -> list[dict[str, Json]]:
        """What carries a tree: the parts of a proof, or the whole of it."""
        if self.new:
            return list(self.said["evidence"])
        return self.said["tree"] if isinstance(self.said.get("tree"), list) else [self.said]

    def statements(self) -> list[dict[str, tuple[dict[str, Json], str]]]:
        """For the whole statement, and for every part: bound, exact and rounding part by name, where they stand."""
        if not self.new:
            names = {"bound": "bound", "exact": "exact_part", "rounding": "rounding_part"}
            data = [self.said, *(self.said["tree"] if isinstance(self.said.get("tree"), list) else [])]
            return [{name: (d, key) for name, key in names.items() if key in d} for d in data]
        whole = {"bound": (self.claim, "bound"), **{n: (self.claim["parts"], n) for n in NUMBERS[1:]}}
        parts = [step["part"] for step in self.said["evidence"] if "part" in step]
        return [whole, *({n: (part, n) for n in NUMBERS[1:]} for part in parts)]

    def restate(self, place: tuple[dict[str, Json], str], value: float) -> None:
        """A number of a statement in both its forms."""
        owner, key = place
        owner[key] = value
        twin = self.claim.get("hex") if self.new and owner is self.claim.get("parts") else owner.get("hex")
        if isinstance(twin, dict) and key in twin:
            twin[key] = float(value).hex()

    @property
    def bound(self) -> float:
        return float(self.claim["bound"])

    @property
    def quantities(self) -> dict[str, Json]:
        if self.new:
            return next((step["quantities"] for step in self.said["evidence"] if "quantities" in step), {})
        return self.said.get("quantities", {})

    @property
    def content(self) -> tuple[Any, ...]:
        """All that makes the file, comparable."""
        tensors = {name: (str(array.dtype), array.shape, array.tobytes()) for name, array in self.tensors.items()}
        return tensors, json.dumps(self.sections), self.texts, len(self.raw)

    def sign(self) -> None:
        """Every digest, that of a source too, and every list of names, as an honest file would have them."""
        if not isinstance(self.sections.get("certificate"), dict):
            return
        file = ModelFile(self.tensors, {})
        if self.kind == "transpiled":
            with suppress(CannotJudge, LookupError, TypeError, ValueError, AttributeError):  # no source can be read
                source = read_source(self.tensors, self.sections["model"], self.sections["target"])
                self.set_target({**self.sections["target"], "sha256": source.digest})
        if not self.new:
            self.said["weights_sha256"] = file.weights_sha256
            if "reference_sha256" in self.said:
                self.said["reference_sha256"] = file.reference_sha256
            return
        for place, tensors, digest in (
            ("subject", file.subject_tensors, file.weights_sha256),
            ("reference", file.reference_tensors, file.reference_sha256),
        ):
            if isinstance(self.claim.get(place), dict):
                self.claim[place] |= {"tensors": sorted(tensors), "sha256": digest}

    def write(self, path: Path) -> None:
        certificate = self.sections.get("certificate")
        layout = "2" if isinstance(certificate, dict) and "claim" in certificate else "1"
        metadata = {"softwright": layout, **{name: json.dumps(value) for name, value in self.sections.items()}}
        arrays = {name: np.ascontiguousarray(array) for name, array in self.tensors.items()}
        content = save(arrays, {**metadata, **self.texts})
        for change in self.raw:
            content = change(content)
        path.write_bytes(content)


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
