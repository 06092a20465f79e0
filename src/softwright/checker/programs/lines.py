"""What a file says of its network, read strictly: entries of the model; graph, columns and heads of the evidence."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from softwright.checker.entries import (
    Test,
    at_least_zero,
    check_entries,
    is_count,
    is_flag,
    is_float,
    is_number,
    is_object,
    is_size,
    is_text,
    is_whole,
    list_of,
    same,
)
from softwright.checker.programs.graph_core import Graph
from softwright.checker.refusal import require
from softwright.fileformat import ModelFile

STRUCTURE = ("one", "null", "default", "bank", "index", "square")
ONE, NULL, DEFAULT, BANK, INDEX, SQUARE = range(6)
GATES = ("product", "exponential", "maximum")
KINDS = (
    "sum",
    "mean",
    "table",
    "digit",
    "largest",
    "smooth",
    "choose",
    "curve",
    "attend",
    "select",
    "kernel",
    "order",
    "line",
    "weighed",
    *GATES,
)
LONGEST = WIDEST = 4096
MOST_ROWS = 10_000
NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")

MODEL: dict[str, Test] = {
    **dict.fromkeys(("kind", "dtype"), is_text),
    **dict.fromkeys(("tokens", "slots", "sources", "shapes"), is_object),
    "causal": list_of(list_of(is_flag)),
    "outputs": list_of(is_text),
    "program": list_of(is_count),
    "layers": list_of(is_object),
}
LAYER: dict[str, Test] = {
    "rows": list_of(is_text),
    "keys": list_of(is_text),
    "label": lambda value: value == "",
    "shapes": is_object,
}
PARTS: dict[str, Test] = {
    "terms": list_of(list_of(lambda _: True)),
    "outputs": list_of(is_count),
    "columns": list_of(lambda value: isinstance(value, list) and bool(value)),
    "heads": list_of(is_object),
}
HEAD: dict[str, Test] = {
    "kind": lambda value: value in KINDS,
    **dict.fromkeys(("layer", "head"), is_count),
    "where": list_of(lambda value: isinstance(value, list)),
    "writes": list_of(is_count),
    "numbers": is_object,
}
NUMBERS: dict[str, dict[str, Test]] = {
    "table": {"sharpness": is_size, "middle": is_count, "count": is_size, "low": is_whole},
    "digit": dict.fromkeys(("sharpness", "count", "base"), is_size) | {"middle": is_count},
    "largest": {"penalty": is_size, "sign": lambda value: value in (1, -1) and is_whole(value)},
    "kernel": {"exact": at_least_zero},
    "sum": {"groups": lambda value: is_count(value) and value <= 12},
    "curve": {
        "count": is_size,
        **dict.fromkeys(("center", "halfwidth", "tree"), is_text),
        **dict.fromkeys(("exact", "rounding"), at_least_zero),
        "order": is_count,
    },
}
FIELD: dict[str, dict[str, Test]] = {
    "symbol": {"symbols": lambda value: list_of(is_text)(value) and len(value) > 0},
    "integer": {"low": is_whole, "high": is_whole},
    "real": {"low": is_float, "high": is_float},
    "truth": {},
}


def is_side(value: Any) -> bool:
    """On which side of a singular point a function is asked for."""
    return value in (1, -1) and is_whole(value)


@dataclass
class HeadLine:
    """One head of the evidence with its matrices: query and key (D, k), value (D, v), out (v, D)."""

    kind: str
    layer: int
    where: list[list[Any]]
    writes: list[int]
    numbers: dict[str, Any]
    causal: bool
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    out: np.ndarray


@dataclass
class Lines:
    """Everything of a file that the proof reads."""

    columns: list[list[Any]]
    heads: list[HeadLine]
    bank: np.ndarray
    places: np.ndarray
    fields: dict[str, np.ndarray]
    read: np.ndarray
    values: list[int] = field(default_factory=list)  # the graph's numbers of the evidence's terms
    outputs: list[int] = field(default_factory=list)


def check_tokens(tokens: Any) -> None:
    """Lengths and fields as they may be."""
    check_entries(tokens, {"length": list_of(is_size), "fields": list_of(is_object)}, "the tokens")
    length = tokens["length"]
    require(len(length) == 2 and length[0] <= length[1] <= LONGEST, "lengths are damaged")
    names = []
    for entry in tokens["fields"]:
        kind = entry.get("kind")
        require(isinstance(kind, str) and kind in FIELD, "a field of unknown kind")
        more = {"also": FIELD["symbol"]["symbols"]} if kind == "symbol" and "also" in entry else {}
        check_entries(entry, {"name": is_text, "kind": is_text, **FIELD[kind], **more}, "a field")
        require(NAME.match(entry["name"]) and entry["name"] not in ("i", "j", "n"), "a field's name is damaged")
        names.append(entry["name"])
        if kind == "symbol":
            every = [*entry["symbols"], *entry.get("also", ())]
            require(len(set(every)) == len(every) <= WIDEST, "a vocabulary is damaged")
        if kind in ("integer", "real"):
            low, high = entry["low"], entry["high"]
            require(low <= high and max(abs(low), abs(high)) < 2.0**60, "a field's range is damaged")
            require(kind == "real" or high - low < WIDEST, "a field has too many values")
    require(names and len(set(names)) == len(names), "the names of fields are damaged")


def read_lines(file: ModelFile, graph: Graph) -> Lines:
    """The lines and tensors of a file; terms are put into the graph."""
    said, model, tensors = file.sections["certificate"], file.sections["model"], file.subject_tensors
    check_entries(model, MODEL, "the model")
    target = said["target"]
    check_entries(target, {"kind": is_text, "text": is_text, "tokens": is_object}, "the target")
    require(same(model["tokens"], target["tokens"]), "model and target speak of different sequences")
    require(not said["quantities"], "quantities that nothing is made of")
    parts = said["parts"]
    check_entries(parts, PARTS, "the lines")
    width = len(parts["columns"])
    require(
        parts["columns"][: len(STRUCTURE)] == [[name] for name in STRUCTURE],
        "the first columns are not as they must be",
    )
    layers = len(model["layers"])
    names = [entry["name"] for entry in target["tokens"]["fields"]]
    own = {"base_bank", "base_data", "read", "places", *(f"field_{name}" for name in names)}
    blocks = {f"layers.{k}.{part}" for k in range(layers) for part in ("Wq", "Wk", "Wv", "Wo")}
    require(set(tensors) == own | blocks, "the tensors are not those of a program")
    for array in tensors.values():
        require(str(array.dtype) == said["dtype"] and np.isfinite(array).all(), "a tensor is damaged")
        require(
            array.size == 0 or float(np.abs(array.astype(float)).max()) < 1e100, "a weight is too large to be checked"
        )
    wanted = {name: list(tensors[name].shape) for name in own}
    require(same(model["shapes"], wanted), "the shapes are not those of the tensors")
    require(model["sources"] == {"bank": "fixed", "data": "tokens"}, "the segments are not those of a program")
    require(model["program"] == list(range(layers)), "layers do not run one after the other")
    slots = sorted(model["slots"].values()) if all(list_of(is_count)(v) for v in model["slots"].values()) else None
    require(slots == [[k, k + 1] for k in range(width)], "the columns' names are damaged")
    bank = tensors["base_bank"].astype(float)
    require(bank.ndim == 2 and bank.shape[1] == width and 1 <= len(bank) <= MOST_ROWS, "the bank is of another width")
    base = np.zeros((1, width))
    base[0, ONE] = 1.0
    require(np.array_equal(tensors["base_data"], base), "data tokens do not begin as they must")
    require(tensors["places"].shape == (target["tokens"]["length"][1], width), "places are of another shape")
    require(tensors["read"].shape == (width, len(parts["outputs"])), "outputs are of another shape")
    fields = {name: tensors[f"field_{name}"].astype(float) for name in names}
    heads = _heads(parts["heads"], model, tensors, width)
    values = _terms(parts["terms"], graph)
    require(all(place < len(values) for place in parts["outputs"]), "an output is none of the terms")
    outputs = [values[place] for place in parts["outputs"]]
    places = tensors["places"].astype(float)
    return Lines(parts["columns"], heads, bank, places, fields, tensors["read"].astype(float), values, outputs)


def _heads(said: list[Any], model: dict[str, Any], tensors: dict[str, np.ndarray], width: int) -> list[HeadLine]:
    found: list[HeadLine] = []
    expected = []
    require(len(model["causal"]) == len(model["layers"]), "causal heads of layers that there are not")
    for k, layer in enumerate(model["layers"]):
        check_entries(layer, LAYER, "a layer")
        require(layer["rows"] == ["data"] and layer["keys"] == ["bank", "data"], "a layer reads or writes other tokens")
        blocks = {part: tensors[f"layers.{k}.{part}"] for part in ("Wq", "Wk", "Wv", "Wo")}
        require(same(layer["shapes"], {part: list(b.shape) for part, b in blocks.items()}), "shapes of a layer differ")
        require(all(block.ndim == 3 for block in blocks.values()), "a layer's matrices are damaged")
        count, _, dims = blocks["Wq"].shape
        values = blocks["Wv"].shape[2]
        shapes = {"Wq": (count, width, dims), "Wk": (count, width, dims), "Wv": (count, width, values)}
        shapes["Wo"] = (count, values, width)
        require(all(blocks[part].shape == shape for part, shape in shapes.items()), "a layer's matrices do not fit")
        require(count >= 1 and len(model["causal"][k]) == count, "a layer has another number of heads")
        expected += [(k, h) for h in range(count)]
    for entry in said:
        check_entries(entry, HEAD, "a head")
        more = {"side": is_side} if entry["kind"] == "curve" and "side" in entry["numbers"] else {}
        check_entries(entry["numbers"], NUMBERS.get(entry["kind"], {}) | more, "the numbers of a head")
        k, h = entry["layer"], entry["head"]
        require((k, h) in expected, "a head that there is not")
        require(
            all(column < width for column in entry["writes"]) and entry["writes"], "a head writes what there is not"
        )
        q, key, v, o = (tensors[f"layers.{k}.{part}"][h].astype(float) for part in ("Wq", "Wk", "Wv", "Wo"))
        line = HeadLine(
            entry["kind"], k + 1, entry["where"], entry["writes"], entry["numbers"], model["causal"][k][h], q, key, v, o
        )
        found.append(line)
    require(sorted((e["layer"], e["head"]) for e in said) == expected, "a head is missing, or there twice")
    return found


def _terms(said: list[Any], graph: Graph) -> list[int]:
    """Terms of the evidence as values of the graph."""
    found: list[int] = []
    for entry in said:
        require(len(entry) == 3 and is_text(entry[0]) and list_of(is_count)(entry[1]), "a term is damaged")
        op, args, constant = entry
        require(all(arg < len(found) for arg in args), "a term stands before what it is made of")
        if op == "number":
            require(
                isinstance(constant, str) and re.fullmatch(r"-?[0-9]{1,400}/[0-9]{1,400}", constant),
                "a number is damaged",
            )
            constant = Fraction(constant)
        else:
            require(constant is None or is_text(constant) or is_number(constant), "a term's constant is damaged")
        found.append(graph.make(op, *(found[arg] for arg in args), constant=constant))
    require(len(set(found)) == len(found), "a term stands there twice")
    return found
