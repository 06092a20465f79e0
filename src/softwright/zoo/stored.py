"""The stored models: one archive of model files, as `Built.save` wrote them."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile

from softwright.errors import FileFormatError
from softwright.zoo.recipes import recipe

if TYPE_CHECKING:
    from softwright.result.built import Built

PLACE = Path(__file__).with_name("models.zip")


def content(name: str) -> bytes:
    """The bytes of a stored model file."""
    recipe(name)
    try:
        with ZipFile(PLACE) as archive:
            return archive.read(f"{name}.safetensors")
    except (OSError, KeyError, BadZipFile) as error:
        raise FileFormatError(f"{PLACE}: {name} is not stored ({error}); build it: softwright zoo build") from error


def load(name: str) -> Built[Any]:
    """The stored model."""
    from softwright.result.built import load as load_file

    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.safetensors"
        path.write_bytes(content(name))
        return load_file(path)
