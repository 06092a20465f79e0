"""NPZ archives: damaged, lying about sizes, pickled, compressed beyond reason, or something else altogether."""

from __future__ import annotations

import io
import pickle
import zipfile

import numpy as np

from hostility.folder import Folder
from hostility.mutations import CODE, garbled, text


class Bomb:
    """What a pickle could run."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.system, (f"echo {CODE[0]}",)


def header(descr: str, shape: str) -> bytes:
    line = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line


class Archives:
    def prepare(self, folder: Folder) -> None:
        made = io.BytesIO()
        np.savez(made, x=np.arange(8.0), y=np.arange(8.0) ** 2)
        self.valid = made.getvalue()

    def packed(self, entries: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", method) as archive:
            for name, content in entries.items():
                entry = zipfile.ZipInfo(name)  # `writestr` itself fails for an empty name, which a file may well hold
                entry.compress_type = method
                with archive.open(entry, "w") as stream:
                    stream.write(content)
        return made.getvalue()

    def content(self, rng: np.random.Generator) -> bytes:
        match rng.integers(6):
            case 0 | 1:
                return garbled(rng, self.valid)
            case 2:
                descr = str(
                    rng.choice(["'<f8'", "'|O'", "'<U99999999'", "'<M8[s]'", "'<f2'", "[('a','<f8')]", repr(CODE[0])])
                )
                shape = str(
                    rng.choice(["(8,)", "(1000000000000,)", "(-1,)", "(2, 4)", "8", "(8,) * 99", CODE[1], "()"])
                )
                entry = header(descr, shape) + rng.bytes(64)
                return self.packed({"x.npy": entry, "y.npy": entry})
            case 3:
                zeros = header("'<f8'", "(60000000,)") + bytes(int(rng.choice([10**5, 4 * 10**6])))
                return self.packed({"x.npy": zeros, "y.npy": zeros}, zipfile.ZIP_DEFLATED)
            case 4:
                entry = pickle.dumps(Bomb()) if rng.random() < 0.5 else header("'|O'", "(1,)") + pickle.dumps([Bomb()])
                return self.packed({"x.npy": entry, "y.npy": entry}) if rng.random() < 0.7 else pickle.dumps(Bomb())
            case _:
                entry = header("'<f8'", "(8,)") + bytes(64)
                return self.packed({text(rng)[:60].encode("utf-8", "replace").decode(): entry, "x.npy": entry})

    def attack(self, rng: np.random.Generator, folder: Folder) -> str:
        path = folder.write("d.npz", self.content(rng))
        if rng.random() < 0.5:
            quick = ("--max-seconds", "0.3", "--tol", "1", "--no-certify")
            return folder.run("approximate", "--table", path, "--inputs", "x", "--outputs", "y", *quick)
        return folder.run("in-context", "ridge", "--data", path, "--target", "y", "--inputs", "x", "--no-certify")
