"""A zoo of proved models: recipes in a table, a stored file for each, and what builds one from the other.

    sw.zoo.names()            what there is;  sw.zoo.names("distribution") of one group
    sw.zoo.recipe("gelu")     formula, box, tolerance, dtype
    sw.zoo.load("gelu")       the stored model: a `Built`, as `sw.load` gives it
    sw.zoo.build("gelu")      the same from its recipe

Every stored file is VERIFIED by the checker. Listing needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names for type checkers
    from softwright.zoo.making import build as build
    from softwright.zoo.recipes import Recipe as Recipe
    from softwright.zoo.recipes import groups as groups
    from softwright.zoo.recipes import names as names
    from softwright.zoo.recipes import recipe as recipe
    from softwright.zoo.stored import content as content
    from softwright.zoo.stored import load as load

_HOME = {
    "Recipe": "recipes",
    "build": "making",
    "content": "stored",
    "groups": "recipes",
    "load": "stored",
    "names": "recipes",
    "recipe": "recipes",
}
__all__ = list(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"softwright.zoo.{_HOME[name]}"), name)
    raise AttributeError(f"module 'softwright.zoo' has no attribute {name!r}")
