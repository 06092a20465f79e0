"""softwright: softmax attention whose weights are computed, not trained.

The public names are loaded when first used, so that `import softwright` is instant and a checker needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softwright.attention import AttentionNetwork, Head
    from softwright.built import Built, load
    from softwright.certify.certificate import Certificate
    from softwright.certify.checker import verify
    from softwright.domain import Box
    from softwright.errors import FileFormatError, InvalidInput, SoftwrightError, ToleranceNotReached
    from softwright.pipelines.approximate import approximate
    from softwright.pipelines.in_context import in_context
    from softwright.pipelines.memorize import memorize
    from softwright.pipelines.memory_shards import load_shards, save_shards
    from softwright.pipelines.memory_updates import add_sequences, relabel_sequences, remove_sequences
    from softwright.pipelines.theorem import theorem
    from softwright.pipelines.transpile import save_mlp, transpile
    from softwright.targets import Expression, Function, Table

__version__ = "0.1.0"

_HOME = {
    "AttentionNetwork": "softwright.attention",
    "Box": "softwright.domain",
    "Built": "softwright.built",
    "Certificate": "softwright.certify.certificate",
    "Expression": "softwright.targets",
    "FileFormatError": "softwright.errors",
    "Function": "softwright.targets",
    "Head": "softwright.attention",
    "InvalidInput": "softwright.errors",
    "SoftwrightError": "softwright.errors",
    "Table": "softwright.targets",
    "ToleranceNotReached": "softwright.errors",
    "add_sequences": "softwright.pipelines.memory_updates",
    "approximate": "softwright.pipelines.approximate",
    "in_context": "softwright.pipelines.in_context",
    "load": "softwright.built",
    "load_shards": "softwright.pipelines.memory_shards",
    "memorize": "softwright.pipelines.memorize",
    "relabel_sequences": "softwright.pipelines.memory_updates",
    "remove_sequences": "softwright.pipelines.memory_updates",
    "save_mlp": "softwright.pipelines.transpile",
    "save_shards": "softwright.pipelines.memory_shards",
    "theorem": "softwright.pipelines.theorem",
    "transpile": "softwright.pipelines.transpile",
    "verify": "softwright.certify.checker",
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
