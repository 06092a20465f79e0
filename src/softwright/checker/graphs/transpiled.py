"""The graph of a transpiled network: s = W x + b, neurons softmax(s k + b) over the tokens of their table, gated units.

In a plain sequence the tokens of other positions have weight 0, which is part of the re-proof of such files; so the
graph of the layout sequence is that of one position. Neurons that share a softmax are written one by one: the re-proof
charges both ways. Stock modules are in `stock.py`.
"""

from __future__ import annotations

from typing import Any

from softwright.checker.graphs.lines import ELEMENTS, Graph, Lines
from softwright.checker.graphs.stock import one_head, stock_neurons, stock_units
from softwright.checker.refusal import require
from softwright.fileformat import ModelFile

LAYOUTS = ("softmax", "double", "sdpa", "multihead", "sequence")


def transpiled(file: ModelFile, write: Lines) -> Graph:
    tensors, model = file.tensors, file.sections["model"]
    layout = model["layout"]
    require(layout in LAYOUTS, f"no graph is known of the layout {layout!r}")
    double = layout == "double"
    if double:  # float64 inside: what is read is made wide, what is returned is rounded once
        layout, tensors = "softmax", file.subject_tensors
        for name in ("x", *sorted(tensors)):
            write(f"{name}.wide = Cast {name} | to={ELEMENTS['float64']}")
    value, H, wide = "x.wide" if double else "x", 0, ".wide" if double else ""
    for i, entry in enumerate(model["steps"]):
        s, step = f"steps.{i}.", entry["step"]
        require(step in ("linear", "heads", "gated"), f"no graph is known of a step of type {step!r}")
        H = entry["outputs" if step == "linear" else "heads"]
        if step == "linear":
            value = _map(s, value, write, wide)
        elif step == "heads":
            value = _heads(s, value, H, "sdpa" if "group" in entry else layout, tensors, write, wide)
        else:
            require(not double, "gated units have no form in the layout double")
            value = _units(s, value, entry, "sdpa" if "group" in entry else layout, tensors, write)
    if double:
        value = write(f"narrow = Cast {value} | to={ELEMENTS['float32']}")
    return Graph([("x", ["q", model["steps"][0]["inputs"]])], value, ["q", H])


def _map(s: str, value: str, write: Lines, wide: str = "") -> str:
    """W x + b; `s` ends where the names of W and b begin, `wide` is how those of their casts end."""
    write(f"{s}weight_across = Transpose {s}weight{wide} | perm=1,0")
    write(f"{s}products = MatMul {value} {s}weight_across")
    return write(f"{s}sums = Add {s}products {s}bias{wide}")


def _heads(s: str, value: str, H: int, layout: str, tensors: Any, write: Lines, wide: str = "") -> str:
    p = tensors[s + "tokens"].shape[1]
    separate = layout == "multihead" and s + "weight" not in tensors
    sums = "" if separate else _map(s, value, write, wide)
    for row, name in enumerate(("keys", "biases", "slopes", "offsets")):
        write(f"{s}{name} = Slice {s}tokens{wide} | starts={row} ends={row + 1} axes=0")
    if separate:
        return stock_neurons(s, value, H, tensors, write)
    if layout == "multihead":
        return one_head(s, sums, H, tensors, write)
    write(f"{s}numbers = Reshape {sums} | shape=-1,{H},1")
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
    return write(f"{s}neurons = Reshape {s}out | shape=-1,{H}")


def _units(s: str, value: str, entry: Any, layout: str, tensors: Any, write: Lines) -> str:
    """sum over k of a_k {s_k u: b, c s_k u: c b}"""
    H, second = entry["heads"], int(entry["second"])
    require(
        second == entry["second"] and second in (0, -1), "the second token of a gated unit is 0 or -1 times the first"
    )
    activated = entry["activated"]
    u = _heads(f"{s}gate.", value, H, layout, tensors, write) if activated else _map(f"{s}gate_", value, write)
    b = _map(f"{s}value_", value, write)
    write(f"{s}second = Constant | value={second} shape=1,{H}")
    if layout == "multihead":
        return stock_units(s, u, b, H, tensors, write)
    write(f"{s}units = Constant | value=1 shape=1,{H}")
    if layout != "softmax":
        write(f"{s}other_value = Mul {b} {s}second")
    total = ""
    for k in range(len(tensors[s + "steps"])):
        g = f"{s}head.{k}."
        for name in ("steps", "shares"):
            write(f"{g}{name}_part = Slice {s}{name} | starts={k} ends={k + 1} axes=0")
            write(f"{g}{name} = Mul {s}units {g}{name}_part")
        write(f"{g}score = Mul {u} {g}steps")
        write(f"{g}other_score = Mul {g}score {s}second")
        for name in ("score", "other_score"):
            write(f"{g}{name}_column = Reshape {g}{name} | shape=-1,{H},1")
        write(f"{g}scores = Concat {g}score_column {g}other_score_column | axis=2")
        write(f"{g}weights = Softmax {g}scores")
        for place, name in enumerate(("weight", "other_weight")):
            write(f"{g}{name}_column = Slice {g}weights | starts={place} ends={place + 1} axes=2")
            write(f"{g}{name} = Reshape {g}{name}_column | shape=-1,{H}")
        if layout == "softmax":
            if second:
                write(f"{g}net = Sub {g}weight {g}other_weight")
            write(f"{g}out = Mul {g}{'net' if second else 'weight'} {b}")
        else:
            write(f"{g}own = Mul {g}weight {b}")
            write(f"{g}other = Mul {g}other_weight {s}other_value")
            write(f"{g}out = Add {g}own {g}other")
        share = write(f"{g}share = Mul {g}out {g}shares")
        total = write(f"{g}sum = Add {total} {share}") if k else share
    return total
