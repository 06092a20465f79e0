"""Optional packages: imported where they are used, and their absence names the line that installs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from softwright.errors import InvalidInput


def needed(module: str, extra: str) -> Any:
    """The module, or an `InvalidInput` that says how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".", maxsplit=1)[0]
        absent = isinstance(error, ModuleNotFoundError) and error.name == package
        fault = "is missing" if absent else f"cannot be imported ({error})"
        fault = f"the package {package} {fault}; install it with: pip install 'softwright[{extra}]'"
        raise InvalidInput("export", [fault]) from error
