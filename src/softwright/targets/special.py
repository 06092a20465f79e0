"""Special functions of SciPy, by name, loaded when the first of them is called.

Tables of functions name all of them; a formula that calls none should not wait for the package that holds them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Callable[..., Any]:
    """`special.erf`, say: a function that calls `scipy.special.erf`."""
    if name.startswith("__"):
        raise AttributeError(name)

    def call(*arguments: Any) -> Any:
        return getattr(import_module("scipy.special"), name)(*arguments)

    call.__name__ = name
    globals()[name] = call
    return call
