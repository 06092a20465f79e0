"""What a network attends to: the tokens by name, their weights, keys and values, in the user's own coordinates.

An `AttentionView` is what `Built.attention` returns: one `HeadView` per head that ran, and a table when printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from softwright.attention.head import softmax_rows
from softwright.errors import InvalidInput

MOST_WEIGHTS = 50_000_000  # entries of all weights together, 400 MB
_SHOWN_TOKENS = 8
_SHOWN_HEADS = 12


def check_size(points: int, tokens: int) -> None:
    """Raise before a table of weights is made that no one could read."""
    if points * tokens > MOST_WEIGHTS:
        fault = f"{points} point(s) and {tokens} tokens make {points * tokens} weights, more than {MOST_WEIGHTS}"
        raise InvalidInput("attention", [f"{fault}; ask at {max(1, MOST_WEIGHTS // tokens)} point(s) or fewer"])


@dataclass(frozen=True, eq=False)
class HeadView:
    """One head at some points. With x what it reads at a point, a row of `inputs`,

        score of token j = keys[j] @ x + biases[j],      value of token j = values[j] + slopes[j] @ x.

    In an approximation x is the point itself, in the user's coordinates; other networks say what it is.
    """

    name: str
    tokens: Sequence[str]
    inputs: np.ndarray  # (points, d)
    weights: np.ndarray  # (points, tokens), every row adds up to 1
    keys: np.ndarray  # (tokens, d)
    biases: np.ndarray  # (tokens,)
    values: np.ndarray  # (tokens, m)
    slopes: np.ndarray | None = None  # (tokens, m, d)

    @classmethod
    def of(
        cls,
        name: str,
        tokens: Sequence[str],
        inputs: np.ndarray,
        keys: np.ndarray,
        biases: np.ndarray,
        values: np.ndarray,
    ) -> HeadView:
        """The view of a head with constant values; the weights are computed."""
        check_size(len(inputs), len(tokens))
        return cls(name, tokens, inputs, softmax_rows(inputs @ keys.T + biases), keys, biases, values)

    def values_at(self, point: int = 0) -> np.ndarray:
        """What each token gives at one of the points: (tokens, m)."""
        return self.values if self.slopes is None else self.values + self.slopes @ self.inputs[point]

    def strongest(self, point: int = 0) -> list[tuple[str, float]]:
        """(token, weight) at one of the points, the largest weight first."""
        order = np.argsort(-self.weights[point], kind="stable")
        return [(self.tokens[j], float(self.weights[point, j])) for j in map(int, order)]


@dataclass(frozen=True, eq=False)
class AttentionView:
    """All heads of a network at some points; print it for a table, or take the arrays of `heads`."""

    asked: Sequence[str]  # what was asked, one text per point: "x = 0.3, y = 1"
    heads: Sequence[HeadView]

    def __repr__(self) -> str:
        if not self.asked:
            return "Attention at no point"
        where = self.asked[0] if len(self.asked) == 1 else f"{len(self.asked)} points, {self.asked[0]} first"
        lines = [f"Attention at {where}"]
        for head in self.heads[:_SHOWN_HEADS]:
            lines += [f"{head.name}, {len(head.tokens)} token(s)", *_table(head)]
        if len(self.heads) > _SHOWN_HEADS:
            lines.append(f"and {len(self.heads) - _SHOWN_HEADS} more head(s); see .heads")
        return "\n".join(lines)


def _table(head: HeadView) -> list[str]:
    """The tokens of the largest weights, one line each; of several points, their mean and largest weight."""
    mean, most = head.weights.mean(axis=0), head.weights.max(axis=0)
    order = np.argsort(-most, kind="stable")[:_SHOWN_TOKENS]
    single = len(head.weights) == 1
    last = head.values_at()[order] if single else most[order]
    rows = [("token", "weight", "value") if single else ("token", "mean weight", "largest")]
    rows += [(head.tokens[int(j)], f"{mean[j]:.4g}", numbers(shown)) for j, shown in zip(order, last, strict=True)]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    padded = [[text.ljust(width) for text, width in zip(row, widths, strict=True)] for row in rows]
    lines = ["  " + "  ".join(row).rstrip() for row in padded]
    left = len(head.tokens) - len(order)
    if left > 0:
        rest = max(float(np.delete(mean, order).sum()), 0.0)
        lines.append(f"  and {left} more with {'weight' if single else 'mean weight'} {rest:.2g} together")
    return lines


def numbers(values: np.ndarray) -> str:
    """One number, or several in parentheses."""
    texts = [f"{value:.4g}" for value in np.ravel(values)]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
