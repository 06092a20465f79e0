"""`Box`: the named, closed, bounded product of intervals over which everything is built, checked and proved.

All constructions work in the unit frame t = (x - centre) / halfwidth in [-1, 1]^d; a box converts between both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from softwright.errors import Faults, InvalidInput

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")
_RESERVED = frozenset({"pi", "e"})


def is_usable(name: Any) -> bool:
    """Whether a variable may be called so."""
    return isinstance(name, str) and bool(_NAME.match(name)) and name not in _RESERVED


class Box:
    """A closed box with named sides: `Box(x=(-1, 1), y=(-2, 2))`.

    Bounds may also come as one mapping, `Box({"x": (-1, 1)})`, or as arrays, `Box.from_bounds([-1, -2], [1, 2])`.
    """

    __slots__ = ("lower", "names", "upper")

    def __init__(self, bounds: Mapping[str, Sequence[float]] | None = None, /, **named: Sequence[float]) -> None:
        sides: dict[str, Sequence[float]] = {**(bounds or {}), **named}
        faults = Faults("Box")
        faults.check(bool(sides), "a box needs at least one side, for example Box(x=(-1, 1))")
        lower, upper = [], []
        for name, side in sides.items():
            faults.check(
                is_usable(name),
                f"{name!r} is not a usable variable name; use letters, digits and _ (and neither 'pi' nor 'e')",
            )
            try:
                low, high = (float(bound) for bound in side)
            except (TypeError, ValueError):
                faults.add(f"side {name}: {side!r} is not a pair of numbers; write {name}=(low, high)")
                continue
            if not (np.isfinite(low) and np.isfinite(high)):
                faults.add(f"side {name}: ({low}, {high}) is not finite; a proof needs a bounded domain, give numbers")
            elif low > high:
                faults.add(f"side {name}: low {low} exceeds high {high}; swap them")
            elif low == high:
                faults.add(f"side {name}: ({low}, {high}) is empty; substitute the constant {low} into the target")
            elif not np.isfinite(high - low) or high - low < 1e-290:
                faults.add(f"side {name}: ({low}, {high}) cannot be scaled in float64; rescale the variable")
            lower.append(low)
            upper.append(high)
        faults.raise_if_any()
        self.names: tuple[str, ...] = tuple(sides)
        self.lower = np.array(lower, dtype=np.float64)
        self.upper = np.array(upper, dtype=np.float64)
        self.lower.setflags(write=False)
        self.upper.setflags(write=False)

    @classmethod
    def from_bounds(
        cls,
        lower: Sequence[float] | np.ndarray,
        upper: Sequence[float] | np.ndarray,
        names: Sequence[str] | None = None,
    ) -> Box:
        """Box from two arrays; the sides are called x1, x2, ... (x alone in one dimension) unless names are given."""
        low, high = np.atleast_1d(np.asarray(lower, float)), np.atleast_1d(np.asarray(upper, float))
        faults = Faults("Box.from_bounds")
        faults.check(
            low.ndim == 1 and low.shape == high.shape, f"shapes {low.shape} and {high.shape} must be equal, 1-D"
        )
        if names is None:
            names = default_names(low.size)
        faults.check(len(names) == low.size, f"{len(names)} names for {low.size} sides; give one name per side")
        faults.check(len(set(names)) == len(names), f"names {list(names)} repeat; each side needs its own name")
        faults.raise_if_any()
        return cls({name: (a, b) for name, a, b in zip(names, low.tolist(), high.tolist(), strict=True)})

    @property
    def dim(self) -> int:
        return len(self.names)

    @property
    def center(self) -> np.ndarray:
        return self.lower + 0.5 * (self.upper - self.lower)

    @property
    def halfwidth(self) -> np.ndarray:
        return 0.5 * (self.upper - self.lower)

    def from_unit(self, points: np.ndarray) -> np.ndarray:
        """Map t in [-1, 1]^d to the box; the ends map to the ends exactly, and nothing leaves the box."""
        inside = self.halfwidth * points
        inside += self.center
        np.minimum(np.maximum(inside, self.lower, out=inside), self.upper, out=inside)
        for end, beyond in ((self.upper, points >= 1), (self.lower, points <= -1)):
            places = np.nonzero(beyond)  # mostly few
            inside[places] = end[places[-1]]
        return inside

    def to_unit(self, points: np.ndarray) -> np.ndarray:
        return (points - self.center) / self.halfwidth

    def contains(self, points: np.ndarray) -> np.ndarray:
        """Which of the points (n, d) lie in the closed box: (n,) booleans."""
        inside = (points >= self.lower) & (points <= self.upper)
        return inside[..., 0] if self.dim == 1 else np.all(inside, axis=-1)

    def sample(self, count: int, seed: int = 0) -> np.ndarray:
        """`count` uniform random points (count, d), the same for the same seed."""
        return self.from_unit(np.random.default_rng(seed).uniform(-1.0, 1.0, (count, self.dim)))

    def corners(self, most: int = 4096) -> np.ndarray:
        """The 2^d corners (at most `most` of them, in a fixed order)."""
        count = min(most, 2 ** min(self.dim, 40))
        bits = (np.arange(count)[:, None] >> np.arange(self.dim)) & 1
        return np.where(bits == 1, self.upper, self.lower)

    def as_dict(self) -> dict[str, list[float]]:
        return {name: [float(a), float(b)] for name, a, b in self}

    def __iter__(self) -> Iterator[tuple[str, float, float]]:
        return iter(list(zip(self.names, self.lower.tolist(), self.upper.tolist(), strict=True)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and self.as_dict() == other.as_dict() and self.names == other.names

    def __hash__(self) -> int:
        return hash((self.names, tuple(self.lower.tolist()), tuple(self.upper.tolist())))

    def __repr__(self) -> str:
        return "Box(" + ", ".join(f"{name}=({low:g}, {high:g})" for name, low, high in self) + ")"


def default_names(dim: int) -> list[str]:
    """x alone in one dimension, else x1, x2, ..."""
    return ["x"] if dim == 1 else [f"x{i}" for i in range(1, dim + 1)]


def sides_of(value: Any, names: Sequence[str] | None = None) -> dict[str, tuple[float, float]]:
    """The sides of a box, name -> (low, high), in any of the forms in which a user may give them:

    a `Box`; a mapping, {"x": (-1, 1), "y": (0, 2)}; one pair of numbers, (-1, 1), for every variable; a sequence of
    pairs, [(-1, 1), (0, 2)], one per variable; or two arrays, the lower and the upper bounds of all variables.

    `names` are those of the variables, where they are known; x, or x1, x2, ... otherwise. A mapping brings its own.
    Lists of two pairs of numbers are pairs, one per variable; only arrays (NumPy, torch) are lower and upper bounds.
    Only the form is looked at: whether the numbers make a box, `Box` says.
    """
    if isinstance(value, Box):
        return {name: (low, high) for name, low, high in value}
    if isinstance(value, Mapping):
        return dict(value)
    how = "give Box(x=(-1, 1)), a mapping {'x': (-1, 1)}, a pair (low, high), or one such pair per variable"
    entries = list(value) if isinstance(value, list | tuple | np.ndarray) else []
    try:
        shapes = [np.shape(entry) for entry in entries]
        numbers = [np.asarray(entry, dtype=np.float64) for entry in entries]
    except (TypeError, ValueError, RuntimeError):
        raise InvalidInput("box", [f"{value!r} is not a box; {how}"]) from None
    arrays = len(entries) == 2 and all(hasattr(entry, "ndim") for entry in entries)
    if len(entries) == 2 and shapes == [(), ()]:
        pairs = [(float(numbers[0]), float(numbers[1]))] * (1 if names is None else len(names))
    elif len(entries) == 2 and len(set(shapes)) == 1 and len(shapes[0]) == 1 and (arrays or shapes[0] != (2,)):
        pairs = list(zip(numbers[0].tolist(), numbers[1].tolist(), strict=True))
    elif entries and all(shape == (2,) for shape in shapes):
        pairs = [(float(low), float(high)) for low, high in numbers]
    else:
        raise InvalidInput("box", [f"{value!r} is not a box; {how}"])
    given = default_names(len(pairs)) if names is None else list(names)
    if len(given) != len(pairs):
        wanted = f"{len(given)} variable(s), {', '.join(given)}"
        raise InvalidInput("box", [f"{len(pairs)} pair(s) of bounds for {wanted}; give one pair (low, high) for each"])
    return dict(zip(given, pairs, strict=True))


def as_box(value: Any, names: Sequence[str] | None = None) -> Box:
    """The box that a user means; see `sides_of` for the forms. All faults of a box that is none come in one error."""
    return value if isinstance(value, Box) else Box(sides_of(value, names))
