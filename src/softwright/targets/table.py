"""`Table`: values at given points as a target, and what the table means between its points.

- Points that fill a tensor grid (in any order of rows; in one dimension always): multilinear interpolation between the
  grid points. `axes` holds the coordinates, `points` and `values` are in C order of the grid, so that
  `values.reshape(*map(len, axes), outputs)` is the array of values.
- Scattered points in two or three dimensions: linear on each triangle (tetrahedron) of the Delaunay triangulation, the
  nearest point's value outside the convex hull.
- Scattered points in more dimensions: the nearest point's value.

`Table.interpolant()` is a grid table as a function on its whole box, for statements about what lies between its points.

In every case the value at a stored point is the stored value exactly. Outside its box a grid is continued by the value
at the nearest point of the box. Two points are the same only if their coordinates are equal to the last bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.interpolate import LinearNDInterpolator, RegularGridInterpolator
from scipy.spatial import KDTree

from softwright.domain import Box
from softwright.errors import Faults, InvalidInput
from softwright.targets.points import as_points, show_point
from softwright.targets.table_files import read_columns
from softwright.targets.target import Target

_LISTED = 5  # bad cells or rows named one by one; the rest are counted
_TRIANGULATED = 3  # dimensions; Delaunay triangulations grow too fast beyond


class Table(Target):
    """Values (n,) or (n, m) at points (n, d) (or (n,) in one dimension); see the module's text for the meaning between.

    `names` are the variables (default x, or x1, x2, ...). `points`, `values`, `axes` (None if scattered) and `box` (the
    smallest box round the points) are what was understood.
    """

    kind: ClassVar[str] = "table"

    def __init__(self, points: Any, values: Any, names: Sequence[str] | None = None) -> None:
        faults = Faults("Table")
        where = _matrix("points", points, faults)
        what = _matrix("values", values, faults)
        faults.raise_if_any()
        faults.check(
            len(where) == len(what),
            f"{len(where)} points but {len(what)} values; give one row of values for each point",
        )
        _check_finite("points", where, faults)
        _check_finite("values", what, faults)
        names = _names(names, where.shape[1], faults)
        faults.raise_if_any()
        where = where + 0.0  # -0.0 becomes 0.0: they are the same place
        distinct, first, group = np.unique(where, axis=0, return_index=True, return_inverse=True)
        group = group.reshape(-1)
        self._check_duplicates(where, what, first[group], names, faults)
        self._check_extent(distinct, names, faults)
        faults.raise_if_any()
        axes = tuple(np.unique(distinct[:, i]) for i in range(distinct.shape[1]))
        # Distinct points are a subset of the grid of their coordinates, so equal counts mean that they fill it; sorted
        # points are then in C order.
        is_grid = _size(axes) == len(distinct)
        rows = first if is_grid else np.sort(first)
        self._set(where[rows], what[rows], axes if is_grid else None, names)

    @classmethod
    def grid(cls, axes: Sequence[Any], values: Any, names: Sequence[str] | None = None) -> Table:
        """A table on the tensor grid of `axes`: `values` has one dimension per axis, and a last one for the outputs."""
        faults = Faults("Table.grid")
        coordinates = tuple(_axis(i, axis, faults) for i, axis in enumerate(axes))
        faults.check(bool(coordinates), "no axes; give one array of coordinates for each variable")
        names = _names(names, len(coordinates), faults)
        faults.raise_if_any()
        shape = tuple(map(len, coordinates))
        array = _numbers("values", values, faults)
        fits = array.shape == shape or (array.ndim == len(shape) + 1 and array.shape[:-1] == shape and array.size > 0)
        faults.check(fits, f"values have shape {array.shape}; axes of these lengths need {shape} or {(*shape, 'm')}")
        faults.raise_if_any()
        table = array.reshape(_size(coordinates), -1)
        _check_finite("values", table, faults)
        faults.raise_if_any()
        points = np.stack(np.meshgrid(*coordinates, indexing="ij"), axis=-1).reshape(-1, len(coordinates))
        made = cls.__new__(cls)
        made._set(points, table.copy(), coordinates, names)
        return made

    @classmethod
    def load(
        cls, path: str | Path, inputs: Sequence[str], outputs: Sequence[str], names: Sequence[str] | None = None
    ) -> Table:
        """A table from columns of a .csv, .npz or .parquet file; `names` renames the input columns."""
        inputs = [inputs] if isinstance(inputs, str) else list(inputs)
        outputs = [outputs] if isinstance(outputs, str) else list(outputs)
        faults = Faults("Table.load")
        faults.check(bool(inputs), "no input columns; name them with inputs=[...]")
        faults.check(bool(outputs), "no output columns; name them with outputs=[...]")
        repeated = sorted({name for name in [*inputs, *outputs] if [*inputs, *outputs].count(name) > 1})
        faults.check(not repeated, f"columns {', '.join(repeated)} are named twice; name each column once")
        faults.raise_if_any()
        columns = read_columns(Path(path), [*inputs, *outputs])
        points = np.stack([columns[name] for name in inputs], axis=1)
        values = np.stack([columns[name] for name in outputs], axis=1)
        return cls(points, values, names=inputs if names is None else names)

    def _set(
        self, points: np.ndarray, values: np.ndarray, axes: tuple[np.ndarray, ...] | None, names: tuple[str, ...]
    ) -> None:
        self.points: np.ndarray = points
        self.values: np.ndarray = values
        self.axes: tuple[np.ndarray, ...] | None = axes
        self.names = names
        self.outputs = values.shape[1]
        self.box = Box.from_bounds(points.min(axis=0), points.max(axis=0), names)
        for array in (points, values, *(axes or ())):
            array.setflags(write=False)

    @staticmethod
    def _check_duplicates(
        points: np.ndarray, values: np.ndarray, first: np.ndarray, names: tuple[str, ...], faults: Faults
    ) -> None:
        """Rows that repeat a point must repeat its values; `first` is the first row with the same point."""
        rows = np.flatnonzero(np.any(values != values[first], axis=1))
        for row in rows[:_LISTED].tolist():
            at = show_point(names, points[row])
            faults.add(f"rows {first[row]} and {row} give different values at {at}; keep one of them or their mean")
        if len(rows) > _LISTED:
            faults.add(f"{len(rows) - _LISTED} more rows contradict an earlier row; remove the contradictions")

    @staticmethod
    def _check_extent(points: np.ndarray, names: tuple[str, ...], faults: Faults) -> None:
        count, dim = points.shape
        needed = dim + 1 if dim <= _TRIANGULATED else 2
        if not faults.check(count >= needed, f"{count} distinct points; {dim} variables need at least {needed}"):
            return
        spread = points.max(axis=0) - points.min(axis=0)
        constant = [name for name, width in zip(names, spread, strict=True) if width == 0.0]
        if not faults.check(not constant, f"{', '.join(constant)} is the same at every point; leave that column out"):
            return
        if 1 < dim <= _TRIANGULATED:
            centred = (points - points.mean(axis=0)) / spread
            flat = np.linalg.svd(centred, compute_uv=False)[-1] <= 1e-12 * np.sqrt(count)
            faults.check(not flat, "the points lie on a line or plane; express them with fewer variables")

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Values (n, m) at points (n, d): stored values at stored points, interpolated between (see the module)."""
        points = as_points(points, self.names, "Table")
        if self.axes is None:
            return self._scattered(points)
        inside = np.clip(points, self.box.lower, self.box.upper)
        if self.dim == 1:
            columns = [np.interp(inside[:, 0], self.axes[0], self.values[:, i]) for i in range(self.outputs)]
            return np.stack(columns, axis=1)
        return self._grid_interpolator(inside)

    def _scattered(self, points: np.ndarray) -> np.ndarray:
        distance, nearest = self._tree.query(points)
        values = self.values[nearest]
        if self.dim <= _TRIANGULATED and len(points):
            between = self._triangulation(points)
            use = (distance > 0.0) & np.isfinite(between).all(axis=1)  # nan marks points outside the hull
            values[use] = between[use]
        return values

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self.points)

    @cached_property
    def _triangulation(self) -> LinearNDInterpolator:
        return LinearNDInterpolator(self.points, self.values, rescale=True)

    @cached_property
    def _grid_interpolator(self) -> RegularGridInterpolator:
        axes = self.axes or ()
        return RegularGridInterpolator(axes, self.values.reshape(*map(len, axes), self.outputs), method="linear")

    def faults_on(self, box: Box) -> list[str]:
        outside = int((~box.contains(self.points)).sum())
        fault = f"{outside} point(s) of the table lie outside the box; widen the box or leave it out"
        return [fault] if outside else []

    def given_points(self) -> tuple[np.ndarray, np.ndarray]:
        return self.points, self.values

    def interpolant(self) -> Interpolant:
        """The table as a function on its whole box; for points on a grid only."""
        return Interpolant(self)

    def describe(self) -> dict[str, Any]:
        """The shape of the table and a digest of its numbers, which are not repeated here."""
        digest = hashlib.sha256(self.points.tobytes() + self.values.tobytes()).hexdigest()
        return {
            "kind": self.kind,
            "variables": list(self.names),
            "outputs": self.outputs,
            "points": len(self.points),
            "grid": None if self.axes is None else [len(axis) for axis in self.axes],
            "sha256": digest,
        }

    def __repr__(self) -> str:
        kind = "scattered" if self.axes is None else "grid " + " x ".join(str(len(axis)) for axis in self.axes)
        return f"Table({len(self.points)} points, {kind}, names={list(self.names)}, outputs={self.outputs})"


class Interpolant(Target):
    """A grid table as a function: multilinear on every cell, continued outside by the nearest point of its box."""

    kind: ClassVar[str] = "interpolant"

    def __init__(self, table: Table) -> None:
        if table.axes is None:
            fault = "the points do not fill a grid, so the table has no multilinear interpolant; use Table.grid"
            raise InvalidInput("Table.interpolant", [fault])
        self.table = table
        self.axes: tuple[np.ndarray, ...] = table.axes
        self.grid = table.values.reshape(*map(len, table.axes), table.outputs)  # (n_1, .., n_d, m)
        self.names, self.outputs, self.box = table.names, table.outputs, table.box

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Values (n, m) at points (n, d)."""
        return self.table(points)

    def describe(self) -> dict[str, Any]:
        """The table's description under a kind of its own."""
        return {**self.table.describe(), "kind": self.kind}

    def __repr__(self) -> str:
        return f"{self.table!r}.interpolant()"


def _size(axes: Sequence[np.ndarray]) -> int:
    size = 1
    for axis in axes:
        size *= len(axis)
    return size


def _numbers(what: str, given: Any, faults: Faults) -> np.ndarray:
    try:
        array = np.asarray(given)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"dtype {array.dtype}")
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        faults.add(f"{what} are not real numbers ({error}); give an array of numbers")
        return np.zeros((1, 1))


def _matrix(what: str, given: Any, faults: Faults) -> np.ndarray:
    array = _numbers(what, given, faults)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        faults.add(f"{what} have shape {array.shape}; give (n, columns) or (n,)")
        return np.zeros((1, 1))
    return array


def _check_finite(what: str, array: np.ndarray, faults: Faults) -> None:
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        cells = ", ".join(
            f"row {row} column {column} is {array[row, column]}" for row, column in bad[:_LISTED].tolist()
        )
        more = f" and {len(bad) - _LISTED} more" if len(bad) > _LISTED else ""
        faults.add(f"{what}: {cells}{more}; remove or mend these rows")


def _axis(index: int, given: Any, faults: Faults) -> np.ndarray:
    axis = _numbers(f"axis {index}", given, faults)
    if axis.ndim != 1 or len(axis) < 2:
        faults.add(f"axis {index} has shape {axis.shape}; give a 1-D array of 2 or more coordinates")
    elif not np.isfinite(axis).all():
        faults.add(f"axis {index} holds nan or inf; give finite coordinates")
    elif not np.all(np.diff(axis) > 0):
        place = int(np.flatnonzero(np.diff(axis) <= 0)[0])
        fault = f"axis {index} does not increase at {axis[place]:g}, {axis[place + 1]:g}"
        faults.add(f"{fault}; sort it, and the values with it, and drop repetitions")
    return axis


def _names(names: Sequence[str] | None, dim: int, faults: Faults) -> tuple[str, ...]:
    """The names of the variables; what makes a name usable is the box's business."""
    given = [names] if isinstance(names, str) else names
    try:
        return Box.from_bounds(np.zeros(dim), np.ones(dim), given).names
    except InvalidInput as error:
        for fault in error.faults:
            faults.add(f"names: {fault}")
        return tuple(f"x{i}" for i in range(1, dim + 1))
