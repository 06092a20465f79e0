"""`Head`: one softmax head as a mathematical object, formula (0) of the theory.

With keys k_j, biases b_j and values v_j + G_j t, the head computes

    g(t) = sum_j (v_j + G_j t) e^{k_j.t + b_j} / sum_j e^{k_j.t + b_j},        t in the unit frame [-1, 1]^d.

A head is data in float64 that knows how to evaluate itself in NumPy, by any of the builders' needs; the torch module
that users run is `AttentionNetwork`. Softmax is unchanged when one vector is added to all keys or one number to all
biases: `centred` uses that freedom to keep the scores small, which is what float32 needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from softwright.errors import Faults

Structure = Literal["scattered", "grid", "gates"]


def softmax_rows(scores: np.ndarray) -> np.ndarray:
    """Softmax along the last axis, in place, shifted by the maximum."""
    scores -= np.maximum.reduce(scores, axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= np.add.reduce(scores, axis=-1, keepdims=True)
    return scores


@dataclass(frozen=True)
class Axis:
    """The tokens along one coordinate of a grid head: keys (n,), biases (n,)."""

    keys: np.ndarray
    biases: np.ndarray

    @property
    def tokens(self) -> int:
        return len(self.keys)

    def weights(self, t: np.ndarray) -> np.ndarray:
        """Softmax weights (q, n) at the coordinates t (q,)."""
        return softmax_rows(np.multiply.outer(np.asarray(t, dtype=float), self.keys) + self.biases)


@dataclass(frozen=True)
class Head:
    """keys (N, d), biases (N,), values (N, m), slopes (N, m, d) or None for constant values.

    `structure` says how the tokens came about: `scattered`, `grid` (the product of `axes`, first axis slowest, which
    lets the softmax factorise) or `gates` (hard gates between affine pieces).
    """

    keys: np.ndarray
    biases: np.ndarray
    values: np.ndarray
    slopes: np.ndarray | None = None
    structure: Structure = "scattered"
    axes: tuple[Axis, ...] = field(default=())

    def __post_init__(self) -> None:
        for name in ("keys", "biases", "values", "slopes"):
            array = getattr(self, name)
            if array is not None:
                object.__setattr__(self, name, np.ascontiguousarray(array, dtype=np.float64))
        faults = Faults("Head")
        if faults.check(self.keys.ndim == 2, f"keys must be (tokens, inputs), got shape {self.keys.shape}"):
            N, d = self.keys.shape
            faults.check(N >= 1 and d >= 1, "a head needs at least one token and one input")
            faults.check(self.biases.shape == (N,), f"biases must be ({N},), got {self.biases.shape}")
            values_ok = faults.check(
                self.values.ndim == 2 and len(self.values) == N,
                f"values must be ({N}, outputs), got {self.values.shape}",
            )
            if self.slopes is not None and values_ok:
                want = (N, self.values.shape[1], d)
                faults.check(self.slopes.shape == want, f"slopes must be {want}, got {self.slopes.shape}")
            for name in ("keys", "biases", "values", "slopes"):
                array = getattr(self, name)
                faults.check(array is None or bool(np.all(np.isfinite(array))), f"{name} hold NaN or infinite entries")
            sizes = [axis.tokens for axis in self.axes]
            faults.check(
                self.structure != "grid" or (len(sizes) == d and int(np.prod(sizes)) == N),
                f"a grid head of {N} tokens and {d} inputs needs {d} axes whose sizes multiply to {N}, got {sizes}",
            )
        faults.raise_if_any()

    @classmethod
    def on_grid(cls, axes: Sequence[Axis], values: np.ndarray, slopes: np.ndarray | None = None) -> Head:
        """Grid head from its axes; values (N, m) and slopes (N, m, d) in C order of the axes."""
        mesh = np.meshgrid(*[np.arange(axis.tokens) for axis in axes], indexing="ij")
        index = [grid.ravel() for grid in mesh]
        keys = np.stack([axis.keys[i] for axis, i in zip(axes, index, strict=True)], axis=1)  # (N, d)
        biases = sum((axis.biases[i] for axis, i in zip(axes, index, strict=True)), np.zeros(len(keys)))
        return cls(keys, np.asarray(biases), values, slopes, "grid", tuple(axes))

    @property
    def tokens(self) -> int:
        return self.keys.shape[0]

    @property
    def dim(self) -> int:
        return self.keys.shape[1]

    @property
    def outputs(self) -> int:
        return self.values.shape[1]

    @property
    def affine(self) -> bool:
        return self.slopes is not None

    @property
    def parameters(self) -> int:
        """How many numbers describe the head (a grid head stores its keys and biases axis by axis)."""
        score = sum(2 * axis.tokens for axis in self.axes) if self.structure == "grid" else self.keys.size + self.tokens
        slopes = (
            0
            if self.slopes is None
            else int(np.count_nonzero(np.any(self.slopes != 0, axis=(0, 1)))) * self.values.size
        )
        return int(score + self.values.size + slopes)

    def weights(self, t: np.ndarray) -> np.ndarray:
        """Softmax weights (q, N) at unit-frame points t (q, d)."""
        return softmax_rows(t @ self.keys.T + self.biases)

    def __call__(self, t: np.ndarray, chunk_elements: int = 4_000_000) -> np.ndarray:
        """Values (q, m) at unit-frame points t (q, d), in float64 and in chunks that bound the memory."""
        t = np.asarray(t, dtype=np.float64)
        out = np.empty((len(t), self.outputs))
        step = max(1, chunk_elements // self.tokens)
        for start in range(0, len(t), step):
            part = t[start : start + step]
            if self.structure == "grid" and self.dim > 1:
                out[start : start + step] = self._on_grid_axes(part)
                continue
            w = self.weights(part)  # (q, N)
            y = w @ self.values  # (q, m)
            if self.slopes is not None:
                moments = (w @ self.slopes.reshape(self.tokens, -1)).reshape(len(part), self.outputs, self.dim)
                y = y + np.einsum("qmd,qd->qm", moments, part)
            out[start : start + step] = y
        return out

    def _on_grid_axes(self, t: np.ndarray) -> np.ndarray:
        """The same sum with the softmax factorised over the axes: far cheaper, equal up to rounding."""
        shape = [axis.tokens for axis in self.axes]
        weights = [axis.weights(t[:, i]) for i, axis in enumerate(self.axes)]

        def contract(table: np.ndarray) -> np.ndarray:  # (N, c) -> (q, c)
            c = table.shape[1]
            y = weights[0] @ table.reshape(shape[0], -1)  # (q, n2*...*c)
            for w, n in zip(weights[1:], shape[1:], strict=True):
                y = np.einsum("qn,qnr->qr", w, y.reshape(len(t), n, -1))
            return y.reshape(len(t), c)

        y = contract(self.values)
        if self.slopes is not None:
            for i in np.flatnonzero(np.any(self.slopes != 0, axis=(0, 1))):
                y = y + t[:, i : i + 1] * contract(np.ascontiguousarray(self.slopes[:, :, i]))
        return y

    def centred(self) -> Head:
        """The same function with keys centred at their midrange and the largest bias zero (smaller scores)."""
        if self.structure == "grid":
            axes = tuple(
                Axis(a.keys - 0.5 * (a.keys.max() + a.keys.min()), a.biases - a.biases.max()) for a in self.axes
            )
            return Head.on_grid(axes, self.values, self.slopes)
        middle = 0.5 * (self.keys.max(axis=0) + self.keys.min(axis=0))
        return replace(self, keys=self.keys - middle, biases=self.biases - self.biases.max())

    def along(self, directions: np.ndarray, offset: np.ndarray | None = None) -> Head:
        """The head of the new variable s where this head's input is t = directions @ s + offset.

        `directions` is (d, d_new): a ridge head is a 1-D head along one row; a head on a few coordinates has unit rows.
        """
        D = np.asarray(directions, dtype=float).reshape(self.dim, -1)
        c = np.zeros(self.dim) if offset is None else np.asarray(offset, dtype=float)
        slopes = None if self.slopes is None else self.slopes @ D
        values = self.values if self.slopes is None else self.values + self.slopes @ c
        keys = self.keys @ D
        unchanged = D.shape[0] == D.shape[1] and np.array_equal(D, np.eye(D.shape[0])) and not np.any(c)
        structure: Structure = self.structure if unchanged or self.structure != "grid" else "scattered"
        return Head(
            keys, self.biases + self.keys @ c, values, slopes, structure, self.axes if structure == "grid" else ()
        )

    def embedded(self, dim: int, positions: Sequence[int]) -> Head:
        """The head of more variables that reads only those at `positions`; a grid stays a grid (with axes of one
        token)."""
        if self.structure != "grid" or list(positions) != sorted(positions):
            return self.along(
                np.eye(dim)[list(positions)]
            )  # a grid out of order is no longer stored first axis slowest
        idle = Axis(np.zeros(1), np.zeros(1))
        axes = [idle] * dim
        for axis, position in zip(self.axes, positions, strict=True):
            axes[position] = axis
        slopes = None
        if self.slopes is not None:
            slopes = np.zeros((self.tokens, self.outputs, dim))
            slopes[:, :, list(positions)] = self.slopes
        return Head.on_grid(axes, self.values, slopes)

    def plus_affine(self, constant: np.ndarray, gradient: np.ndarray | None = None) -> Head:
        """Add constant (m,) and gradient (m, d) times t: free, because the softmax weights add to one."""
        values = self.values + np.asarray(constant, dtype=float)
        if gradient is None or not np.any(gradient):
            return replace(self, values=values)
        base = np.zeros((self.tokens, self.outputs, self.dim)) if self.slopes is None else self.slopes
        return replace(self, values=values, slopes=base + np.asarray(gradient, dtype=float))

    def scaled(self, factor: float | np.ndarray) -> Head:
        """The head times `factor`, a number or one number per output (m,)."""
        f = np.asarray(factor, dtype=float)
        slopes = None if self.slopes is None else self.slopes * (f[..., None] if f.ndim else f)
        return replace(self, values=self.values * f, slopes=slopes)


def evaluate(heads: Sequence[Head], t: np.ndarray) -> np.ndarray:
    """The sum of the heads at unit-frame points t (q, d): (q, m)."""
    total = heads[0](t)
    for head in heads[1:]:
        total = total + head(t)
    return total
