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

Rows with a missing number are left out, and rows that contradict each other are replaced by their mean, unless
`missing` and `repeated` say otherwise (`targets/table_rows.py`); `notes` says what was done, with counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from softwright.domain import Box
from softwright.errors import Faults, InvalidInput
from softwright.targets.columns import Column, column_of, frame_column, frame_columns, usable_names, whole_frame
from softwright.targets.csv_files import KINDS, csv_line, kind_of
from softwright.targets.points import as_points
from softwright.targets.table_files import column_places, read_columns
from softwright.targets.table_rows import RowPolicy, check_spacing
from softwright.targets.target import Target

if TYPE_CHECKING:
    from scipy.interpolate import LinearNDInterpolator, RegularGridInterpolator
    from scipy.spatial import KDTree

_TRIANGULATED = 3  # dimensions; Delaunay triangulations grow too fast beyond


class Table(Target):
    """Values (n,) or (n, m) at points (n, d) (or (n,) in one dimension); see the module's text for the meaning between.

    `names` are the variables (default x, or x1, x2, ...). `points`, `values`, `axes` (None if scattered) and `box` (the
    smallest box round the points) are what was understood.
    """

    kind: ClassVar[str] = "table"

    def __init__(
        self,
        points: Any,
        values: Any,
        names: Sequence[str] | None = None,
        *,
        missing: str = "drop",
        repeated: str = "mean",
    ) -> None:
        self._understand(points, values, names, RowPolicy(missing, repeated))

    def _understand(self, points: Any, values: Any, names: Sequence[str] | None, policy: RowPolicy) -> None:
        faults = Faults("Table")
        where = _matrix("points", points, faults)
        what = _matrix("values", values, faults)
        faults.found += policy.faults()
        faults.raise_if_any()
        faults.check(
            len(where) == len(what),
            f"{len(where)} points but {len(what)} values; give one row of values for each point",
        )
        policy.check_cells(where, what, faults)
        names = _names(names, where.shape[1], faults)
        faults.raise_if_any()
        rows = policy.applied(where, what, names, faults)
        faults.raise_if_any()
        self._check_extent(rows.points, names if policy.columns is None else policy.columns[0], faults)
        faults.raise_if_any()
        axes = tuple(np.unique(rows.points[:, i]) for i in range(rows.points.shape[1]))
        # Distinct points are a subset of the grid of their coordinates, so equal counts mean that they fill it; sorted
        # points are then in C order.
        is_grid = _size(axes) == len(rows.points)
        order = np.arange(len(rows.points)) if is_grid else np.argsort(rows.first, kind="stable")
        self._set(rows.points[order], rows.values[order], axes if is_grid else None, names)
        self.counts, self.spread, self.notes = rows.counts[order], rows.spread, rows.notes

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
    def from_frame(
        cls,
        frame: Any,
        inputs: Sequence[str],
        outputs: Sequence[str],
        names: Sequence[str] | None = None,
        *,
        missing: str = "drop",
        repeated: str = "mean",
    ) -> Table:
        """A table from columns of a pandas, polars or pyarrow frame, or of a mapping from names to columns.

        Truths, dates and categories become numbers by the rules of `targets/columns.py`; `notes` says which did.
        `names` renames the input columns; without it those that no variable may be called by are renamed (T [K] to
        T_K), which `notes` says too. `Table.encode` does the same to the inputs of another frame.
        """
        inputs, outputs = _wanted("Table.from_frame", inputs, outputs)
        frame = whole_frame(frame, [*inputs, *outputs])
        present = frame_columns(frame)
        if present is None:
            fault = f"{type(frame).__name__} is no frame; give one of pandas, polars or pyarrow, or a dict of columns"
            raise InvalidInput("Table.from_frame", [fault])
        column_places("Table.from_frame", [*inputs, *outputs], present)
        faults = Faults("Table.from_frame")
        columns = {name: column_of(name, frame_column(frame, name), faults) for name in [*inputs, *outputs]}
        faults.raise_if_any()
        return cls._from_columns("Table.from_frame", columns, inputs, outputs, names, RowPolicy(missing, repeated))

    @classmethod
    def load(
        cls,
        path: str | Path,
        inputs: Sequence[str],
        outputs: Sequence[str],
        names: Sequence[str] | None = None,
        *,
        missing: str = "drop",
        repeated: str = "mean",
        decimal: str = ".",
    ) -> Table:
        """A table from columns of a text file (.csv, .tsv, .txt, also with .gz), a .npz or a .parquet file.

        Columns become numbers and variables as in `from_frame`; `decimal` is "," where numbers are written 1,5.
        """
        inputs, outputs = _wanted("Table.load", inputs, outputs)
        columns = read_columns(Path(path), [*inputs, *outputs], outputs, decimal)
        policy = RowPolicy(missing, repeated)
        if kind_of(Path(path)) in KINDS:
            policy = replace(policy, place=partial(csv_line, Path(path)))
        return cls._from_columns(f"Table.load {Path(path).name}", columns, inputs, outputs, names, policy)

    @classmethod
    def _from_columns(
        cls,
        subject: str,
        columns: Mapping[str, Column],
        inputs: list[str],
        outputs: list[str],
        names: Sequence[str] | None,
        policy: RowPolicy,
    ) -> Table:
        faults = Faults(subject)
        lengths = {name: len(column.numbers) for name, column in columns.items()}
        faults.check(
            len(set(lengths.values())) == 1,
            f"the columns have different lengths {lengths}; give one value per row in each",
        )
        for name in outputs:
            remedy = "give numbers, or use softwright.sklearn.AttentionClassifier"
            faults.check(columns[name].kind != "category", f"the output {name!r} holds categories; {remedy}")
        given = [names] if isinstance(names, str) else names
        faults.check(given is None or len(given) == len(inputs), f"{len(inputs)} inputs but names {given}; name each")
        faults.raise_if_any()
        own = usable_names(inputs) if given is None else list(given)
        chosen = [replace(columns[name], name=new) for name, new in zip(inputs, own, strict=True)]
        parts = [column.expanded() for column in chosen]
        points = np.hstack([numbers for _, numbers in parts])
        values = np.stack([columns[name].numbers for name in outputs], axis=1)
        table, variables = cls.__new__(cls), tuple(n for new, _ in parts for n in new)
        told = (n for name, (new, _) in zip(inputs, parts, strict=True) for n in ([name] if len(new) == 1 else new))
        try:
            table._understand(points, values, variables, replace(policy, columns=(tuple(told), tuple(outputs))))
        except InvalidInput as error:
            raise InvalidInput(subject, error.faults) from error
        table.encoding = tuple(zip(inputs, chosen, strict=True))
        called = [f"column {a!r} is called {b}" for a, b in zip(inputs, own, strict=True) if given is None and a != b]
        became = [note for column in (*chosen, *(columns[name] for name in outputs)) if (note := _told(column))]
        table.notes = (*called, *became, *table.notes)
        return table

    def encode(self, frame: Any) -> np.ndarray:
        """The inputs of another frame, a mapping or one row as points (n, d) of this table's variables."""
        faults = Faults("Table.encode")
        frame = whole_frame(frame, [name for name, _ in self.encoding])
        present = frame_columns(frame)
        if not self.encoding or present is None:
            faults.add("encode is for frames, of tables that were made from one; give points instead")
        faults.raise_if_any()
        column_places("Table.encode", [name for name, _ in self.encoding], present or [])
        parts = []
        for name, known in self.encoding:
            column = column_of(name, frame_column(frame, name), faults, known.levels)
            if not np.isnan(column.numbers).all():
                fault = f"column {name!r} holds {column.kind}s; the table was made from {known.kind}s"
                faults.check(column.kind == known.kind, fault)
            parts.append(replace(known, numbers=column.numbers).expanded()[1])
        faults.raise_if_any()
        return np.hstack(parts)

    def _set(
        self, points: np.ndarray, values: np.ndarray, axes: tuple[np.ndarray, ...] | None, names: tuple[str, ...]
    ) -> None:
        self.points: np.ndarray = points
        self.values: np.ndarray = values
        self.axes: tuple[np.ndarray, ...] | None = axes
        self.names = names
        self.outputs = values.shape[1]
        self.box = Box.from_bounds(points.min(axis=0), points.max(axis=0), names)
        check_spacing(axes or (), self.box)
        self.counts = np.ones(len(points), dtype=np.int64)
        self.spread: np.ndarray | None = None
        self.notes: tuple[str, ...] = ()
        self.encoding: tuple[tuple[str, Column], ...] = ()
        for array in (points, values, *(axes or ())):
            array.setflags(write=False)

    @staticmethod
    def _check_extent(points: np.ndarray, names: tuple[str, ...], faults: Faults) -> None:
        count, dim = points.shape
        needed = dim + 1 if dim <= _TRIANGULATED else 2
        few = f"{count} distinct points; {dim} variables need at least {needed}: add rows, or leave variables out"
        if not faults.check(count >= needed, few):
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
        from scipy.spatial import KDTree

        return KDTree(self.points)

    @cached_property
    def _triangulation(self) -> LinearNDInterpolator:
        from scipy.interpolate import LinearNDInterpolator

        return LinearNDInterpolator(self.points, self.values, rescale=True)

    @cached_property
    def _grid_interpolator(self) -> RegularGridInterpolator:
        from scipy.interpolate import RegularGridInterpolator

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
        told = "".join(f"; {note}" for note in self.notes)
        return f"Table({len(self.points)} points, {kind}, names={list(self.names)}, outputs={self.outputs}{told})"


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


def _wanted(subject: str, inputs: Sequence[str], outputs: Sequence[str]) -> tuple[list[str], list[str]]:
    """The columns asked for, as two lists."""
    faults = Faults(subject)
    inputs, outputs = (_as_names(given) for given in (inputs, outputs))
    for what, given in (("inputs", inputs), ("outputs", outputs)):
        listed = isinstance(given, Sequence) and all(isinstance(name, str) for name in given)
        faults.check(listed, f"{what} must be a list of column names, got {given!r}; name them with {what}=[...]")
    faults.raise_if_any()
    inputs, outputs = list(inputs), list(outputs)
    faults.check(bool(inputs), "no input columns; name them with inputs=[...]")
    faults.check(bool(outputs), "no output columns; name them with outputs=[...]")
    repeated = sorted({name for name in [*inputs, *outputs] if [*inputs, *outputs].count(name) > 1})
    faults.check(not repeated, f"columns {', '.join(repeated)} are named twice; name each column once")
    faults.raise_if_any()
    return inputs, outputs


def _as_names(given: Any) -> Any:
    """Names of columns as a list of texts; from one of them, from an index of pandas, and from numbers and tuples."""
    given = given.tolist() if hasattr(given, "tolist") else [given] if isinstance(given, str) else given
    plain = isinstance(given, list) and all(isinstance(name, str | int | tuple) for name in given)
    return [str(name) for name in given] if plain else given


def _told(column: Column) -> str:
    """What became of a column that is not of numbers."""
    if column.kind == "truth":
        return f"{column.name}: false is 0, true is 1"
    if column.kind in ("date", "duration"):
        return f"{column.name}: days{' since 1970-01-01 UTC' if column.kind == 'date' else ''}"
    if column.kind == "category" and len(column.levels) == 2:
        return f"{column.name}: {column.levels[0]} is 0, {column.levels[1]} is 1"
    if column.kind == "category":
        return f"{column.name}: {len(column.levels)} categories, a variable of 0 and 1 for each"
    return ""


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
        array = array.astype(np.float64)
        return np.where(np.ma.getmaskarray(given), np.nan, array) if isinstance(given, np.ma.MaskedArray) else array
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
        row, column = bad[0].tolist()
        first = f"row {row} column {column} is {array[row, column]}"
        faults.add(f"{what}: {first}, one of {len(bad)} that are no finite numbers; a grid needs a value everywhere")


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
