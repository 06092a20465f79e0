"""C6: contextual mapping and memorisation with a causal mask.

Token k attends to tokens 1..k only, so its id is that of (set of the first k tokens, token k). Prefixes have different
lengths; C1 covers them when the scores of a query lie in an interval of length 2r >= 1.03 (log n)^2 + 0.06, which any
sequence of n tokens makes sure of (2r >= (n - 1)(2 log n + 3)). The rest is C4: the same rank-1 head with the mask,
the same readout through the ids, the same count of parameters, every position with its own label, as a language model
has.
"""

from __future__ import annotations

from typing import Any

from softwright.theorems.memorisation import OPTIONS, MemoryConstruction, build_memory, draw_memory
from softwright.theorems.tools.theorem import PAPER_C, Theorem


def _construct(**asked: Any) -> MemoryConstruction:
    """With a causal mask one rank-1 softmax head gives every (set of tokens so far, token) its own id, and with a
    relu readout memorises a label at every position of N sequences, exactly, with the parameters of C4.
    """
    return build_memory("C6", True, **asked)


C6 = Theorem(
    label="C6",
    title="the same with a causal mask: every prefix gets its own id and its own label",
    paper=PAPER_C,
    conditions=("n >= 2", "tokens of a sequence pairwise distinct", "no token is zero", "one label per prefix"),
    options=OPTIONS,
    construct=_construct,
    sweep=("sequences", (1, 2, 4, 6)),
    details=draw_memory,
)
