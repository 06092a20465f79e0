"""A `ProgramNetwork` as a program: tokens x (q, n, fields) in, values (q, n, outputs) out.

Batch and length are free, the sequences of a batch have one length. Symbols and whole numbers come as their numbers, in
the network's dtype, as `ProgramNetwork.encoded` gives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from softwright.export.program import Program
from softwright.export.programs.stacks import attended, joined, repeated


def sequence(model: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Program:
    fields = model["tokens"]["fields"]
    program = Program({"x": ("q", "n", len(fields))}, dict(tensors), model["dtype"])
    width, outputs = tensors["read"].shape
    bank = tensors["base_bank"].shape[0]
    program.add("First", ["places", "x"], "places_used")  # (n, D)
    program.add("Add", ["base_data", "places_used"], "placed")
    program.add("Reshape", ["placed"], "placed_once", shape=[1, -1, width])
    stream = program.repeat("placed_once", "x", "embedded", 1, 2)  # (q, n, D)
    for k, field in enumerate(fields):
        at, rows = f"field.{k}.", f"field_{field['name']}"
        program.part("x", f"{at}column", k, k + 1, axis=2)  # (q, n, 1)
        if field["kind"] == "real":
            program.add("Mul", [f"{at}column", rows], f"{at}rows")
        else:
            program.add("Reshape", [f"{at}column"], f"{at}numbers", shape=[0, -1])
            program.add("Rows", [rows, f"{at}numbers"], f"{at}rows", low=[int(field.get("low", 0))])
        stream = program.add("Add", [stream, f"{at}rows"], f"{at}stream")
    fixed = repeated(program, "base_bank", "x", "bank")
    for step, (place, causal) in enumerate(zip(model["program"], model["causal"], strict=True)):
        at = f"step.{step}."
        keys = joined(program, [fixed, stream], f"{at}keys")
        written = attended(program, at, f"layers.{place}.", stream, keys, causal, bank)
        stream = program.add("Add", [stream, written], f"{at}stream")
    return program.ended(program.add("MatMul", [stream, "read"], "outputs"), ("q", "n", outputs))
