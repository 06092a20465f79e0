"""`THEOREMS`: one row per theorem that the checker can prove again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from softwright.checker.proved import Proved, compare
from softwright.checker.refusal import require
from softwright.checker.theorems import (
    activations,
    boltzmann,
    cell_norm,
    cell_sup,
    clipping,
    contextual,
    descent,
    equivariant,
    hardmax,
    memorised,
    partition,
    selection,
    two_layers,
)
from softwright.checker.theorems.reading import TheoremFile, read_theorem
from softwright.fileformat import ModelFile


@dataclass(frozen=True)
class Row:
    """The theorem's title, as its files spell it, and its re-proof."""

    title: str
    prove: Callable[[TheoremFile], Proved]


THEOREMS: dict[str, Row] = {
    "A1": Row(
        "one head, p > n interpolation tokens: clip(w_i.x_i + t_i, a, b) for every token", clipping.prove_one_head
    ),
    "A2": Row(
        "H heads, no extra tokens: the same clip with H(n-2) points, sentinels between heads", clipping.prove_many_heads
    ),
    "A3": Row("two multi-head attention layers for a continuous sequence-to-sequence function", two_layers.prove),
    "A4": Row("one attention layer followed by a softmax, for a continuous function on a box", selection.prove),
    "A5": Row("in-context gradient descent by interpolation heads, least squares and logistic loss", descent.prove),
    "A6": Row(
        "relu, leaky relu, hard tanh, hard sigmoid, and networks of them, by interpolation heads", activations.prove
    ),
    "B1": Row(
        "one head computes the indicator of a max-affine partition, outside a thin band at the walls", partition.prove
    ),
    "B2": Row("self-attention approximates a continuous function in sup norm, one token per grid cell", cell_sup.prove),
    "B3": Row(
        "self-attention approximates integrable functions in L_p, jumps and singularities included", cell_norm.prove
    ),
    "B4": Row(
        "cross-attention reaches both guarantees: queries from X, keys and values from another sequence",
        cell_norm.prove,
    ),
    "C1": Row("the Boltzmann operator tells sets apart by at least (log n)^2 e^(-2r)", boltzmann.prove),
    "C2": Row("one rank-1 softmax head gives every (set of tokens, token) its own id", contextual.prove),
    "C3": Row("with hardmax one layer is not a contextual mapping: {1,2,5,6} and {1,3,4,6} get one id", hardmax.prove),
    "C4": Row(
        "one rank-1 head and a relu readout memorise N sequences with 4(s+d) + d(2nN+d) parameters", memorised.prove
    ),
    "C5": Row(
        "quantise + one rank-1 head + readout: universal for permutation-equivariant maps, in L_p", equivariant.prove
    ),
    "C6": Row("the same with a causal mask: every prefix gets its own id and its own label", memorised.prove),
}


def prove_theorem(file: ModelFile) -> Proved:
    """What theorem the file speaks of, proved again for the tensors and sizes in it, and compared with its claim."""
    read = read_theorem(file)
    require(read.label in THEOREMS, f"nothing is known of a theorem {read.label!r}")
    row = THEOREMS[read.label]
    require(read.title == f"theorem {read.label}: {row.title}", f"theorem {read.label} is called: {row.title}")
    said = file.sections["certificate"]
    require(said["dtype"] == "float64", "theorems speak of networks in float64")
    proved = row.prove(read)
    compare(said, proved)
    return proved
