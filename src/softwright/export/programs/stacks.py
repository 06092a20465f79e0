"""Layers of attention over segments of tokens, as programs: what stacks in context and sequence programs share.

    X_rows  <-  X_rows R  +  sum_h softmax( (X_rows Wq_h) (X_keys Wk_h)^T ) (X_keys Wv_h) Wo_h

Rows do not see each other, so a layer that updates several segments is written segment by segment, and none has to be
taken apart again. Heads that look back only have the score -inf where they must not look.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from softwright.export.program import Program


def joined(program: Program, segments: Sequence[str], output: str) -> str:
    """(q, T, D): the tokens of several segments after each other."""
    return segments[0] if len(segments) == 1 else program.add("Concat", segments, output, axis=[1])


def repeated(program: Program, base: str, like: str, output: str) -> str:
    """(T, D) -> (q, T, D): fixed tokens for every sequence of the batch."""
    rows, width = program.constants[base].shape
    program.add("Reshape", [base], f"{output}.once", shape=[1, rows, width])
    return program.repeat(f"{output}.once", like, output, 1, 2)


def attended(
    program: Program, at: str, layer: str, rows: str, keys: str, causal: Sequence[bool], offset: int = 0
) -> str:
    """(q, T, D), (q, S, D) -> what the heads of a layer write (q, T, D); row r is token r + offset of the keys."""
    heads, width, _ = program.constants[f"{layer}Wq"].shape
    v = program.constants[f"{layer}Wv"].shape[2]
    program.add("Reshape", [rows], f"{at}asking", shape=[0, 1, -1, width])
    program.add("Reshape", [keys], f"{at}asked", shape=[0, 1, -1, width])
    parts, first = [], 0
    for back, group in groupby(causal):
        last = first + len(list(group))
        p, own = f"{at}part.{first}.", {}
        for name in ("Wq", "Wk", "Wv"):
            whole = last - first == heads
            own[name] = f"{layer}{name}" if whole else program.part(f"{layer}{name}", f"{p}{name}", first, last)
        program.add("MatMul", [f"{at}asking", own["Wq"]], f"{p}queries")  # (q, H, T, k)
        program.add("MatMul", [f"{at}asked", own["Wk"]], f"{p}keys")  # (q, H, S, k)
        program.add("MatMul", [f"{at}asked", own["Wv"]], f"{p}values")
        program.add("Transpose", [f"{p}keys"], f"{p}keys_across", perm=[0, 1, 3, 2])
        scores = program.add("MatMul", [f"{p}queries", f"{p}keys_across"], f"{p}scores")  # (q, H, T, S)
        if back:
            scores = program.add("Causal", [scores], f"{p}scores_back", offset=[offset])
        program.add("Softmax", [scores], f"{p}weights")
        parts.append(program.add("MatMul", [f"{p}weights", f"{p}values"], f"{p}mixed"))  # (q, H, T, v)
        first = last
    mixed = program.add("Concat", parts, f"{at}mixed", axis=[1]) if len(parts) > 1 else parts[0]
    program.add("Transpose", [mixed], f"{at}mixed_by_token", perm=[0, 2, 1, 3])
    program.add("Reshape", [f"{at}mixed_by_token"], f"{at}mixed_flat", shape=[0, 0, heads * v])
    program.add("Reshape", [f"{layer}Wo"], f"{at}Wo_flat", shape=[heads * v, width])
    return program.add("MatMul", [f"{at}mixed_flat", f"{at}Wo_flat"], f"{at}written")
