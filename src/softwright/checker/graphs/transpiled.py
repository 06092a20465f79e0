"""The graph of a transpiled network: s = W x + b, and for neurons softmax(s k + b) over the tokens of their table."""

from __future__ import annotations

from typing import Any

from softwright.checker.graphs.lines import Lines
from softwright.checker.refusal import require
from softwright.fileformat import ModelFile


def transpiled(file: ModelFile, write: Lines) -> tuple[str, list[Any], str, list[Any]]:
    tensors, model = file.tensors, file.sections["model"]
    layout = model["layout"]
    require(layout in ("softmax", "sdpa"), f"no graph is known of the layout {layout!r}")
    value, inputs, H = "x", 0, 0
    for i, entry in enumerate(model["steps"]):
        require(entry["step"] in ("linear", "heads"), f"no graph is known of a step of type {entry['step']!r}")
        s = f"steps.{i}."
        H, width = tensors[s + "weight"].shape
        inputs = inputs or width
        write(f"{s}weight_across = Transpose {s}weight | perm=1,0")
        write(f"{s}products = MatMul {value} {s}weight_across")
        value = write(f"{s}sums = Add {s}products {s}bias")
        if entry["step"] == "linear":
            continue
        p = tensors[s + "tokens"].shape[1]
        for row, name in enumerate(("keys", "biases", "slopes", "offsets")):
            write(f"{s}{name} = Slice {s}tokens | starts={row} ends={row + 1} axes=0")
        write(f"{s}numbers = Reshape {value} | shape=-1,{H},1")
        write(f"{s}scaled = Mul {s}numbers {s}keys")
        write(f"{s}scores = Add {s}scaled {s}biases")
        write(f"{s}weights = Softmax {s}scores")
        if layout == "softmax":
            for name in ("slope", "offset"):
                write(f"{s}{name}_column = Reshape {s}{name}s | shape={p},1")
                write(f"{s}{name} = MatMul {s}weights {s}{name}_column")
            write(f"{s}linear = Mul {s}slope {s}numbers")
            write(f"{s}out = Add {s}linear {s}offset")
        else:
            write(f"{s}linear = Mul {s}numbers {s}slopes")
            write(f"{s}values = Add {s}linear {s}offsets")
            write(f"{s}weights_rows = Reshape {s}weights | shape=-1,{H},1,{p}")
            write(f"{s}values_columns = Reshape {s}values | shape=-1,{H},{p},1")
            write(f"{s}out = MatMul {s}weights_rows {s}values_columns")
        value = write(f"{s}neurons = Reshape {s}out | shape=-1,{H}")
    return "x", ["q", inputs], value, ["q", H]
