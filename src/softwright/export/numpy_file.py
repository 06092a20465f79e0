"""The tensors of a network as a NumPy archive: for programs that bring their own arithmetic.

One array per entry of `state_dict`, under its name, as it runs; `numpy.load(path)` reads them without softwright and
without torch. No other array is in the file: a certificate speaks of these weights run by torch's kernels, and not of
what another program makes of them. The comment of the archive says so, in JSON: the bound, the SHA-256 of the weights,
and the runs that the certificate covers.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from numpy.lib.format import write_array

from softwright.fileformat import write_atomically
from softwright.result.constructed import tensors_of
from softwright.result.kinds import KINDS

if TYPE_CHECKING:
    from softwright.result.built import Built


class NumpyFile:
    """A row of `EXPORTERS`."""

    name = "numpy"
    suffix = ".npz"
    kinds = frozenset(KINDS)
    needs = ""
    summary = "the tensors alone, one array per name, for numpy.load"

    def write(self, built: Built[Any], path: Path) -> None:
        content = io.BytesIO()
        certificate = built.certificate
        with ZipFile(content, "w") as archive:
            if certificate is not None:
                said = {name: getattr(certificate, name) for name in ("bound", "weights_sha256", "runtimes")}
                archive.comment = json.dumps(said).encode()
            for name, array in tensors_of(built.network).items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    write_array(entry, array, allow_pickle=False)
        write_atomically(path, content.getvalue())


EXPORTER = NumpyFile()
