"""Hostile inputs by kind: one file for each, with the valid inputs that it starts from and the calls that it attacks.

A kind is a class with `prepare(folder)`, called once, and `attack(rng, folder)`, which makes one input, gives it to the
library or the command line, and returns a word for how that ended. Whatever exception it lets through is a finding.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from hostility.archives import Archives
from hostility.arguments import Arguments
from hostility.csv_files import CsvFiles
from hostility.folder import Folder
from hostility.formulas import Formulas
from hostility.json_lines import JsonLines
from hostility.model_files import ModelFiles
from hostility.onnx_files import OnnxFiles
from hostility.parquet_files import ParquetFiles
from hostility.tokenizer_files import TokenizerFiles


class Kind(Protocol):
    def prepare(self, folder: Folder) -> None: ...

    def attack(self, rng: np.random.Generator, folder: Folder) -> str: ...


# kind -> how to make it, and its share of the inputs
KINDS: dict[str, tuple[type[Kind], float]] = {
    "formulas": (Formulas, 0.36),
    "arguments": (Arguments, 0.12),
    "csv": (CsvFiles, 0.10),
    "npz": (Archives, 0.09),
    "jsonl": (JsonLines, 0.08),
    "parquet": (ParquetFiles, 0.05),
    "onnx": (OnnxFiles, 0.06),
    "tokenizers": (TokenizerFiles, 0.04),
    "models": (ModelFiles, 0.10),
}
