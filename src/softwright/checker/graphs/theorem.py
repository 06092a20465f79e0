"""The graph of a theorem's network: a chain of matrix formulas on X (d, n), tokens as columns; batch first."""

from __future__ import annotations

from typing import Any

import numpy as np

from softwright.checker.graphs.lines import Graph, Lines
from softwright.checker.refusal import require
from softwright.fileformat import ModelFile

Matrix = tuple[str, int, int]  # a value (batch, rows, columns)


def theorem(file: ModelFile, write: Lines) -> Graph:
    tensors, model = file.tensors, file.sections["model"]
    d, n = model["inputs"]
    at: Matrix = ("X", d, n)
    for i, stage in enumerate(model["stages"]):
        require(stage["type"] in STAGES, f"no graph is known of a stage of type {stage['type']!r}")
        own = {name.removeprefix(f"stages.{i}."): tensor for name, tensor in tensors.items()}
        at = STAGES[stage["type"]](f"stages.{i}.", at, own, stage, write)
    return Graph([("X", ["q", d, n])], at[0], ["q", at[1], at[2]])


def _down(p: str, scores: str, write: Lines, back: bool = False, hard: bool = False) -> str:
    across = write(f"{p}scores_across = Transpose {scores} | perm=0,2,1")
    if back:
        across = write.causal(f"{p}scores_back", across, 0)
    if hard:
        write.hardmax(f"{p}weights_across", across)
    else:
        write(f"{p}weights_across = Softmax {across}")
    return write(f"{p}weights = Transpose {p}weights_across | perm=0,2,1")


def _sum_of_linear(p: str, at: Matrix, own: dict[str, np.ndarray], stage: Any, write: Lines) -> Matrix:
    (terms, rows, _), (_, n, N) = own["P"].shape, own["Q"].shape
    write(f"{p}X = Reshape {at[0]} | shape=-1,1,{at[1]},{at[2]}")
    write(f"{p}PX = MatMul {p}P {p}X")
    write(f"{p}PX_by_row = Transpose {p}PX | perm=0,2,1,3")
    write(f"{p}PX_flat = Reshape {p}PX_by_row | shape=-1,{rows},{terms * n}")
    write(f"{p}Q_flat = Reshape {p}Q | shape={terms * n},{N}")
    write(f"{p}PXQ = MatMul {p}PX_flat {p}Q_flat")
    return write(f"{p}Z = Add {p}PXQ {p}R"), rows, N


def _attention(p: str, at: Matrix, own: dict[str, np.ndarray], stage: Any, write: Lines) -> Matrix:
    last = own["W_O"] if "W_O" in own else own["W_V"]
    rows, columns = last.shape[1], own["T"].shape[2] if "T" in own else at[2]
    total = ""
    for h in range(own["W_K"].shape[0]):
        g = f"{p}head.{h}."

        def part(name: str, h: int = h, g: str = g) -> str:
            _, a, b = own[name].shape
            write(f"{g}{name}_part = Slice {p}{name} | starts={h} ends={h + 1} axes=0")
            return write(f"{g}{name} = Reshape {g}{name}_part | shape={a},{b}")

        write(f"{g}keys = MatMul {part('W_K')} {at[0]}")
        write(f"{g}queries = MatMul {part('W_Q')} {at[0]}")
        write(f"{g}keys_across = Transpose {g}keys | perm=0,2,1")
        write(f"{g}scores = MatMul {g}keys_across {g}queries")
        weights = _down(g, f"{g}scores", write, stage["causal"], stage["hard"])
        write(f"{g}values = MatMul {part('W_V')} {at[0]}")
        out = write(f"{g}mixed = MatMul {g}values {weights}")
        if "W_O" in own:
            out = write(f"{g}written = MatMul {part('W_O')} {out}")
        if "T" in own:
            out = write(f"{g}picked = MatMul {out} {part('T')}")
        total = write(f"{g}sum = Add {total} {out}") if h else out
    if stage["residual"]:
        total = write(f"{p}residual = Add {total} {at[0]}")
    return total, rows, columns


def _cross_attention(p: str, at: Matrix, own: dict[str, np.ndarray], stage: Any, write: Lines) -> Matrix:
    write(f"{p}keys = MatMul {p}W_K {p}Y")
    write(f"{p}queries = MatMul {p}W_Q {at[0]}")
    write(f"{p}keys_across = Transpose {p}keys | perm=1,0")
    write(f"{p}scores = MatMul {p}keys_across {p}queries")
    weights = _down(p, f"{p}scores", write)
    write(f"{p}values = MatMul {p}W_V {p}Y")
    return write(f"{p}mixed = MatMul {p}values {weights}"), own["W_V"].shape[0], at[2]


def _linear(p: str, at: Matrix, own: dict[str, np.ndarray], stage: Any, write: Lines) -> Matrix:
    out = write(f"{p}product = MatMul {p}M {at[0]}")
    return (write(f"{p}sum = Add {out} {p}c") if "c" in own else out), own["M"].shape[0], at[2]


def _feed_forward(p: str, at: Matrix, own: dict[str, np.ndarray], stage: Any, write: Lines) -> Matrix:
    write(f"{p}hidden_product = MatMul {p}W_1 {at[0]}")
    write(f"{p}hidden_sum = Add {p}hidden_product {p}b_1")
    write(f"{p}hidden = Relu {p}hidden_sum")
    write(f"{p}product = MatMul {p}W_2 {p}hidden")
    out = write(f"{p}sum = Add {p}product {p}b_2")
    return write(f"{p}residual = Add {out} {at[0]}") if stage["residual"] else out, own["W_2"].shape[0], at[2]


def _softmax(p: str, at: Matrix, own: dict[str, np.ndarray], stage: Any, write: Lines) -> Matrix:
    return _down(p, at[0], write), at[1], at[2]


STAGES = {
    "sum_of_linear": _sum_of_linear,
    "attention": _attention,
    "cross_attention": _cross_attention,
    "linear": _linear,
    "feed_forward": _feed_forward,
    "softmax": _softmax,
}
