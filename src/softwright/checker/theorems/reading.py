"""A theorem's network, read from a file: names, shapes and numbers, before anything is said of what it does.

    model     label, inputs [d, n], stages [{type, flags}]
    target    label, text, sizes (the options it was built with), drawn (what a seed or the user gave: weights,
              sequences, labels; nothing that a theorem speaks of stays outside of the file)
    tensors   stages.<i>.<name>, all in float64

Tokens are columns: Z (rows, N).

    sum_of_linear    Z = sum_i P_i X Q_i + R                       P (k, rows, d), Q (k, n, N), R (rows, N)
    attention        sum_h W_O^h W_V^h Z softmax((W_K^h Z)^T W_Q^h Z) T^h [+ Z]       W_O, T where they are stored
    cross_attention  W_V Y softmax((W_K Y)^T W_Q Z)
    linear           M Z + c                                       c where it is stored
    feed_forward     W_2 relu(W_1 Z + b_1) + b_2 [+ Z]
    softmax          softmax down each column
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softwright.checker.entries import check_entries, is_flag, is_object, is_size, is_text, list_of
from softwright.checker.refusal import require
from softwright.fileformat import ModelFile

STAGES: dict[str, tuple[frozenset[str], frozenset[str], frozenset[str]]] = {  # tensors, optional tensors, flags
    "sum_of_linear": (frozenset(("P", "Q", "R")), frozenset(), frozenset()),
    "attention": (
        frozenset(("W_K", "W_Q", "W_V")),
        frozenset(("W_O", "T")),
        frozenset(("residual", "causal", "hard")),
    ),
    "cross_attention": (frozenset(("W_K", "W_Q", "W_V", "Y")), frozenset(), frozenset()),
    "linear": (frozenset("M"), frozenset("c"), frozenset()),
    "feed_forward": (frozenset(("W_1", "b_1", "W_2", "b_2")), frozenset(), frozenset(("residual",))),
    "softmax": (frozenset(), frozenset(), frozenset()),
}

NOT_DRAWN = "the file does not hold what was drawn; build the theorem again"
REAL_ARITHMETIC = ("real arithmetic (the theorem says nothing of rounding)",)  # what certificates without it assume


@dataclass(frozen=True)
class Stage:
    """One formula of the chain, as stored."""

    type: str
    flags: dict[str, bool]
    tensors: dict[str, np.ndarray]

    def __getitem__(self, name: str) -> np.ndarray:
        require(name in self.tensors, f"a stage of type {self.type} has no {name}")
        return self.tensors[name]


@dataclass(frozen=True)
class TheoremFile:
    """All that a theorem's re-proof may read."""

    label: str
    title: str  # as the file spells it
    inputs: tuple[int, int]
    sizes: dict[str, Any]
    drawn: dict[str, Any]
    stages: list[Stage]

    def chain(self, *types: str) -> list[Stage]:
        """The stages, which must be of these types in this order."""
        found = tuple(stage.type for stage in self.stages)
        require(found == types, f"the stages of theorem {self.label} are {', '.join(types)}")
        return self.stages


def in_full(number: float) -> str:
    """A number as a statement shows it: in a few digits where these are all of it."""
    return f"{number:g}" if float(f"{number:g}") == number else repr(number)


def read_theorem(file: ModelFile) -> TheoremFile:
    """Exact entries, exact tensor names, finite float64 numbers."""
    model, target = file.sections["model"], file.sections["target"]
    check_entries(
        model,
        {"kind": is_text, "label": is_text, "inputs": list_of(is_size), "stages": list_of(is_object)},
        "the model",
    )
    tests = {"kind": is_text, "label": is_text, "text": is_text, "sizes": is_object, "drawn": is_object}
    check_entries(target, tests, "the target", ("drawn",))
    require(target["kind"] == "theorem" and target["label"] == model["label"], "the target is another theorem")
    require(len(model["inputs"]) == 2, "an input is a matrix: two sizes")
    for name, tensor in file.tensors.items():
        require(tensor.dtype == np.float64, f"{name} is not in float64, of which theorems speak")
        require(np.isfinite(tensor).all(), f"{name} holds NaN or infinite entries")
    stages, known = [], set()
    for i, entry in enumerate(model["stages"]):
        require(entry.get("type") in STAGES, f"unknown stage {entry.get('type')!r}")
        needed, optional, flags = STAGES[entry["type"]]
        check_entries(entry, {"type": is_text, **dict.fromkeys(flags, is_flag)}, f"stage {i}")
        names = {f"stages.{i}.{name}": name for name in needed | optional}
        own = {name: file.tensors[full] for full, name in names.items() if full in file.tensors}
        require(needed <= own.keys(), f"stage {i} is incomplete")
        known |= names.keys()
        stages.append(Stage(entry["type"], {name: entry[name] for name in flags}, own))
    unknown = sorted(file.tensors.keys() - known)
    require(not unknown, f"unknown tensor {unknown[0] if unknown else ''!r}")
    return TheoremFile(
        label=model["label"],
        title=target["text"],
        inputs=(model["inputs"][0], model["inputs"][1]),
        sizes=target["sizes"],
        drawn=target.get("drawn", {}),
        stages=stages,
    )
