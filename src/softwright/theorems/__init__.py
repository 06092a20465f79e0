"""The papers' own constructions with the papers' own bounds, one file a theorem family.

`LABELS` names where each label lives; a module is imported when its label is asked for. The labels are those of the
three papers' lists in docs/theorems: A "Universal Approximation with Softmax Attention", B "Attention Mechanism,
Max-Affine Partition, and Universal Approximation", C "Are Transformers with One Layer Self-Attention Using Low-Rank
Weight Matrices Universal Approximators?".
"""

from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.theorem import LABELS, Option, Theorem, find_theorem

__all__ = ["LABELS", "Construction", "Option", "Theorem", "find_theorem"]
