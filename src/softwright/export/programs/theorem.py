"""A `TheoremNetwork` as a program: a chain of matrix formulas on a token matrix whose columns are tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from softwright.export.program import Program


def theorem(model: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Program:
    d, n = model["inputs"]
    dtype = str(next(iter(tensors.values())).dtype)
    program = Program({"X": ("q", d, n)}, dict(tensors), dtype)
    value, shape = "X", (d, n)
    for i, stage in enumerate(model["stages"]):
        value, shape = _STAGES[stage["type"]](program, f"stages.{i}.", value, shape, stage)
    return program.ended(value, ("q", *shape))


_Shape = tuple[int, int]


def _softmax_down(program: Program, at: str, scores: str, causal: bool = False, hard: bool = False) -> str:
    """Softmax over the axis before the last, (q, N, queries); `hard` shares the weight among the largest scores."""
    across = program.add("Transpose", [scores], f"{at}scores_across", perm=[0, 2, 1])
    if causal:
        across = program.add("Causal", [across], f"{at}scores_back", offset=[0])
    program.add("Hardmax" if hard else "Softmax", [across], f"{at}weights_across")
    return program.add("Transpose", [f"{at}weights_across"], f"{at}weights", perm=[0, 2, 1])


def _tokens(program: Program, at: str, value: str, shape: _Shape, stage: Any) -> tuple[str, _Shape]:
    terms, rows, _ = program.constants[f"{at}P"].shape
    _, n, N = program.constants[f"{at}Q"].shape
    program.add("Reshape", [value], f"{at}X", shape=[-1, 1, *shape])
    program.add("MatMul", [f"{at}P", f"{at}X"], f"{at}PX")  # (q, terms, rows, n)
    program.add("Transpose", [f"{at}PX"], f"{at}PX_by_row", perm=[0, 2, 1, 3])
    program.add("Reshape", [f"{at}PX_by_row"], f"{at}PX_flat", shape=[-1, rows, terms * n])
    program.add("Reshape", [f"{at}Q"], f"{at}Q_flat", shape=[terms * n, N])
    program.add("MatMul", [f"{at}PX_flat", f"{at}Q_flat"], f"{at}PXQ")
    return program.add("Add", [f"{at}PXQ", f"{at}R"], f"{at}Z"), (rows, N)


def _attention(program: Program, at: str, value: str, shape: _Shape, stage: Any) -> tuple[str, _Shape]:
    heads, (rows, columns) = program.constants[f"{at}W_K"].shape[0], shape
    total = ""
    for h in range(heads):
        head = f"{at}head.{h}."

        def own(name: str, head: str = head, h: int = h) -> str:
            sizes = program.constants[f"{at}{name}"].shape[1:]
            program.part(f"{at}{name}", f"{head}{name}_part", h, h + 1)
            return program.add("Reshape", [f"{head}{name}_part"], f"{head}{name}", shape=sizes)

        program.add("MatMul", [own("W_K"), value], f"{head}keys")  # (q, k, N)
        program.add("MatMul", [own("W_Q"), value], f"{head}queries")
        program.add("Transpose", [f"{head}keys"], f"{head}keys_across", perm=[0, 2, 1])
        program.add("MatMul", [f"{head}keys_across", f"{head}queries"], f"{head}scores")  # (q, N keys, N queries)
        weights = _softmax_down(program, head, f"{head}scores", stage["causal"], stage["hard"])
        program.add("MatMul", [own("W_V"), value], f"{head}values")
        out = program.add("MatMul", [f"{head}values", weights], f"{head}mixed")  # (q, m, N)
        rows_out = program.constants[f"{at}W_V"].shape[1]
        if f"{at}W_O" in program.constants:
            out = program.add("MatMul", [own("W_O"), out], f"{head}written")
            rows_out = program.constants[f"{at}W_O"].shape[1]
        if f"{at}T" in program.constants:
            out = program.add("MatMul", [out, own("T")], f"{head}picked")
            columns = program.constants[f"{at}T"].shape[2]
        total = program.add("Add", [total, out], f"{head}sum") if total else out
        rows = rows_out
    if stage["residual"]:
        total = program.add("Add", [total, value], f"{at}residual")
    return total, (rows, columns)


def _cross_attention(program: Program, at: str, value: str, shape: _Shape, stage: Any) -> tuple[str, _Shape]:
    program.add("MatMul", [f"{at}W_K", f"{at}Y"], f"{at}keys")
    program.add("MatMul", [f"{at}W_Q", value], f"{at}queries")
    program.add("Transpose", [f"{at}keys"], f"{at}keys_across", perm=[1, 0])
    program.add("MatMul", [f"{at}keys_across", f"{at}queries"], f"{at}scores")
    weights = _softmax_down(program, at, f"{at}scores")
    program.add("MatMul", [f"{at}W_V", f"{at}Y"], f"{at}values")
    rows = program.constants[f"{at}W_V"].shape[0]
    return program.add("MatMul", [f"{at}values", weights], f"{at}mixed"), (rows, shape[1])


def _linear(program: Program, at: str, value: str, shape: _Shape, stage: Any) -> tuple[str, _Shape]:
    out = program.add("MatMul", [f"{at}M", value], f"{at}product")
    if f"{at}c" in program.constants:
        out = program.add("Add", [out, f"{at}c"], f"{at}sum")
    return out, (program.constants[f"{at}M"].shape[0], shape[1])


def _feed_forward(program: Program, at: str, value: str, shape: _Shape, stage: Any) -> tuple[str, _Shape]:
    program.add("MatMul", [f"{at}W_1", value], f"{at}hidden_product")
    program.add("Add", [f"{at}hidden_product", f"{at}b_1"], f"{at}hidden_sum")
    program.add("Relu", [f"{at}hidden_sum"], f"{at}hidden")
    program.add("MatMul", [f"{at}W_2", f"{at}hidden"], f"{at}product")
    out = program.add("Add", [f"{at}product", f"{at}b_2"], f"{at}sum")
    if stage["residual"]:
        out = program.add("Add", [out, value], f"{at}residual")
    return out, (program.constants[f"{at}W_2"].shape[0], shape[1])


def _softmax(program: Program, at: str, value: str, shape: _Shape, stage: Any) -> tuple[str, _Shape]:
    return _softmax_down(program, at, value), shape


_STAGES = {
    "sum_of_linear": _tokens,
    "attention": _attention,
    "cross_attention": _cross_attention,
    "linear": _linear,
    "feed_forward": _feed_forward,
    "softmax": _softmax,
}
