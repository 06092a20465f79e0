"""How the search for a proof ended, as a value whose text is the sentence that users read.

Whatever depends on how a proof ended compares members; no code looks into a sentence, so sentences can be reworded.
"""

from __future__ import annotations

from enum import Enum


class Outcome(Enum):
    """Why there is a certificate, or why there is none."""

    PROVED = "proved"
    REFUTED = "the proof found a point beyond the tolerance"
    ROUNDING = "rounding leaves too little room"
    OVERFLOW = "numbers of the run could overflow; rescale the network, or use float64"
    RANGE = "weights exceed 1e100, where proofs end; take other units for the variables or the values"
    BUDGET = "the budget is spent; raise max_work or max_boxes, or ask for a larger bound"
    TIME = "max_seconds ended the search; raise it, or ask for a larger bound"
    DIVISION = "the bound could not be divided among the parts; ask for a larger bound"
    INTERRUPTED = "interrupted"
    NOT_ASKED = "not asked for"
    NO_PROMISE = "a callable without bounds on its derivatives can only be sampled; see Function(second_derivative=...)"
    TRAIN = "a tensor train of a callable has no proof: its error is what fresh queries showed"
    NOISY = "a fit to noisy rows: nothing is claimed of single points; see the cross-validated rms in the plan"
    QUERIES = "a proof would ask for more points than max_queries allows"
    TOO_MANY_VARIABLES = "boxes cover at most 8 variables; write a formula as a sum of parts that have fewer of them"

    @property
    def decided(self) -> bool:
        """Whether the question was answered, by a proof or by a counterexample."""
        return self in (Outcome.PROVED, Outcome.REFUTED)

    @property
    def may_yield(self) -> bool:
        """Whether a network with a smaller error may get the proof that this one did not."""
        return self in (Outcome.REFUTED, Outcome.ROUNDING)
