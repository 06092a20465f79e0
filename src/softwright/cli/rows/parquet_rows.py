"""Rows of a Parquet file through a network, in batches: all columns are kept and the results are appended.

Batches of rows are read, evaluated and written one after another, so that a file may be larger than memory; a single
row group must fit. The result appears under its name only when all rows are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from softwright.cli.rows.evaluation import RowEvaluation, result_names
from softwright.fileformat import write_atomically
from softwright.targets.table_files import CellFaults, open_parquet

_BATCH = 100_000  # rows in memory at a time


class ParquetEvaluation(RowEvaluation):
    """The same of a Parquet file."""

    def write(self, destination: Path) -> None:
        """To a Parquet file; a bad row leaves nothing behind."""
        network = self._built.network
        with open_parquet(self._source, self._subject, network.names, cell=0) as file:
            write_atomically(destination, lambda stream: self._through(file, stream))

    def _through(self, file: Any, stream: BinaryIO) -> None:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        header = file.schema_arrow
        names = result_names(header.names, self._built.network.outputs)
        schema = header
        for name in names:
            schema = schema.append(arrow.field(name, arrow.float64()))
        with parquet.ParquetWriter(stream, schema) as writer:
            for batch in _batches(file):
                values = self._values(self._points(batch), lambda k: f"row {self.rows + k + 1}")
                columns = [*batch.columns, *(arrow.array(values[:, i]) for i in range(len(names)))]
                writer.write_batch(arrow.RecordBatch.from_arrays(columns, schema=schema))
                self._done(len(values))

    def _points(self, batch: Any) -> np.ndarray[Any, Any]:
        """The points (n, d) of a batch; all bad cells are reported together."""
        network = self._built.network
        faults = CellFaults(self._subject)
        points = np.zeros((batch.num_rows, len(network.names)))
        for column, name in enumerate(network.names):
            given = batch.column(batch.schema.get_field_index(name))
            held = str(given.type)
            if not held.startswith(("int", "uint", "float", "double", "halffloat")):
                faults.add(f"column {name!r} has the type {held}; store real numbers")
                continue
            points[:, column] = given.to_numpy(zero_copy_only=False)  # what is missing is no number
            for row in np.flatnonzero(~np.isfinite(points[:, column])).tolist():
                where = f"row {self.rows + row + 1}, column {name}"
                faults.add_cell(f"{where}: {points[row, column]} is not a finite number; mend or remove the row")
        faults.close("not finite numbers")
        faults.raise_if_any()
        return points


def _batches(file: Any) -> Iterator[Any]:
    """Batches of rows, one row group after another: asked for all of them, Arrow holds on to those that were read."""
    for group in range(file.num_row_groups):
        yield from file.iter_batches(batch_size=_BATCH, row_groups=[group])
