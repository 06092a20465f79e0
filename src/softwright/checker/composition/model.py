"""The model section of a composed network: everything that it says follows from the tensors and the program.

The texts of `features`, which tell what each column holds, are read as formulas in the inputs and earlier features; it
is for others to show that they are what the program means.
"""

from __future__ import annotations

from typing import Any

from softwright.checker.composition.program import Program
from softwright.checker.composition.weights import Weights
from softwright.checker.entries import Test, check_entries, is_count, is_object, is_text, list_of, same
from softwright.checker.parser import Parser
from softwright.checker.refusal import printable, require
from softwright.checker.trees import Tree

MODEL: dict[str, Test] = {
    **dict.fromkeys(("kind", "dtype"), is_text),
    **dict.fromkeys(("box", "slots", "sources", "shapes"), is_object),
    **dict.fromkeys(("variables", "features"), list_of(is_text)),
    **dict.fromkeys(("tables", "program"), list_of(is_count)),
    "tokens": is_count,
    "layers": list_of(is_object),
}


def check_model(
    model: dict[str, Any], program: Program, weights: Weights, shapes: dict[str, tuple[int, ...]], dtype: str
) -> list[Tree]:
    """The formulas that the texts of the features say; `shapes` are those of the tensors."""
    check_entries(model, MODEL, "the model")
    names = [*program.names, *(feature.name for feature in program.features)]
    first = 1 + len(names)
    slots = {"one": [0, 1], **{name: [1 + i, 2 + i] for i, name in enumerate(names)}}
    require("one" not in names and "code" not in names, "a variable bears the name of a slot")
    slots["code"] = [first, first + weights.fixed]
    layers = [
        {
            "rows": ["data"],
            "keys": ["data", "bank"],
            "label": f"layer {layer + 1}",
            "shapes": {kind: list(shapes[f"layers.{layer}.{kind}"]) for kind in ("Wq", "Wk", "Wv", "Wo")},
        }
        for layer in range(program.depth)
    ]
    outer = ("base_data", "embed_data", "base_bank", "read")
    wanted = {
        "dtype": dtype,
        "slots": slots,
        "sources": {"data": "point", "bank": "fixed"},
        "shapes": {name: list(shapes[name]) for name in outer},
        "program": list(range(program.depth)),
        "layers": layers,
        "tables": list(weights.table_counts),
        "tokens": weights.tokens,
        "variables": list(program.names),
    }
    for name, value in wanted.items():
        require(same(model[name], value), f"the model's entry {name!r} is not what its tensors are")
    return _read_texts(model["features"], program)


def _read_texts(texts: list[str], program: Program) -> list[Tree]:
    start = ["1", *program.names]
    require(len(texts) == len(start) + len(program.features), "the columns are not all told apart")
    require(texts[: len(start)] == start, "the first columns are not the constant and the inputs")
    known, trees = list(program.names), []
    for text, feature in zip(texts[len(start) :], program.features, strict=True):
        shown = printable(feature.name, 80)
        name, _, formula = text.partition(" = ")
        require(name == feature.name, f"the column of {shown} is told to be another's")
        found = Parser(formula, known).outputs()
        require(len(found) == 1, f"the column of {shown} is told to hold several numbers")
        known.append(feature.name)
        trees += found
    return trees
