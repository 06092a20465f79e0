"""An `AttentionNetwork` as a program: frame, scores, softmax, values; heads add up.

    t = (x - center) scale,     w = softmax(t keys^T + biases),     head = w values + (w slopes) t

With one variable, products with t are products of numbers and no matrix products: onnxruntime fuses a product with one
constant, the scale, into the matrix product behind it and keeps that constant in float32, whatever the graph's type.

Engine "double" computes in float64 between float32 ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from softwright.export.program import Program


def approximation(model: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Program:
    d = len(model["box"])
    program = Program({"x": ("q", d)}, dict(tensors), model["dtype"], divides_last=True)
    if model.get("engine") == "double":
        wide = {name: array.astype(np.float64) for name, array in tensors.items()}
        program = Program({"x": ("q", d)}, wide, "float64", ends=model["dtype"], divides_last=True)
    program.add("Sub", ["x", "center"], "centred")
    t = program.add("Mul", ["centred", "scale"], "t")  # (q, d)
    total, outputs = "", 0
    for i in range(len(model["heads"])):
        out = _head(program, f"layer.heads.{i}.", t)
        outputs = tensors[f"layer.heads.{i}.values"].shape[1]
        total = program.add("Add", [total, out], f"sum.{i}") if total else out
    return program.ended(total, ("q", outputs))


def _head(program: Program, at: str, t: str) -> str:
    """(q, d) -> (q, m)"""
    N, d = program.constants[f"{at}keys"].shape
    m = program.constants[f"{at}values"].shape[1]
    program.add("Transpose", [f"{at}keys"], f"{at}keys_across", perm=[1, 0])  # (d, N)
    program.add("Mul" if d == 1 else "MatMul", [t, f"{at}keys_across"], f"{at}products")
    program.add("Add", [f"{at}products", f"{at}biases"], f"{at}scores")
    weights = program.add("Softmax", [f"{at}scores"], f"{at}weights")  # (q, N)
    constant = program.add("MatMul", [weights, f"{at}values"], f"{at}constant")  # (q, m)
    if f"{at}slopes" not in program.constants:
        return constant
    program.add("Reshape", [f"{at}slopes"], f"{at}slopes_flat", shape=[N, m * d])
    program.add("MatMul", [weights, f"{at}slopes_flat"], f"{at}slope_flat")  # (q, m d)
    if d == 1:
        program.add("Mul", [f"{at}slope_flat", t], f"{at}linear")
        return program.add("Add", [constant, f"{at}linear"], f"{at}head")
    program.add("Reshape", [f"{at}slope_flat"], f"{at}slope", shape=[-1, m, d])
    program.add("Reshape", [t], f"{at}t", shape=[-1, d, 1])
    program.add("MatMul", [f"{at}slope", f"{at}t"], f"{at}linear_column")  # (q, m, 1)
    program.add("Reshape", [f"{at}linear_column"], f"{at}linear", shape=[-1, m])
    return program.add("Add", [constant, f"{at}linear"], f"{at}head")
