"""A `MemoryNetwork` as a program, both layers as its dense engine runs them: sequences in, values of labels out.

    tokens (q, n), whole numbers, or vectors (q, n, e)   ->   ids   ->   values (q, m), of single tokens (q, n, m)

Batch and length are free, the sequences of a batch have one length, at most the longest that was stored. A token that
is not known has code 0, as in the network; texts of classes, tokenizers and abstention stay behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from softwright.export.program import END, Program


def memory(model: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Program:
    codes = tensors["head.codes"]
    words = len(codes) > 0
    shape = ("q", "n") if words else ("q", "n", codes.shape[1])
    whole = frozenset({"tokens"} if words else ())
    program = Program({"tokens": shape}, dict(tensors), model["dtype"], whole=whole)
    by_token = model["reading"]["mode"] == "token"
    ids = _ids(program, _embedded(program, words), by_token, by_token and model["reading"]["causal"])
    values = READOUTS[model["readout"]](program, ids)  # (q, items, m)
    m = tensors["readout.values"].shape[1]
    if by_token:
        return program.ended(values, ("q", "n", m))
    return program.ended(program.add("Reshape", [values], "labels", shape=[-1, m]), ("q", m))


def _embedded(program: Program, words: bool) -> str:
    """X (q, n + 1, d): code, logarithm of the weight, one, empty; the sentinel first."""
    constants = program.constants
    V, e = constants["head.codes"].shape
    s, codes = constants["head.W_V"].shape[0], "tokens"
    if words:
        program.add("Reshape", ["tokens"], "tokens_column", shape=[0, 0, 1])
        listed = len(constants["head.vocabulary"]) > 0
        known = "head.vocabulary" if listed else program.add("Places", [], "known", count=[V])
        program.add("Equals", ["tokens_column", known], "which")  # (q, n, V), at most one 1
        codes = program.add("MatMul", ["which", "head.codes"], "codes")  # (q, n, e)
    if len(constants["head.place_codes"]):
        program.add("First", ["head.place_codes", "tokens"], "place_codes")
        codes = program.add("Mul", [codes, "place_codes"], "placed_codes")
    program.number(0, "no_code", [1, 1, e])
    program.repeat("no_code", codes, "sentinel_code", 1, 2)
    program.add("Concat", ["sentinel_code", codes], "all_codes", axis=[1])  # (q, n + 1, e)
    program.add("Reshape", ["head.sentinel"], "sentinel", shape=[1])
    program.add("First", ["head.log_weights", "tokens"], "log_weights")
    program.add("Concat", ["sentinel", "log_weights"], "all_weights", axis=[0])  # (n + 1,)
    program.add("Reshape", ["all_weights"], "weights_column", shape=[1, -1, 1])
    program.repeat("weights_column", codes, "log_weight", 1, 2)
    program.number(1, "one", [1, 1, 1])
    program.repeat("one", "all_codes", "ones", 2, 1)
    program.number(0, "empty", [1, 1, s])
    program.repeat("empty", "all_codes", "empties", 2, 1)
    return program.add("Concat", ["all_codes", "log_weight", "ones", "empties"], "X", axis=[2])


def _ids(program: Program, x: str, by_token: bool, causal: bool) -> str:
    """(q, n + 1, d) -> (q, items, r)"""
    for name in ("W_Q", "W_K", "W_V", "W_O", "W_I"):
        program.add("Transpose", [f"head.{name}"], f"{name}_across", perm=[1, 0])
    asking = program.part(x, "asking", 1 if by_token else 0, END if by_token else 1, axis=1)
    program.add("MatMul", [asking, "W_Q_across"], "queries")
    program.add("MatMul", [x, "W_K_across"], "keys")
    program.add("MatMul", [x, "W_V_across"], "values")
    program.add("Transpose", ["keys"], "keys_across", perm=[0, 2, 1])
    scores = program.add("MatMul", ["queries", "keys_across"], "scores")  # (q, items, n + 1)
    if causal:
        scores = program.add("Causal", [scores], "scores_back", offset=[1])
    program.add("Softmax", [scores], "weights")
    program.add("MatMul", ["weights", "values"], "heard")
    program.add("MatMul", ["heard", "W_O_across"], "heard_wide")
    program.add("Add", [asking, "heard_wide"], "residual")
    return program.add("MatMul", ["residual", "W_I_across"], "ids")


def _lookup(program: Program, ids: str) -> str:
    """(q, items, r) -> (q, items, m): softmax over the stored ids; the root of beta is a power of two."""
    N, r = program.constants["readout.keys"].shape
    program.add("Sqrt", ["readout.beta"], "root_of_beta")
    program.number(1, "unit", [1, 1, 1])
    program.number(1, "every", [1, r + 1])
    program.add("Mul", ["every", "root_of_beta"], "root")  # a row: runtimes fuse products with one number
    program.number(0, "none", [N, 1])
    program.add("Reshape", ["readout.halves"], "halves", shape=[N, 1])
    program.add("Sub", ["none", "halves"], "negative_halves")
    program.add("Concat", ["readout.keys", "negative_halves"], "stored", axis=[1])  # (N, r + 1)
    program.add("Mul", ["stored", "root"], "stored_keys")
    program.add("Transpose", ["stored_keys"], "stored_across", perm=[1, 0])
    program.repeat("unit", ids, "units", 2, 1)
    program.add("Concat", [ids, "units"], "wide_ids", axis=[2])
    program.add("Mul", ["wide_ids", "root"], "questions")
    program.add("MatMul", ["questions", "stored_across"], "likeness")  # (q, items, N)
    program.add("Softmax", ["likeness"], "recalled")
    return program.add("MatMul", ["recalled", "readout.values"], "found")


def _relus(program: Program, ids: str) -> str:
    """(q, items, 1) -> (q, items, m): cells between ramps."""
    program.number(1, "unit", [1, 1, 1])
    program.number(0, "nought", [1, 1, 1])
    program.repeat("unit", ids, "units", 2, 1)
    program.repeat("nought", ids, "noughts", 2, 1)
    program.add("Mul", [ids, "readout.slopes"], "sloped")
    program.add("Add", ["sloped", "readout.offsets"], "lines")
    program.add("Relu", ["lines"], "ramps")
    program.add("Sub", ["unit", "ramps"], "falling")
    program.add("Relu", ["falling"], "steps")  # (q, items, N - 1)
    program.add("Concat", ["steps", "units"], "upper", axis=[2])
    program.add("Concat", ["noughts", "steps"], "lower", axis=[2])
    program.add("Sub", ["upper", "lower"], "between")
    program.add("Relu", ["between"], "cells")
    return program.add("MatMul", ["cells", "readout.values"], "found")


READOUTS = {"attention": _lookup, "feedforward": _relus}
