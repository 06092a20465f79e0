"""softwright: softmax attention whose weights are computed, not trained.

The public names are loaded when first used, so that `import softwright` is instant and a checker needs no torch.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from softwright.version import __version__ as __version__

if TYPE_CHECKING:  # the same names for type checkers, which cannot read a table; a test compares the two
    from softwright import zoo as zoo
    from softwright.approximation.verb import approximate as approximate
    from softwright.attention import AttentionNetwork as AttentionNetwork
    from softwright.attention import Head as Head
    from softwright.checker.verdict import Verdict as Verdict
    from softwright.checker.verify import verify as verify
    from softwright.domain import Box as Box
    from softwright.errors import FileFormatError as FileFormatError
    from softwright.errors import InvalidInput as InvalidInput
    from softwright.errors import SoftwrightError as SoftwrightError
    from softwright.errors import ToleranceNotReached as ToleranceNotReached
    from softwright.errors import UndefinedFormula as UndefinedFormula
    from softwright.memory.changes import add_sequences as add_sequences
    from softwright.memory.changes import relabel_sequences as relabel_sequences
    from softwright.memory.changes import remove_sequences as remove_sequences
    from softwright.memory.large.stored import open_shards as open_shards
    from softwright.memory.large.verb import memorize_shards as memorize_shards
    from softwright.memory.shards import load_shards as load_shards
    from softwright.memory.shards import save_shards as save_shards
    from softwright.memory.verb import memorize as memorize
    from softwright.methods.verb import in_context as in_context
    from softwright.programs.fields import Integers as Integers
    from softwright.programs.fields import Sequence as Sequence
    from softwright.programs.fields import Symbols as Symbols
    from softwright.programs.fields import Truths as Truths
    from softwright.programs.verb import compile as compile
    from softwright.proof.prover import certify as certify
    from softwright.result.built import Built as Built
    from softwright.result.built import load as load
    from softwright.result.certificate import Certificate as Certificate
    from softwright.result.closed_form import ClosedForm as ClosedForm
    from softwright.targets import Expression as Expression
    from softwright.targets import Function as Function
    from softwright.targets import Table as Table
    from softwright.theorems.verb import theorem as theorem
    from softwright.transpiler.verb import save_mlp as save_mlp
    from softwright.transpiler.verb import transpile as transpile

# Every public name and the module it lives in. No room may bear one of these names: importing it would replace it.
_HOME = {
    "AttentionNetwork": "softwright.attention",
    "Box": "softwright.domain",
    "Built": "softwright.result.built",
    "Certificate": "softwright.result.certificate",
    "ClosedForm": "softwright.result.closed_form",
    "Expression": "softwright.targets",
    "FileFormatError": "softwright.errors",
    "Function": "softwright.targets",
    "Head": "softwright.attention",
    "Integers": "softwright.programs.fields",
    "InvalidInput": "softwright.errors",
    "UndefinedFormula": "softwright.errors",
    "Sequence": "softwright.programs.fields",
    "SoftwrightError": "softwright.errors",
    "Symbols": "softwright.programs.fields",
    "Table": "softwright.targets",
    "ToleranceNotReached": "softwright.errors",
    "Truths": "softwright.programs.fields",
    "Verdict": "softwright.checker.verdict",
    "__version__": "softwright.version",
    "add_sequences": "softwright.memory.changes",
    "approximate": "softwright.approximation.verb",
    "certify": "softwright.proof.prover",
    "compile": "softwright.programs.verb",
    "in_context": "softwright.methods.verb",
    "load": "softwright.result.built",
    "load_shards": "softwright.memory.shards",
    "memorize": "softwright.memory.verb",
    "memorize_shards": "softwright.memory.large.verb",
    "open_shards": "softwright.memory.large.stored",
    "relabel_sequences": "softwright.memory.changes",
    "remove_sequences": "softwright.memory.changes",
    "save_mlp": "softwright.transpiler.verb",
    "save_shards": "softwright.memory.shards",
    "theorem": "softwright.theorems.verb",
    "transpile": "softwright.transpiler.verb",
    "verify": "softwright.checker.verify",
}

_MODULES = ("zoo",)  # public modules, loaded when first used as well

__all__ = list(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(_loaded(_HOME[name]), name)
    if name in _MODULES:
        return _loaded(f"softwright.{name}")
    raise AttributeError(f"module 'softwright' has no attribute {name!r}")


def _loaded(module: str) -> Any:
    """The module, imported without collecting garbage: modules are not garbage, and a look through all that torch has
    made takes a fifth of the time of the first call. What was made meanwhile is then as old as what was there before,
    or the first collections of the young would look through all of it (it is what thawing does to the frozen; nothing
    of a caller's that is frozen may thaw). Only the first time: to ask whether something is frozen is to count it."""
    if module in sys.modules or not gc.isenabled():
        return import_module(module)
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.enable()
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()


def __dir__() -> list[str]:
    return sorted(__all__)
