"""`TokenTable`: the tokens of one neuron's head, formula (0) of the theory in one variable s.

    g(s) = sum_j (v_j s + u_j) e^{k_j s + b_j} / sum_j e^{k_j s + b_j}

keys k, biases b, slopes v, offsets u; all neurons of a layer share the table, s is each neuron's own W x + b.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class TokenTable:
    """Four arrays (p,), float64, holding numbers of the dtype that the head runs in."""

    keys: np.ndarray
    biases: np.ndarray
    slopes: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, *tokens: tuple[float, float, float, float]) -> TokenTable:
        """Tokens given one by one as (key, bias, slope, offset)."""
        return cls(*np.array(tokens, dtype=np.float64).T.copy())

    @property
    def tokens(self) -> int:
        return len(self.keys)

    @property
    def stacked(self) -> np.ndarray:
        """(4, p)"""
        return np.stack([self.keys, self.biases, self.slopes, self.offsets])

    def rounded(self, dtype: str) -> TokenTable:
        """The table as a network of that dtype stores it; what the dtype cannot hold becomes infinite."""
        with np.errstate(over="ignore"):
            return TokenTable(*self.stacked.astype(dtype).astype(np.float64))

    @property
    def one_kind(self) -> bool:
        """Whether all values are multiples of s, or all are constant."""
        return not self.slopes.any() or not self.offsets.any()

    @property
    def sink_gate(self) -> float | None:
        """beta if the table is {score 0, value 0; score beta s, value s}, else None."""
        first, second = self.stacked.T if self.tokens == 2 else (np.ones(4), np.ones(4))
        return float(second[0]) if not first.any() and second[1:].tolist() == [0.0, 1.0, 0.0] else None

    @property
    def direct_gate(self) -> float | None:
        """c if the table is {s: 1, c s: c}, else None: times a number b that is the head {s: b, c s: c b}."""
        tokens = self.stacked.T.tolist()
        if self.tokens != 2 or [1.0, 0.0, 0.0, 1.0] not in tokens:
            return None
        key, bias, slope, offset = tokens[1 - tokens.index([1.0, 0.0, 0.0, 1.0])]
        return key if bias == slope == 0.0 and offset == key else None

    def weights(self, s: np.ndarray) -> np.ndarray:
        """Softmax weights (..., p)."""
        scores = s[..., None] * self.keys + self.biases
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return scores / scores.sum(axis=-1, keepdims=True)

    def __call__(self, s: np.ndarray) -> np.ndarray:
        return (self.weights(s) * (s[..., None] * self.slopes + self.offsets)).sum(axis=-1)
