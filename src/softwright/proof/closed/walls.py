"""Slanted walls: gated heads paired with the kinked terms they stand for, so that boxes see only the smooth rest.

A wall of thickness 1/beta that crosses boxes at an angle costs beta^(d-1) of them. But where a formula is a sum of a
smooth part and of terms like c |a.x + b| or max of affine functions, and the network a sum of heads of which some are
the gates of these terms, the triangle inequality takes the pairs apart:

    |g - f|  <=  sum over pairs |g_h - f_t|  +  |sum of the other heads - sum of the other terms|.

Every pair is bounded over the whole domain in closed form (`max_affine.py`), W0((N-1)/e)/beta and what the pieces
differ by; the rest has no walls and is proved by boxes. In the certificate each pair is a `Part` without a tree.

Which head belongs to which term is found by trying: a head of gates is the head of a term if their distance is little
more than what gates of its steepness cannot avoid. A term whose maxima need two heads is tried with all pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from softwright.domain import Box
from softwright.proof.closed.max_affine import MaxAffineProof, gate_gap, has_affine_pieces, prove_max_affine
from softwright.proof.models.targets import FormulaModels
from softwright.proof.search.additive import (
    Group,
    Term,
    groups_of,
    inputs_of,
    part_box,
    part_residual,
    terms_of,
)
from softwright.proof.search.residual import Residual
from softwright.result.certificate import Part
from softwright.targets.formula import Node, variables_of

_MOST_TOKENS = 64  # of a head of gates that is tried
_LIKE = 3.0  # a head's distance from its term, in multiples of what the gates alone cost
_SLACK = 1.02  # by how much more than what was proved is stated, so that a checker with other enclosures agrees


@dataclass
class Walls:
    """Pairs with their bounds, and the groups that the other heads and terms form."""

    parts: tuple[Part, ...]
    groups: list[Group]
    terms: list[Term]


def take_walls(residual: Residual, nodes: tuple[Node, ...], domain: Box) -> Walls | None:
    """The pairs of heads and kinked terms; None if no wall is slanted, or if nothing else is left to prove."""
    terms = terms_of(nodes)
    kinked = [t for t, term in enumerate(terms) if has_affine_pieces(term.node, domain.names)]
    gaps = {
        h: gap
        for h, head in enumerate(residual.heads)
        if kinked and len(head.keys) <= _MOST_TOKENS and (gap := _gap(residual, h, domain)) is not None
    }
    parts: list[Part] = []
    used: set[int] = set()
    paired: set[int] = set()
    for t in kinked:
        found = _best(residual, terms, t, {h: gap for h, gap in gaps.items() if h not in used}, domain)
        if found is not None:
            parts.append(found)
            used |= set(found.heads)
            paired.add(t)
    other_heads = [h for h in range(len(residual.heads)) if h not in used]
    other_terms = [t for t in range(len(terms)) if t not in paired]
    if (not other_heads and not other_terms) or all(len(part.variables) < 2 for part in parts):
        return None
    groups = groups_of(tuple(residual.heads[h] for h in other_heads), [terms[t] for t in other_terms], domain.names)
    numbered = [
        Group(group.columns, tuple(other_heads[h] for h in group.heads), tuple(other_terms[t] for t in group.terms))
        for group in groups
    ]
    return Walls(tuple(parts), numbered, terms)


def _gap(residual: Residual, head: int, domain: Box) -> float | None:
    """The gap of the one output that a head of gates speaks for."""
    gaps = [gate_gap(residual.heads[head], output, domain) for output in range(residual.outputs)]
    known = [gap for gap in gaps if gap is not None]
    return known[0] if len(known) == 1 else None


def _candidates(gaps: dict[int, float]) -> Iterator[tuple[int, ...]]:
    yield from ((h,) for h in gaps)
    yield from combinations(gaps, 2)


def _best(residual: Residual, terms: list[Term], term: int, gaps: dict[int, float], domain: Box) -> Part | None:
    """The head, or pair of heads, that is nearest to this term, if by little more than what its gates cost."""
    best: Part | None = None
    for heads in _candidates(gaps):
        inputs = set[int]().union(*(inputs_of(residual.heads[h]) for h in heads))
        inputs |= {domain.names.index(name) for name in variables_of((terms[term].node,))}
        group = Group(tuple(sorted(inputs)), heads, (term,))
        proof = _proof(residual, terms, group, domain)
        if proof is not None and proof.exact <= _LIKE * sum(gaps[h] for h in heads):
            found = Part(
                variables=tuple(domain.names[i] for i in group.columns),
                heads=heads,
                terms=(term,),
                exact_part=_SLACK * proof.exact,
                rounding_part=_SLACK * proof.rounding,
                tree=None,
                constant=(0.0,) * residual.outputs,
            )
            best = found if best is None or found.exact_part < best.exact_part else best
    return best


def _proof(residual: Residual, terms: list[Term], group: Group, domain: Box) -> MaxAffineProof | None:
    pair = part_residual(residual, group, terms, domain.names)
    if not isinstance(pair.target, FormulaModels):
        return None
    return prove_max_affine(pair.heads, pair.target.expression.nodes, part_box(domain, group), len(residual.heads))
