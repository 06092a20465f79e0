"""The certificate of a compiled network: the claim, and its evidence, which a checker can redo.

`features` spell the program, each as a text in earlier ones, `outputs` the forms that are read; `tables` the proofs of
the tables, of one variable each. All numbers of the network are in its tensors; nothing here is needed to run it, and
nothing here need be believed: a checker finds ranges, conditions of rewriting and adjoints itself.
"""

from __future__ import annotations

from typing import Any

from softwright.attention.composition import ComposedNetwork
from softwright.compiler.build import Compiled
from softwright.compiler.features import INPUT, Feature, Program
from softwright.compiler.heads import TableHead
from softwright.compiler.nodes import Expression, text
from softwright.precision import assumptions
from softwright.result.closed_form import ClosedForm
from softwright.result.proof_tree import encode_tree

_STATEMENT = "every output of the network is within the bound of the formula's, at every point of the box"
_METHOD = "errors of heads times interval adjoints on boxes"
_MOST_NAMED = 4


def parts_of(compiled: Compiled) -> dict[str, list[Any]]:
    """The evidence, ready for JSON."""
    program = compiled.program
    return {
        "features": [_feature(compiled, f) for f in program.features if f.kind != INPUT],
        "outputs": [text(form.node(program.symbols)) for form in program.outputs],
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
    }


def _table(compiled: Compiled, head: TableHead) -> dict[str, Any]:
    names = compiled.program.symbols
    proofs = [compiled.tables[k] for k in head.features]
    return {
        "features": [text(names[k]) for k in head.features],
        "center": str(head.frame.center),
        "halfwidth": str(head.frame.halfwidth),
        "proofs": [
            {
                "exact": proof.exact,
                "rounding": proof.rounding,
                "order": proof.order,
                "tree": encode_tree(proof.tree),
            }
            for proof in proofs
            if proof.tree is not None
        ],
    }


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
    return ClosedForm.of(
        network,
        expression.describe(),
        started,
        statement=statement_of(program),
        bound=proof.bound,
        exact_part=proof.exact,
        rounding_part=proof.rounding,
        method=_METHOD,
        quantities={
            "layers": float(compiled.program.depth),
            "heads": float(compiled.heads.count),
            "tokens": float(compiled.heads.tokens),
        },
        assumptions=assumptions(network.dtype),
        engine="sdpa",
        domain={name: (low, high) for name, low, high in compiled.box},
        outside={"gap": program.gap, "of": list(program.differences)} if program.differences else None,
        parts=parts_of(compiled),
    )
