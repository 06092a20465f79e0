"""What a network attends to: the tokens by name, their weights, keys and values, in the user's own coordinates.

An `AttentionView` is what `Built.attention` returns: one `HeadView` per head that ran, and a table when printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

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
    """One head at some points x (points, d), in the user's coordinates.

    The score of token j at x is keys[j] @ x + biases[j]; its value is values[j] + slopes[j] @ x. What x is where it is
    not a point (a sequence, a prompt), the network that made the view says.
    """

    name: str
    tokens: Sequence[str]
    weights: np.ndarray  # (points, tokens), every row adds up to 1
    keys: np.ndarray  # (tokens, d)
    biases: np.ndarray  # (tokens,)
    values: np.ndarray  # (tokens, m)
    slopes: np.ndarray | None = None  # (tokens, m, d)

    def values_at(self, points: np.ndarray) -> np.ndarray:
        """What each token gives at each of the points (points, d): (points, tokens, m)."""
        if self.slopes is None:
            return np.broadcast_to(self.values, (len(points), *self.values.shape))
        return self.values + np.einsum("nmd,qd->qnm", self.slopes, points)

    def strongest(self, point: int = 0) -> list[tuple[str, float]]:
        """(token, weight) at one of the points, the largest weight first."""
        order = np.argsort(-self.weights[point], kind="stable")
        return [(self.tokens[j], float(self.weights[point, j])) for j in map(int, order)]


@dataclass(frozen=True, eq=False)
class AttentionView:
    """All heads of a network at some points; print it for a table, or take the arrays of `heads`."""

    asked: tuple[str, ...]  # what was asked, one text per point: "x = 0.3, y = 1"
    points: np.ndarray | None  # (points, d) where the input is points
    heads: tuple[HeadView, ...]

    def __getitem__(self, head: int) -> HeadView:
        return self.heads[head]

    def __len__(self) -> int:
        return len(self.heads)

    @cached_property
    def _text(self) -> str:
        where = self.asked[0] if len(self.asked) == 1 else f"{len(self.asked)} points, {self.asked[0]} first"
        lines = [f"Attention at {where}"]
        for head in self.heads[:_SHOWN_HEADS]:
            lines += [f"{head.name}, {len(head.tokens)} token(s)", *_table(head, self.points)]
        if len(self.heads) > _SHOWN_HEADS:
            lines.append(f"and {len(self.heads) - _SHOWN_HEADS} more head(s); see .heads")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self._text


def _table(head: HeadView, points: np.ndarray | None) -> list[str]:
    """The tokens of the largest weights, one line each; of several points, their mean and largest weight."""
    mean, most = head.weights.mean(axis=0), head.weights.max(axis=0)
    order = np.argsort(-most, kind="stable")[:_SHOWN_TOKENS]
    single = len(head.weights) == 1
    rows = [("token", "weight", "value") if single else ("token", "mean weight", "largest")]
    at = np.zeros((1, head.keys.shape[1])) if points is None else points[:1]
    for j in map(int, order):
        last = numbers(head.values_at(at)[0, j]) if single else f"{most[j]:.4g}"
        rows.append((head.tokens[j], f"{mean[j]:.4g}", last))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    padded = [[text.ljust(width) for text, width in zip(row, widths, strict=True)] for row in rows]
    lines = ["  " + "  ".join(row).rstrip() for row in padded]
    left = len(head.tokens) - len(order)
    if left > 0:
        rest = float(np.delete(mean, order).sum())
        lines.append(f"  and {left} more with {'weight' if single else 'mean weight'} {max(rest, 0.0):.2g} together")
    return lines


def numbers(values: np.ndarray) -> str:
    """One number, or several in parentheses."""
    texts = [f"{value:.4g}" for value in np.ravel(values)]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
