"""An `InContextStack` as a program: x (q, n, d), labels (q, n) and queries (q, m, d) in, predictions (q, m) out.

Batch, rows and queries are free. Every observation has weight 1: `sample_weight` is not part of the program, nor are
the checks of a prompt and the guards, which look at numbers on the way and change none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from softwright.attention.stack import FIXED
from softwright.errors import Faults
from softwright.export.program import Program
from softwright.export.programs.stacks import attended, joined, repeated


def in_context(model: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Program:
    faults = Faults("export")
    method = model["settings"]["method"]
    several = len(tensors["read"].shape) > 1
    faults.check(not several, f"{method} answers several numbers a query, which programs do not; use the saved file")
    faults.check(not model.get("alone"), f"{method} asks every query in a prompt of its own; use the saved file")
    faults.raise_if_any()
    d = int(model["settings"]["features"])
    program = Program(
        {"x": ("q", "n", d), "labels": ("q", "n"), "queries": ("q", "m", d)},
        dict(tensors),
        model["dtype"],
    )
    program.number(0, "zero", [1, 1, 1])
    program.add("Reshape", ["labels"], "labels_column", shape=[0, 0, 1])
    program.repeat("zero", "x", "log_weights", 2, 1)
    program.add("Concat", ["x", "labels_column", "log_weights"], "observations", axis=[2])  # (q, n, d + 2)
    program.number(0, "zeros", [1, 1, 2])
    program.repeat("zeros", "queries", "no_label", 2, 1)
    program.add("Concat", ["queries", "no_label"], "asked", axis=[2])
    given = {"data": "observations", "query": "asked"}
    stream = {}
    for name, source in model["sources"].items():
        if source == FIXED:
            stream[name] = repeated(program, f"base_{name}", "x", f"stream.{name}")
            continue
        program.add("MatMul", [given[source], f"embed_{name}"], f"embedded.{name}")
        stream[name] = program.add("Add", [f"embedded.{name}", f"base_{name}"], f"stream.{name}")
    for step, place in enumerate(model["program"]):
        layer, at = model["layers"][place], f"step.{step}."
        keys = joined(program, [stream[name] for name in layer["keys"]], f"{at}keys")
        changed = {}
        for name in layer["rows"]:
            own, weights, old = f"{at}{name}.", f"layers.{place}.", stream[name]
            heads = layer["shapes"]["Wq"][0]
            written = attended(program, own, weights, old, keys, [False] * heads)
            kept = program.add("MatMul", [old, f"{weights}R"], f"{own}kept") if "R" in layer["shapes"] else old
            changed[name] = program.add("Add", [kept, written], f"{own}stream")
        stream |= changed
    width = tensors["read"].shape[0]
    program.add("Reshape", ["read"], "read_column", shape=[width, 1])
    program.add("MatMul", [stream["query"], "read_column"], "predicted")  # (q, m, 1)
    return program.ended(program.add("Reshape", ["predicted"], "predictions", shape=[0, -1]), ("q", "m"))
