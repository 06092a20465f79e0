"""CSV files: tables to approximate, observations, texts to memorise, rows to evaluate."""

from __future__ import annotations

import numpy as np

import softwright as sw
from hostility.folder import Folder
from hostility.mutations import garbled, text

VALID = b"x,y\n" + b"".join(b"%d,%.4f\n" % (i, i * i / 7) for i in range(8))
BIG_FIELD = b"x,y\n" + b'"' + b"1" * 300_000 + b'",2\n'


def cell(rng: np.random.Generator) -> str:
    return text(rng) if rng.random() < 0.3 else f"{rng.normal():.3f}"


class CsvFiles:
    def prepare(self, folder: Folder) -> None:
        sw.approximate("x**2", {"x": (0, 8)}, tol=1e-2, certify=False).save(folder.path / "square.safetensors")

    def content(self, rng: np.random.Generator) -> bytes:
        match rng.integers(5):
            case 0 | 1:
                return garbled(rng, VALID)
            case 2:
                rows = [",".join(cell(rng) for _ in range(rng.integers(1, 4))) for _ in range(rng.integers(1, 8))]
                head = "x,y" if rng.random() < 0.7 else text(rng)
                return "\n".join([head, *rows]).encode(
                    str(rng.choice(["utf-8", "utf-16", "utf-8-sig"])), "surrogatepass"
                )
            case 3:
                return rng.choice([BIG_FIELD, b"x,y\n" * 20_000, b"x,y" + b"," * 50_000, b"\x00" * 10_000, b""])
            case _:
                return VALID.replace(b"1", text(rng).encode("utf-8", "surrogatepass"), 1)

    def attack(self, rng: np.random.Generator, folder: Folder) -> str:
        path = folder.write("d.csv", self.content(rng))
        match rng.integers(4):
            case 0:
                quick = ("--max-seconds", "0.3", "--tol", "1", "--no-certify")
                return folder.run("approximate", "--table", path, "--inputs", "x", "--outputs", "y", *quick)
            case 1:
                return folder.run("memorize", path, "--text", "x", "--label", "y", "--no-certify")
            case 2:
                return folder.run("evaluate", folder.path / "square.safetensors", "--csv", path)
            case _:
                return folder.run(
                    "in-context", "ridge", "--data", path, "--target", "y", "--inputs", "x", "--no-certify"
                )
