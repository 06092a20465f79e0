"""The graph of a composed formula: stream <- stream + sum over heads of softmax(q k^T) v W_O, then `read`.

Tables look at the fixed tokens, gates at the stream itself and at the first fixed token. That what is left out has
weight 0 is part of the re-proof of such files, which reads it off the weights.
"""

from __future__ import annotations

from softwright.checker.graphs.lines import Graph, Lines
from softwright.fileformat import ModelFile


def composition(file: ModelFile, write: Lines) -> Graph:
    tensors, model = file.tensors, file.sections["model"]
    D = tensors["read"].shape[0]
    write("embedded = MatMul x embed_data")
    stream = write("stream.0 = Add embedded base_data")
    write("null = Slice base_bank | starts=0 ends=1 axes=0")
    for i, layer in enumerate(model["program"]):
        s, w, tables = f"step.{i}.", f"layers.{layer}.", model["tables"][i]
        heads, v, _ = tensors[w + "Wo"].shape
        tokens = write(f"{s}tokens = Reshape {stream} | shape=1,-1,{D}")
        outs = []
        for part, first, last in (("tables.", 0, tables), ("gates.", tables, heads)):
            if first == last:
                continue
            p = s + part
            for name in ("Wq", "Wk", "Wv"):
                write(f"{p}{name} = Slice {w}{name} | starts={first} ends={last} axes=0")
            write(f"{p}queries = MatMul {tokens} {p}Wq")
            if part == "tables.":
                _table(p, write)
            else:
                _gate(p, last - first, tensors[w + "Wq"].shape[2], tokens, write)
            outs.append(f"{p}out")
        mixed = outs[0] if len(outs) == 1 else write(f"{s}mixed = Concat {outs[0]} {outs[1]} | axis=0")
        write(f"{s}mixed_by_point = Transpose {mixed} | perm=1,0,2")
        write(f"{s}mixed_flat = Reshape {s}mixed_by_point | shape=-1,{heads * v}")
        write(f"{s}Wo_flat = Reshape {w}Wo | shape={heads * v},{D}")
        write(f"{s}written = MatMul {s}mixed_flat {s}Wo_flat")
        stream = write(f"stream.{i + 1} = Add {stream} {s}written")
    last = write(f"outputs = MatMul {stream} read")
    return Graph([("x", ["q", len(model["variables"])])], last, ["q", tensors["read"].shape[1]])


def _table(p: str, write: Lines) -> None:
    write(f"{p}keys = MatMul base_bank {p}Wk")
    write(f"{p}values = MatMul base_bank {p}Wv")
    write(f"{p}keys_across = Transpose {p}keys | perm=0,2,1")
    write(f"{p}scores = MatMul {p}queries {p}keys_across")
    write(f"{p}weights = Softmax {p}scores")
    write(f"{p}out = MatMul {p}weights {p}values")


def _gate(p: str, heads: int, k: int, tokens: str, write: Lines) -> None:
    write(f"{p}own_keys = MatMul {tokens} {p}Wk")
    write(f"{p}own_values = MatMul {tokens} {p}Wv")
    write(f"{p}null_keys = MatMul null {p}Wk")
    write(f"{p}null_values = MatMul null {p}Wv")
    write(f"{p}queries_rows = Reshape {p}queries | shape={heads},-1,1,{k}")
    write(f"{p}own_keys_columns = Reshape {p}own_keys | shape={heads},-1,{k},1")
    write(f"{p}own_products = MatMul {p}queries_rows {p}own_keys_columns")
    write(f"{p}own_score = Reshape {p}own_products | shape={heads},-1,1")
    write(f"{p}null_keys_across = Transpose {p}null_keys | perm=0,2,1")
    write(f"{p}null_score = MatMul {p}queries {p}null_keys_across")
    write(f"{p}scores = Concat {p}own_score {p}null_score | axis=2")
    write(f"{p}weights = Softmax {p}scores")
    write(f"{p}own_weight = Slice {p}weights | starts=0 ends=1 axes=2")
    write(f"{p}null_weight = Slice {p}weights | starts=1 ends=2 axes=2")
    write(f"{p}own = Mul {p}own_weight {p}own_values")
    write(f"{p}null = Mul {p}null_weight {p}null_values")
    write(f"{p}out = Add {p}own {p}null")
