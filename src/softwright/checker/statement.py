"""The statement of a certificate, read from a model file and checked as far as that needs no proof."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from flint import arb, fmpq

from softwright.checker.head import Head
from softwright.checker.parser import Parser, additive_terms, renamed, require
from softwright.checker.precision import Precision, precision_of
from softwright.checker.refusal import printable
from softwright.fileformat import ModelFile

_BOTH = (
    "schema target dtype engine norm method bound exact_part rounding_part assumptions version seconds weights_sha256"
)
ENTRIES = {
    "softwright-certificate/1": set(f"{_BOTH} domain variables order boxes tree hex lower witness p between".split()),
    "softwright-closed-form/1": set(f"{_BOTH} statement quantities".split()),
}
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


@dataclass
class Statement:
    """What is claimed. `formula` is False for targets that the file does not hold: nothing can be re-proved then."""

    parts: list[Part]
    bound: float
    precision: Precision
    order: int
    heads: int
    exponent: float | None  # of an Lp norm
    formula: bool
    assumptions: list[str]


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
    """The heads' tensors. Every name is spelt in one way only: a second spelling of a head could shadow the first."""
    names = [{kind: f"layer.heads.{i}.{kind}" for kind in ("keys", "biases", "values", "slopes")} for i in range(count)]
    known = {"center", "scale", *(name for head in names for name in head.values())}
    unknown = sorted(tensors.keys() - known)
    require(not unknown, f"unknown tensor {unknown[0] if unknown else ''!r}")
    require(tensors["center"].shape == tensors["scale"].shape == (dim,), "center and scale do not fit the variables")
    require((tensors["scale"] > 0).all(), "scale must be positive: the proof's boxes would be mirrored")
    heads = [{kind: tensors[name] for kind, name in head.items() if name in tensors} for head in names]
    m = heads[0]["values"].shape[1]
    for head in heads:
        N = len(head["biases"])
        shapes = {"keys": (N, dim), "biases": (N,), "values": (N, m), "slopes": (N, m, dim)}
        require(N and {"keys", "biases", "values"} <= head.keys(), "a head is incomplete")
        require(all(tensor.shape == shapes[kind] for kind, tensor in head.items()), "tensor shapes disagree")
    return heads


def check_frame(tensors: dict[str, np.ndarray], domain: list[tuple[fmpq, fmpq]], precision: Precision) -> None:
    """No t = (x - center) * scale of the run overflows, in variables that no head looks at either: 0 * inf is nan."""
    limit = rational(precision.largest) / 16
    for sides, middle, scale in zip(domain, tensors["center"], tensors["scale"], strict=True):
        away = [abs(x - rational(middle)) for x in sides]
        largest = max([*(abs(x) for x in sides), *away, *(x * rational(scale) for x in away)])
        require(largest < limit, f"inputs overflow in {precision.name}")


def check_subject(file: ModelFile) -> None:
    """The certificate speaks of the weights, the target and the dtype in the file, and says nothing else."""
    said, model = file.sections["certificate"], file.sections["model"]
    unknown = sorted(said.keys() - ENTRIES[said["schema"]])
    require(not unknown, f"unknown entry {unknown[0] if unknown else ''!r} in the certificate")
    require(said["weights_sha256"] == file.weights_sha256, "the weights are not the ones that were certified (SHA-256)")
    require(said["target"] == file.sections.get("target"), "the file's target is not the one that was certified")
    require(said["dtype"] == model.get("dtype", said["dtype"]), "the dtype stated is not the model's")
    for text in texts(said):
        require(text.isprintable(), f"the certificate holds control characters: {printable(text, 80)}")


def texts(content: Any) -> Iterator[str]:
    """All texts of a JSON value, keys included."""
    pending = [content]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            pending += [*value, *value.values()]
        elif isinstance(value, list):
            pending += value


def read_statement(file: ModelFile) -> Statement:
    """The statement of the certificate in a file; everything that needs no proof is checked here."""
    said, model, tensors = file.sections["certificate"], file.sections["model"], file.tensors
    require(model.keys() == {"kind", "box", "dtype", "heads"}, "the model has unknown or missing entries")
    arrays, precision = list(tensors.values()), precision_of(model["dtype"])
    require(all(str(array.dtype) == said["dtype"] for array in arrays), "tensors are not of the dtype stated")
    require(all(np.isfinite(array).all() for array in arrays), "weights hold NaN or infinite entries")
    require(
        all(np.all(np.abs(array.astype(float)) < 1e100) for array in arrays),
        "weights of 1e100 and more cannot be checked",
    )
    require(said["engine"] in ("sdpa", "factorised", "any"), f"unknown engine {said['engine']!r}")
    exponent, names, target = said.get("p"), said["variables"], said["target"]
    good_norm = exponent is None if said["norm"] == "sup" else said["norm"] == "Lp" and 1 <= exponent < math.inf
    require(good_norm, f"unknown norm {said['norm']!r} with p = {exponent!r}")
    bound, exact_part, rounding_part = (number(said, name) for name in ("bound", "exact_part", "rounding_part"))
    require(exact_part + rounding_part <= bound, "the bound is below the sum of its parts")
    require(0 <= said["lower"] <= said["exact_part"] or exponent, "the error seen exceeds the error claimed")
    if said.get("between") is not None:
        require(target["kind"] == "table", "a statement between points stands beside a target that is no table")
        whole, *pieces = (number(said["between"], name) for name in ("bound", "exact_part", "rounding_part"))
        require(sum(pieces, fmpq(0)) <= whole, "the bound between the points is below the sum of its parts")
    require(
        list(model["box"]) == names == target["variables"], "model, formula and statement order variables differently"
    )
    domain = [side(said, model, name) for name in names]
    heads = read_heads(tensors, len(model["heads"]), len(names))
    check_frame(tensors, domain, precision)
    m = heads[0]["values"].shape[1]
    formula = target["kind"] == "expression"
    outputs = Parser(target["text"], names).outputs() if formula else [("number", fmpq(0))] * m
    require(len(outputs) == m, f"the formula has {len(outputs)} outputs, the network {m}")
    terms = [(o, *term) for o, node in enumerate(outputs) for term in additive_terms(node)]

    # A plain proof is one part that holds everything.
    all_used = {"heads": list(range(len(heads))), "terms": list(range(len(terms)))}
    whole = {**said, **all_used, "variables": names, "constant": [0.0] * m}
    specs = said["tree"] if isinstance(said["tree"], list) else [whole]
    require(exponent is None or len(specs) == 1, "an Lp statement in parts cannot be checked")
    for what, wanted in all_used.items():
        require(sorted(i for spec in specs for i in spec[what]) == wanted, f"the parts do not use all {what} once")
    require(all(len(spec["constant"]) == m for spec in specs), "a part's constant does not fit the outputs")
    constants = [[rational(c) for c in spec["constant"]] for spec in specs]
    rest = max(abs(sum((constant[o] for constant in constants), fmpq(0))) for o in range(m))
    exact_sum = sum((number(spec, "exact_part") for spec in specs), rest)
    rounding_sum = sum((number(spec, "rounding_part") for spec in specs), fmpq(0))
    require(exact_sum <= exact_part and rounding_sum <= rounding_part, "the parts' bounds exceed the statement")
    trees = [None if spec["tree"] is None else decode(spec["tree"]) for spec in specs]
    leaves = sum(tree.count(255) for tree in trees if tree is not None)
    # Points of a table, and cells between them, are counted as boxes without a tree.
    counted = leaves == said["boxes"] or not (formula or leaves)
    require(counted, f"{said['boxes']} boxes are stated, the tree has {leaves} leaves")

    grids = [head.get("structure") == "grid" for head in model["heads"]]
    engines = (
        [engine for engine in ("sdpa", "factorised") if said["engine"] in (engine, "any")] if any(grids) else ["sdpa"]
    )
    parts = []
    for engine, (spec, constant, tree) in product(engines, zip(specs, constants, trees, strict=True)):
        columns = [names.index(name) for name in spec["variables"]]
        require(columns and columns == sorted(set(columns)), "a part's variables are out of order")
        by_axis = [engine == "factorised" and grids[i] for i in spec["heads"]]
        sizes = [[int(n) for n in model["heads"][i]["axis_sizes"]] for i in spec["heads"]]
        parts.append(
            Part(
                heads=[
                    Head(heads[i], size if split else None, columns, precision)
                    for i, size, split in zip(spec["heads"], sizes, by_axis, strict=True)
                ],
                outputs=[[renamed(terms[i][1:], columns) for i in spec["terms"] if terms[i][0] == o] for o in range(m)],
                constant=[arb(c) for c in constant],
                exact=arb(number(spec, "exact_part")),
                rounding=arb(number(spec, "rounding_part")),
                tree=tree,
                domain=([domain[i][0] for i in columns], [domain[i][1] for i in columns]),
                center=[rational(tensors["center"][i]) for i in columns],
                scale=[rational(tensors["scale"][i]) for i in columns],
                columns=columns,
            )
        )
    return Statement(parts, said["bound"], precision, said["order"], len(heads), exponent, formula, said["assumptions"])


def side(said: dict[str, Any], model: dict[str, Any], name: str) -> tuple[fmpq, fmpq]:
    """One side of the domain, which must lie in the model's box."""
    low, high = (float.fromhex(text) for text in said["hex"]["domain"][name])
    require([low, high] == said["domain"][name] and math.isfinite(high - low), f"the domain of {name} is damaged")
    require(
        model["box"][name][0] <= low < high <= model["box"][name][1], f"the domain of {name} leaves the model's box"
    )
    return rational(low), rational(high)
