"""Graphs of stock multi-head attention: projections with a bias, heads, scores over the root of the heads' width.

What the module computes is written down whatever its weights are; that they are those of the layout is part of the
re-proof. Which of two forms it has is read off the table of tokens, as there.
"""

from __future__ import annotations

from typing import Any

from softwright.checker.graphs.lines import Lines
from softwright.checker.refusal import require


def stock_neurons(s: str, x: str, H: int, tensors: Any, write: Lines) -> str:
    tokens, a = tensors[s + "tokens"], f"{s}attention."
    require(tokens.ndim == 2 and tokens.shape[0] == 4, "a table of tokens has four rows")
    if tokens.shape[1] == 2 and not tokens[:, 0].any() and tokens[1:, 1].tolist() == [0.0, 1.0, 0.0]:
        return _with_zero_token(a, x, H, tensors, write)
    return _with_tokens(s, a, x, H, tensors, write)


def one_head(s: str, sums: str, H: int, tensors: Any, write: Lines) -> str:
    """All neurons of all rows as queries of one head of width 4, and its first two numbers as slope and offset."""
    tokens, a = tensors[s + "tokens"], f"{s}attention."
    require(tokens.ndim == 2 and tokens.shape[0] == 4, "a table of tokens has four rows")
    if tensors[f"{a}in_proj_weight"].shape == (3, 1):
        return _narrow_head(s, sums, H, tensors, write)
    numbers = write(f"{a}numbers = Reshape {sums} | shape=-1,1")
    write(f"{a}one = Constant | value=1 shape=1,1")
    write(f"{a}zeros = Constant | value=0 shape=1,2")
    write.repeat(f"{a}one_each", f"{a}one", numbers, 1, 1)
    write.repeat(f"{a}zeros_each", f"{a}zeros", numbers, 1, 1)
    write(f"{a}query = Concat {numbers} {a}one_each {a}zeros_each | axis=1")
    write(f"{a}tokens = Transpose {s}tokens | perm=1,0")
    _weights(a, "qkv", tensors, write)
    _project(a, "q", f"{a}q", f"{a}query", write)
    _project(a, "k", f"{a}k", f"{a}tokens", write)
    _project(a, "v", f"{a}v", f"{a}tokens", write)
    write(f"{a}keys = Transpose {a}k | perm=1,0")
    write(f"{a}products = MatMul {a}q {a}keys")
    write(f"{a}width = Constant | value=4 shape={tokens.shape[1]}")
    write(f"{a}root = Sqrt {a}width")
    write(f"{a}scores = Div {a}products {a}root")
    write(f"{a}weights = Softmax {a}scores")
    written = _out(a, write(f"{a}mixed = MatMul {a}weights {a}v"), 4, tensors, write)
    write(f"{a}slope = Slice {written} | starts=0 ends=1 axes=1")
    write(f"{a}offset = Slice {written} | starts=1 ends=2 axes=1")
    write(f"{a}linear = Mul {a}slope {numbers}")
    write(f"{a}out = Add {a}linear {a}offset")
    return write(f"{s}neurons = Reshape {a}out | shape=-1,{H}")


def _narrow_head(s: str, sums: str, H: int, tensors: Any, write: Lines) -> str:
    """The same of width 1: numbers are the queries, biases the mask, and what is found a slope or an offset."""
    a, sloped = f"{s}attention.", bool(tensors[s + "tokens"][2].any())
    numbers = write(f"{a}numbers = Reshape {sums} | shape=-1,1")
    for name in ("keys", "slopes" if sloped else "offsets"):
        write(f"{a}{name}_column = Transpose {s}{name} | perm=1,0")
    _weights(a, "qkv", tensors, write)
    _project(a, "q", f"{a}q", numbers, write)
    _project(a, "k", f"{a}k", f"{a}keys_column", write)
    _project(a, "v", f"{a}v", f"{a}{'slopes' if sloped else 'offsets'}_column", write)
    write(f"{a}keys = Transpose {a}k | perm=1,0")
    write(f"{a}products = MatMul {a}q {a}keys")
    write(f"{a}scores = Add {a}products {s}biases")
    write(f"{a}weights = Softmax {a}scores")
    out = _out(a, write(f"{a}mixed = MatMul {a}weights {a}v"), 1, tensors, write)
    if sloped:
        out = write(f"{a}out = Mul {out} {numbers}")
    return write(f"{s}neurons = Reshape {out} | shape=-1,{H}")


def _project(a: str, what: str, name: str, source: str, write: Lines) -> str:
    """One of the three projections, by its letter."""
    write(f"{name}_products = MatMul {source} {a}{what}_proj_weight_across")
    return write(f"{name} = Add {name}_products {a}{what}_bias")


def _weights(a: str, letters: str, tensors: Any, write: Lines) -> None:
    size = tensors[a + "out_proj.weight"].shape[0]
    for letter in letters:
        first = {"q": 0, "k": 1, "v": 2}[letter] * size
        if a + "in_proj_weight" in tensors:
            write(f"{a}{letter}_proj_weight = Slice {a}in_proj_weight | starts={first} ends={first + size} axes=0")
        write(f"{a}{letter}_proj_weight_across = Transpose {a}{letter}_proj_weight | perm=1,0")
        write(f"{a}{letter}_bias = Slice {a}in_proj_bias | starts={first} ends={first + size} axes=0")


def _out(a: str, mixed: str, H: int, tensors: Any, write: Lines) -> str:
    write(f"{a}out_across = Transpose {a}out_proj.weight | perm=1,0")
    write(f"{a}written_products = MatMul {mixed} {a}out_across")
    out = write(f"{a}written = Add {a}written_products {a}out_proj.bias")
    if tensors[a + "out_proj.weight"].shape[0] != H:
        out = write(f"{a}neurons = Slice {out} | starts=0 ends={H} axes=1")
    return out


def _with_zero_token(a: str, x: str, H: int, tensors: Any, write: Lines) -> str:
    _weights(a, "kv", tensors, write)
    write(f"{a}queries = Slice {a}in_proj_bias | starts=0 ends={H} axes=0")
    keys = _project(a, "k", f"{a}k", x, write)
    values = _project(a, "v", f"{a}v", x, write)
    write(f"{a}score = Mul {keys} {a}queries")
    write(f"{a}score_column = Reshape {a}score | shape=-1,{H},1")
    write(f"{a}zero = Constant | value=0 shape=1,1,1")
    write.repeat(f"{a}zero_score", f"{a}zero", f"{a}score_column", 2, 1)
    write(f"{a}scores = Concat {a}score_column {a}zero_score | axis=2")
    write(f"{a}weights = Softmax {a}scores")
    write(f"{a}weight_column = Slice {a}weights | starts=0 ends=1 axes=2")
    write(f"{a}weight = Reshape {a}weight_column | shape=-1,{H}")
    return _out(a, write(f"{a}mixed = Mul {a}weight {values}"), H, tensors, write)


def _with_tokens(s: str, a: str, x: str, H: int, tensors: Any, write: Lines) -> str:
    p, E = tensors[s + "tokens"].shape[1], tensors[a + "out_proj.weight"].shape[0]
    d = (E if a + "in_proj_weight" in tensors else tensors[a + "k_proj_weight"].shape[1]) - 4
    width = 2 if tensors[s + "tokens"][1].any() else 1
    require(E % width == 0, "the heads do not fill the module")
    for name in ("slopes", "offsets", "keys", "biases"):
        write(f"{a}{name}_column = Reshape {s}{name} | shape=1,{p},1")
    write(f"{a}x = Reshape {x} | shape=-1,1,{d}")
    write(f"{a}sloped = Mul {a}x {a}slopes_column")
    write(f"{a}fixed = Concat {a}slopes_column {a}offsets_column {a}keys_column {a}biases_column | axis=2")
    write.repeat(f"{a}fixed_for_all", f"{a}fixed", x, 1, 2)
    write(f"{a}tokens = Concat {a}sloped {a}fixed_for_all | axis=2")
    query = x
    if d < E:
        write(f"{a}zeros = Constant | value=0 shape=1,{E - d}")
        write.repeat(f"{a}padding", f"{a}zeros", x, 1, 1)
        query = write(f"{a}query = Concat {x} {a}padding | axis=1")
    _weights(a, "qkv", tensors, write)
    _project(a, "q", f"{a}q", query, write)
    for letter in "kv":
        _project(a, letter, f"{a}{letter}", f"{a}tokens", write)
        write(f"{a}{letter}_heads = Reshape {a}{letter} | shape=-1,{p},{E // width},{width}")
    write(f"{a}queries = Reshape {a}q | shape=-1,{E // width},1,{width}")
    write(f"{a}keys = Transpose {a}k_heads | perm=0,2,3,1")
    write(f"{a}values = Transpose {a}v_heads | perm=0,2,1,3")
    scores = write(f"{a}products = MatMul {a}queries {a}keys")
    if width == 2:
        write(f"{a}width = Constant | value=2 shape={p}")
        write(f"{a}root = Sqrt {a}width")
        scores = write(f"{a}scores = Div {scores} {a}root")
    write(f"{a}weights = Softmax {scores}")
    write(f"{a}mixed_heads = MatMul {a}weights {a}values")
    return _out(a, write(f"{a}mixed = Reshape {a}mixed_heads | shape=-1,{E}"), H, tensors, write)


def stock_units(s: str, u: str, b: str, H: int, tensors: Any, write: Lines) -> str:
    a = f"{s}product."
    size = tensors[a + "out_proj.weight"].shape[0]
    write(f"{a}token = Concat {u} {b} | axis=1")
    write(f"{a}signs = Concat {s}second {s}second | axis=1")
    write(f"{a}other_token = Mul {a}token {a}signs")
    for name in ("token", "other_token"):
        write(f"{a}{name}_row = Reshape {a}{name} | shape=-1,1,{2 * H}")
    write(f"{a}tokens = Concat {a}token_row {a}other_token_row | axis=1")
    _weights(a, "kv", tensors, write)
    write(f"{a}queries = Slice {a}in_proj_bias | starts=0 ends={size} axes=0")
    for letter in "kv":
        _project(a, letter, f"{a}{letter}", f"{a}tokens", write)
        write(f"{a}{letter}_heads = Transpose {a}{letter} | perm=0,2,1")
    write(f"{a}queries_column = Reshape {a}queries | shape={size},1")
    write(f"{a}scores = Mul {a}k_heads {a}queries_column")
    write(f"{a}weights = Softmax {a}scores")
    write(f"{a}weights_rows = Reshape {a}weights | shape=-1,{size},1,2")
    write(f"{a}values_columns = Reshape {a}v_heads | shape=-1,{size},2,1")
    write(f"{a}mixed_heads = MatMul {a}weights_rows {a}values_columns")
    return _out(a, write(f"{a}mixed = Reshape {a}mixed_heads | shape=-1,{size}"), H, tensors, write)
