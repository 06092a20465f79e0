"""Graphs of layers of attention over tokens: stacks in context, and programs over sequences.

    rows  <-  rows R + sum over heads of softmax((rows Wq)(keys Wk)^T) (keys Wv) Wo

A head that looks back only has the score -inf at later tokens.
"""

from __future__ import annotations

from typing import Any

from softwright.checker.graphs.lines import Graph, Lines
from softwright.checker.refusal import require
from softwright.fileformat import ModelFile


def in_context(file: ModelFile, write: Lines) -> Graph:
    tensors, model = file.tensors, file.sections["model"]
    d = model["settings"]["features"]
    require(type(d) is int, "the number of features is a whole number")
    write("zero = Constant | value=0 shape=1,1,1")
    write("labels_column = Reshape labels | shape=0,0,1")
    write.repeat("log_weights", "zero", "x", 2, 1)
    write("observations = Concat x labels_column log_weights | axis=2")
    write("zeros = Constant | value=0 shape=1,1,2")
    write.repeat("no_label", "zeros", "queries", 2, 1)
    write("asked = Concat queries no_label | axis=2")
    made = {"data": "observations", "query": "asked"}
    tokens: dict[str, str] = {}
    for segment, source in model["sources"].items():
        require(source in ("fixed", "data", "query"), f"no graph is known of tokens made from {source!r}")
        if source == "fixed":
            tokens[segment] = _fixed(f"stream.{segment}", f"base_{segment}", tensors, write)
        else:
            write(f"embedded.{segment} = MatMul {made[source]} embed_{segment}")
            tokens[segment] = write(f"stream.{segment} = Add embedded.{segment} base_{segment}")
    for i, place in enumerate(model["program"]):
        layer, w = model["layers"][place], f"layers.{place}."
        names = [tokens[segment] for segment in layer["keys"]]
        keys = names[0] if len(names) == 1 else write(f"step.{i}.keys = Concat {' '.join(names)} | axis=1")
        after = {}
        for segment in layer["rows"]:
            p, old = f"step.{i}.{segment}.", tokens[segment]
            added = _heads(p, w, old, keys, [False] * tensors[w + "Wq"].shape[0], 0, tensors, write)
            kept = write(f"{p}kept = MatMul {old} {w}R") if w + "R" in tensors else old
            after[segment] = write(f"{p}stream = Add {kept} {added}")
        tokens |= after
    write(f"read_column = Reshape read | shape={tensors['read'].shape[0]},1")
    write(f"predicted = MatMul {tokens['query']} read_column")
    last = write("predictions = Reshape predicted | shape=0,-1")
    return Graph([("x", ["q", "n", d]), ("labels", ["q", "n"]), ("queries", ["q", "m", d])], last, ["q", "m"])


def program(file: ModelFile, write: Lines) -> Graph:
    tensors, model = file.tensors, file.sections["model"]
    fields = model["tokens"]["fields"]
    D, m = tensors["read"].shape
    write.first("places_used", "places", "x")
    write("placed = Add base_data places_used")
    write(f"placed_once = Reshape placed | shape=1,-1,{D}")
    stream = write.repeat("embedded", "placed_once", "x", 1, 2)
    for k, field in enumerate(fields):
        f, table = f"field.{k}.", f"field_{field['name']}"
        write(f"{f}column = Slice x | starts={k} ends={k + 1} axes=2")
        if field["kind"] == "real":
            write(f"{f}rows = Mul {f}column {table}")
        else:
            write(f"{f}numbers = Reshape {f}column | shape=0,-1")
            write.rows(f"{f}rows", table, f"{f}numbers", int(field.get("low", 0)))
        stream = write(f"{f}stream = Add {stream} {f}rows")
    bank = _fixed("bank", "base_bank", tensors, write)
    require(len(model["program"]) == len(model["causal"]), "every layer says which of its heads look back only")
    for i, place in enumerate(model["program"]):
        w, s, back = f"layers.{place}.", f"step.{i}.", model["causal"][i]
        keys = write(f"{s}keys = Concat {bank} {stream} | axis=1")
        added = _heads(s, w, stream, keys, back, tensors["base_bank"].shape[0], tensors, write)
        stream = write(f"{s}stream = Add {stream} {added}")
    return Graph([("x", ["q", "n", len(fields)])], write(f"outputs = MatMul {stream} read"), ["q", "n", m])


def _fixed(name: str, base: str, tensors: Any, write: Lines) -> str:
    T, D = tensors[base].shape
    write(f"{name}.once = Reshape {base} | shape=1,{T},{D}")
    return write.repeat(name, f"{name}.once", "x", 1, 2)


def _heads(p: str, w: str, rows: str, keys: str, back: list[Any], offset: int, tensors: Any, write: Lines) -> str:
    """What the heads add to the rows; neighbours that look alike stand together."""
    H, D, _ = tensors[w + "Wq"].shape
    v = tensors[w + "Wv"].shape[2]
    require(len(back) == H and all(type(one) is bool for one in back), "every head looks back only, or does not")
    write(f"{p}asking = Reshape {rows} | shape=0,1,-1,{D}")
    write(f"{p}asked = Reshape {keys} | shape=0,1,-1,{D}")
    ends = [h for h in range(1, H + 1) if h == H or back[h] != back[h - 1]]
    found, first = [], 0
    for last in ends:
        g = f"{p}part.{first}."
        names = {}
        for name in ("Wq", "Wk", "Wv"):
            whole = (first, last) == (0, H)
            names[name] = (
                w + name if whole else write(f"{g}{name} = Slice {w}{name} | starts={first} ends={last} axes=0")
            )
        write(f"{g}queries = MatMul {p}asking {names['Wq']}")
        write(f"{g}keys = MatMul {p}asked {names['Wk']}")
        write(f"{g}values = MatMul {p}asked {names['Wv']}")
        write(f"{g}keys_across = Transpose {g}keys | perm=0,1,3,2")
        scores = write(f"{g}scores = MatMul {g}queries {g}keys_across")
        if back[first]:
            scores = write.causal(f"{g}scores_back", scores, offset)
        write(f"{g}weights = Softmax {scores}")
        found.append(write(f"{g}mixed = MatMul {g}weights {g}values"))
        first = last
    mixed = found[0] if len(found) == 1 else write(f"{p}mixed = Concat {' '.join(found)} | axis=1")
    write(f"{p}mixed_by_token = Transpose {mixed} | perm=0,2,1,3")
    write(f"{p}mixed_flat = Reshape {p}mixed_by_token | shape=0,0,{H * v}")
    write(f"{p}Wo_flat = Reshape {w}Wo | shape={H * v},{D}")
    return write(f"{p}written = MatMul {p}mixed_flat {p}Wo_flat")
