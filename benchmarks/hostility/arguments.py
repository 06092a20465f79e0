"""Arguments of every command: numbers, names, boxes and options that mean nothing, too much, or something else."""

from __future__ import annotations

import numpy as np

import softwright as sw
from hostility.folder import Folder
from hostility.mutations import text

NUMBERS = ("0", "-1", "1e-3", "nan", "inf", "-inf", "1e999", "1e-320", "0x1", "1_0", "", "pi", "2**9", "1/0", "9" * 400)
BOXES = ("x=-1:1", "x=0:0", "x=1:-1", "x=nan:1", "x=-inf:inf", "x=-1e308:1e308", "x=0:1e-320", "x=", "=0:1", "x=0:1:2",
         "x=0:pi/0", "x", "y=0:1", "x=0:1e400", "x=-1:1 ", "__class__=0:1", "e=0:1", "x=0:9**9**9**9")  # fmt: skip
OPTIONS = ("--tol", "--dtype", "--strategy", "--max-tokens", "--max-seconds", "--readout", "--rank", "--penalty",
"--layout",
           "--engine", "--box", "--solver", "--condition", "--steps", "--unknown", "--format", "--plot", "-o", "--frob",
           "--sequences", "--length", "--eps0", "--cells", "--beta", "--p")  # fmt: skip
LABELS = ("A1", "A2", "B1", "B2", "B3", "C1", "C2", "C3", "C4", "Z9", "", "a1")
SMALL = "x,y\n" + "".join(f"{i},{i * i / 7:.4f}\n" for i in range(8))


class Arguments:
    def prepare(self, folder: Folder) -> None:
        (folder.path / "d.csv").write_text(SMALL)
        sw.approximate("x**2", {"x": (0, 8)}, tol=1e-2, certify=False).save(folder.path / "square.safetensors")
        sw.memorize(["text 1", "other text"], [1, 2], tokenizer="whitespace").save(folder.path / "memory.safetensors")

    def options(self, rng: np.random.Generator, folder: Folder) -> list[str]:
        found: list[str] = []
        for _ in range(rng.integers(0, 3)):
            option = OPTIONS[rng.integers(len(OPTIONS))]
            given = NUMBERS[rng.integers(len(NUMBERS))] if rng.random() < 0.6 else text(rng)
            if option in ("-o", "--plot"):  # never outside the folder, whatever the text
                given = str(folder.path / f"out{rng.integers(3)}{rng.choice(['', '.png', '.npz', '.svg', '.frob'])}")
            found += [option, given]
        return found

    def command(self, rng: np.random.Generator, folder: Folder) -> list[str]:
        data, square = str(folder.path / "d.csv"), str(folder.path / "square.safetensors")
        box = BOXES[rng.integers(len(BOXES))]
        odd = text(rng)
        match rng.integers(9):
            case 0 | 1:
                formula = str(rng.choice(["x", "sin(x)", "1/x", "x**0.5", "0*x", "1e308*x*10", "max(x, 0)"]))
                return [
                    "approximate",
                    formula if rng.random() < 0.7 else odd,
                    box,
                    "--max-seconds",
                    "0.2",
                    "--no-certify",
                ]
            case 2:
                return ["evaluate", square, f"x={odd if rng.random() < 0.5 else NUMBERS[rng.integers(len(NUMBERS))]}"]
            case 3:
                return ["memorize", data, "--text", "x", "--label", odd if rng.random() < 0.3 else "y", "--no-certify"]
            case 4:
                return ["recall", str(folder.path / "memory.safetensors"), odd]
            case 5:
                method = str(rng.choice(["ridge", "least_squares", "lasso", "logistic", "frob", odd]))
                return ["in-context", method, "--data", data, "--target", "y", "--inputs", "x", "--no-certify"]
            case 6:
                return ["theorem", LABELS[rng.integers(len(LABELS))], "--sizes"]
            case 7:
                command = str(rng.choice(["info", "verify", "export", "transpile"]))
                place = str(rng.choice([square, data, str(folder.path), "/dev/null", odd.replace("\x00", "0")[:200]]))
                return [command, place, *(["-o", str(folder.path / "e.npz")] if command == "export" else [])]
            case _:
                return [odd, odd]

    def attack(self, rng: np.random.Generator, folder: Folder) -> str:
        arguments = [*self.command(rng, folder), *self.options(rng, folder)]
        if rng.random() < 0.2:
            arguments = [arguments[i] for i in rng.permutation(len(arguments))]
        if rng.random() < 0.1:
            arguments.append("--json")
        return folder.run(*arguments)
