"""A `TranspiledNetwork` as a program: linear maps, neurons as softmax heads over one table of tokens, gated units.

With s the number of a neuron and tokens (key, bias, slope, offset) in the rows of `tokens`:

    w = softmax(s keys + biases),     softmax: (w slopes) s + w offsets,     sdpa, sequence: w (slopes s + offsets)

Each layout is written in the order of operations that its certificate speaks of. Tokens of other positions of a plain
sequence have weight 0 exactly, so that the layout sequence is written for one position, and neurons that share a
softmax (`grouped_heads.py`) are written as single ones, which their claims charge too. What stock modules compute is in
`stock_heads.py`. Of the layout softmax a claim charges closed forms as well, and the program names them; of the others
it names the heads alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from softwright.export.program import Closed, Product, Program
from softwright.export.programs.stock_heads import shared_head, stock_neurons, stock_product


def transpiled(model: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Program:
    layout, steps = model["layout"], model["steps"]
    program = Program({"x": ("q", steps[0]["inputs"])}, dict(tensors), model["dtype"])
    if layout == "double":  # float64 between float32 ends, in the order of the layout softmax
        wide = {name: array.astype(np.float64) for name, array in tensors.items()}
        program, layout = Program(program.inputs, wide, "float64", ends=model["dtype"]), "softmax"
    value, width = "x", 0
    for i, step in enumerate(steps):
        at, width = f"steps.{i}.", step["outputs" if step["step"] == "linear" else "heads"]
        match step["step"]:
            case "linear":
                value = _linear(program, at, "", value)
            case "heads":
                value = _neurons(program, at, value, width, "sdpa" if "group" in step else layout)
            case _:
                value = _gated(program, at, value, step, "sdpa" if "group" in step else layout)
    program.bias_anywhere = layout != "multihead"  # `checker/transpiled/partial_sums.py`; stock modules add many more
    return program.ended(value, ("q", width))


def _linear(program: Program, at: str, which: str, value: str) -> str:
    """(q, d) -> (q, H): `which` begins the names of weight and bias."""
    program.add("Transpose", [f"{at}{which}weight"], f"{at}{which}weight_across", perm=[1, 0])
    program.add("MatMul", [value, f"{at}{which}weight_across"], f"{at}{which}products")
    return program.add("Add", [f"{at}{which}products", f"{at}{which}bias"], f"{at}{which}sums")


def _neurons(program: Program, at: str, value: str, heads: int, layout: str) -> str:
    """(q, d) -> (q, H)"""
    p = program.constants[f"{at}tokens"].shape[1]
    names = [f"{at}{name}" for name in ("keys", "biases", "slopes", "offsets")]
    separate = layout == "multihead" and f"{at}weight" not in program.constants  # as files of before have it
    sums = "" if separate else _linear(program, at, "", value)
    for row, name in enumerate(names):
        program.part(f"{at}tokens", name, row, row + 1)  # (1, p)
    if separate:
        return stock_neurons(program, at, value, heads)
    if layout != "softmax":
        program.smooth[f"{at}neurons"] = Closed((sums,), program.constants[f"{at}tokens"].astype(np.float64))
    if layout == "multihead":
        return shared_head(program, at, sums, heads)
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
        tokens = program.constants[f"{at}tokens"].astype(np.float64)
        program.closed[f"{at}out"] = Closed((f"{at}numbers",), tokens)
    else:
        program.add("Mul", [f"{at}numbers", names[2]], f"{at}linear")
        program.add("Add", [f"{at}linear", names[3]], f"{at}values")  # (q, H, p)
        program.add("Reshape", [f"{at}weights"], f"{at}weights_rows", shape=[-1, heads, 1, p])
        program.add("Reshape", [f"{at}values"], f"{at}values_columns", shape=[-1, heads, p, 1])
        program.add("MatMul", [f"{at}weights_rows", f"{at}values_columns"], f"{at}out")  # (q, H, 1, 1)
    return program.add("Reshape", [f"{at}out"], f"{at}neurons", shape=[-1, heads])


def _gated(program: Program, at: str, value: str, step: Mapping[str, Any], layout: str) -> str:
    """(q, d) -> (q, H): sum_k share_k {step_k u: b, second step_k u: second b}, u the gate, b a linear map."""
    heads, second = step["heads"], int(step["second"])
    gate = f"{at}gate."
    activated = step["activated"]
    u = _neurons(program, gate, value, heads, layout) if activated else _linear(program, at, "gate_", value)
    b = _linear(program, at, "value_", value)
    program.number(second, f"{at}second", [1, heads])
    if layout == "multihead":
        return stock_product(program, at, u, b, heads)
    program.number(1, f"{at}units", [1, heads])
    other = program.add("Mul", [b, f"{at}second"], f"{at}other_value") if layout != "softmax" else ""
    total = ""
    for k in range(program.constants[f"{at}steps"].shape[0]):
        g = f"{at}head.{k}."
        for name in ("steps", "shares"):
            program.part(f"{at}{name}", f"{g}{name}_part", k, k + 1)
            program.add("Mul", [f"{at}units", f"{g}{name}_part"], f"{g}{name}")  # (1, H): no product with one number
        program.add("Mul", [u, f"{g}steps"], f"{g}score")
        program.add("Mul", [f"{g}score", f"{at}second"], f"{g}other_score")
        for name in ("score", "other_score"):
            program.add("Reshape", [f"{g}{name}"], f"{g}{name}_column", shape=[-1, heads, 1])
        program.add("Concat", [f"{g}score_column", f"{g}other_score_column"], f"{g}scores", axis=[2])
        program.add("Softmax", [f"{g}scores"], f"{g}weights")
        for place, name in enumerate(("weight", "other_weight")):
            program.part(f"{g}weights", f"{g}{name}_column", place, place + 1, axis=2)
            program.add("Reshape", [f"{g}{name}_column"], f"{g}{name}", shape=[-1, heads])
        if layout == "softmax":
            weight = f"{g}weight" if second == 0 else program.add("Sub", [f"{g}weight", f"{g}other_weight"], f"{g}net")
            program.add("Mul", [weight, b], f"{g}out")
        else:
            program.add("Mul", [f"{g}weight", b], f"{g}own")
            program.add("Mul", [f"{g}other_weight", other], f"{g}other")
            program.add("Add", [f"{g}own", f"{g}other"], f"{g}out")
        program.add("Mul", [f"{g}out", f"{g}shares"], f"{g}share")
        total = program.add("Add", [total, f"{g}share"], f"{g}sum") if total else f"{g}share"
    if layout == "softmax" and second in (0, -1):
        steps, shares = (program.constants[f"{at}{name}"] for name in ("steps", "shares"))
        program.closed[total] = Closed((u, b), Product(steps, shares, float(second)))
    return total
