"""The file: one safetensors file holds the weights, and in its header, as JSON text, everything said about them.

    tensors    center (d,), scale (d,), layer.heads.<i>.keys (N, d), .biases (N,), .values (N, m), .slopes (N, m, d)
    metadata   softwright  version of this layout ("2"; "1" had certificates of another schema)
               model       {"kind", "box": {name: [low, high]}, "dtype", "heads": [{"structure", "axis_sizes"}, ...]}
               target, plan, observed, certificate   one JSON text each, where known; nothing else

Tensors called reference.<name> are no part of the network: they hold what it is compared with (the weights of a source
network, the points of a table), so that a checker has it. They have a digest of their own.

Nothing here imports torch, so that a checker can read a file without it; nothing here is executable, so that loading
a file cannot run anything. A file says how large it is before it is read: its header, the number of its tensors and the
depth of its JSON are limited, and tensors take no more memory than the file has bytes.

`write_atomically` is how every file of the project is written, figures and tables too: under a temporary name beside
the target, brought to the disk, then renamed. A killed process or a full disk leaves the older file as it was.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from softwright.errors import FileFormatError, FileNotWritten, ForeignFile, SoftwrightError

SCHEMA = "2"  # what is written; READERS says what is read
LARGEST_HEADER = 32 * 2**20  # bytes; as JSON they may take thirty times as much memory
MOST_TENSORS = 100_000
DEEPEST_JSON = 64  # lists and objects within each other
REFERENCE = "reference."  # how the names of tensors begin that are no part of the network
_SECTIONS = ("model", "target", "plan", "observed", "certificate")


@dataclass(frozen=True)
class ModelFile:
    """The content of a file: all tensors as stored, and the JSON sections of its header."""

    tensors: dict[str, np.ndarray]
    sections: dict[str, Any]

    @property
    def subject_tensors(self) -> dict[str, np.ndarray]:
        """The tensors of the network."""
        return {name: array for name, array in self.tensors.items() if not name.startswith(REFERENCE)}

    @property
    def reference_tensors(self) -> dict[str, np.ndarray]:
        """What the network is compared with, by names without their common beginning."""
        found = self.tensors.items()
        return {name.removeprefix(REFERENCE): array for name, array in found if name.startswith(REFERENCE)}

    @property
    def weights_sha256(self) -> str:
        """The digest of the network's own tensors."""
        return weights_sha256(self.subject_tensors)

    @property
    def reference_sha256(self) -> str:
        """The digest of what it is compared with; empty if the file holds nothing of the kind."""
        return reference_sha256(self.reference_tensors)


@dataclass(frozen=True)
class InParts:
    """A tensor that is not all in memory: its shape and type, and its rows in turn."""

    shape: tuple[int, ...]
    dtype: np.dtype
    parts: Callable[[], Iterable[np.ndarray]]


def weights_sha256(tensors: Mapping[str, np.ndarray | InParts]) -> str:
    """SHA-256 over names, types, shapes and bytes of the tensors given, in order of their names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        whole = None if isinstance(tensor, InParts) else np.ascontiguousarray(tensor)
        shape = tensor.shape if whole is None else whole.shape
        digest.update(f"{name}|{tensor.dtype.newbyteorder('<').str}|{shape}|".encode())
        for part in tensor.parts() if isinstance(tensor, InParts) else (np.ascontiguousarray(tensor),):
            digest.update(part.astype(part.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()


def reference_sha256(reference: Mapping[str, np.ndarray]) -> str:
    """The same of what a network is compared with, by names without their common beginning; empty for nothing."""
    return weights_sha256(reference) if reference else ""


def with_reference(
    tensors: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray] | None
) -> dict[str, np.ndarray]:
    """The tensors of a file that holds a network and what it is compared with."""
    return {**tensors, **{f"{REFERENCE}{name}": array for name, array in (reference or {}).items()}}


def write_model(path: str | Path, tensors: Mapping[str, np.ndarray], sections: Mapping[str, Any]) -> None:
    """Write tensors and JSON sections; the file appears under its name only when it is complete."""
    metadata = {"softwright": SCHEMA}
    for name, section in sections.items():
        if section is not None:
            metadata[name] = json.dumps(section, allow_nan=False)  # in the order given: it is that of the variables
    from safetensors.numpy import save

    content = _ordered(save({name: np.ascontiguousarray(array) for name, array in tensors.items()}, metadata))
    if fault := _too_large(int.from_bytes(content[:8], "little"), len(tensors)):
        raise FileFormatError(f"{path}: {fault}, so that no reader would take it; build something smaller")
    write_atomically(path, content)


def writable(path: str | Path) -> Path:
    """Where writing to `path` ends up: the target of a link, or `path` itself; refused if no file can stand there."""
    place = Path(os.path.realpath(path))
    if not place.parent.is_dir():
        raise FileFormatError(f"{path}: the folder {place.parent} does not exist; create it first")
    try:
        mode = place.stat().st_mode
    except FileNotFoundError:
        return place
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be written ({error.strerror}); choose another name") from error
    if stat.S_ISDIR(mode):
        raise FileFormatError(f"{path}: is a folder; give the name of a file in it")
    if not stat.S_ISREG(mode):
        raise FileFormatError(f"{path}: is a pipe, a device or a socket; give the name of an ordinary file")
    return place


def write_atomically(path: str | Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    """Bytes, or what a function writes into the stream it is given; `path` changes only when all of it is on the disk.

    Links are followed, an older file's permissions are kept, a new file's are those that the umask leaves, and what a
    killed process left of the same target is removed.
    """
    place = writable(path)
    _remove_strays(place)
    try:
        handle, temporary = _named_temporary(place, _new_file)
    except OSError as error:
        raise FileNotWritten(f"{path}: cannot be written ({error.strerror}); check the folder's rights") from error
    try:
        with os.fdopen(handle, "w+b") as stream:
            if place.exists():
                temporary.chmod(stat.S_IMODE(place.stat().st_mode))
            if isinstance(content, bytes):
                stream.write(content)
            else:
                content(stream)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(place)
        _sync_folder(place.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.filename not in (None, str(temporary)):
            raise  # of a file that is read while this one is written
        fault = f"cannot be written ({error.strerror or error}); what stood there is unchanged"
        raise FileNotWritten(f"{path}: {fault}") from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def new_folder(path: str | Path) -> Path:
    """Where a new folder of this name would stand; refused if something is there."""
    if os.path.lexists(place := Path(os.path.realpath(path))):
        raise FileFormatError(f"{path}: exists already; remove it or choose another name")
    if not place.parent.is_dir():
        raise FileFormatError(f"{path}: the folder {place.parent} does not exist; create it first")
    return place


def write_folder(path: str | Path, fill: Callable[[Path], object]) -> None:
    """A new folder with the files that `fill` writes into it; it appears under its name when all of them are there."""
    place = new_folder(path)
    _remove_strays(place)
    temporary, handle = place, -1
    try:
        handle, temporary = _named_temporary(place, _new_folder)
        fill(temporary)
        temporary.rename(place)
        _sync_folder(place.parent)
    except BaseException as error:
        if temporary != place:
            shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError) and not isinstance(error, SoftwrightError):
            raise FileNotWritten(f"{path}: cannot be written ({error.strerror or error})") from error
        raise
    finally:
        if handle >= 0:
            os.close(handle)


def _new_file(temporary: Path) -> int:
    return os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)


def _new_folder(temporary: Path) -> int:
    temporary.mkdir()
    with suppress(OSError):  # not every system opens folders
        return os.open(temporary, os.O_RDONLY)
    return -1


def _named_temporary(place: Path, create: Callable[[Path], int]) -> tuple[int, Path]:
    """Something new beside `place`, locked as long as it is open: that tells it from one whose writer is gone."""
    while True:
        temporary = place.with_name(f"{place.name}.{secrets.token_hex(4)}.part")
        with suppress(FileExistsError):
            handle = create(temporary)
            if handle < 0:
                return handle, temporary
            _lock(handle)
            if os.fstat(handle).st_nlink:  # else another writer took it for a stray before it was locked
                return handle, temporary
            os.close(handle)


def _remove_strays(place: Path) -> None:
    """Remove temporary files and folders of this target that nobody holds: their writers were killed."""
    ours = re.compile(re.escape(place.name) + r"\.[0-9a-f]{8}\.part")
    strays: list[Path] = []
    with suppress(OSError):
        strays = [entry for entry in place.parent.iterdir() if ours.fullmatch(entry.name)]
    for stray in strays:
        with suppress(OSError):
            handle = os.open(stray, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
            try:
                if _lock(handle):
                    shutil.rmtree(stray) if stray.is_dir() else stray.unlink()
            finally:
                os.close(handle)


def _lock(handle: int) -> bool:
    """Whether nobody else holds the file, which is ours from now on. Where there are no locks, nothing is a stray."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk, on systems that let a folder be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _ordered(content: bytes) -> bytes:
    """The file with its header's keys in order: safetensors has none of its own, equal models want equal bytes."""
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


@contextmanager
def reading(path: str | Path, what: str, remedy: str) -> Iterator[None]:
    """Around a library's reader: whatever it raises over a damaged or hostile file is one of our errors.

    Readers of others end in exceptions of some twenty classes (of zip, zlib, tokenize, Arrow, recursion, memory ...).
    """
    try:
        yield
    except SoftwrightError:
        raise
    except Exception as error:
        fault = f"{type(error).__name__}: {error}" if not str(error) or isinstance(error, LookupError) else str(error)
        raise FileFormatError(f"{path} is not {what} ({fault}); {remedy}") from error


def read_model(path: str | Path) -> ModelFile:
    """Read a file written by `write_model`; anything else is a `FileFormatError` that says what it is instead."""
    from safetensors import SafetensorError, safe_open

    source = Path(path)
    if not source.is_file():
        raise FileFormatError(f"{source}: {'is a folder; give a file in it' if source.is_dir() else 'no such file'}")
    try:
        check_header(source)
        with safe_open(str(source), framework="numpy") as opened:
            metadata = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        why = f"not a readable safetensors file ({error}); was it cut short, or saved by something else?"
        if source.suffix.lower() == ".onnx":
            why = "a graph is for other programs and for softwright verify; give the model file it was exported from"
        raise FileFormatError(f"{source}: {why}") from error
    schema = metadata.get("softwright")
    if schema is None:
        raise ForeignFile(f"{source}: a safetensors file, but not written by softwright")
    if schema not in READERS:
        known = ", ".join(map(repr, READERS))
        raise FileFormatError(
            f"{source}: file schema {schema!r}, this version reads {known}; upgrade softwright or rebuild the file"
        )
    try:
        return READERS[schema](metadata, tensors)
    except FileFormatError as error:
        raise FileFormatError(f"{source}: {error}") from error


def _too_large(header: int, tensors: int) -> str:
    """What is too large about a file, if anything."""
    if header > LARGEST_HEADER:
        return f"its header has {header} bytes, more than {LARGEST_HEADER}"
    return f"it has {tensors} tensors, more than {MOST_TENSORS}" if tensors > MOST_TENSORS else ""


def check_header(source: Path) -> None:
    """Before anything is made of it: the header is of a size that can be read, and names everything once."""
    with source.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        if size > source.stat().st_size:
            raise ValueError(f"a header of {size} bytes")
        if fault := _too_large(size, 0):
            raise ValueError(fault)
        entries = parse_json(stream.read(size).decode())  # names of tensors and of sections, too, stand there once
    if fault := _too_large(size, len(entries)):
        raise ValueError(fault)


def parse_json(text: str) -> Any:
    """JSON that all readers read alike: no key twice, no NaN, no number that float64 does not hold, not too deep; else
    ValueError."""
    found = json.loads(text, object_pairs_hook=_once, parse_constant=_finite, parse_float=_finite, parse_int=_whole)
    level, below = 0, [found]
    while below := [value for value in below if isinstance(value, dict | list)]:
        level += 1
        if level > DEEPEST_JSON:
            raise ValueError(f"lists and objects stand more than {DEEPEST_JSON} deep within each other")
        below = [child for value in below for child in (value.values() if isinstance(value, dict) else value)]
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object, and readers would differ about it")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is no finite number")
    return number


def _whole(text: str) -> int:
    _finite(text)
    return int(text)


def _read_sections(metadata: Mapping[str, str], tensors: dict[str, np.ndarray]) -> ModelFile:
    """One JSON text per section."""
    unknown = sorted(metadata.keys() - {"softwright", *_SECTIONS})
    if unknown:
        fault = f"unknown section {unknown[0]!r}; a file holds {', '.join(_SECTIONS)} and nothing else"
        raise FileFormatError(fault)
    sections: dict[str, Any] = {}
    for name in _SECTIONS:
        if name in metadata:
            try:
                sections[name] = parse_json(metadata[name])
            except (ValueError, RecursionError) as error:
                fault = f"the section {name!r} is not valid JSON ({error}); build and save the file again"
                raise FileFormatError(fault) from error
    if not isinstance(sections.get("model"), dict):
        raise FileFormatError("the section 'model' is missing; the file cannot be rebuilt")
    return ModelFile(tensors, sections)


# Version of the layout -> what makes today's content of the header's texts and the tensors. A version that was ever
# released stays here for good; what it lacks, its reader adds. Certificates have schemas of their own.
READERS: dict[str, Callable[[Mapping[str, str], dict[str, np.ndarray]], ModelFile]] = {
    "1": _read_sections,
    "2": _read_sections,
}
