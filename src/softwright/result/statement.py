"""The statement in a file: claim, evidence, trust and what is merely told; schema softwright-statement/2.

    claim      what is claimed of which tensors: `text`, a sentence; `subject`, the network's tensors and their digest;
               `reference`, what they are compared with (a target, and the tensors beside the network that belong to
               it); `set`, the inputs; norm and p; bound and its two parts, in decimal and in hexadecimal; dtype,
               arithmetic ("float64 as run", or "real"), engine, the runtimes covered; `premises`, the words of what is
               taken for granted. Of a table on a grid also `between`, the bound between its points.
    evidence   typed steps, each with its own numbers. Of boxes and gates there is one for every part of the proof.
    trust      hypotheses that remain, by ids that a program can read: {"id", "text"}
    told       what nobody proved and nothing rests on: the largest error seen, where, how long it took, the version

Certificates hold the same entries side by side, as version 1 wrote them (`flat`); this file is what turns one form into
the other, and decides nothing. Which step a certificate is, and which set it speaks of, follows from its target.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from softwright.errors import InvalidInput
from softwright.precision import PRECISIONS, exp_ulps_of
from softwright.result.proof_tree import LEAF, decode_tree

SCHEMA = "softwright-statement/2"
SENTENCE = "every output of the network is within the bound of the target's, at every point of the set"
EXACT_ARITHMETIC = "real arithmetic (the theorem says nothing of rounding)"
# kind of the target -> the step that proves a closed form about it; any other is a bare formula
CLOSED_STEPS = {
    "sequences": "memory",
    "network": "layers",
    "in_context": "solver",
    "theorem": "theorem",
    "expression": "compose",
    "program": "columns",
}
PROMPTS = {  # solver in context -> settings that bound the prompts it was proved for
    "gradient": ("max_rows", "x_bound", "y_bound", "w_bound"),
    "newton_schulz": ("max_rows", "score_bound"),
    "normal_equations": ("max_rows", "feature_bound"),
}
SOLVED = ("max_rows", "condition", "score_bound")  # the same of a distance to the solution
_PART = ("variables", "heads", "terms", "constant")
_TOLD = ("seconds", "version")
_SEEN = ("lower", "witness")
Entries = dict[str, Any]


def hypotheses_of(
    dtype: str,
    assumptions: tuple[str, ...],
    target: Mapping[str, Any],
    boxes: bool,
    tree: bool = False,
    engine: str = "",
) -> tuple[str, ...]:
    """The ids of what a certificate rests on: of a run its arithmetic, and what its target leaves to others.

    Of a target that is not in the file nobody can prove the error again; with a tree, the rounding at least.
    """
    run: tuple[str, ...] = ()
    if dtype in PRECISIONS and EXACT_ARITHMETIC not in assumptions:
        run = "ieee754", f"exp-ulp<={exp_ulps_of(dtype, engine, assumptions)}"
    if not boxes:
        return (*run, "exp(0)=1") if run and target.get("kind") == "program" else run
    kind, digest, stated = target["kind"], target.get("sha256"), "stated-exact-part" if tree else "stated-bound"
    if kind == "function":
        promise = "user-lipschitz" if target.get("second_derivative") is None else "user-second-derivative"
        return (*run, "callable-values", promise, stated)
    elsewhere = {"table": "table", "interpolant": "table", "network": "source-weights"}
    return (*run, f"{elsewhere[kind]}:{digest}", stated) if kind in elsewhere else run


NOT_SHOWN = "as stated: the file does not hold what the network is compared with"
_TEXTS: dict[str, Callable[[str], str]] = {  # beginning of an id -> what it says, given its rest
    "ieee754": lambda _: "arithmetic as IEEE 754 has it, rounded to nearest",
    "exp(0)=1": lambda _: "exp(0) of the run-time library is exactly 1",
    "exp-ulp<=": lambda ulps: f"exp of the run-time library is accurate to {ulps} ulp",
    "layernorm-roundings<=": lambda count: f"mean and variance in LayerNorm are sums of at most {count} roundings",
    "callable-values": lambda _: "the callable's values are those of the function that is meant",
    "user-lipschitz": lambda _: "the Lipschitz constant given for the callable holds",
    "user-second-derivative": lambda _: "the bound given for the callable's second derivatives holds",
    "stated-exact-part": lambda _: f"the exact part of the error is {NOT_SHOWN}",
    "stated-bound": lambda _: f"the error is {NOT_SHOWN}",
    "table:": lambda digest: f"the table is the one of SHA-256 {digest}",
    "source-weights:": lambda digest: f"the source network is the one of SHA-256 {digest}",
}


def text_of(hypothesis: str) -> str:
    """What an id says, in words; an id that no row is about says it itself."""
    for start, text in _TEXTS.items():
        if hypothesis.startswith(start):
            return text(hypothesis.removeprefix(start))
    return hypothesis


@dataclass(frozen=True)
class Apart:
    """What version 1 had no entries for; tensors and reference are names."""

    hypotheses: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    tensors: Sequence[str] = ()
    reference: Sequence[str] = ()


def to_statement(flat: Mapping[str, Any], apart: Apart) -> Entries:
    """Claim, evidence, trust and told of a certificate's entries."""
    boxes = "tree" in flat
    claim = {
        "text": SENTENCE if boxes else flat["statement"],
        "subject": {"tensors": list(apart.tensors), "sha256": flat["weights_sha256"]},
        "reference": {
            "target": flat["target"],
            "tensors": list(apart.reference),
            "sha256": flat.get("reference_sha256", ""),
        },
        "set": set_of(flat),
        "norm": flat["norm"],
        "p": flat.get("p"),
        **_bounds(flat),
        "dtype": flat["dtype"],
        "arithmetic": "real" if EXACT_ARITHMETIC in flat["assumptions"] else f"{flat['dtype']} as run",
        "engine": flat["engine"],
        "runtimes": list(apart.runtimes),
        "premises": list(flat["assumptions"]),
    }
    told = {name: flat[name] for name in (*_SEEN, "method", *_TOLD) if name in flat} if boxes else {}
    told = told or {name: flat[name] for name in _TOLD}
    if flat.get("between") is not None:
        between = flat["between"]
        claim["between"] = _bounds(between)
        told["between"] = {name: between[name] for name in (*_SEEN, "boxes", "seconds")}
    return {
        "schema": SCHEMA,
        "claim": claim,
        "evidence": _box_steps(flat) if boxes else [_closed_step(flat)],
        "trust": [{"id": name, "text": text_of(name)} for name in apart.hypotheses],
        "told": told,
    }


def set_of(flat: Mapping[str, Any]) -> Entries:
    """The inputs that a claim is about, as a program can read them; "stated" where only the sentence says it."""
    target = flat["target"]
    kind = target.get("kind")
    if "domain" in flat:
        where = "points" if kind == "table" else "box"
        outside = {"outside": flat["outside"]} if "outside" in flat else {}
        return {
            "kind": where,
            "variables": flat["variables"],
            "domain": flat["domain"],
            "hex": flat["hex"]["domain"],
            **outside,
        }
    if kind == "sequences":
        return {"kind": "stored items", "items": target["items"]}
    if kind == "program":
        return {"kind": "every sequence", "tokens": target["tokens"]}
    if kind == "network" and "box" in target:
        box = target["box"]
        return {"kind": "every input"} if box is None else {"kind": "box", "low": box[0], "high": box[1]}
    if kind == "in_context" and target.get("solver") in PROMPTS:
        names = PROMPTS[target["solver"]] + (("rate_bound",) if target["method"] == "poisson" else ())
        names = SOLVED if "leverage" in flat["quantities"] else names
        return {"kind": "prompts", "at_most": {name: target[name] for name in names}}
    return {"kind": "stated"}


def _bounds(flat: Mapping[str, Any]) -> Entries:
    exact, rounding = flat["exact_part"], flat["rounding_part"]
    numbers = {"bound": flat["bound"], "exact": exact, "rounding": rounding}
    return {
        "bound": flat["bound"],
        "parts": {"exact": exact, "rounding": rounding},
        "hex": {name: float(number).hex() for name, number in numbers.items()},
    }


def _box_steps(flat: Mapping[str, Any]) -> list[Entries]:
    tree, order = flat["tree"], {"order": flat["order"]}
    if isinstance(tree, list):
        return [
            {
                **({"step": "gates", **order} if part["tree"] is None else _leaves(part["tree"], order)),
                "part": {name: part[name] for name in _PART}
                | {"exact": part["exact_part"], "rounding": part["rounding_part"]}
                | {
                    "hex": {
                        "exact": part["hex"]["exact_part"],
                        "rounding": part["hex"]["rounding_part"],
                        "constant": part["hex"]["constant"],
                    }
                },
            }
            for part in tree
        ]
    if tree is not None:
        return [_leaves(tree, order)]
    if flat["target"].get("kind") == "expression":
        return [{"step": "gates", **order}]
    where = "points" if flat["target"].get("kind") == "table" else "cells"
    return [{"step": where, "count": flat["boxes"], **order}]


def _leaves(tree: str, order: Entries) -> Entries:
    return {"step": "boxes", "tree": tree, **order}


def _closed_step(flat: Mapping[str, Any]) -> Entries:
    step = CLOSED_STEPS.get(flat["target"].get("kind", ""), "formula")
    parts = {"parts": flat["parts"]} if "parts" in flat else {}
    return {"step": step, "method": flat["method"], "quantities": flat["quantities"], **parts}


def to_flat(data: Mapping[str, Any]) -> tuple[Entries, Apart]:
    """The entries of a statement side by side, and those that version 1 did not have; the inverse of `to_statement`.

    Anything that a statement of this schema does not hold makes this fail, with an InvalidInput.
    """
    try:
        flat, apart = _flattened(data)
        same = json.dumps(to_statement(flat, apart), sort_keys=True) == json.dumps(dict(data), sort_keys=True)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        fault = f"the statement is damaged ({type(error).__name__}: {error}); certify again"
        raise InvalidInput("certificate", [fault]) from error
    if not same:
        fault = "the statement has entries that are unknown, or that contradict each other; certify again"
        raise InvalidInput("certificate", [fault])
    return flat, apart


def is_boxes(data: Mapping[str, Any]) -> bool:
    """Whether a statement of this schema was proved by boxes, gates or at points, and not by a formula."""
    evidence = data.get("evidence")
    steps = evidence if isinstance(evidence, list) else []
    return any(isinstance(step, dict) and step.get("step") in ("boxes", "gates", "points", "cells") for step in steps)


def _flattened(data: Mapping[str, Any]) -> tuple[Entries, Apart]:
    claim, evidence, told = data["claim"], data["evidence"], data["told"]
    apart = Apart(
        hypotheses=tuple(entry["id"] for entry in data["trust"]),
        runtimes=tuple(claim["runtimes"]),
        tensors=claim["subject"]["tensors"],
        reference=claim["reference"]["tensors"],
    )
    flat = {
        "norm": claim["norm"],
        **_stated(claim),
        "dtype": claim["dtype"],
        "engine": claim["engine"],
        "assumptions": claim["premises"],
        "weights_sha256": claim["subject"]["sha256"],
        "target": claim["reference"]["target"],
        **{name: told[name] for name in _TOLD},
    }
    if claim["reference"]["sha256"]:
        flat["reference_sha256"] = claim["reference"]["sha256"]
    if not is_boxes(data):
        (step,) = evidence
        flat |= {"parts": step["parts"]} if "parts" in step else {}
        if "domain" in claim["set"]:
            flat |= {"domain": claim["set"]["domain"], "variables": claim["set"]["variables"]}
            flat["hex"] = {"domain": claim["set"]["hex"]}
            flat |= {"outside": claim["set"]["outside"]} if "outside" in claim["set"] else {}
        return {**flat, "statement": claim["text"], **{n: step[n] for n in ("method", "quantities")}}, apart
    where = claim["set"]
    flat |= {"p": claim["p"], "domain": where["domain"], "variables": where["variables"], "order": evidence[0]["order"]}
    flat |= {name: told[name] for name in (*_SEEN, "method")} | _tree(evidence)
    hexadecimal = {f"{name}_part": claim["hex"][name] for name in ("exact", "rounding")}
    flat["hex"] = {"bound": claim["hex"]["bound"], **hexadecimal, "domain": where["hex"]}
    if "between" in claim:
        between = {**_stated(claim["between"]), **told["between"]}
        flat["between"] = between | {
            "hex": {
                "bound": claim["between"]["hex"]["bound"],
                **{f"{name}_part": claim["between"]["hex"][name] for name in ("exact", "rounding")},
            }
        }
    return flat, apart


def _stated(claim: Mapping[str, Any]) -> Entries:
    parts = claim["parts"]
    return {"bound": claim["bound"], "exact_part": parts["exact"], "rounding_part": parts["rounding"]}


def _tree(evidence: list[Entries]) -> Entries:
    """The tree, or the parts with their trees, and the number of boxes in them."""
    boxes = sum(decode_tree(step["tree"]).count(LEAF) for step in evidence if "tree" in step)
    if "part" not in evidence[0]:
        (step,) = evidence
        return {"tree": step.get("tree"), "boxes": step.get("count", boxes)}
    parts = []
    for step in evidence:
        part = step["part"]
        numbers = {f"{name}_part": part[name] for name in ("exact", "rounding")}
        hexadecimal = {f"{name}_part": part["hex"][name] for name in ("exact", "rounding")}
        hexadecimal["constant"] = part["hex"]["constant"]
        parts.append({n: part[n] for n in _PART} | numbers | {"tree": step.get("tree"), "hex": hexadecimal})
    return {"tree": parts, "boxes": boxes}
