"""`Example`: a program of the library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from softwright.precision import Dtype
from softwright.programs.fields import Sequence


@dataclass(frozen=True)
class Example:
    """A program of the library; `fields` are those of its tokens."""

    name: str
    meaning: str
    text: str
    fields: dict[str, Any]
    longest: int = 64
    tol: float = 1e-6
    of: str = "softwright"  # where it is from: tracr, RASP-L, C-RASP, or here
    shortest: int = 1

    def tokens(self, longest: int | None = None) -> Sequence:
        return Sequence(length=(self.shortest, self.longest if longest is None else longest), **self.fields)

    def mechanism(self, longest: int | None = None, dtype: Dtype = "float64") -> tuple[str, list[str]]:
        """Its tokens and what its heads do, in words."""
        from softwright.programs.mechanism import told  # with torch

        tokens = self.tokens(longest)
        return repr(tokens), told(self.text, tokens, dtype, self.tol)
