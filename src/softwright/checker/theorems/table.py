"""`THEOREMS`: one row per theorem that the checker can prove again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from softwright.checker.proved import Proved, compare
from softwright.checker.refusal import require
from softwright.checker.theorems.reading import TheoremFile, read_theorem
from softwright.fileformat import ModelFile


@dataclass(frozen=True)
class Row:
    """The theorem's title, as its files spell it, and its re-proof."""

    title: str
    prove: Callable[[TheoremFile], Proved]


THEOREMS: dict[str, Row] = {}


def prove_theorem(file: ModelFile) -> Proved:
    """What theorem the file speaks of, proved again for the tensors and sizes in it, and compared with its claim."""
    read = read_theorem(file)
    require(read.label in THEOREMS, f"nothing is known of a theorem {read.label!r}")
    row = THEOREMS[read.label]
    require(read.title == f"theorem {read.label}: {row.title}", f"theorem {read.label} is called: {row.title}")
    proved = row.prove(read)
    compare(file.sections["certificate"], proved)
    return proved
