"""`prove_composition`: the statement about a composed network, read strictly and proved again from the file alone.

In this order, each with what the ones before have shown:

1. the model section says what the tensors are (`weights.py` compares every entry), and the evidence is a program;
2. the program means the formula on the box, and the formula is defined there (`same.py`, `ranges.py`);
3. every table computes its function on its frame (`kinds/table.py`);
4. the errors of all heads, through the program, add up to no more than is stated (`bound.py`); of a claim about an L_p
   norm, to no more than its evidence says of the points outside of bands, from which the norm follows (`measure.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb, fmpq

from softwright.checker.claims import decode
from softwright.checker.composition.adjoints import Network
from softwright.checker.composition.bound import prove_bound
from softwright.checker.composition.jumps import Bands, has_steps, sentence
from softwright.checker.composition.kinds.catalogue import GATES
from softwright.checker.composition.kinds.gates import Run
from softwright.checker.composition.kinds.kind import Kind
from softwright.checker.composition.kinds.table import Frame, TableFeature, prove_table
from softwright.checker.composition.measure import (
    Outside,
    claimed_of,
    exponent_of,
    prove_norm,
    read_outside,
    relaxed_stream,
    sentence_of_norm,
)
from softwright.checker.composition.model import check_model
from softwright.checker.composition.program import Feature, Program, read_program
from softwright.checker.composition.ranges import MOST_WORK, Ranges
from softwright.checker.composition.rows import Columns, Row
from softwright.checker.composition.same import limited, prove_defined, prove_same, prove_texts
from softwright.checker.composition.weights import Weights, read_weights
from softwright.checker.entries import (
    Test,
    at_least_zero,
    check_entries,
    is_count,
    is_object,
    is_text,
    list_of,
)
from softwright.checker.parser import Parser
from softwright.checker.precision import Precision, precision_of
from softwright.checker.proved import Proved, compare
from softwright.checker.refusal import printable, require
from softwright.checker.statement import TARGETS, check_names, rational, side
from softwright.checker.trust import premises
from softwright.fileformat import ModelFile

SENTENCE = "every output of the network is within the bound of the formula's, at every point of the box"
METHOD = "errors of heads times interval adjoints on boxes"
TABLE: dict[str, Test] = {
    "features": list_of(is_text),
    **dict.fromkeys(("center", "halfwidth"), is_text),
    "proofs": list_of(is_object),
}
PROOF: dict[str, Test] = {
    **dict.fromkeys(("exact", "rounding"), at_least_zero),
    "order": is_count,
    "tree": is_text,
}
LARGEST_TREE, LONGEST_FRACTION = 50_000, 200
WORK_OF_LIMIT = 2_000_000  # to show that the argument of one table stays in its frame


def prove_composition(file: ModelFile, progress: Callable[[int], None]) -> int:
    """Prove the statement in the file again; returns the number of boxes, or raises NotProvedError."""
    said, model = file.sections["certificate"], file.sections["model"]
    target, names = said["target"], said["variables"]
    precision = precision_of(said["dtype"])
    check_entries(target, TARGETS["expression"], "the target")
    require(target["kind"] == "expression", "a composed network is compared with a formula")
    require(names == target["variables"] == model.get("variables"), "variables are named in another order elsewhere")
    check_names(names)
    program = read_program(said["parts"], names)
    groups, frames = read_tables(said["parts"]["tables"], program)
    weights = read_weights(file.tensors, program, groups, precision.name)
    shapes = {name: array.shape for name, array in file.tensors.items()}
    texts = check_model(model, program, weights, shapes, precision.name)
    lower, upper = read_domain(said, model, names, precision)
    formula, exponent = Parser(target["text"], names).outputs(), exponent_of(said["norm"])
    outside = _outside(said, exponent)
    require(len(formula) == len(program.outputs), f"the formula has {len(formula)} outputs, the network another number")
    check_said(said, program, weights, precision, exponent)

    ranges, meanings = Ranges(names, lower, upper), [feature.meaning for feature in program.features]
    prove_defined(formula, ranges)
    require(outside.bands is not None or not has_steps(program.features), "steps are proved outside of bands alone")
    gap, bands, meant = 0.0, None, formula
    if outside.bands is not None:
        bands = Bands(outside.bands, names, ranges)
        gap, meant = bands.gap, [bands.rewritten(tree) for tree in formula]
        prove_defined(meant, ranges)  # both sides of every jump
        bands.prove_steps(program, ranges.stream(meanings))
    ranges.grant(MOST_WORK)
    prove_same(meant, meanings, [form.tree for form in program.outputs], ranges)
    ranges.grant(MOST_WORK)
    prove_texts(texts, meanings, ranges)
    boxes = 0
    for table in weights.tables:
        for q, place in enumerate(table.features):
            function = program.features[place - program.inputs].function
            boxes += prove_table(table, q, function, frames[place], precision)
            progress(boxes)
    network = bound_network(program, weights, frames, precision, gap)
    asked, stream = ranges, ranges.stream(meanings)
    if exponent is not None and bands is not None:
        asked, stream = relaxed_stream(program, gap, names, (lower, upper))

    def limit(feature: Feature) -> bool:
        return feature.kind == "table" and _limited(network, feature, asked, asked.dag.tree(feature.score.tree, stream))

    boxes += prove_bound(network, lower, upper, claimed_of(outside), limit, lambda done: progress(boxes + done))
    if exponent is not None:
        boxes += prove_norm(said, outside, exponent, formula, bands, network, ranges)
    return boxes


def _outside(said: dict[str, Any], exponent: int | None) -> Outside:
    """What is left out of the claim, or of what its norm rests on, and the bound of the rest."""
    if exponent is not None:
        require("outside" not in said, "a norm is one over the whole box")
        return read_outside(said["parts"].get("bands", []))
    require("bands" not in said["parts"], "a claim in the sup norm says in its set which bands it leaves out")
    return Outside(said.get("outside"), said["exact_part"], said["rounding_part"])


def check_said(
    said: dict[str, Any], program: Program, weights: Weights, precision: Precision, exponent: int | None
) -> None:
    """All that the statement says beside its numbers."""
    facts = {"layers": program.depth, "heads": weights.heads, "tokens": weights.tokens}
    words = tuple(premises(said["target"], {}, {}, precision))
    text = SENTENCE if said.get("outside") is None else sentence(SENTENCE, said["outside"])
    wanted = Proved(
        statement=text if exponent is None else sentence_of_norm(exponent),
        norm="sup" if exponent is None else f"L{exponent}",
        exact=arb(0),
        rounding=None,
        method=METHOD,
        engine="sdpa",
        quantities={name: arb(count) for name, count in facts.items()},
        assumptions=words,
    )
    compare(said, wanted)
    require(all(said["quantities"][name] == count for name, count in facts.items()), "a count is not the network's")


def read_domain(
    said: dict[str, Any], model: dict[str, Any], names: list[str], precision: Precision
) -> tuple[np.ndarray, np.ndarray]:
    """The box of the claim, a part of the model's."""
    require(said["domain"].keys() == said["hex"]["domain"].keys() == set(names), "the domain has other variables")
    require(said["hex"].keys() == {"domain"}, "hex has unknown entries")
    require(list(model["box"]) == names, "the model's box has other variables")
    sides = [side(said, model, name) for name in names]
    limit = rational(precision.largest) / 2**20
    require(all(max(abs(a), abs(b)) < limit for a, b in sides), f"inputs overflow in {precision.name}")
    return np.array([float(said["domain"][n][0]) for n in names]), np.array(
        [float(said["domain"][n][1]) for n in names]
    )


def read_tables(entries: list[Any], program: Program) -> tuple[list[tuple[int, ...]], dict[int, Frame]]:
    """The features that share a head, and the frame of each."""
    places = {feature.name: feature.place for feature in program.features if feature.kind == "table"}
    groups: list[tuple[int, ...]] = []
    frames: dict[int, Frame] = {}
    for entry in entries:
        check_entries(entry, TABLE, "a table")
        require(
            entry["features"] and len(entry["features"]) == len(entry["proofs"]), "a table has a proof for each feature"
        )
        unknown = [name for name in entry["features"] if name not in places]
        require(not unknown, f"{printable(unknown[0], 80) if unknown else ''} is no table of the program")
        group = tuple(places[name] for name in entry["features"])
        require(len({program.layer_of(place) for place in group}) == 1, "a table stands in several layers")
        center, halfwidth = fraction(entry["center"]), fraction(entry["halfwidth"])
        require(halfwidth > 0, "the halfwidth of a frame is not positive")
        for place, proof in zip(group, entry["proofs"], strict=True):
            require(place not in frames, "two tables are the same feature")
            check_entries(proof, PROOF, "the proof of a table")
            tree = decode(proof["tree"], LARGEST_TREE)
            frames[place] = Frame(center, halfwidth, proof["exact"], proof["rounding"], proof["order"], tree)
        groups.append(group)
    require(frames.keys() == set(places.values()), "a table of the program has no proof")
    return groups, frames


def fraction(text: str) -> fmpq:
    """An exact rational number, p or p/q in lowest terms."""
    top, _, bottom = text.partition("/")
    whole = top.removeprefix("-")
    digits = whole.isascii() and whole.isdigit() and (not bottom or (bottom.isascii() and bottom.isdigit()))
    require(
        digits and len(text) <= LONGEST_FRACTION and int(bottom or 1) > 0, "a frame is not made of rational numbers"
    )
    found = fmpq(int(top), int(bottom or 1))
    require(text == str(found), "a frame is not spelt in lowest terms")
    return found


def bound_network(
    program: Program, weights: Weights, frames: dict[int, Frame], precision: Precision, gap: float = 0.0
) -> Network:
    """Every feature bound to its heads, in order: what it reads is known in columns then."""
    columns, run = Columns(program.inputs, len(program.features)), Run(precision, weights.fixed, gap)
    heads = {place: table for table in weights.tables for place in table.features}
    kinds: list[Kind] = []
    for feature in program.features:
        kind: Kind
        if feature.kind == "table":
            kind = TableFeature(feature, heads[feature.place], frames[feature.place], columns, run)
            kind.know(program, kinds)
        else:
            row, gates = GATES[feature.kind], weights.gates[feature.place]
            least, most = row.heads
            require(least <= len(gates) <= most, f"{feature.name} has {len(gates)} heads; {least} to {most} make sense")
            kind = row.bind(feature, gates, columns, run)
        columns.offsets[feature.place] = kind.offset
        kinds.append(kind)
    outputs = [
        Row.of(columns.expanded(form), stored, precision)
        for form, stored in zip(program.outputs, weights.outputs, strict=True)
    ]
    return Network(program, kinds, outputs, precision.largest)


def _limited(network: Network, feature: Feature, ranges: Ranges, node: int) -> bool:
    """Try to show, as a formula of the inputs, that the argument of a table leaves room for its errors in the frame."""
    kind = network.kinds[feature.place - network.program.inputs]
    if not isinstance(kind, TableFeature) or feature.score.key in network.limits:
        return False
    low, high = kind.low + 1.25 * kind.room, kind.high - 1.25 * kind.room
    ranges.grant(WORK_OF_LIMIT)
    if not low < high or not limited(ranges, node, low, high):
        return False
    network.limits[feature.score.key] = low, high
    return True
