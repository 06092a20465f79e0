"""A `TranspiledNetwork` as a program: linear maps, and neurons as softmax heads over one table of tokens.

With s the number of a neuron and tokens (key, bias, slope, offset) in the rows of `tokens`:

    w = softmax(s keys + biases),     softmax: (w slopes) s + w offsets,     sdpa: w (slopes s + offsets)

Each layout is written in the order of operations that its certificate speaks of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from softwright.errors import InvalidInput
from softwright.export.program import Program

_LAYOUTS = ("softmax", "sdpa")


def transpiled(model: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Program:
    layout, steps = model["layout"], model["steps"]
    if layout not in _LAYOUTS or any(step["step"] == "gated" for step in steps):
        what = "gated units are" if layout in _LAYOUTS else f"the layout {layout!r} is"
        known = "network without gated units, or the safetensors file" if layout in _LAYOUTS else "layout 'softmax'"
        raise InvalidInput("export", [f"{what} not written as a program; use a {known}"])
    program = Program({"x": ("q", steps[0]["inputs"])}, dict(tensors), model["dtype"])
    value, width = "x", 0
    for i, step in enumerate(steps):
        at, width = f"steps.{i}.", step["outputs" if step["step"] == "linear" else "heads"]
        program.add("Transpose", [f"{at}weight"], f"{at}weight_across", perm=[1, 0])
        program.add("MatMul", [value, f"{at}weight_across"], f"{at}products")
        value = program.add("Add", [f"{at}products", f"{at}bias"], f"{at}sums")  # (q, H)
        if step["step"] == "heads":
            value = _neurons(program, at, value, width, layout)
    return program.ended(value, ("q", width))


def _neurons(program: Program, at: str, sums: str, heads: int, layout: str) -> str:
    """(q, H) -> (q, H)"""
    p = program.constants[f"{at}tokens"].shape[1]
    names = [f"{at}{name}" for name in ("keys", "biases", "slopes", "offsets")]
    for row, name in enumerate(names):
        program.part(f"{at}tokens", name, row, row + 1)  # (1, p)
    program.add("Reshape", [sums], f"{at}numbers", shape=[-1, heads, 1])  # (q, H, 1)
    program.add("Mul", [f"{at}numbers", names[0]], f"{at}scaled")
    program.add("Add", [f"{at}scaled", names[1]], f"{at}scores")  # (q, H, p)
    program.add("Softmax", [f"{at}scores"], f"{at}weights")
    if layout == "softmax":
        for name, source in (("slope", names[2]), ("offset", names[3])):
            program.add("Reshape", [source], f"{at}{name}_column", shape=[p, 1])
            program.add("MatMul", [f"{at}weights", f"{at}{name}_column"], f"{at}{name}")  # (q, H, 1)
        program.add("Mul", [f"{at}slope", f"{at}numbers"], f"{at}linear")
        program.add("Add", [f"{at}linear", f"{at}offset"], f"{at}out")
    else:
        program.add("Mul", [f"{at}numbers", names[2]], f"{at}linear")
        program.add("Add", [f"{at}linear", names[3]], f"{at}values")  # (q, H, p)
        program.add("Reshape", [f"{at}weights"], f"{at}weights_rows", shape=[-1, heads, 1, p])
        program.add("Reshape", [f"{at}values"], f"{at}values_columns", shape=[-1, heads, p, 1])
        program.add("MatMul", [f"{at}weights_rows", f"{at}values_columns"], f"{at}out")  # (q, H, 1, 1)
    return program.add("Reshape", [f"{at}out"], f"{at}neurons", shape=[-1, heads])
