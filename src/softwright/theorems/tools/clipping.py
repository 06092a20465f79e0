"""The task of theorems A1 and A2: column i of X (d x n) becomes clip(w_i.x_i + t_i, a, b) e_kappa.

In the paper the coordinate is a function G(k) of the point; a G that changes between two neighbours cannot hold where
both share the mass, so that G is constant here: kappa is one coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softwright.attention import AttentionNetwork, Head
from softwright.domain import Box
from softwright.errors import Faults
from softwright.targets import Expression
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.interpolation import EPS0, Points, check_eps0, check_range, telling_places
from softwright.theorems.tools.rivals import Rivals, by_approximate
from softwright.theorems.tools.theorem import options

RADIUS = 5.0  # the paper draws its data uniformly from [-5, 5]
LIMIT = 100.0  # entries of inputs for which the rounding of float64 is bounded

OPTIONS = (
    *options(
        """
        tokens      50     tokens n of the input
        dim         10     entries d of a token
        a           -25.0  lower end of the clip
        b           25.0   upper end of the clip
        outputs     1      output coordinates d_o
        coordinate  0      the coordinate kappa that is written
        seed        0      seed of the weights w_i, t_i
        weights     -      w (tokens, dim) instead of random ones
        offsets     -      t (tokens,) instead of random ones
        """
    ),
    EPS0,
)


@dataclass(frozen=True)
class Clipping:
    """The options above, checked, with w (n, d) and t (n,): those given, or standard normal as in the paper."""

    tokens: int
    dim: int
    a: float
    b: float
    eps0: float
    outputs: int
    coordinate: int
    seed: int
    w: np.ndarray
    t: np.ndarray

    @classmethod
    def of(cls, faults: Faults, *, weights: Any, offsets: Any, **options: Any) -> Clipping:
        """The task; what is wrong with it is added to the faults, and the caller must not use it then."""
        tokens, dim, outputs, coordinate = (options[name] for name in ("tokens", "dim", "outputs", "coordinate"))
        good = [
            faults.check(tokens >= 1, f"tokens n must be at least 1, got {tokens}"),
            faults.check(dim >= 1, f"dim d must be at least 1, got {dim}"),
        ]
        faults.check(outputs >= 1, f"outputs d_o must be at least 1, got {outputs}")
        faults.check(0 <= coordinate < outputs, f"coordinate must be 0..{outputs - 1}, got {coordinate}")
        check_range(faults, options["a"], options["b"])
        check_eps0(faults, options["eps0"])
        rng = np.random.default_rng(options["seed"])
        shape = (tokens, dim) if all(good) else (1, 1)
        drawn = rng.standard_normal(shape), rng.standard_normal(shape[0])
        w = drawn[0] if weights is None else np.asarray(weights, dtype=float)
        t = drawn[1] if offsets is None else np.asarray(offsets, dtype=float)
        if all(good):
            _check_numbers(faults, "weights", w, shape, "(tokens, dim) = ")
            _check_numbers(faults, "offsets", t, shape[:1], "")
        return cls(**options, w=w, t=t)

    def sizes(self, rounding: float | None) -> dict[str, Any]:
        """For JSON; `limit` is 0 where nothing is said of rounding."""
        names = ("tokens", "dim", "a", "b", "eps0", "outputs", "coordinate", "seed")
        return {name: getattr(self, name) for name in names} | {"limit": LIMIT if rounding is not None else 0.0}

    @property
    def drawn(self) -> dict[str, Any]:
        """For JSON."""
        return {"weights": self.w.tolist(), "offsets": self.t.tolist()}

    @property
    def reach(self) -> float:
        """The largest sum_j |w_ij x_ij| + |t_i| for inputs with entries up to LIMIT."""
        return float((np.abs(self.w).sum(axis=1) * LIMIT + np.abs(self.t)).max())

    def token_maps(self, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
        """P (n, rows, d) and Q (n, n, columns): column i gets w_i * x_i, entry by entry, in its first d rows."""
        n, d = self.w.shape
        P, Q = np.zeros((n, rows, d)), np.zeros((n, n, columns))
        for i in range(n):
            P[i, :d] = np.diag(self.w[i])
            Q[i, i, i] = 1.0
        return P, Q

    def target(self, X: Any) -> np.ndarray:
        s = np.einsum("nd,...dn->...n", self.w, np.asarray(X, dtype=float)) + self.t
        out = np.zeros((*s.shape[:-1], self.outputs, s.shape[-1]))
        out[..., self.coordinate, :] = np.clip(s, self.a, self.b)
        return out

    def samples(self, points: Points, rng: np.random.Generator, count: int) -> np.ndarray:
        """Inputs (count, d, n): half uniform in [-5, 5], half moved along w_i so that s_i lies where the error is
        large."""
        n, d = self.w.shape
        X = rng.uniform(-RADIUS, RADIUS, (count, d, n))
        half = count // 2
        places = telling_places(points, rng, half * n).reshape(half, n)
        square = (self.w**2).sum(axis=1)
        good = square > 0
        missing = places - (np.einsum("nd,qdn->qn", self.w, X[:half]) + self.t)  # (half, n)
        X[:half] += np.where(good, missing / np.where(good, square, 1.0), 0.0)[:, None, :] * self.w.T[None]
        return np.clip(X, -LIMIT, LIMIT)

    def question(self, lines: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> tuple[AttentionNetwork, Expression]:
        """Heads as functions of s alone (ramp, bias and values of each), and the clip: a question for the prover."""
        sides = clip_sides(self.a, self.b)
        box = Box(sides)
        centre, half = float(0.5 * (box.lower[0] + box.upper[0])), float(box.halfwidth[0])
        heads = [Head((k * half)[:, None], c + k * centre, v[:, None]) for k, c, v in lines]
        return AttentionNetwork(heads, box), Expression(clip_text(self.a, self.b), ["s"])


def _check_numbers(faults: Faults, name: str, array: np.ndarray, shape: tuple[int, ...], what: str) -> None:
    if faults.check(array.shape == shape, f"{name} must be {what}{shape}, got {array.shape}"):
        faults.check(bool(np.isfinite(array).all()), f"{name} hold NaN or infinite entries")


def clip_text(a: float, b: float) -> str:
    return f"max({a!r}, min({b!r}, s))"


def clip_sides(a: float, b: float) -> dict[str, tuple[float, float]]:
    """Where the clip is looked at: as far beyond both ends as they are apart."""
    return {"s": (a - (b - a), b + (b - a))}


def clip_statement(rounding: float | None) -> str:
    inputs = "for every input X" if rounding is None else f"for every X with entries up to {LIMIT:g}"
    return f"every column i is within the bound of clip(w_i.x_i + t_i, a, b) e_kappa, {inputs}"


def clip_rival(made: Construction) -> Rivals:
    """The same clip by `approximate`, in float32."""
    a, b = made.sizes["a"], made.sizes["b"]
    return by_approximate(clip_text(a, b), clip_sides(a, b), made.tokens, dtype="float32", digits=5)
