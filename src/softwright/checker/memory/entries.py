"""What a memory's file must hold before anything is proved of it, and what it may say of itself.

Tensors have exact names, types and shapes: N items, V tokens with codes of e numbers, n places, rank s, width
d = e + 2 + s, ids of r numbers, labels of m. Statement and target are the sentences that the checker would write
itself; the one number left to the builder is that of the sequences given, which may have had repetitions.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from softwright.checker.entries import Test, check_entries, is_flag, is_float, is_object, is_text, same
from softwright.checker.precision import rows
from softwright.checker.refusal import require
from softwright.fileformat import InParts, ModelFile, parse_json

MODEL: dict[str, Test] = {
    "kind": is_text,
    "dtype": is_text,
    "reading": is_object,
    "readout": lambda value: value in ("attention", "feedforward"),
    "labels": lambda value: value in ("values", "classes"),
    "tokenizer": lambda value: value in (None, "whitespace", "bytes", "huggingface"),
}
READING: dict[str, Test] = {
    "positional": is_flag,
    "mode": lambda value: value in ("sequence", "token"),
    "causal": is_flag,
}
NAMES = {
    "sequence": re.compile(r"recall of ([1-9][0-9]*) labelled sequences"),
    "token": re.compile(r"recall of the tokens of ([1-9][0-9]*) sequences"),
}
CLOSE = 1e-6  # relative: two proofs by the same formula, one in balls, round differently
TINY = 1e-290  # masses that underflow are stated as the smallest normal numbers, one for each key


@dataclass(frozen=True)
class InShards(InParts):
    """A tensor in parts, any of which can be asked for."""

    part: Callable[[int], np.ndarray]


def parts_of(tensor: np.ndarray | InParts) -> Iterable[np.ndarray]:
    """The rows of a tensor: shard by shard, or all at once."""
    return tensor.parts() if isinstance(tensor, InParts) else (tensor,)


def check_memory(file: ModelFile) -> None:
    """Model, tensors, texts, target and statement fit each other."""
    model, tensors = file.sections["model"], file.tensors
    check_entries(model, MODEL, "the model")
    check_entries(model["reading"], READING, "how sequences are read")
    reading = model["reading"]
    require(not reading["causal"] or reading["mode"] == "token", "whole sequences are not read looking back only")
    check_tensors(tensors, model)
    check_texts(tensors, model)
    check_statement(file, tensors["readout.keys"].shape[0])


def check_tensors(tensors: dict[str, np.ndarray], model: dict[str, Any]) -> None:
    """Exactly the tensors of such a memory, in its dtype and in shapes that fit."""
    (V, e), (s, d), N = tensors["head.codes"].shape, tensors["head.W_V"].shape, tensors["readout.keys"].shape[0]
    n, r, m = len(tensors["head.log_weights"]), len(tensors["head.W_I"]), tensors["readout.values"].shape[1]
    require(d == e + 2 + s and min(N, s, r, m) > 0, "the sizes of codes and weights do not fit")
    places, known = len(tensors["head.place_codes"]), len(tensors["head.vocabulary"])
    shapes = {
        **{"head.codes": (V, e), "head.vocabulary": (V if known else 0,), "head.log_weights": (n,)},
        **{"head.place_codes": (n if places else 0, e), "head.sentinel": (1,), "head.reach": (e,)},
        **{"head.W_Q": (1, d), "head.W_K": (1, d), "head.W_V": (s, d), "head.W_O": (d, s), "head.W_I": (r, d)},
        **{"readout.keys": (N, r), "readout.values": (N, m), "radii": (2,), "gap": (1,)},
        **{name: (tensors[name].size,) for name in ("class_text", "tokenizer_text")},
    }
    if model["readout"] == "attention":
        shapes |= {"readout.halves": (N,), "readout.beta": (1,)}
    else:
        require(r == 1, "relus read ids on a line")
        shapes |= {"readout.slopes": (N - 1,), "readout.offsets": (N - 1,)}
    odd = sorted(tensors.keys() ^ shapes.keys())
    require(not odd, f"unknown or missing tensor {odd[0] if odd else ''!r}")
    types = {"radii": "float64", "gap": "float64", "class_text": "uint8", "tokenizer_text": "uint8"}
    for name, shape in shapes.items():
        tensor = tensors[name]
        require(tensor.shape == shape, f"the shape of {name} does not fit the others")
        kinds = ("int32", "int64") if name == "head.vocabulary" else (types.get(name, model["dtype"]),)
        require(str(tensor.dtype) in kinds, f"{name} is of type {tensor.dtype}")
        finite = tensor.dtype.kind != "f" or all(np.isfinite(part).all() for part in parts_of(tensor))
        require(finite, f"a weight is not finite in {name}")
    words = tensors["head.vocabulary"]  # compared, not subtracted: a difference of 64-bit numbers may not be one
    require((words[1:] > words[:-1]).all(), "the vocabulary does not ascend")


def check_texts(tensors: dict[str, np.ndarray], model: dict[str, Any]) -> None:
    """The classes that labels name are there, and what the tokenizer needs."""
    classes, words = (tensors[name].tobytes() for name in ("class_text", "tokenizer_text"))
    values = tensors["readout.values"]
    if model["labels"] == "classes":
        names = parse_json(classes.decode())
        require(isinstance(names, list), "the classes are no list")
        require(values.shape[1] == 1, "a class is one number")
        for part in parts_of(values):
            require(((part >= 0) & (part < len(names))).all(), "a class is not there")
            require((part == np.rint(part)).all(), "a class is no whole number")
    else:
        require(not classes, "classes stand beside labels that are numbers")
    if model["tokenizer"] == "whitespace":
        known = parse_json(words.decode())
        good = isinstance(known, list) and all(isinstance(word, str) for word in known)
        require(good and len(set(known)) == len(known), "the tokenizer's words are damaged")
    elif model["tokenizer"] == "huggingface":
        require(isinstance(json.loads(words), dict), "the tokenizer's file is damaged")
    else:
        require(not words, "there is a text for a tokenizer that needs none")


def check_statement(file: ModelFile, count: int) -> None:
    """Target and statement are those of such a memory of `count` items, and their words are the checker's own."""
    said, model = file.sections["certificate"], file.sections["model"]
    reading, target = model["reading"], said["target"]
    longest = len(file.tensors["head.log_weights"])
    wanted = {"kind": "sequences", "name": target.get("name"), "items": count, "longest": longest}
    require(same(target, {**wanted, **reading, "labels": model["labels"]}), "the target is not what the tensors hold")
    given = NAMES[reading["mode"]].fullmatch(str(target["name"]))
    require(given, "the name of the target is another one")
    if given and reading["mode"] == "sequence":  # repeated sequences are stored once
        require(int(given[1]) >= count, f"{given[1]} sequences cannot have made {count} items")
    kind = "sequences" if reading["mode"] == "sequence" else "tokens in context"
    error = " (error of the class index, exact below 1/2)" if model["labels"] == "classes" else ""
    statement = f"every input whose id is one of the {count} stored ids of {kind} recalls the label stored with that id"
    before = f"every one of the {count} stored {kind} recalls its own label"  # of files of version 1
    require(said["statement"] in (statement + error, before + error), f"the statement should read: {statement}{error}")
    accuracy = ", ".join(f"{row.exp_ulps} ulp in {row.name}" for row in rows())
    sentences = {
        "method": "margin of context ids against proved rounding",
        "engine": "dense and pruned",
        "norm": "sup",
        "assumptions": ["IEEE 754 arithmetic, rounded to nearest", f"exp accurate to {accuracy}"],
    }
    for name, words in sentences.items():
        require(said[name] == words, f"the {name} of such a memory reads: {words}")


def parameters(tensors: dict[str, np.ndarray]) -> int:
    """All numbers of both layers and of the embedding."""
    counted = [name for name in tensors if name.startswith("head.") and name != "head.vocabulary"]
    names = ("slopes", "offsets", "values") if "readout.slopes" in tensors else ("keys", "halves", "values", "beta")
    return sum(math.prod(tensors[name].shape) for name in (*counted, *(f"readout.{name}" for name in names)))


def check_quantities(given: dict[str, Any], tensors: dict[str, np.ndarray], found: dict[str, float]) -> None:
    """The numbers beside the statement are what they are called.

    `found` was computed here. Sizes must be equal; errors may be stated larger, margins smaller, by a factor of two.
    """
    (s, d), n, N = tensors["head.W_V"].shape, len(tensors["head.log_weights"]), tensors["readout.keys"].shape[0]
    sizes = {
        "items": N,
        "rank": s,
        "gap": float(tensors["gap"][0]),
        "parameters": parameters(tensors),
        "paper_parameters": 4 * (s + d) + d * (2 * n * N + d),
        **({"beta": float(tensors["readout.beta"][0])} if "readout.beta" in tensors else {}),
    }
    names = {*sizes, *found, "label_rounding"}
    check_entries(given, dict.fromkeys(names, is_float), "the quantities")
    for name, size in sizes.items():
        require(given[name] == size, f"{name} is {size:g}, not {given[name]:g}")
    require(given["label_rounding"] >= 0, "the rounding of the labels is negative")
    for name, number in found.items():
        low, high = (0.5, 1 + CLOSE) if name.endswith("margin") else (1 - CLOSE, 2.0)
        require(number * low - TINY <= given[name] <= number * high + TINY, f"{name} is about {number:g}")
