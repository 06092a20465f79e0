"""`as_target`: whatever a user hands in as a target, as a `Target`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from softwright.domain import Box
from softwright.errors import InvalidInput
from softwright.targets.formula.expression import Expression
from softwright.targets.function import Function
from softwright.targets.table import Interpolant, Table
from softwright.targets.target import Target

_KINDS: dict[Any, type[Target]] = {cls.kind: cls for cls in (Expression, Function, Table, Interpolant)}


@lru_cache(maxsize=16)
def _read(text: str, names: tuple[str, ...]) -> Expression:
    """A formula is mostly asked for again at once, to be proved or built closer; an expression never changes."""
    return Expression(text, names)


def as_target(thing: Any, variables: Box | Sequence[str]) -> Target:
    """A string becomes an `Expression`, a callable a `Function`, a pair (points, values) a `Table`.

    `variables` are the names of the box, or the box itself: a callable is then tried on its points at once, so that
    its number of outputs is known.
    """
    names = variables.names if isinstance(variables, Box) else tuple(variables)
    if isinstance(thing, Expression) and set(thing.names) <= set(names):
        # A formula knows its variables by name, so their order is the box's to choose.
        return thing if thing.names == names else thing.with_names(names)
    if isinstance(thing, Target):
        if thing.names != names:
            fault = f"the target's variables are {', '.join(thing.names)} but the box has {', '.join(names)}"
            raise InvalidInput("target", [f"{fault}; give both the same names in the same order"])
        return thing
    if isinstance(thing, str):
        return _read(thing, names)
    if callable(thing):
        return Function(thing, variables if isinstance(variables, Box) else names)
    if isinstance(thing, tuple) and len(thing) == 2:
        return Table(*thing, names=names)
    fault = (
        f"{type(thing).__name__} is not a target; give a formula (str), a callable, a pair (points, values) or a Target"
    )
    raise InvalidInput("target", [fault])


def rebuilt(description: Mapping[str, Any]) -> Target | None:
    """The target that `Target.describe` described; None where a description does not hold it (a callable)."""
    kind = _KINDS.get(description.get("kind"))
    return None if kind is None else kind.rebuilt(description)
