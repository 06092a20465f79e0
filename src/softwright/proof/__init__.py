"""Proofs: the prover (`certify`), the statement it makes (`Certificate`) and the independent checker (`verify`).

The names are loaded when first used: a checker must not import torch, and must share no code with the prover.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softwright.checker.verdict import Verdict
    from softwright.checker.verify import verify
    from softwright.proof.prover import certify
    from softwright.proof.question import Certification
    from softwright.result.certificate import Certificate

_HOME = {
    "Certificate": "softwright.result.certificate",
    "Certification": "softwright.proof.question",
    "Verdict": "softwright.checker.verdict",
    "certify": "softwright.proof.prover",
    "verify": "softwright.checker.verify",
}

__all__ = ["Certificate", "Certification", "Verdict", "certify", "verify"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'softwright.proof' has no attribute {name!r}")
