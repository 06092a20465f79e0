"""The graph of a memory: ids of sequences by one softmax head, labels by a softmax over stored ids, or by relus."""

from __future__ import annotations

from typing import Any

from softwright.checker.graphs.lines import Graph, Lines
from softwright.checker.refusal import require
from softwright.fileformat import ModelFile

TO_THE_END = 2**31 - 1
ASIDE = {"radii": "float64", "gap": "float64", "class_text": "uint8", "tokenizer_text": "uint8"}
ASIDE["head.vocabulary"] = "int64"  # tensors of a dtype of their own


def memory(file: ModelFile, write: Lines) -> Graph:
    tensors, model = file.tensors, file.sections["model"]
    (V, e), m = tensors["head.codes"].shape, tensors["readout.values"].shape[1]
    reading, readout = model["reading"], model["readout"]
    require(reading["mode"] in ("sequence", "token"), "a memory reads sequences or tokens")
    require(readout in ("attention", "feedforward"), f"no graph is known of the readout {readout!r}")
    single = reading["mode"] == "token"
    codes = "tokens"
    if V:
        write("tokens_column = Reshape tokens | shape=0,0,1")
        if len(tensors["head.vocabulary"]):
            write.equals("which", "tokens_column", "head.vocabulary")
        else:
            write.equals("which", "tokens_column", write.places("known", V))
        codes = write("codes = MatMul which head.codes")
    _embedded(codes, tensors, write)
    _ids(single, single and reading["causal"], write)
    if readout == "attention":
        N, r = tensors["readout.keys"].shape
        _softmax_readout(N, r, write)
    else:
        _relu_readout(write)
    inputs = [("tokens", ["q", "n"] if V else ["q", "n", e])]
    whole = frozenset(["tokens"] if V else [])
    if single:
        return Graph(inputs, "found", ["q", "n", m], whole)
    return Graph(inputs, write(f"labels = Reshape found | shape=-1,{m}"), ["q", m], whole)


def _embedded(codes: str, tensors: Any, write: Lines) -> None:
    e, s = tensors["head.codes"].shape[1], tensors["head.W_V"].shape[0]
    if len(tensors["head.place_codes"]):
        write.first("place_codes", "head.place_codes", "tokens")
        codes = write(f"placed_codes = Mul {codes} place_codes")
    write(f"no_code = Constant | value=0 shape=1,1,{e}")
    write.repeat("sentinel_code", "no_code", codes, 1, 2)
    write(f"all_codes = Concat sentinel_code {codes} | axis=1")
    write("sentinel = Reshape head.sentinel | shape=1")
    write.first("log_weights", "head.log_weights", "tokens")
    write("all_weights = Concat sentinel log_weights | axis=0")
    write("weights_column = Reshape all_weights | shape=1,-1,1")
    write.repeat("log_weight", "weights_column", codes, 1, 2)
    write("one = Constant | value=1 shape=1,1,1")
    write.repeat("ones", "one", "all_codes", 2, 1)
    write(f"empty = Constant | value=0 shape=1,1,{s}")
    write.repeat("empties", "empty", "all_codes", 2, 1)
    write("X = Concat all_codes log_weight ones empties | axis=2")


def _ids(single: bool, back: bool, write: Lines) -> None:
    for letter in "QKVOI":
        write(f"W_{letter}_across = Transpose head.W_{letter} | perm=1,0")
    first, last = (1, TO_THE_END) if single else (0, 1)
    write(f"asking = Slice X | starts={first} ends={last} axes=1")
    write("queries = MatMul asking W_Q_across")
    write("keys = MatMul X W_K_across")
    write("values = MatMul X W_V_across")
    write("keys_across = Transpose keys | perm=0,2,1")
    scores = write("scores = MatMul queries keys_across")
    if back:
        scores = write.causal("scores_back", scores, 1)
    write(f"weights = Softmax {scores}")
    write("heard = MatMul weights values")
    write("heard_wide = MatMul heard W_O_across")
    write("residual = Add asking heard_wide")
    write("ids = MatMul residual W_I_across")


def _softmax_readout(N: int, r: int, write: Lines) -> None:
    write("root_of_beta = Sqrt readout.beta")
    write("unit = Constant | value=1 shape=1,1,1")
    write(f"every = Constant | value=1 shape=1,{r + 1}")
    write("root = Mul every root_of_beta")
    write(f"none = Constant | value=0 shape={N},1")
    write(f"halves = Reshape readout.halves | shape={N},1")
    write("negative_halves = Sub none halves")
    write("stored = Concat readout.keys negative_halves | axis=1")
    write("stored_keys = Mul stored root")
    write("stored_across = Transpose stored_keys | perm=1,0")
    write.repeat("units", "unit", "ids", 2, 1)
    write("wide_ids = Concat ids units | axis=2")
    write("questions = Mul wide_ids root")
    write("likeness = MatMul questions stored_across")
    write("recalled = Softmax likeness")
    write("found = MatMul recalled readout.values")


def _relu_readout(write: Lines) -> None:
    write("unit = Constant | value=1 shape=1,1,1")
    write("nought = Constant | value=0 shape=1,1,1")
    write.repeat("units", "unit", "ids", 2, 1)
    write.repeat("noughts", "nought", "ids", 2, 1)
    write("sloped = Mul ids readout.slopes")
    write("lines = Add sloped readout.offsets")
    write("ramps = Relu lines")
    write("falling = Sub unit ramps")
    write("steps = Relu falling")
    write("upper = Concat steps units | axis=2")
    write("lower = Concat noughts steps | axis=2")
    write("between = Sub upper lower")
    write("cells = Relu between")
    write("found = MatMul cells readout.values")
