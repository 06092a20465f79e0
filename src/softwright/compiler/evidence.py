"""The certificate of a compiled network: the claim, and its evidence, which a checker can redo.

`features` spell the program, each as a text in earlier ones, `outputs` the forms that are read; `conditions` are the
facts about sub-expressions of the formula on which rewriting it rests; `ranges` those of forms that were proved from
the inputs; `tables` the one-variable proofs of the tables. All numbers of the network are in its tensors; nothing here
is needed to run it, and nothing here need be believed.
"""

from __future__ import annotations

from typing import Any

from softwright.attention.composition import ComposedNetwork
from softwright.compiler.build import Compiled
from softwright.compiler.features import INPUT, Feature, Program
from softwright.compiler.heads import TableHead
from softwright.compiler.nodes import Expression, text
from softwright.precision import assumptions
from softwright.result.certificate import sum_rounded_up
from softwright.result.closed_form import ClosedForm
from softwright.result.proof_tree import encode_tree

_STATEMENT = "every output of the network is within the bound of the formula's, at every point of the box"
_MOST_NAMED = 4


def parts_of(compiled: Compiled) -> dict[str, list[Any]]:
    """The evidence, ready for JSON."""
    program = compiled.program
    return {
        "features": [_feature(compiled, f) for f in program.features if f.kind != INPUT],
        "outputs": [text(form.node(program.symbols)) for form in program.outputs],
        "conditions": [{"text": condition.text, "why": condition.why} for condition in program.conditions],
        "ranges": _ranges(program),
        "tables": [_table(compiled, head) for head in compiled.heads.tables],
    }


def _feature(compiled: Compiled, f: Feature) -> dict[str, Any]:
    names = compiled.program.symbols
    score, value, base = (text(form.node(names)) for form in (f.score, f.value, f.base))
    return {
        "name": text(names[f.number]),
        "kind": f.kind,
        "layer": f.layer,
        "score": score,
        "value": value,
        "base": base,
        "function": "" if f.function is None else text(f.function),
        "slack": [compiled.slacks.get((f.number, which), 0.0) for which in ("score", "value")],
    }


def _table(compiled: Compiled, head: TableHead) -> dict[str, Any]:
    names = compiled.program.symbols
    proofs = [compiled.tables[k].certificate for k in head.features]
    return {
        "features": [text(names[k]) for k in head.features],
        "center": str(head.frame.center),
        "halfwidth": str(head.frame.halfwidth),
        "proofs": [
            {
                "exact": proof.exact_part,
                "rounding": proof.rounding_part,
                "order": proof.order,
                "tree": encode_tree(proof.tree) if isinstance(proof.tree, bytes) else "",
            }
            for proof in proofs
            if proof is not None
        ],
    }


def _ranges(program: Program) -> list[dict[str, Any]]:
    names = {k: text(name) for k, name in program.symbols.items()}
    used = {form.key for f in program.features for form in f.forms}
    found = []
    for key, (low, high) in program.known.items():
        if key in used:
            constant, terms = key
            spelt = " + ".join([*(f"({c})*{names[k]}" for k, c in terms), f"({constant})"])
            found.append({"form": spelt, "low": low, "high": high})
    return found


def statement_of(program: Program) -> str:
    """The sentence of the claim; of jumps it says where it holds."""
    names = program.differences
    if not names:
        return _STATEMENT
    what = ", ".join(names) if len(names) <= _MOST_NAMED else f"the {len(names)} differences of the set"
    which = f"where {what} is not" if len(names) == 1 else f"where none of {what} is"
    return f"{_STATEMENT} {which} within {program.gap!r} of 0"


def certificate_of(compiled: Compiled, network: ComposedNetwork, expression: Expression, started: float) -> ClosedForm:
    """The statement that a proof which met its tolerance makes."""
    proof, program = compiled.proof, compiled.program
    exact = max(proof.bound - proof.rounding, 0.0)
    largest = max(proof.shares, key=lambda k: proof.shares[k])
    return ClosedForm.of(
        network,
        expression.describe(),
        started,
        statement=statement_of(program),
        bound=sum_rounded_up(exact, proof.rounding),
        exact_part=exact,
        rounding_part=proof.rounding,
        method=f"errors of {compiled.heads.count} heads times interval adjoints on {compiled.boxes} boxes",
        quantities={
            "boxes": float(compiled.boxes),
            "layers": float(compiled.program.depth),
            "heads": float(compiled.heads.count),
            "tokens": float(compiled.heads.tokens),
            "largest share": float(proof.shares[largest]),
        },
        assumptions=assumptions(network.dtype),
        engine="sdpa",
        domain={name: (low, high) for name, low, high in compiled.box},
        outside={"gap": program.gap, "of": list(program.differences)} if program.differences else None,
        parts=parts_of(compiled),
    )
