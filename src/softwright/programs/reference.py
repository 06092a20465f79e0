"""What a program means, computed directly: terms over sequences in extended precision, without the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from softwright.programs.fields import Sequence
from softwright.programs.reals.functions import in_numpy, is_map
from softwright.programs.terms import Term

REAL = np.longdouble


class Reference:
    """Values of terms at every token of sequences (B, n) of one length."""

    def __init__(self, tokens: Sequence, fields: Mapping[str, np.ndarray]) -> None:
        """`fields` are numbers; symbols by their places."""
        self.tokens = tokens
        self.fields = {
            name: np.asarray(values, dtype=REAL if tokens.fields[name].kind == "real" else np.int64)
            for name, values in fields.items()
        }
        self.shape = next(iter(self.fields.values())).shape
        self._known: dict[int, np.ndarray] = {}

    def of(self, term: Term) -> np.ndarray:
        """(B, n)"""
        found = self._known.get(term.number)
        if found is None:
            found = np.broadcast_to(self._value(term), self.shape)
            self._known[term.number] = found
        return found

    def _value(self, term: Term) -> Any:
        op, (count, n) = term.op, self.shape
        if op == "number":
            return _number(term)
        if op == "symbol":
            return self.tokens.symbols.index(term.value)
        if op == "field":
            return self.fields[term.value]
        if op == "position":
            return np.arange(n)[None]
        if op == "length":
            return np.full(self.shape, n)
        if term.plain:
            return plain(op, [self.of(arg) for arg in term.args])
        if op == "at":
            where = self.of(term.args[1])
            inside = (where >= 0) & (where < n)
            found = np.take_along_axis(self.of(term.args[0]), np.where(inside, where, 0), axis=1)
            return found if len(term.args) == 2 else np.where(inside, found, self.of(term.args[2]))
        if op == "sort":
            order = np.argsort(self.of(term.args[1]), axis=1, kind="stable")
            return np.take_along_axis(self.of(term.args[0]), order, axis=1)
        if op == "smooth":
            base = 1 - REAL(term.args[1].value.numerator) / REAL(term.args[1].value.denominator)
            values, out = self.of(term.args[0]), np.zeros(self.shape, dtype=REAL)
            above, below = np.zeros(count, dtype=REAL), REAL(0)
            for i in range(n):
                above, below = above * base + values[:, i], below * base + 1
                out[:, i] = above / below
            return out
        if op in ("attend", "select"):
            return self._attended(term)
        if op == "place_of":
            scores = self.scores(term.args[0]).copy()
            for taken in term.args[2:]:
                np.put_along_axis(scores, self.of(taken)[..., None], -np.inf, axis=2)
            return scores.argmax(axis=2)
        if op == "assume":
            return self.of(term.args[0])
        if op == "interp":
            return self._interpolated(term)
        if op == "choose":
            best = self.of(term.args[1]).argmax(axis=1)
            return np.take_along_axis(self.of(term.args[0]), best[:, None], axis=1)
        return self._aggregate(term)

    def scores(self, score: Term) -> np.ndarray:
        """(B, n, n): of token i, for every token j."""
        return np.broadcast_to(self._pair(score), (*self.shape, self.shape[1])).astype(REAL)

    def _attended(self, term: Term) -> np.ndarray:
        scores, values = self.scores(term.args[1]), self.of(term.args[0])
        if term.op == "select":
            return np.take_along_axis(values, scores.argmax(axis=2), axis=1)
        if len(term.args) == 3:  # the tokens up to i alone
            scores = np.where(np.tri(scores.shape[2], dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        return (weights * values[:, None, :]).sum(axis=2) / weights.sum(axis=2)

    def _interpolated(self, term: Term) -> np.ndarray:
        """y at q, linearly between the times t; constant outside."""
        asked, times, values = (np.asarray(self.of(arg), dtype=REAL) for arg in term.args[:3])
        last = self.shape[1] - 1
        asked = np.minimum(np.maximum(asked, times[:, :1]), times[:, -1:])
        right = np.clip((times[:, None, :] < asked[:, :, None]).sum(axis=2), min(1, last), last)
        left = np.maximum(right - 1, 0)
        a, b, low, high = (np.take_along_axis(of, at, axis=1) for of in (times, values) for at in (left, right))
        share = np.divide(asked - a, b - a, out=np.zeros(self.shape, dtype=REAL), where=b != a)
        return low + share * (high - low)

    def _aggregate(self, term: Term) -> np.ndarray:
        inner, condition = term.args
        value = np.asarray(self._pair(inner))
        met = np.broadcast_to(self._pair(condition), (*self.shape, self.shape[1])).astype(bool)
        if term.op == "sum":
            return np.where(met, value, 0).sum(axis=2)
        some = met.any(axis=2)
        if term.op == "mean":
            total = np.where(met, value, 0).astype(REAL).sum(axis=2)
            return total / np.maximum(met.sum(axis=2), 1)
        sign = 1 if term.op == "max_of" else -1
        least = (sign * value).min() - 1
        best = np.where(met, sign * value, least).max(axis=2)
        return np.where(some, sign * best, 0)

    def _pair(self, term: Term) -> np.ndarray:
        """(B, n, n): token i, then token j."""
        if term.op == "number":
            return np.asarray(_number(term))[None, None, None]
        if term.op == "j":
            return self.of(term.args[0])[:, None, :]
        if term.op == "i":
            return self.of(term.args[0])[:, :, None]
        return plain(term.op, [self._pair(arg) for arg in term.args])


def _number(term: Term) -> Any:
    value = term.value
    return int(value) if value.denominator == 1 else REAL(value.numerator) / REAL(value.denominator)


def plain(op: str, a: list[np.ndarray]) -> np.ndarray:
    """An operation on arrays."""
    if is_map(op):
        return in_numpy(op.removeprefix("map:"), np.asarray(a[0], dtype=REAL))
    rules: dict[str, Any] = {
        "add": lambda: a[0] + a[1],
        "sub": lambda: np.subtract(_numeric(a[0]), _numeric(a[1])),
        "neg": lambda: -_numeric(a[0]),
        "mul": lambda: _numeric(a[0]) * _numeric(a[1]),
        "div": lambda: a[0].astype(REAL) / a[1],
        "floordiv": lambda: a[0] // a[1],
        "mod": lambda: a[0] % a[1],
        "pow": lambda: _power(a[0], a[1]),
        "abs": lambda: abs(a[0]),
        "min": lambda: np.minimum(a[0], a[1]),
        "max": lambda: np.maximum(a[0], a[1]),
        "eq": lambda: (a[0] == a[1]) * 1,
        "lt": lambda: (a[0] < a[1]) * 1,
        "le": lambda: (a[0] <= a[1]) * 1,
        "not": lambda: 1 - a[0],
        "and": lambda: a[0] * a[1],
        "or": lambda: np.maximum(a[0], a[1]),
        "where": lambda: np.where(a[0].astype(bool), a[1], a[2]),
        "table": lambda: np.select([a[0] == k for k in range(len(a) - 2)], a[2:], a[1]),
    }
    return rules[op]()


def _power(base: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    if exponents.min() != exponents.max():  # of whole numbers alone
        return np.asarray(base, dtype=np.int64) ** exponents
    exponent = exponents.reshape(-1)[0]
    if exponent == int(exponent) and exponent >= 0:
        return base ** int(exponent)
    return np.asarray(base, dtype=REAL) ** REAL(exponent)


def _numeric(array: np.ndarray) -> np.ndarray:
    return array.astype(np.int64) if array.dtype == bool else array
