"""Values at nodes, each asked for once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from softwright.approximation.train.axes import Axis

Index = tuple[int, ...]


class Sampler:
    """The function at multi-indices of nodes. The last entry of an index is the output; a point is asked for once."""

    def __init__(self, ask: Callable[[np.ndarray], np.ndarray], order: Sequence[int], axes: Sequence[Axis]) -> None:
        """`ask` maps points (n, d) of the unit frame to values (n, m); `order` gives the variable of each place."""
        self.ask, self.order, self.axes = ask, tuple(order), list(axes)
        self.known: dict[Index, np.ndarray] = {}

    def points(self, indices: Sequence[Index]) -> np.ndarray:
        found = np.empty((len(indices), len(self.axes)))
        array = np.array(indices, dtype=int).reshape(len(indices), -1)
        for place, axis in enumerate(self.axes):
            found[:, self.order[place]] = axis.places[array[:, place]]
        return found

    def __call__(self, indices: Sequence[Index]) -> np.ndarray:
        """Values (n,) at indices of places and output."""
        new = list(dict.fromkeys(index[:-1] for index in indices if index[:-1] not in self.known))
        if new:
            self.known.update(zip(new, self.ask(self.points(new)), strict=True))
        return np.array([self.known[index[:-1]][index[-1]] for index in indices])
