"""The statement of a certificate, read from a model file and checked as far as that needs no proof."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from flint import arb, fmpq

from softwright.checker.claims import LARGEST_TREE, decode
from softwright.checker.entries import (
    Test,
    at_least_zero,
    check_entries,
    is_count,
    is_digest,
    is_number,
    is_object,
    is_promise,
    is_size,
    is_text,
    list_of,
)
from softwright.checker.head import Head
from softwright.checker.parser import CONSTANTS, NAME, Parser, additive_terms, renamed, require
from softwright.checker.precision import Precision, as_run
from softwright.checker.refusal import printable
from softwright.checker.subject import PROVED
from softwright.fileformat import ModelFile

PART: dict[str, Test] = {
    **PROVED,
    **dict.fromkeys(("heads", "terms"), list_of(is_count)),
    "tree": lambda value: value is None or is_text(value),
    "constant": list_of(is_number),
}
BETWEEN: dict[str, Test] = {
    **dict.fromkeys(("bound", "exact_part", "rounding_part", "lower", "seconds"), at_least_zero),
    "witness": list_of(is_number),
    "boxes": is_count,
    "hex": is_object,
}
ENGINES = ("sdpa", "factorised", "double")
MODEL: dict[str, Test] = {
    "kind": is_text,
    "box": is_object,
    "dtype": is_text,
    "heads": list_of(is_object),
    "engine": lambda value: value in ENGINES,
}
HEAD: dict[str, Test] = {
    "structure": lambda value: value in ("scattered", "grid", "gates"),
    "axis_sizes": list_of(is_size),
}
_OF_VARIABLES: dict[str, Test] = {"kind": is_text, "variables": list_of(is_text)}
_TABLE: dict[str, Test] = {
    **_OF_VARIABLES,
    **dict.fromkeys(("outputs", "points"), is_size),
    "grid": lambda value: value is None or list_of(is_size)(value),
    "sha256": is_digest,
}
TARGETS: dict[str, dict[str, Test]] = {  # kind of target -> its entries, for proofs by boxes and at points
    "expression": {**_OF_VARIABLES, "text": is_text},
    "function": {
        **_OF_VARIABLES,
        "name": is_text,
        "outputs": is_size,
        **dict.fromkeys(("lipschitz", "second_derivative"), is_promise),
    },
    "table": _TABLE,
    "interpolant": _TABLE,
}
# Names that no formula may use for a variable, whatever it does with them: who loads the file refuses them.
NO_VARIABLES = frozenset(
    ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "log", "sqrt", "abs", "sign", "erf")
) | {"min", "max", "where", "and", "or", "not", "if", "else", "pi", "e"}
NARROWEST = 1e-290  # side of a box that can still be scaled
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
    grids: list[list[int] | None]  # for each head the sizes of its axes in these variables, if it is said to be a grid

    @property
    def frame(self) -> np.ndarray:
        """How often each variable is rounded in (x - center) * scale: differences from 0 and products with powers of
        two are exact."""
        powers = [math.frexp(float(arb(s)))[0] == 0.5 and rational(float(arb(s))) == s for s in self.scale]
        return np.array([float(c != 0) + float(not power) for c, power in zip(self.center, powers, strict=True)])


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


def number(data: dict[str, Any], name: str) -> fmpq:
    """A number >= 0 of the statement, whose decimal and hexadecimal forms must agree."""
    require(at_least_zero(data[name]) and data["hex"][name] == float(data[name]).hex(), f"{name} is damaged")
    return rational(data[name])


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


def read_statement(file: ModelFile) -> Statement:
    """The statement of the certificate in a file; everything that needs no proof is checked here."""
    said, model, tensors = file.sections["certificate"], file.sections["model"], file.tensors
    check_entries(model, MODEL, "the model", ("engine",))
    arrays, precision = list(tensors.values()), as_run(model["dtype"], said["engine"])
    require(all(str(array.dtype) == said["dtype"] for array in arrays), "tensors are not of the dtype stated")
    require(all(np.isfinite(array).all() for array in arrays), "weights hold NaN or infinite entries")
    require(
        all(np.all(np.abs(array.astype(float)) < 1e100) for array in arrays),
        "weights of 1e100 and more cannot be checked",
    )
    require(said["engine"] in (*ENGINES, "any"), f"unknown engine {said['engine']!r}")
    # What the network runs by unless a call says otherwise; the first two compute in its dtype, and "any" means both.
    own = model.get("engine", "sdpa")
    alike = own == said["engine"] if "engine" in model and said["engine"] != "any" else True
    require(alike and (own == "double") == (said["engine"] == "double"), f"the network runs by engine {own!r}")
    exponent, names, target = said.get("p"), said["variables"], said["target"]
    norms = {"sup": exponent is None, "Lp": is_number(exponent) and exponent >= 1}
    require(norms.get(said["norm"]), f"unknown norm {said['norm']!r} with p = {exponent!r}")
    bound, exact_part, rounding_part = (number(said, name) for name in ("bound", "exact_part", "rounding_part"))
    require(exact_part + rounding_part <= bound, "the bound is below the sum of its parts")
    if said.get("between") is not None:
        require(target["kind"] == "table", "a statement between points stands beside a target that is no table")
        check_entries(said["between"], BETWEEN, "what is said between points")
        whole, *pieces = (number(said["between"], name) for name in ("bound", "exact_part", "rounding_part"))
        require(sum(pieces, fmpq(0)) <= whole, "the bound between the points is below the sum of its parts")
        check_seen(said["between"], len(names))
    require(
        list(model["box"]) == names == target["variables"], "model, formula and statement order variables differently"
    )
    require(said["domain"].keys() == said["hex"]["domain"].keys() == set(names), "the domain has other variables")
    require(said["hex"].keys() == {"bound", "exact_part", "rounding_part", "domain"}, "hex has unknown entries")
    check_seen({**said, "lower": 0.0 if exponent else said["lower"]}, len(names))
    domain = [side(said, model, name) for name in names]
    heads = read_heads(tensors, len(model["heads"]), len(names))
    for shape, head in zip(model["heads"], heads, strict=True):
        check_axes(shape, len(head["biases"]), len(names))
    check_frame(tensors, domain, precision)
    m = heads[0]["values"].shape[1]
    formula = target["kind"] == "expression"
    check_target(target, m, said)
    check_names(names, formula)
    outputs = Parser(target["text"], names).outputs() if formula else [("number", fmpq(0))] * m
    require(len(outputs) == m, f"the formula has {len(outputs)} outputs, the network {m}")
    terms = [(o, *term) for o, node in enumerate(outputs) for term in additive_terms(node)]

    # A plain proof is one part that holds everything.
    all_used = {"heads": list(range(len(heads))), "terms": list(range(len(terms)))}
    whole = {**said, **all_used, "variables": names, "constant": [0.0] * m}
    specs = said["tree"] if isinstance(said["tree"], list) else [whole]
    for spec in specs if specs is said["tree"] else []:
        check_part(spec)
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
    require(sum(len(tree or b"") for tree in trees) <= LARGEST_TREE, f"the trees have more than {LARGEST_TREE} nodes")
    leaves = sum(tree.count(255) for tree in trees if tree is not None)
    # Points of a table, and cells between them, are counted as boxes without a tree.
    counted = leaves == said["boxes"] or not (formula or leaves)
    require(counted, f"{said['boxes']} boxes are stated, the tree has {leaves} leaves")

    grids = [head.get("structure") == "grid" for head in model["heads"]]
    by_axes = [split for split in (False, True) if said["engine"] in ("any", ("sdpa", "factorised")[split])]
    by_axes = (by_axes if any(grids) else []) or [False]  # "double" is the dense engine
    parts = []
    for axes, (spec, constant, tree) in product(by_axes, zip(specs, constants, trees, strict=True)):
        columns = [names.index(name) for name in spec["variables"]]
        require(columns and columns == sorted(set(columns)), "a part's variables are out of order")
        by_axis = [axes and grids[i] for i in spec["heads"]]
        sizes = [model["heads"][i]["axis_sizes"] for i in spec["heads"]]
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
                grids=[
                    axes_within(size, columns, len(names)) if grids[i] else None
                    for i, size in zip(spec["heads"], sizes, strict=True)
                ],
            )
        )
    return Statement(parts, said["bound"], precision, said["order"], len(heads), exponent, formula, said["assumptions"])


def axes_within(sizes: list[int], columns: list[int], dim: int) -> list[int] | None:
    """The axes along some of the variables, if those along the others have one token each."""
    if len(sizes) != dim or any(size != 1 for i, size in enumerate(sizes) if i not in columns):
        return None
    return [sizes[i] for i in columns]


def check_target(target: dict[str, Any], outputs: int, said: dict[str, Any]) -> None:
    """The target has the entries of its kind, and fits the network."""
    if target["kind"] in TARGETS:
        check_entries(target, TARGETS[target["kind"]], "the target")
    require(target.get("outputs", outputs) == outputs, f"the target has {target.get('outputs')} outputs")
    few = target["kind"] != "table" or said["boxes"] <= target["points"]
    require(few, "more points are stated than the table has")


def check_seen(data: dict[str, Any], dim: int) -> None:
    """What was seen of the error is no more than what is claimed, at a point of the domain."""
    require(0 <= data["lower"] <= data["exact_part"], "the error seen exceeds the error claimed")
    require(len(data["witness"]) in (0, dim), "the witness is no point of the domain")


def check_names(names: list[str], formula: bool = True) -> None:
    """Variables that a box can have, and a formula use, each once."""
    require(names and len(set(names)) == len(names), "a variable is named twice, or none is")
    for name in names:
        taken = (name in NO_VARIABLES or name.startswith("__")) if formula else name in CONSTANTS
        usable = NAME.fullmatch(name) and not taken
        require(usable, f"a variable cannot be called {printable(name, 80)!r}")


def check_axes(shape: dict[str, Any], tokens: int, dim: int) -> None:
    """What the model says of a head fits its tensors."""
    check_entries(shape, HEAD, "a head of the model")
    sizes = shape["axis_sizes"]
    require(not sizes or math.prod(sizes) == tokens, f"axes of {sizes} tokens do not make the {tokens} of their head")
    require(shape["structure"] != "grid" or len(sizes) == dim, f"a grid of {dim} variables has {len(sizes)} axes")


def check_part(spec: dict[str, Any]) -> None:
    """A part of a proof: its entries, and the numbers that stand there twice."""
    check_entries(spec, PART, "a part of the proof")
    require(spec["hex"].keys() == {"exact_part", "rounding_part", "constant"}, "hex of a part has unknown entries")
    require(spec["hex"]["constant"] == [float(c).hex() for c in spec["constant"]], "a part's constant is damaged")


def side(said: dict[str, Any], model: dict[str, Any], name: str) -> tuple[fmpq, fmpq]:
    """One side of the domain, which must lie in the model's box."""
    sides = said["domain"][name], model["box"][name]
    require(all(len(ends) == 2 and list_of(is_number)(ends) for ends in sides), f"the domain of {name} is damaged")
    (low, high), (least, most) = sides
    require(said["hex"]["domain"][name] == [float(low).hex(), float(high).hex()], f"the domain of {name} is damaged")
    require(least <= low < high <= most, f"the domain of {name} leaves the model's box")
    require(high - low >= NARROWEST and math.isfinite(most - least), f"the domain of {name} cannot be scaled")
    return rational(low), rational(high)
