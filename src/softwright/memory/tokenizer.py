"""Text to integer tokens and back: words between blanks, bytes, or any file of the Hugging Face `tokenizers` package.

    whitespace   the words of the stored texts, numbered as they come; a word never seen is the token -1
    bytes        the 256 bytes of UTF-8
    FILE.json    a file written by the package `tokenizers`, which is then needed: pip install 'softwright[text]'

A tokenizer travels with the memory it was used for, as bytes, so that texts can be asked for later.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from softwright.errors import InvalidInput
from softwright.fileformat import reading

NAMES = ("whitespace", "bytes")


class Tokenizer(Protocol):
    name: str

    def learn(self, texts: Sequence[str]) -> Tokenizer:
        """A tokenizer that has numbers for what is new in the texts as well; this one stays as it is."""
        ...

    def encode(self, texts: Sequence[str]) -> list[Any]:
        """One row of integers per text."""
        ...

    def to_bytes(self) -> bytes:
        """All that `tokenizer_from` needs."""
        ...


class Whitespace:
    """Words between blanks."""

    name = "whitespace"

    def __init__(self, words: Sequence[str] = ()) -> None:
        self.places = {word: i for i, word in enumerate(words)}

    def learn(self, texts: Sequence[str]) -> Tokenizer:
        more = Whitespace()
        more.places = dict(self.places)
        for text in texts:
            for word in text.split():
                more.places.setdefault(word, len(more.places))
        return more

    def encode(self, texts: Sequence[str]) -> list[Any]:
        find = self.places.get
        return [[find(word, -1) for word in text.split()] for text in texts]

    def to_bytes(self) -> bytes:
        return json.dumps(list(self.places)).encode()


class Bytes:
    """The bytes of UTF-8."""

    name = "bytes"

    def learn(self, texts: Sequence[str]) -> Tokenizer:
        """All 256 bytes are known."""
        return self

    def encode(self, texts: Sequence[str]) -> list[Any]:
        found = [text.encode(errors="surrogatepass") for text in texts]
        return [np.frombuffer(data, dtype=np.uint8).astype(np.int64) for data in found]

    def to_bytes(self) -> bytes:
        return b""


class HuggingFace:
    """A tokenizer of the package `tokenizers`, without the special tokens it would add."""

    name = "huggingface"

    def __init__(self, content: bytes, name: str = "the tokenizer") -> None:
        try:
            package = import_module("tokenizers")
        except ImportError as error:
            fault = "this tokenizer needs the package tokenizers; install it with: pip install 'softwright[text]'"
            raise InvalidInput("tokenizer", [fault]) from error
        self.content = content
        with reading(name, "a tokenizers file", "write it with Tokenizer.save"):
            self._inner = package.Tokenizer.from_str(content.decode())

    def learn(self, texts: Sequence[str]) -> Tokenizer:
        """Its vocabulary is fixed."""
        return self

    def encode(self, texts: Sequence[str]) -> list[Any]:
        with reading("the tokenizer", "able to read these texts", "give it an unknown token, or leave the words out"):
            return [found.ids for found in self._inner.encode_batch(list(texts), add_special_tokens=False)]

    def to_bytes(self) -> bytes:
        return self.content


def read_tokenizer(name: Any) -> Tokenizer:
    """A tokenizer by its name, a file, or itself."""
    if name == "whitespace":
        return Whitespace()
    if name == "bytes":
        return Bytes()
    if isinstance(name, str | Path):
        path = Path(name)
        if not path.is_file():
            known = ", ".join(NAMES)
            raise InvalidInput("tokenizer", [f"{str(name)!r} is neither one of {known} nor a file of `tokenizers`"])
        with reading(path, "a readable file", "check its rights"):
            content = path.read_bytes()
        return HuggingFace(content, str(path))
    if all(callable(getattr(name, method, None)) for method in ("learn", "encode", "to_bytes")):
        return name
    raise InvalidInput("tokenizer", [f"{name!r} is no tokenizer; use {', '.join(NAMES)} or the path of a file"])


def tokenizer_from(name: str | None, content: bytes) -> Tokenizer | None:
    """The tokenizer of a stored memory."""
    if name is None:
        return None
    if name == "whitespace":
        return Whitespace(json.loads(content))
    if name == "bytes":
        return Bytes()
    if name == "huggingface":
        return HuggingFace(content)
    raise ValueError(f"unknown tokenizer {name!r}")
