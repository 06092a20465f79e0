"""What long work has finished, written down piece by piece, so that a killed run goes on where it was.

A folder belongs to one question, whose entries (weights, formula, box, claim, version ...) stand in `question.json`.
Work on another question is refused there, and the refusal names the entries that differ. Each finished piece is a file
of its own, written atomically:

    softwright-piece/1 SHA256-OF-THE-QUESTION SHA256-OF-NAME-AND-CONTENT
    content

A piece of another question is refused; a damaged one counts as not there, and its work is done again. So a record saves
time and proves nothing: whoever can write into the folder can put a false piece there. A certificate is proved again by
`verify`; the folder of `verify` itself must be one that nobody else can write to, which `private` demands.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from softwright.errors import FileFormatError, InvalidInput
from softwright.fileformat import parse_json, write_atomically

_SCHEMA = "softwright-piece/1"
_QUESTION = "question.json"
_LARGEST = 2**30  # bytes of one piece; more is none of ours


class Record:
    """The folder of one question. `kept` counts the pieces that were found there, `damaged` those that were
    unusable."""

    def __init__(self, folder: str | Path, question: Mapping[str, Any], *, private: bool = False) -> None:
        self.folder, self.kept, self.damaged = Path(folder), 0, 0
        text = json.dumps(question, sort_keys=True, allow_nan=False)
        self.digest = hashlib.sha256(text.encode()).hexdigest()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileFormatError(f"{folder}: no folder can be made there ({error.strerror})") from error
        if private:
            _check_private(self.folder)
        place = self.folder / _QUESTION
        if not place.exists():
            write_atomically(place, json.dumps(json.loads(text), sort_keys=True, indent=2).encode())
            return
        try:
            found = parse_json(place.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FileFormatError(f"{place}: not readable ({error}); use another folder, or remove this one") from error
        asked = json.loads(text)
        if found != asked:
            entries = sorted({*asked, *found}) if isinstance(found, dict) else list(asked)
            other = [name for name in entries if not isinstance(found, dict) or found.get(name) != asked.get(name)]
            fault = f"{folder} holds work on another question ({', '.join(other)} differ)"
            raise InvalidInput("resume", [f"{fault}; use a new folder, or ask what was asked there"])

    def get(self, name: str) -> bytes | None:
        """The content of a piece, None if it is not there or damaged."""
        place = self._place(name)
        try:
            if place.stat().st_size > _LARGEST:
                raise ValueError
            head, _, content = place.read_bytes().partition(b"\n")
            schema, question, digest = head.decode("ascii").split(" ")
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            self.damaged += 1
            return None
        if schema == _SCHEMA and question != self.digest:
            raise InvalidInput("resume", [f"{place} belongs to another question; remove it, or use a new folder"])
        if schema != _SCHEMA or digest != _digest(name, content):
            self.damaged += 1
            return None
        self.kept += 1
        return content

    def put(self, name: str, content: bytes) -> None:
        """Write a finished piece down; where that fails, everything before it is still there."""
        place = self._place(name)
        place.parent.mkdir(exist_ok=True)
        write_atomically(place, f"{_SCHEMA} {self.digest} {_digest(name, content)}\n".encode() + content)

    def _place(self, name: str) -> Path:
        """Spread over folders, because a folder of many thousand files is slow to look through."""
        key = hashlib.sha256(name.encode()).hexdigest()
        return self.folder / key[:2] / f"{key[2:34]}.piece"


def _digest(name: str, content: bytes) -> str:
    return hashlib.sha256(name.encode() + b"\n" + content).hexdigest()


def _check_private(folder: Path) -> None:
    """Refuse a folder into which somebody else could have put pieces."""
    if not hasattr(os, "getuid"):
        return
    found = folder.stat()
    if found.st_uid not in (os.getuid(), 0) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        fault = f"others can write into {folder}, and a piece recorded there is believed"
        raise InvalidInput("resume", [f"{fault}; use a folder of your own (chmod go-w)"])
