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
    "approximate": "softwright.pipelines.approximate",
    "load": "softwright.built",
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
    "approximate",
    "load",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'softwright' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
