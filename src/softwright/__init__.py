"""softwright: softmax attention whose weights are computed, not trained.

The public names are loaded when first used, so that `import softwright` is instant and a checker needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from softwright.version import __version__

if TYPE_CHECKING:
    from softwright.approximation.verb import approximate
    from softwright.attention import AttentionNetwork, Head
    from softwright.checker.verdict import Verdict
    from softwright.checker.verify import verify
    from softwright.domain import Box
    from softwright.errors import FileFormatError, InvalidInput, SoftwrightError, ToleranceNotReached
    from softwright.memory.changes import add_sequences, relabel_sequences, remove_sequences
    from softwright.memory.shards import load_shards, save_shards
    from softwright.memory.verb import memorize
    from softwright.methods.verb import in_context
    from softwright.result.built import Built, load
    from softwright.result.certificate import Certificate
    from softwright.targets import Expression, Function, Table
    from softwright.theorems.verb import theorem
    from softwright.transpiler.verb import save_mlp, transpile

_HOME = {
    "AttentionNetwork": "softwright.attention",
    "Box": "softwright.domain",
    "Built": "softwright.result.built",
    "Certificate": "softwright.result.certificate",
    "Expression": "softwright.targets",
    "FileFormatError": "softwright.errors",
    "Function": "softwright.targets",
    "Head": "softwright.attention",
    "InvalidInput": "softwright.errors",
    "SoftwrightError": "softwright.errors",
    "Table": "softwright.targets",
    "ToleranceNotReached": "softwright.errors",
    "Verdict": "softwright.checker.verdict",
    "add_sequences": "softwright.memory.changes",
    "approximate": "softwright.approximation.verb",
    "in_context": "softwright.methods.verb",
    "load": "softwright.result.built",
    "load_shards": "softwright.memory.shards",
    "memorize": "softwright.memory.verb",
    "relabel_sequences": "softwright.memory.changes",
    "remove_sequences": "softwright.memory.changes",
    "save_mlp": "softwright.transpiler.verb",
    "save_shards": "softwright.memory.shards",
    "theorem": "softwright.theorems.verb",
    "transpile": "softwright.transpiler.verb",
    "verify": "softwright.checker.verify",
}

__all__ = [
    "AttentionNetwork",
    "Box",
    "Built",
    "Certificate",
    "Expression",
    "FileFormatError",
    "Function",
    "Head",
    "InvalidInput",
    "SoftwrightError",
    "Table",
    "ToleranceNotReached",
    "Verdict",
    "__version__",
    "add_sequences",
    "approximate",
    "in_context",
    "load",
    "load_shards",
    "memorize",
    "relabel_sequences",
    "remove_sequences",
    "save_mlp",
    "save_shards",
    "theorem",
    "transpile",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'softwright' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
