"""A statement as a file holds it, read strictly, in either schema; what re-proofs read are its entries side by side.

    softwright-statement/2     claim, evidence (typed steps), trust (named hypotheses), told: see result/statement.py
    softwright-certificate/1   all entries side by side: a proof by boxes, gates or at points
    softwright-closed-form/1   the same, where the proof is a formula

Exact entries of exact types, numbers in decimal and in hexadecimal that agree, no control characters. What follows from
something else in the file (the sentence and the set of a claim, its arithmetic, the words of its premises, its
hypotheses) is written again here or by the re-proof, and must be the same. `told` is what nothing rests on.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from softwright.checker.entries import (
    Test,
    at_least_zero,
    check_entries,
    is_count,
    is_number,
    is_object,
    is_text,
    list_of,
    same,
)
from softwright.checker.refusal import require
from softwright.fileformat import ModelFile

STATEMENT, BOXES, CLOSED = "softwright-statement/2", "softwright-certificate/1", "softwright-closed-form/1"
SENTENCE = "every output of the network is within the bound of the target's, at every point of the set"
LARGEST_TREE = 64 * 2**20  # nodes
STEP_OF_KIND = {
    "memory": "memory",
    "transpiled": "layers",
    "in_context": "solver",
    "theorem": "theorem",
    "composition": "compose",
    "program": "columns",
}
PROMPTS = {
    "gradient": ("max_rows", "x_bound", "y_bound", "w_bound"),
    "newton_schulz": ("max_rows", "score_bound"),
    "normal_equations": ("max_rows", "feature_bound"),
}
SOLVED = ("max_rows", "condition", "score_bound")  # of a distance to the solution

Flat = dict[str, Any]
BOUNDS: dict[str, Test] = {"bound": at_least_zero, "parts": is_object, "hex": is_object}
WHOLE: dict[str, Test] = {
    "schema": is_text,
    "claim": is_object,
    "evidence": lambda value: list_of(is_object)(value) and len(value) > 0,
    "trust": list_of(is_object),
    "told": is_object,
}
CLAIM: dict[str, Test] = {
    **dict.fromkeys(("text", "norm", "dtype", "arithmetic", "engine"), is_text),
    **dict.fromkeys(("subject", "reference", "set", "between"), is_object),
    **BOUNDS,
    "p": lambda value: value is None or is_number(value),
    "runtimes": list_of(is_text),
    "premises": list_of(is_text),
}
SUBJECT: dict[str, Test] = {"tensors": list_of(is_text), "sha256": is_text}
REFERENCE: dict[str, Test] = {
    "target": is_object,
    "tensors": list_of(is_text),
    "sha256": lambda value: isinstance(value, str),
}
DOMAIN: dict[str, Test] = {"kind": is_text, "variables": list_of(is_text), "domain": is_object, "hex": is_object}
BY_BOXES: dict[str, dict[str, Test]] = {  # steps of a proof over a box, or at points of it
    "boxes": {"step": is_text, "order": is_count, "tree": is_text, "part": is_object},
    "gates": {"step": is_text, "order": is_count, "part": is_object},
    **{key: {"step": is_text, "order": is_count, "count": is_count} for key in ("points", "cells")},
}
OUTSIDE: dict[str, Test] = {"gap": is_number, "of": list_of(is_text), "hex": is_text}
FORMULA: dict[str, Test] = {"step": is_text, "method": is_text, "quantities": is_object}
COMPOSED: dict[str, Test] = {**FORMULA, "parts": is_object}
PART: dict[str, Test] = {
    "variables": list_of(is_text),
    **dict.fromkeys(("heads", "terms"), list_of(is_count)),
    "constant": list_of(is_number),
    **dict.fromkeys(("exact", "rounding"), at_least_zero),
    "hex": is_object,
}
SEEN: dict[str, Test] = {"lower": at_least_zero, "witness": list_of(is_number)}
TOLD: dict[str, Test] = {"seconds": at_least_zero, "version": is_text}
TOLD_OF_BOXES: dict[str, Test] = {**SEEN, "method": is_text, **TOLD, "between": is_object}
TOLD_BETWEEN: dict[str, Test] = {**SEEN, "boxes": is_count, "seconds": at_least_zero}


@dataclass(frozen=True)
class Claim:
    """A file whose certificate has its entries side by side, the steps that it brings, and how it says it rests."""

    file: ModelFile
    steps: tuple[str, ...]
    said: Flat | None = None  # the statement, for what is compared when the proof is done; None in version 1


def read_claim(file: ModelFile) -> Claim:
    """The statement of a file, in whichever schema."""
    require("certificate" in file.sections, "the file holds no certificate; certify the network and save it again")
    said, kind = file.sections["certificate"], file.sections["model"]["kind"]
    require(isinstance(said, dict), "the certificate is no object")
    schema = said.get("schema")
    require(schema in (STATEMENT, BOXES, CLOSED), f"unknown certificate schema {schema!r}")
    if schema == BOXES:
        return Claim(file, ("boxes",))
    if schema == CLOSED:
        return Claim(file, (STEP_OF_KIND.get(kind, "formula"),))
    flat = _flat(said, file)
    steps = tuple(dict.fromkeys(step["step"] for step in said["evidence"]))
    return Claim(ModelFile(file.tensors, {**file.sections, "certificate": flat}), steps, said)


def _flat(said: Flat, file: ModelFile) -> Flat:
    """The entries side by side, each checked on its way."""
    check_entries(said, WHOLE, "the certificate")
    claim, evidence = said["claim"], said["evidence"]
    by_boxes = all(step.get("step") in BY_BOXES for step in evidence)
    check_entries(claim, CLAIM, "the claim", ("between",))
    check_entries(claim["subject"], SUBJECT, "the subject")
    check_entries(claim["reference"], REFERENCE, "the reference")
    check_names(claim, file)
    bounds = {"dtype": claim["dtype"], "engine": claim["engine"], "norm": claim["norm"], **_bounds(claim, "the claim")}
    flat = {
        **{name: value for name, value in bounds.items() if name != "hex" or by_boxes},
        "assumptions": claim["premises"],
        "weights_sha256": claim["subject"]["sha256"],
        "target": claim["reference"]["target"],
    }
    if claim["reference"]["sha256"]:
        flat["reference_sha256"] = claim["reference"]["sha256"]
    if by_boxes:
        return flat | _by_boxes(said, bounds["hex"])
    return flat | _by_formula(said)


def check_names(claim: Flat, file: ModelFile) -> None:
    """The tensors that a claim names are those of the network, and of what it is compared with: all, and no others."""
    for place, tensors in (("subject", file.subject_tensors), ("reference", file.reference_tensors)):
        require(claim[place]["tensors"] == sorted(tensors), f"the {place}'s tensors are not those that the file holds")


def _bounds(claim: Flat, what: str) -> Flat:
    """The bound and its parts, in both their forms."""
    check_entries(claim["parts"], dict.fromkeys(("exact", "rounding"), at_least_zero), f"the parts of {what}")
    numbers = {"bound": claim["bound"], "exact": claim["parts"]["exact"], "rounding": claim["parts"]["rounding"]}
    check_hex(numbers, claim["hex"], what)
    names = {"bound": "bound", "exact": "exact_part", "rounding": "rounding_part"}
    return {names[name]: number for name, number in numbers.items()} | {"hex": renamed(claim["hex"])}


def check_hex(numbers: Mapping[str, Any], hexadecimal: Any, what: str) -> None:
    """Every number stands there a second time, in hexadecimal, and both are the same."""
    wanted = {name: float(number).hex() for name, number in numbers.items()}
    require(same(wanted, hexadecimal), f"decimal and hexadecimal numbers of {what} are not the same: damaged")


def renamed(entries: Flat) -> Flat:
    """The parts of a bound under the names that re-proofs read."""
    names = {"exact": "exact_part", "rounding": "rounding_part"}
    return {names.get(name, name): value for name, value in entries.items()}


def _by_boxes(said: Flat, hexadecimal: Flat) -> Flat:
    claim, evidence, told = said["claim"], said["evidence"], said["told"]
    where, target = claim["set"], claim["reference"]["target"]
    optional = () if "between" in claim else ("between",)
    check_entries(told, {n: t for n, t in TOLD_OF_BOXES.items() if n not in optional}, "what is told")
    check_entries(where, DOMAIN, "the set")
    wanted = "points" if target.get("kind") == "table" else "box"
    require(where["kind"] == wanted, f"the set of such a claim is a {wanted}")
    require(claim["text"] == SENTENCE, f"the claim should read: {SENTENCE}")
    for step in evidence:
        check_entries(step, BY_BOXES[step["step"]], "a step", ("part",))
    require(len({step["order"] for step in evidence}) == 1, "steps of one proof are of different orders")
    alone = len(evidence) == 1 and "part" not in evidence[0]
    require(alone or all("part" in step for step in evidence), "a step is neither the whole proof nor a part of it")
    known = ("boxes", "gates") if target.get("kind") == "expression" else ("boxes", "points", "cells")
    require(all(step["step"] in known for step in evidence), "no such step proves anything about such a target")
    require(alone or all("count" not in step for step in evidence), "points have no parts")
    flat: Flat = {
        "schema": BOXES,
        "p": claim["p"],
        "variables": where["variables"],
        "domain": where["domain"],
        "hex": {**hexadecimal, "domain": where["hex"]},
        "order": evidence[0]["order"],
        "tree": evidence[0].get("tree") if alone else [_part(step) for step in evidence],
        "boxes": evidence[0].get("count", sum(decode(step["tree"]).count(255) for step in evidence if "tree" in step)),
        **{name: value for name, value in told.items() if name != "between"},
    }
    if "between" in claim:
        check_entries(claim["between"], BOUNDS, "the claim between points")
        check_entries(told["between"], TOLD_BETWEEN, "what is told between points")
        flat["between"] = {**_bounds(claim["between"], "the claim between points"), **told["between"]}
    return flat


def decode(text: str, largest: int | None = None) -> bytes:
    """The tree of a proof: one zlib stream in base64, of limited size however it was packed."""
    unpacker = zlib.decompressobj()
    tree = unpacker.decompress(base64.b64decode(text, validate=True), largest or LARGEST_TREE)
    require(unpacker.eof and not unpacker.unused_data, "the proof tree is damaged or too large")
    return tree


def _part(step: Flat) -> Flat:
    part = step["part"]
    check_entries(part, PART, "a part of the proof")
    return {**renamed(part), "tree": step.get("tree"), "hex": renamed(part["hex"])}


def _by_formula(said: Flat) -> Flat:
    claim, evidence = said["claim"], said["evidence"]
    require(len(evidence) == 1, "a proof by a formula is one step")
    composed = evidence[0].get("step") == "compose"
    whole = composed or evidence[0].get("step") == "columns"
    check_entries(evidence[0], COMPOSED if whole else FORMULA, "the step")
    check_entries(said["told"], TOLD, "what is told")
    require("between" not in claim and claim["p"] is None, "a formula says nothing of exponents or between points")
    flat: Flat = {}
    if composed:
        where = claim["set"]
        check_entries(where, {**DOMAIN, "outside": is_object}, "the set", ("outside",))
        require(where["kind"] == "box", "the set of such a claim is a box")
        flat = {"parts": evidence[0]["parts"], "variables": where["variables"], "domain": where["domain"]}
        flat["hex"] = {"domain": where["hex"]}
        if "outside" in where:
            check_entries(where["outside"], OUTSIDE, "the excluded bands")
            check_hex({"gap": where["outside"]["gap"]}, {"gap": where["outside"]["hex"]}, "the gap")
            flat["outside"] = where["outside"]
    else:
        named = set_of(claim["reference"]["target"], evidence[0]["quantities"])
        require(same(claim["set"], named), "the set is not the one that the target names")
        flat = {"parts": evidence[0]["parts"]} if whole else {}
    return {
        **flat,
        "schema": CLOSED,
        "statement": claim["text"],
        **{name: evidence[0][name] for name in ("method", "quantities")},
        **said["told"],
    }


def set_of(target: Flat, quantities: Flat) -> Flat:
    """The inputs that a closed form about this target is about; "stated": as its sentence says."""
    kind, box = target.get("kind"), target.get("box")
    if kind == "sequences":
        return {"kind": "stored items", "items": target["items"]}
    if kind == "program":
        return {"kind": "every sequence", "tokens": target["tokens"]}
    if kind == "network" and "box" in target:
        return {"kind": "every input"} if box is None else {"kind": "box", "low": box[0], "high": box[1]}
    if kind == "in_context" and target.get("solver") in PROMPTS:
        names = [*PROMPTS[target["solver"]], *(["rate_bound"] if target["method"] == "poisson" else [])]
        names = list(SOLVED) if "leverage" in quantities else names
        return {"kind": "prompts", "at_most": {name: target[name] for name in names}}
    return {"kind": "stated"}
