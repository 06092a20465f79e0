"""Errors of a layer's numbers, carried from layer to layer in three ways at once, of which each neuron takes the least.

    error   |a^_i - a_i| <= error_i: through a linear map by |W|
    norm    |a^ - a|_2 <= norm: by |W|_2, and to one neuron by |W_i|_2
    shared  a^ - a = G xi + rest with |xi_k| <= 1: every rounding is a xi of its own, so that what one neuron's error
            does along several paths cancels as the weights do; G goes to W G, rest as above, by `rest` and `rest_norm`

Behind an activation both G and its slopes are kept for the next linear map, which reaches an output through all slopes
and causes at once (*Forms* in `norms.py`).

An activation with slopes in [p, q] has phi(s^) - phi(s) = D (s^ - s), p <= D_i <= q, so with the middle m and radius r
of the slopes G goes to m G, and rest to m rest + r (s^ - s).

*Sums*: what rounding does to sums of products, in any order, by how large partial sums can be.

A sum of n products and a bias is a tree with n + 1 leaves, whatever the order of a kernel. Each of its n inner nodes is
a partial sum z, rounded by at most u 2^floor(log2 |z|), half a unit in its last place; so is each product, unless it is
fused into a sum. A partial sum over k leaves is at most the sum of the k largest positive terms, or of the k largest
negative ones, and these sums end at all positive terms and all negative ones, which `values.terms` bounds for all
inputs together. Sizes of the nodes, largest first, are at most n + 1, n, .., 2: nodes of m leaves or more, r of which
have no such node below them, need r m leaves and one more for each node with one such child, and r - 1 nodes have two:
they are at most n + 1 - r m + r + (r - 1) <= n + 2 - m. So with f_k the bound for k leaves

    |s^ - s| <= u sum_{k=2}^{n+1} 2^floor(log2 f_k) + u sum_i 2^floor(log2 |w_i a_i|).

Where s is known to lie in [t, t'], what is below a node is s without all that is not: with f+_k and f-_k for the sums
of k positive and of k negative leaves, a partial sum over k of them lies between t - f+_{n+1-k} and t' + f-_{n+1-k}
too, and large nodes have small ones. That no longer grows with k, so the largest sum over all trees is taken itself,

    T(k) = 2^floor(log2 f_k) + max_{i + j = k} (T(i) + T(j)),    T(1) = 0.

What runs is a sum of numbers that were rounded before: f_k is that of the stored weights and of values with their
errors, and gamma_{n+2} of all terms more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from softwright.proof.arithmetic.directed import gamma, up
from softwright.transpiler.joint import Around, Joint
from softwright.transpiler.norms import balanced, is_worth, largest_value, norm

_MOST_SHARED = 1 << 20  # entries of G
_SORTED = 512  # terms; for more, all nodes are charged as the largest one
_ROOM = 1 + 1e-9  # of partial sums, before their powers of two are taken
_TREES = 1 << 24  # rows times squares of terms beyond which no trees are compared


@dataclass(frozen=True)
class Parts:
    """What parts of their largest values the causes of a layer are at one input, (C, H) on cells between edges of s."""

    around: Around
    edges: np.ndarray
    share: np.ndarray

    @cached_property
    def sizes(self) -> Joint:
        return Joint.of(self.around, [(self.edges, self.share)])

    @cached_property
    def squares(self) -> Joint:
        return Joint.of(self.around, [(self.edges, self.share**2 * (1 + 1e-15))])


@dataclass(frozen=True)
class Bent:
    """a^ - a = D G xi + rest of numbers behind slopes D = middle + radius delta, |delta| <= 1."""

    middle: np.ndarray
    radius: np.ndarray
    shared: np.ndarray  # G
    rest: np.ndarray


@dataclass
class Errors:
    """The numbers above; `shared` None: all is in `rest`."""

    error: np.ndarray
    norm: float
    shared: np.ndarray | None
    rest: np.ndarray
    rest_norm: float
    causes: tuple[tuple[int, Parts | None], ...] = ()  # columns of G of each layer, and the causes as parts of them
    bent: Bent | None = None  # behind an activation: of its first columns of G

    @classmethod
    def of(cls, own: np.ndarray) -> Errors:
        """Errors that nothing is known of but their sizes."""
        zero = np.zeros(len(own))
        if len(own) ** 2 > _MOST_SHARED:
            return cls(own, norm(own), None, own, norm(own))
        return cls(own, norm(own), np.diag(own), zero, 0.0, ((len(own), None),))

    @classmethod
    def none(cls, count: int) -> Errors:
        return cls(np.zeros(count), 0.0, np.zeros((count, 0)), np.zeros(count), 0.0)

    def through(self, weight: np.ndarray, largest: float) -> Errors:
        """W (a^ - a); `largest` bounds |W|_2."""
        if self.norm == 0.0:
            return Errors.none(len(weight))
        size, n = np.abs(weight), weight.shape[1]
        rows = np.sqrt(up((weight**2).sum(axis=1), n + 4)) * (1 + 1e-14)
        error = np.minimum(up(size @ self.error, n + 4), rows * self.norm * (1 + 1e-14))
        rest = np.minimum(up(size @ self.rest, n + 4), rows * self.rest_norm * (1 + 1e-14))
        rest_norm, shared = largest * self.rest_norm * (1 + 1e-14), None
        if self.shared is not None:
            shared = weight @ self.shared
            entries = up(np.abs(self.shared).sum(axis=1), self.shared.shape[1] + 4)
            slip = 2 * gamma(n + 4) * up(size @ entries, n + 4)
            rest, rest_norm = up(rest + slip, 4), (rest_norm + norm(slip)) * (1 + 1e-14)
            error = np.minimum(error, self._whole(shared, rest))
            if self.bent is not None:
                error = np.minimum(error, self._through_slopes(weight, shared, slip, self.bent))
        else:
            rest, rest_norm = np.minimum(rest, error), largest * self.norm * (1 + 1e-14)
            error = np.minimum(error, rest)
        return Errors(error, min(norm(error), largest * self.norm * (1 + 1e-14)), shared, rest, rest_norm, self.causes)

    def sloped(self, least: np.ndarray, most: np.ndarray) -> Errors:
        """D (s^ - s), least <= D <= most."""
        if self.norm == 0.0:
            return self
        slope = np.maximum(np.abs(least), np.abs(most))
        steepest = float(slope.max(initial=0.0))
        error, whole = up(slope * self.error, 4), steepest * self.norm * (1 + 1e-14)
        if self.shared is None:
            rest = up(slope * self.rest, 4)
            rest_norm = min(norm(rest), steepest * self.rest_norm * (1 + 1e-14))
            return Errors(error, min(norm(error), whole), None, rest, rest_norm)
        middle = 0.5 * (least + most)
        radius = np.maximum(most - middle, middle - least) * (1 + 1e-15)
        off = up(radius * self.error, 4)
        off_norm = min(norm(off), float(radius.max(initial=0.0)) * self.norm * (1 + 1e-14))
        shared = middle[:, None] * self.shared
        entries = up(np.abs(shared).sum(axis=1), shared.shape[1] + 4)
        slip = up(2.0**-52 * entries, 4)
        rest = up(np.abs(middle) * self.rest + off + slip, 8)
        kept = float(np.abs(middle).max(initial=0.0)) * self.rest_norm
        rest_norm = (kept + off_norm + norm(slip)) * (1 + 1e-14)
        error = np.minimum(error, self._whole(shared, rest))
        bent = Bent(middle, radius, self.shared, up(slope * self.rest + slip, 8))
        return Errors(error, min(norm(error), whole), shared, rest, min(rest_norm, norm(rest)), self.causes, bent)

    def plus(self, own: np.ndarray, parts: Parts | None = None) -> Errors:
        """Errors with new ones added, of which `parts` knows what parts of `own` they are at one input."""
        if not own.any():
            return self
        error = up(self.error + own, 4)
        size = min(norm(error), (self.norm + norm(own)) * (1 + 1e-14))
        if self.shared is None or len(own) * (self.shared.shape[1] + len(own)) > _MOST_SHARED:
            return Errors(error, size, None, error, size)
        shared = np.concatenate([self.shared, np.diag(own)], axis=1)
        return Errors(error, size, shared, self.rest, self.rest_norm, (*self.causes, (len(own), parts)), self.bent)

    def _whole(self, shared: np.ndarray, rest: np.ndarray, start: int = 0) -> np.ndarray:
        """|G xi| + rest, the causes of each layer as large together as they can be at one input; `shared`: the columns
        from `start` on."""
        total = rest
        for size, parts in self._by_layers(np.abs(shared), start):
            most = size.sum(axis=1)
            total = total + (most if parts is None else np.minimum(most, parts.sizes.most([size])))
        return up(total, shared.shape[1] + 8)

    def _by_layers(self, table: np.ndarray, first: int = 0) -> Iterator[tuple[np.ndarray, Parts | None]]:
        """The columns of each layer, and what is known of its causes; those of `table` are from `first` on."""
        start = -first
        for count, parts in self.causes:
            if 0 <= start < table.shape[1]:
                yield table[:, start : start + count], parts
            start += count

    def _through_slopes(self, weight: np.ndarray, shared: np.ndarray, slip: np.ndarray, bent: Bent) -> np.ndarray:
        """W (a^ - a) with the slopes behind which a stands, by the forms of `norms.py`."""
        outputs, (rows, columns) = len(weight), bent.shared.shape
        if not is_worth(outputs, rows, columns):
            return np.full(outputs, np.inf)
        steep = (weight * bent.radius)[:, :, None] * bent.shared
        forms = np.concatenate([shared[:, None, :columns], steep], axis=1)
        p, q = balanced(forms)
        squares = np.zeros(outputs)
        for part, parts in self._by_layers(q**2):
            most = part.sum(axis=1)
            squares = squares + (most if parts is None else np.minimum(most, parts.squares.most([part])))
        found = [largest_value(*one) for one in zip(forms, p, q, up(squares, columns + 8), strict=True)]
        own = self._whole(shared[:, columns:], up(np.abs(weight) @ bent.rest, rows + 4) + slip, columns)
        total = up(np.array(found) + own, 8)
        return np.where(np.isnan(total), np.inf, total)


def power_below(value: np.ndarray) -> np.ndarray:
    """2^floor(log2 value), 0 for 0."""
    _, exponent = np.frexp(value)
    return np.where(value > 0, np.ldexp(1.0, exponent - 1), 0.0)


class Sums:
    """The bound above for s = W a + b, a in [low, high], for several bounds of partial sums one after another."""

    def __init__(
        self,
        weight: np.ndarray,
        bias: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        slack: np.ndarray,
        unit: float,
    ) -> None:
        """`slack` is what partial sums of what runs are beyond those of exact numbers."""
        n = weight.shape[1]
        sides = weight * low, weight * high
        largest = [np.maximum(np.maximum(*sides), 0.0), np.maximum(-np.minimum(*sides), 0.0)]
        self.products = power_below(np.maximum(*largest) * _ROOM).sum(axis=1)
        self.slack, self.nodes = slack, n
        self.unit = unit * (1 + (4 * n + 32) * 2.0**-53)  # sums of 2n numbers, added in float64
        self.partial: list[np.ndarray] | None = None
        if n <= _SORTED:
            columns = (
                np.column_stack([x, np.maximum(sign * bias, 0.0)]) for x, sign in zip(largest, (1, -1), strict=True)
            )
            self.partial = [np.cumsum(-np.sort(-column), axis=1) for column in columns]  # (H, n + 1) each

    def rounding(
        self, ends: tuple[np.ndarray, np.ndarray], between: tuple[np.ndarray, np.ndarray] | None = None
    ) -> np.ndarray:
        """What rounding adds while all positive terms add up to the first of `ends` at most, all negative ones to the
        second, and s is `between` these numbers."""
        if self.partial is None:
            nodes = self.nodes * power_below((np.maximum(*ends) + self.slack) * _ROOM)
            return self.unit * (nodes + self.products)
        plus, minus = (np.minimum(x, end[:, None]) for x, end in zip(self.partial, ends, strict=True))
        if between is None or plus.shape[0] * plus.shape[1] ** 2 > _TREES:
            nodes = power_below((np.maximum(plus, minus)[:, 1:] + self.slack[:, None]) * _ROOM).sum(axis=1)
            return self.unit * (nodes + self.products)
        low, high = (x[:, None] for x in between)
        twice = self.slack[:, None]  # s is that of exact numbers, and so are the leaves that it has besides
        rest = [np.pad(x, ((0, 0), (1, 0)))[:, -2::-1] for x in (plus, minus)]  # of n + 1 - k leaves
        above, below = np.minimum(plus, high + rest[1] + twice), np.minimum(minus, rest[0] - low + twice)
        found = np.maximum(np.maximum(above, below), 0.0) + self.slack[:, None]
        return self.unit * (_worst_tree(power_below(found * _ROOM)) + self.products)


def _worst_tree(nodes: np.ndarray) -> np.ndarray:
    """T(n + 1) for every row of nodes (H, n + 1), those of k leaves in column k - 1."""
    count = nodes.shape[1]
    total = np.zeros((count + 1, len(nodes)))  # T(k) in row k
    for k in range(2, count + 1):
        half = k // 2
        total[k] = nodes[:, k - 1] + (total[1 : half + 1] + total[k - half : k][::-1]).max(axis=0)
    return total[count]
