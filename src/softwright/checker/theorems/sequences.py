"""Sequences that a theorem of paper C speaks of, as its file holds them, and the rank-1 head that reads them.

    drawn    sequences (N, d, n) of numbers, for C4 and C6 with labels (N, d, n)
    sizes    their shape, and how they came about; what the user gave stands there too and must be the same

A *context* is what an id may depend on: the set of tokens that a position sees, and the token that looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

from softwright.checker.entries import check_entries, is_float, is_size, is_whole, list_of
from softwright.checker.refusal import require
from softwright.checker.theorems.reading import NOT_DRAWN, Stage, TheoremFile

SCALES = ("paper", "tight")
Context = tuple[frozenset[int], int]  # tokens seen, token that looks: rows of the vocabulary


@dataclass(frozen=True)
class Sequences:
    """Different tokens (V, d), which of them stands where (N, n), and the labels (N, d, n) where there are some."""

    tokens: np.ndarray
    index: np.ndarray
    labels: np.ndarray | None

    def contexts(self, causal: bool) -> dict[Context, tuple[int, int]]:
        """Every context, and the first place (sequence, position) where it stands."""
        found: dict[Context, tuple[int, int]] = {}
        for i, row in enumerate(self.index.tolist()):
            for k, token in enumerate(row):
                found.setdefault((frozenset(row[: k + 1] if causal else row), token), (i, k))
        return found


def read_sequences(file: TheoremFile, labelled: bool) -> Sequences:
    """Sequences of pairwise distinct tokens in the shape that the sizes name."""
    require(file.drawn, NOT_DRAWN)
    numbers = list_of(list_of(list_of(is_float)))
    names = ("sequences", "labels") if labelled else ("sequences",)
    check_entries(file.drawn, dict.fromkeys(names, numbers), "what was drawn")
    given = {"sequences": "data", "labels": "labels"}
    tests = {
        **dict.fromkeys(("sequences", "length", "vocabulary", "dim", "head_size"), is_size),
        **{"scale": lambda value: value in SCALES, "seed": is_whole},
        **{given[name]: numbers for name in names},
    }
    check_entries(file.sizes, tests, "the sizes", ("data", "labels"))
    arrays = {name: array_of(file.drawn[name], name) for name in names}
    X = arrays["sequences"]
    for name, array in arrays.items():
        require(array.shape == X.shape, f"{name} and sequences are of different shapes")
        same = given[name] not in file.sizes or file.sizes[given[name]] == file.drawn[name]
        require(same, f"the {name} given are not those drawn")
    shape = tuple(file.sizes[name] for name in ("sequences", "dim", "length"))
    require(X.shape == shape, f"the sequences drawn are {X.shape}, the sizes say {shape}")
    N, d, n = X.shape
    require(n >= 2 and file.inputs == (d, n), "the network reads inputs of another shape")
    tokens, index = np.unique(np.swapaxes(X, 1, 2).reshape(-1, d), axis=0, return_inverse=True)
    index = index.reshape(N, n)
    require(all(len(set(row)) == n for row in index.tolist()), "a sequence holds a token twice")
    drawn = "data" in file.sizes or len(tokens) <= file.sizes["vocabulary"]
    require(drawn, "there are more different tokens than were drawn from")
    return Sequences(tokens, index, arrays.get("labels"))


def array_of(lists: Any, what: str) -> np.ndarray:
    shapes = {(len(rows), len(row)) for rows in lists for row in rows}
    require(len(shapes) == 1 and all(map(all, shapes)), f"the {what} are not of one shape")
    return np.array(lists, dtype=np.float64) + 0.0  # the sum makes -0 into 0: one token, not two


@dataclass(frozen=True)
class RankOneHead:
    """One softmax head with a residual: x_k + o sum_l softmax(k.x_l q.x_k)_l (v.x_l), all four of length d."""

    key: list[arb]
    query: list[arb]
    value: list[arb]
    output: list[arb]
    size: int  # rows s

    @property
    def scale(self) -> arb:
        """c of W_Q = c W_K."""
        return dot(self.query, self.key) / dot(self.key, self.key)


def rank_one_head(stage: Stage, d: int, causal: bool) -> RankOneHead:
    """The head, if the one row of W_K, W_Q, W_V and column of W_O that may differ from zero is the first."""
    require(stage.flags == {"residual": True, "causal": causal, "hard": False}, "the head is of another kind")
    require("T" not in stage.tensors and "W_O" in stage.tensors, "the head has another output than the theorem's")
    rows = []
    s = stage["W_K"].shape[1] if stage["W_K"].ndim == 3 else 0
    require(s >= 1, "W_K has no rows")
    for name in ("W_K", "W_Q", "W_V"):
        require(stage[name].shape == (1, s, d), f"{name} is not (1, {s}, {d})")
        require(not stage[name][0, 1:].any(), f"{name} is not of rank one: another row than the first is not zero")
        rows.append([arb(x) for x in stage[name][0, 0].tolist()])
    require(stage["W_O"].shape == (1, d, s), f"W_O is not (1, {d}, {s})")
    require(not stage["W_O"][0, :, 1:].any(), "W_O is not of rank one: another column than the first is not zero")
    require(any(not x.is_zero() for x in rows[0]), "W_K is zero")
    return RankOneHead(*rows, output=[arb(x) for x in stage["W_O"][0, :, 0].tolist()], size=s)


def dot(a: list[arb], b: list[arb]) -> arb:
    return sum((x * y for x, y in zip(a, b, strict=True)), arb(0))
