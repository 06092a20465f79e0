"""The papers' own constructions with the papers' own bounds, one file per theorem.

`LABELS` names where each label lives, and is the only list of them: a theorem is one file and one entry here. A module
is imported when its label is asked for. The letters are those of the three papers' lists in docs/theorems:

    A   Universal Approximation with Softmax Attention
    B   Attention Mechanism, Max-Affine Partition, and Universal Approximation
    C   Are Transformers with One Layer Self-Attention Using Low-Rank Weight Matrices Universal Approximators?
"""

from __future__ import annotations

from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING

from softwright.errors import InvalidInput

if TYPE_CHECKING:
    from softwright.theorems.tools.theorem import Theorem

LABELS: dict[str, str] = {
    "A1": "softwright.theorems.interpolation_head:A1",
    "A2": "softwright.theorems.multi_head:A2",
    "A3": "softwright.theorems.sequence_to_sequence:A3",
    "A4": "softwright.theorems.attention_then_softmax:A4",
    "A5": "softwright.theorems.gradient_descent:A5",
    "A6": "softwright.theorems.activations:A6",
    "B1": "softwright.theorems.max_affine_partition:B1",
    "B2": "softwright.theorems.cell_grid:B2",
    "B3": "softwright.theorems.integrable:B3",
    "B4": "softwright.theorems.cross_attention:B4",
    "C1": "softwright.theorems.boltzmann:C1",
    "C2": "softwright.theorems.contextual_mapping:C2",
    "C3": "softwright.theorems.hardmax:C3",
    "C4": "softwright.theorems.memorisation:C4",
    "C5": "softwright.theorems.permutation_equivariant:C5",
    "C6": "softwright.theorems.causal:C6",
}


def labels_in_words() -> str:
    """All labels, paper by paper: "A1 to A6, B1 to B4, ..."."""
    papers = [list(labels) for _, labels in groupby(LABELS, key=lambda label: label[0])]
    return ", ".join(f"{labels[0]} to {labels[-1]}" if len(labels) > 1 else labels[0] for labels in papers)


def find_theorem(label: str) -> Theorem:
    """The theorem of a label."""
    wanted = str(label).strip().upper()
    if wanted not in LABELS:
        raise InvalidInput("theorem", [f"there is no label {label!r}; choose from {', '.join(LABELS)}"])
    module, name = LABELS[wanted].split(":")
    return getattr(import_module(module), name)
