"""Real token sequences that every machine with Python has: the source of the standard library, split into tokens."""

from __future__ import annotations

import io
import sysconfig
import tokenize
from pathlib import Path

_MODULES = ("argparse", "ast", "csv", "dataclasses", "inspect", "json/decoder", "random", "statistics", "textwrap")
_KINDS = (tokenize.NAME, tokenize.OP, tokenize.NUMBER)


def library_sequences(count: int, length: int) -> tuple[list[list[int]], list[int]]:
    """`count` different sequences of `length` tokens (as integers) and the token that follows each in the source."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    found: dict[tuple[str, ...], str] = {}
    for module in _MODULES:
        source = (folder / f"{module}.py").read_text(encoding="utf-8")
        words = [t.string for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type in _KINDS]
        for start in range(0, len(words) - length, length):
            found.setdefault(tuple(words[start : start + length]), words[start + length])
    chosen = list(found.items())[:count]
    vocabulary = {word: i for i, word in enumerate(sorted({w for words, after in chosen for w in (*words, after)}))}
    return [[vocabulary[word] for word in words] for words, _ in chosen], [vocabulary[after] for _, after in chosen]
