"""Proofs: the prover (`certify`), the statement it makes (`Certificate`) and the independent checker (`verify`).

The names are loaded when first used: a checker must not import torch, and must share no code with the prover.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softwright.certify.certificate import Certificate
    from softwright.certify.checker import Verdict, verify
    from softwright.certify.prover import certify
    from softwright.certify.question import Certification

_HOME = {
    "Certificate": "softwright.certify.certificate",
    "Certification": "softwright.certify.question",
    "Verdict": "softwright.certify.checker",
    "certify": "softwright.certify.prover",
    "verify": "softwright.certify.checker",
}

__all__ = ["Certificate", "Certification", "Verdict", "certify", "verify"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'softwright.certify' has no attribute {name!r}")
