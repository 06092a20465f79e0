"""A `ComposedNetwork` as a program: the data token's stream, layer by layer, tables and gates as `forward` runs them.

A table's queries look at the fixed tokens; a gate's at the data token itself and at the first fixed one. What a head
does not look at has weight exactly 0 and is left out (attention/composition.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from softwright.export.program import Program


def composition(model: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Program:
    d = len(model["variables"])
    program = Program({"x": ("q", d)}, dict(tensors), model["dtype"])
    program.add("MatMul", ["x", "embed_data"], "embedded")
    stream = program.add("Add", ["embedded", "base_data"], "stream.0")  # (q, D)
    width = tensors["embed_data"].shape[1]
    null = program.part("base_bank", "null", 0, 1)  # (1, D)
    for step, (place, tables) in enumerate(zip(model["program"], model["tables"], strict=True)):
        at, layer = f"step.{step}.", f"layers.{place}."
        heads, _, k = tensors[f"{layer}Wq"].shape
        v = tensors[f"{layer}Wv"].shape[2]
        program.add("Reshape", [stream], f"{at}tokens", shape=[1, -1, width])  # (1, q, D)
        parts = []
        if tables:
            parts.append(_tables(program, f"{at}tables.", layer, (0, tables), f"{at}tokens"))
        if tables < heads:
            parts.append(_gates(program, f"{at}gates.", layer, (tables, heads), f"{at}tokens", null, k))
        mixed = program.add("Concat", parts, f"{at}mixed", axis=[0]) if len(parts) > 1 else parts[0]  # (H, q, v)
        program.add("Transpose", [mixed], f"{at}mixed_by_point", perm=[1, 0, 2])  # (q, H, v)
        program.add("Reshape", [f"{at}mixed_by_point"], f"{at}mixed_flat", shape=[-1, heads * v])
        program.add("Reshape", [f"{layer}Wo"], f"{at}Wo_flat", shape=[heads * v, width])
        program.add("MatMul", [f"{at}mixed_flat", f"{at}Wo_flat"], f"{at}written")  # (q, D)
        stream = program.add("Add", [stream, f"{at}written"], f"stream.{step + 1}")
    return program.ended(program.add("MatMul", [stream, "read"], "outputs"), ("q", tensors["read"].shape[1]))


def _weights(program: Program, at: str, layer: str, heads: tuple[int, int]) -> tuple[str, str, str]:
    return tuple(program.part(f"{layer}{name}", f"{at}{name}", *heads) for name in ("Wq", "Wk", "Wv"))  # type: ignore[return-value]


def _tables(program: Program, at: str, layer: str, heads: tuple[int, int], tokens: str) -> str:
    """(1, q, D) -> (H, q, v)"""
    wq, wk, wv = _weights(program, at, layer, heads)
    program.add("MatMul", [tokens, wq], f"{at}queries")  # (H, q, k)
    program.add("MatMul", ["base_bank", wk], f"{at}keys")  # (H, T, k)
    program.add("MatMul", ["base_bank", wv], f"{at}values")  # (H, T, v)
    program.add("Transpose", [f"{at}keys"], f"{at}keys_across", perm=[0, 2, 1])
    program.add("MatMul", [f"{at}queries", f"{at}keys_across"], f"{at}scores")  # (H, q, T)
    program.add("Softmax", [f"{at}scores"], f"{at}weights")
    return program.add("MatMul", [f"{at}weights", f"{at}values"], f"{at}out")


def _gates(program: Program, at: str, layer: str, heads: tuple[int, int], tokens: str, null: str, k: int) -> str:
    """(1, q, D) -> (H, q, v)"""
    wq, wk, wv = _weights(program, at, layer, heads)
    count = heads[1] - heads[0]
    program.add("MatMul", [tokens, wq], f"{at}queries")  # (H, q, k)
    program.add("MatMul", [tokens, wk], f"{at}own_keys")  # (H, q, k)
    program.add("MatMul", [tokens, wv], f"{at}own_values")  # (H, q, v)
    program.add("MatMul", [null, wk], f"{at}null_keys")  # (H, 1, k)
    program.add("MatMul", [null, wv], f"{at}null_values")  # (H, 1, v)
    program.add("Reshape", [f"{at}queries"], f"{at}queries_rows", shape=[count, -1, 1, k])
    program.add("Reshape", [f"{at}own_keys"], f"{at}own_keys_columns", shape=[count, -1, k, 1])
    program.add("MatMul", [f"{at}queries_rows", f"{at}own_keys_columns"], f"{at}own_products")  # (H, q, 1, 1)
    program.add("Reshape", [f"{at}own_products"], f"{at}own_score", shape=[count, -1, 1])
    program.add("Transpose", [f"{at}null_keys"], f"{at}null_keys_across", perm=[0, 2, 1])  # (H, k, 1)
    program.add("MatMul", [f"{at}queries", f"{at}null_keys_across"], f"{at}null_score")  # (H, q, 1)
    program.add("Concat", [f"{at}own_score", f"{at}null_score"], f"{at}scores", axis=[2])  # (H, q, 2)
    program.add("Softmax", [f"{at}scores"], f"{at}weights")
    program.part(f"{at}weights", f"{at}own_weight", 0, 1, axis=2)
    program.part(f"{at}weights", f"{at}null_weight", 1, 2, axis=2)
    program.add("Mul", [f"{at}own_weight", f"{at}own_values"], f"{at}own")
    program.add("Mul", [f"{at}null_weight", f"{at}null_values"], f"{at}null")
    return program.add("Add", [f"{at}own", f"{at}null"], f"{at}out")
