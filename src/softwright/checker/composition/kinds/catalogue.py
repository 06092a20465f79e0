"""`GATES`: one row per kind of feature that gates compute. Tables, which several features share, are in `table.py`.

A new kind is a row here, with its class in a file of its own, and a row of `SHAPES` in `program.py`, which says what
its features read and mean.
"""

from __future__ import annotations

from softwright.checker.composition.kinds.copy import Copy
from softwright.checker.composition.kinds.exponential import Exponential
from softwright.checker.composition.kinds.kind import GateKind
from softwright.checker.composition.kinds.maximum import Maximum
from softwright.checker.composition.kinds.product import Product
from softwright.checker.composition.kinds.step import Step

GATES: dict[str, GateKind] = {
    "product": GateKind(Product, (1, 8)),
    "exponential": GateKind(Exponential, (1, 1)),
    "maximum": GateKind(Maximum, (1, 1)),
    "copy": GateKind(Copy, (1, 1)),
    "step": GateKind(Step, (1, 1)),
}
