"""Feed-forward networks from files: ONNX graphs (`onnx_reader.py`), and our own safetensors files.

Nothing is unpickled, ever: torch's `.pt` and `.pth` files and joblib's files hold programs, so they get an error that
says how to convert them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from softwright.errors import FileFormatError, InvalidInput
from softwright.fileformat import ForeignFile, read_model
from softwright.targets.mlp.activation import Activation
from softwright.targets.mlp.dense import FILE_KIND, DenseLayer, DenseNetwork, GatedNetwork, Runner
from softwright.targets.mlp.onnx_reader import read_onnx

_PICKLES = {".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".joblib"}


def read_file(path: str | Path) -> tuple[DenseNetwork | GatedNetwork, Runner | None, bool]:
    """The network in an ONNX file, how to run the graph, and whether it makes rows first; or that in a file of
    `save_mlp`, which is what it says."""
    source = Path(path)
    ending = source.suffix.lower()
    if ending in _PICKLES:
        raise FileFormatError(
            f"{source}: {ending} files are pickles, which can run any program, so they are never loaded; in Python, "
            "convert once with softwright.save_mlp(module, 'model.safetensors') or torch.onnx.export(module, ...)"
        )
    if not source.is_file():
        raise FileFormatError(f"{source}: no such file")
    if ending == ".onnx":
        return read_onnx(source)
    if ending == ".safetensors":
        return _read_own(source), None, False
    raise FileFormatError(f"{source}: give a .onnx file, or a .safetensors file written by softwright.save_mlp")


def _read_own(source: Path) -> DenseNetwork:
    try:
        content = read_model(source)
    except ForeignFile as error:
        raise FileFormatError(
            f"{source}: the file names no activations, so the network is not known from it; build the module in "
            "Python, load these tensors into it, and write it with softwright.save_mlp(module, path)"
        ) from error
    try:
        model = content.sections["model"]
        kind = model.get("kind")
        if kind != FILE_KIND:
            raise FileFormatError(
                f"{source}: holds a network of kind {kind!r}, which is attention already; give an MLP"
            )
        layers = [
            DenseLayer(
                content.tensors[f"layers.{i}.weight"].astype(np.float64),
                content.tensors[f"layers.{i}.bias"].astype(np.float64),
                Activation(entry["name"], tuple(entry["parameters"])),
            )
            for i, entry in enumerate(model["activations"])
        ]
        extra = set(content.tensors) - {f"layers.{i}.{name}" for i in range(len(layers)) for name in ("weight", "bias")}
        if extra:
            raise FileFormatError(f"{source}: holds tensors of no layer, {', '.join(sorted(extra))}; save it again")
        return DenseNetwork(layers, str(model["dtype"]), str(model["name"]))
    except (InvalidInput, FileFormatError):
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(f"{source}: the file does not describe an MLP ({error}); save it again") from error
