"""Proofs: `certify` bounds how far a network is from its target over a whole domain, rounding included.

The names are loaded when first used, because the arithmetic below them is used by rooms that prove in other ways.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softwright.proof.models.exact_heads import beyond_range
    from softwright.proof.prover import certify
    from softwright.proof.question import MOST_VARIABLES, Certification

_HOME = {
    "MOST_VARIABLES": "question",
    "Certification": "question",
    "beyond_range": "models.exact_heads",
    "certify": "prover",
}

__all__ = ["MOST_VARIABLES", "Certification", "beyond_range", "certify"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"softwright.proof.{_HOME[name]}"), name)
    raise AttributeError(f"module 'softwright.proof' has no attribute {name!r}")
