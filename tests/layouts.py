"""Certificates with their entries side by side, as files of version 1 hold them, for tests that change one of them."""

from __future__ import annotations

from pathlib import Path

from softwright.fileformat import ModelFile, read_model
from softwright.result.certified import read_certificate


def flat(file: ModelFile) -> ModelFile:
    """The file with its certificate as version 1 wrote it."""
    said = file.sections["certificate"]
    return ModelFile(file.tensors, {**file.sections, "certificate": read_certificate(said).flat()})


def read_flat(path: str | Path) -> ModelFile:
    """What `read_model` reads, with its certificate as version 1 wrote it."""
    return flat(read_model(path))
