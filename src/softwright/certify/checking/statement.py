"""The statement of a certificate, read from a model file and checked as far as that needs no proof."""

from __future__ import annotations

import base64
import math
import re
import zlib
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from flint import arb, fmpq

from softwright.certify.checking.head import UNIT, Head
from softwright.certify.checking.parser import Parser, additive_terms, renamed, require
from softwright.fileformat import read_model

SCHEMA = "softwright-certificate/1"
LARGEST_TREE = 64 * 2**20  # nodes
Box = tuple[list[fmpq], list[fmpq]]


@dataclass
class Part:
    """One summand of the proof; a plain proof has one. `outputs` holds the signed terms of each output."""

    heads: list[Head]
    outputs: list[list[tuple[int, Any]]]
    constant: list[arb]
    exact: arb
    rounding: arb
    tree: bytes | None
    domain: Box
    center: list[fmpq]
    scale: list[fmpq]
    columns: list[int]


def rational(x: Any) -> fmpq:
    return fmpq(*float(x).as_integer_ratio())


def decode(text: str) -> bytes:
    unpacker = zlib.decompressobj()
    tree = unpacker.decompress(base64.b64decode(text, validate=True), LARGEST_TREE)
    require(unpacker.eof and not unpacker.unused_data, "the proof tree is damaged or too large")
    return tree


def number(data: dict[str, Any], name: str) -> fmpq:
    """A number >= 0 of the statement, whose decimal and hexadecimal forms must agree."""
    value = float.fromhex(data["hex"][name])
    require(value == data[name] and math.isfinite(value) and value >= 0, f"{name} is damaged")
    return rational(value)


def read_heads(tensors: dict[str, np.ndarray], count: int, dim: int) -> list[dict[str, np.ndarray]]:
    heads: list[dict[str, np.ndarray]] = [{} for _ in range(count)]
    require(tensors["center"].shape == tensors["scale"].shape == (dim,), "center and scale do not fit the variables")
    for name in tensors.keys() - {"center", "scale"}:
        match = re.fullmatch(r"layer\.heads\.(\d+)\.(keys|biases|values|slopes)", name)
        require(match is not None, f"unknown tensor {name!r}")
        if match:
            heads[int(match[1])][match[2]] = tensors[name]
    m = heads[0]["values"].shape[1]
    for head in heads:
        N = len(head["biases"])
        shapes = {"keys": (N, dim), "biases": (N,), "values": (N, m), "slopes": (N, m, dim)}
        require(N and {"keys", "biases", "values"} <= head.keys(), "a head is incomplete")
        require(all(tensor.shape == shapes[kind] for kind, tensor in head.items()), "tensor shapes disagree")
    return heads


def read_statement(path: str | Path) -> tuple[list[Part], dict[str, Any], int, str]:
    """The parts to prove, the certificate, and what keeps it from being re-proved; all that needs no proof is checked."""
    file = read_model(path)
    require("certificate" in file.sections, "the file holds no certificate; certify the network and save it again")
    said, model, tensors = file.sections["certificate"], file.sections["model"], file.tensors
    require(said["schema"] == SCHEMA, f"unknown certificate schema {said['schema']!r}")
    require(said["weights_sha256"] == file.weights_sha256, "the weights are not the ones that were certified (SHA-256)")
    require(said["target"] == file.sections.get("target"), "the file's target is not the one that was certified")
    require(said["dtype"] in UNIT and said["dtype"] == model["dtype"], "the dtype stated is not the model's")
    require(
        all(str(tensor.dtype) == said["dtype"] for tensor in tensors.values()), "tensors are not of the dtype stated"
    )
    require(all(np.isfinite(tensor).all() for tensor in tensors.values()), "weights hold NaN or infinite entries")
    require(said["engine"] in ("sdpa", "factorised", "any"), f"unknown engine {said['engine']!r}")
    exponent = said.get("p")
    good_norm = exponent is None if said["norm"] == "sup" else said["norm"] == "Lp" and 1 <= exponent < math.inf
    require(good_norm, f"unknown norm {said['norm']!r} with p = {exponent!r}")
    bound, exact_part, rounding_part = (number(said, name) for name in ("bound", "exact_part", "rounding_part"))
    require(exact_part + rounding_part <= bound, "the bound is below the sum of its parts")
    names, low, high = said["variables"], [], []
    require(
        sorted(names) == sorted(said["domain"]) == sorted(model["box"]), "domain and model name different variables"
    )
    for name in names:
        ends, side = [float.fromhex(text) for text in said["hex"]["domain"][name]], model["box"][name]
        good = ends == said["domain"][name] and side[0] <= ends[0] < ends[1] <= side[1]
        require(good and math.isfinite(ends[1] - ends[0]), f"the domain of {name} is damaged or leaves the model's box")
        low.append(rational(ends[0]))
        high.append(rational(ends[1]))
    heads = read_heads(tensors, len(model["heads"]), len(names))
    m = heads[0]["values"].shape[1]
    target, everything = said["target"], {"variables": names, "heads": list(range(len(heads))), "constant": [0.0] * m}
    if target["kind"] != "expression":
        outputs: list[Any] = [("number", fmpq(0))] * m
    else:
        require(target["variables"] == names, "formula and statement order the variables differently")
        outputs = Parser(target["text"], names).outputs()
    require(len(outputs) == m, f"the formula has {len(outputs)} outputs, the network {m}")
    terms = [(o, *term) for o, node in enumerate(outputs) for term in additive_terms(node)]
    everything["terms"] = list(range(len(terms)))
    specs = said["tree"] if isinstance(said["tree"], list) else [{**said, **everything}]
    require(exponent is None or len(specs) == 1, "an Lp statement in parts cannot be checked")
    for what in ("heads", "terms"):
        require(
            sorted(i for spec in specs for i in spec[what]) == everything[what], f"the parts do not use all {what} once"
        )
    numbers = [
        (number(s, "exact_part"), number(s, "rounding_part"), [rational(c) for c in s["constant"]]) for s in specs
    ]
    rest = max(abs(sum((c[o] for _, _, c in numbers), fmpq(0))) for o in range(m))
    require(sum((e for e, _, _ in numbers), rest) <= exact_part, "the parts' exact bounds exceed the statement")
    require(
        sum((r for _, r, _ in numbers), fmpq(0)) <= rounding_part, "the parts' rounding bounds exceed the statement"
    )
    grids = [head.get("structure") == "grid" for head in model["heads"]]
    engines = {"any": ["sdpa", "factorised"]}.get(said["engine"], [said["engine"]]) if any(grids) else ["sdpa"]
    parts = []
    for engine, (spec, (e, r, constant)) in product(engines, zip(specs, numbers, strict=True)):
        columns = [names.index(name) for name in spec["variables"]]
        require(columns and columns == sorted(set(columns)), "a part's variables are out of order")
        made = []
        for i in spec["heads"]:
            sizes = [int(n) for n in model["heads"][i]["axis_sizes"]] if engine == "factorised" and grids[i] else None
            made.append(Head(heads[i], sizes, columns, said["dtype"]))
        own = [[renamed(terms[i][1:], columns) for i in spec["terms"] if terms[i][0] == o] for o in range(m)]
        require(len(constant) == m, "a part's constant does not fit the outputs")
        parts.append(Part(
            made, own, [arb(c) for c in constant], arb(e), arb(r), None if spec["tree"] is None else decode(spec["tree"]),
            ([low[i] for i in columns], [high[i] for i in columns]), [rational(tensors["center"][i]) for i in columns],
            [rational(tensors["scale"][i]) for i in columns], columns,
        ))  # fmt: skip
    return parts, said, len(heads), "" if target["kind"] == "expression" else f"the target is a {target['kind']}"
