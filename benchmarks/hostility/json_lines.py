"""Lines of JSON: texts to memorise and to ask for."""

from __future__ import annotations

import json

import numpy as np

import softwright as sw
from hostility.folder import Folder
from hostility.mutations import garbled, text, value

VALID = "\n".join(json.dumps({"t": f"text {i}", "l": i % 3}) for i in range(6)).encode()


class JsonLines:
    def prepare(self, folder: Folder) -> None:
        sw.memorize(["text 1", "other text"], [1, 2], tokenizer="whitespace").save(folder.path / "memory.safetensors")

    def content(self, rng: np.random.Generator) -> bytes:
        match rng.integers(5):
            case 0 | 1:
                return garbled(rng, VALID)
            case 2:
                rows = [
                    {"t": value(rng) if rng.random() < 0.5 else "a b", "l": value(rng)}
                    for _ in range(rng.integers(1, 6))
                ]
                return "\n".join(map(json.dumps, rows)).encode()
            case 3:
                depth = int(rng.choice([100, 2000, 200_000]))
                opened = str(rng.choice(["[", '{"a":']))
                return ('{"t": "a", "l": ' + opened * depth).encode()
            case _:
                return f'{{"t": {text(rng)}, "l": 1}}\n{{"t": "a", "t": "b", "l": 1}}'.encode("utf-8", "surrogatepass")

    def attack(self, rng: np.random.Generator, folder: Folder) -> str:
        path = folder.write("d.jsonl", self.content(rng))
        if rng.random() < 0.6:
            extra = ("--values",) if rng.random() < 0.3 else ()
            return folder.run("memorize", path, "--text", "t", "--label", "l", "--no-certify", *extra)
        return folder.run("recall", folder.path / "memory.safetensors", "--from", path, "--text", "t")
