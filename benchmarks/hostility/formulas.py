"""Formulas: grammar run wild, valid ones with characters changed, code, depth and length beyond reason."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np

from hostility.folder import Folder
from hostility.mutations import text
from softwright.checker.parser import NotProvedError, Parser
from softwright.errors import SoftwrightError
from softwright.targets.formula.expression import Expression

WORDS = (
    "x", "y", "z", "pi", "e", "sin", "cos", "log", "sqrt", "where", "max", "min", "if", "else", "and", "or", "not",
    "abs",
    "erf", "gamma", "atan2", "sign", "+", "-", "*", "/", "**", "^", "(", ")", ",", "<", ">", "<=", "==", "!=", ".",
    "..", "%",
    "//", "@", "=", ":", ";", "[", "]", "{", "}", "1", "0", "2.5", "1e400", "1e-400", "9**9**9**9", "0.0.1", "1.",
    ".5", "1j",
    "lambda", "import", "__class__", "x.y", "\\", "\n", "#", '"', "'", "~", "|", "&", "!", "\u03b8", "x\u0301",
)  # fmt: skip
VALID = (
    "sin(3*x)*exp(-y**2)", "max(x, y, 0.2) + min(x, -y)", "where(x < 0.5, x**2, 0.25 + (x - 0.5))", "1/(1 + 25*x**2)",
    "sqrt(x**2 + 1), log(2 + y)", "abs(x - 0.2)**1.5", "x if x < y else y", "atan2(x, 2 + y)*erf(x)/3e-2",
)  # fmt: skip
MOST = 400  # characters of a formula that is evaluated as well


class Formulas:
    def prepare(self, folder: Folder) -> None:
        """Nothing is needed."""

    def formula(self, rng: np.random.Generator) -> str:
        match rng.integers(8):
            case 0 | 1:
                return " ".join(WORDS[i] for i in rng.integers(0, len(WORDS), rng.integers(1, 25)))
            case 2:
                return text(rng)
            case 3:
                depth = int(rng.choice([10, 63, 64, 65, 200, 3000, 30_000]))
                opened = str(rng.choice(["(", "sin(", "-", "abs(x+", "2**", "not ", "[", "where(x<", "1+("]))
                return opened * depth + "x" + ")" * (depth if rng.random() < 0.7 else depth - 1)
            case 4:
                count = int(rng.choice([5, 50, 400, 5000]))
                return str(rng.choice(["+", "*", "-", "**", ",", "<"])).join(
                    ["sin(x)", "x", "2"][i % 3] for i in range(count)
                )
            case _:
                characters = list(VALID[rng.integers(len(VALID))])
                for _ in range(rng.integers(1, 4)):
                    place = int(rng.integers(len(characters)))
                    new = WORDS[rng.integers(len(WORDS))] if rng.random() < 0.7 else text(rng)[:20]
                    characters[place : place + int(rng.integers(2))] = [new]
                return "".join(characters)

    def attack(self, rng: np.random.Generator, folder: Folder) -> str:
        formula = self.formula(rng)
        with contextlib.suppress(NotProvedError):
            Parser(formula, ["x", "y"]).outputs()
        try:
            expression = Expression(formula, ["x", "y"])
        except SoftwrightError:
            return "bad input"
        if len(formula) > MOST:
            return "read"
        points = rng.normal(size=(5, 2)) * 10.0 ** rng.integers(-3, 3)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expression(points)
            expression.enclose(points - 0.1, points + 0.1)
            try:
                expression.derivative("x")(points)
            except SoftwrightError:
                return "read, no derivative"
        return "read"
