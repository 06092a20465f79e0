"""The certificate of a compiled network: the claim, and its evidence, which a checker can redo.

`features` spell the program, each as a text in earlier ones, `outputs` the forms that are read; `tables` the proofs of
the tables, of one variable each. All numbers of the network are in its tensors; nothing here is needed to run it, and
nothing here need be believed: a checker finds ranges, conditions of rewriting and adjoints itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from softwright.attention.composition import ComposedNetwork
from softwright.compiler.build import Compiled
from softwright.compiler.features import INPUT, Feature, Program
from softwright.compiler.heads import TableHead
from softwright.compiler.integrals import NormProof, plain_norm, volume_above
from softwright.compiler.nodes import Expression, text
from softwright.domain import Box
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


def _norm_statement(norm: NormProof) -> str:
    what = "the largest deviation of an output from the formula's"
    return f"the {norm.name} norm over the box of {what} is at most the bound"


def _bands(gap: float, differences: Sequence[str], exact: float, rounding: float) -> dict[str, Any]:
    """What a norm rests on: the bands that are left out, and the two parts of the bound everywhere else."""
    numbers = {"gap": gap if differences else 0.0, "exact": exact, "rounding": rounding}
    return {**numbers, "of": list(differences), "hex": {k: float(x).hex() for k, x in numbers.items()}}


def certificate_in_norm(proved: ClosedForm, p: int, box: Box) -> ClosedForm:
    """What a bound in the sup norm over a whole box says of an L_p norm."""
    norm = plain_norm(p, volume_above(box), proved.exact_part, proved.rounding_part)
    return replace(
        proved,
        statement=_norm_statement(norm),
        bound=norm.bound,
        exact_part=norm.exact,
        rounding_part=norm.rounding,
        norm=norm.name,
        parts={**proved.parts, "bands": [_bands(0.0, (), proved.exact_part, proved.rounding_part)]},
    )


def certificate_of(
    compiled: Compiled,
    network: ComposedNetwork,
    expression: Expression,
    started: float,
    norm: NormProof | None = None,
) -> ClosedForm:
    """The statement that a proof which met its tolerance makes: in the sup norm outside of bands, or in a norm."""
    proof, program = compiled.proof, compiled.program
    excluded = {"gap": program.gap, "of": list(program.differences)} if program.differences else None
    parts = parts_of(compiled)
    if norm is not None:
        bands = _bands(program.gap, program.differences, proof.exact, proof.rounding)
        excluded, parts = None, {**parts, "bands": [bands]}
    return ClosedForm.of(
        network,
        expression.describe(),
        started,
        statement=statement_of(program) if norm is None else _norm_statement(norm),
        bound=proof.bound if norm is None else norm.bound,
        exact_part=proof.exact if norm is None else norm.exact,
        rounding_part=proof.rounding if norm is None else norm.rounding,
        norm="sup" if norm is None else norm.name,
        method=_METHOD,
        quantities={
            "layers": float(compiled.program.depth),
            "heads": float(compiled.heads.count),
            "tokens": float(compiled.heads.tokens),
        },
        assumptions=assumptions(network.dtype),
        engine="sdpa",
        domain={name: (low, high) for name, low, high in compiled.box},
        outside=excluded,
        parts=parts,
    )
