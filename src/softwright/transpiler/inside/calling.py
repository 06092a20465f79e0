"""How parts of a module are called: with which options and behind which norm; and calls of what replaces them.

A part is read as it is called. What its module does with it is followed (`torch.fx`, down to the parts and not into
them): `self.block(x, skip=True)` makes it the block that skips. Where a forward cannot be followed, the calls that were
seen in a run at example inputs count. A part that has options and of whose calls nothing is known stays as it is.

What takes the place of a part is called as the part was: a hook before it takes its input by position or by name, and
refuses options other than those that it was read with.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx, nn

from softwright.errors import InvalidInput

FREE = inspect.Parameter.empty  # an argument that is computed, as in `targets/mlp/torch_tracing.py`
MOST_AXES = 4  # with more it is as with these
_CONSTANT = (type(None), bool, str, int, float)
_THROUGH = (nn.Identity, nn.Dropout)


class OtherAxes(InvalidInput):
    """A network is given inputs with other axes than it was read for."""


@dataclass(frozen=True)
class Call:
    """Arguments of a call, `FREE` for what is computed, and the module whose output the first one is."""

    args: tuple[Any, ...]
    named: Mapping[str, Any]
    behind: nn.Module | None = None


@dataclass(frozen=True)
class Manner:
    """What is the same in all calls of a part: options that differ from their defaults, and what stands before it."""

    given: Mapping[str, Any]
    behind: tuple[nn.Module, ...]  # one for each call, or none


Calls = Mapping[int, Sequence[Call]]  # by the id of the part


def calls_in(module: nn.Module, graph: fx.Graph) -> dict[int, list[Call]]:
    """The calls of parts in a module's forward, of which the graph is the outline."""
    parts = dict(module.named_modules())
    found: dict[int, list[Call]] = {}
    for node in graph.nodes:
        if node.op == "call_module":
            named = {key: constant(value) for key, value in node.kwargs.items()}
            call = Call(tuple(map(constant, node.args)), named, _behind(node, parts))
            found.setdefault(id(parts[str(node.target)]), []).append(call)
    return found


def constant(value: Any) -> Any:
    """An option as it is, or `FREE` for what is computed."""
    return value if type(value) in _CONSTANT else FREE


def _behind(node: fx.Node, parts: Mapping[str, nn.Module]) -> nn.Module | None:
    """The module whose output a call takes first."""
    first: Any = next(iter((*node.args, *node.kwargs.values())), None)
    while isinstance(first, fx.Node) and first.op == "call_module" and isinstance(parts[str(first.target)], _THROUGH):
        first = next(iter(first.args), None)
    return parts[str(first.target)] if isinstance(first, fx.Node) and first.op == "call_module" else None


def manner_of(part: nn.Module, calls: Sequence[Call]) -> Manner | None:
    """How a part is called, by all its calls; None if they differ, or if nothing is known and it has options."""
    takes = _takes(part)
    if takes is None or (not calls and len(takes.parameters) > 1):
        return None
    found: list[dict[str, Any]] = []
    for call in calls:
        try:
            bound = takes.bind(*call.args, **call.named).arguments
        except TypeError:
            return None
        options = dict(list(bound.items())[1:])
        if any(type(value) not in _CONSTANT and value is not FREE for value in options.values()):
            return None  # *args and **kwargs
        found.append({key: value for key, value in options.items() if not _same(value, takes.parameters[key].default)})
    if any(not _all_same(options, found[0]) for options in found):
        return None
    behind = tuple(call.behind for call in calls if call.behind is not None)
    return Manner(found[0] if found else {}, behind if len(behind) == len(calls) else ())


def _takes(part: nn.Module) -> inspect.Signature | None:
    try:
        return inspect.signature(part.forward)
    except (TypeError, ValueError):
        return None


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and type(one) in _CONSTANT and one == other)


def _all_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)


def only_default(given: Any, usual: Any, name: str) -> None:
    """Refuse an option with which a module would do something else than what was built."""
    if not _same(given, usual):
        fault = f"{name} is {usual!r} in what was built; call it with that, or transpile a module that does no other"
        raise InvalidInput("transpile", [fault])


class CalledAsBefore:
    """A hook before a network in the place of a module: its input by position or by name, options as they were read.

    It may have as many axes as `axes` says: with others its source does something else, or fails. With `flat` it is
    made a table of rows first.
    """

    def __init__(
        self, takes: inspect.Signature | None, given: Mapping[str, Any], axes: tuple[int, ...], flat: bool
    ) -> None:
        self.takes, self.given, self.axes, self.flat = takes, dict(given), axes, flat

    def __call__(self, _: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if (len(args) != 1 or named) and self.takes is not None:
            bound = self.takes.bind(*args, **named).arguments
            given = next(iter(bound.values()))
            for name, value in list(bound.items())[1:]:
                only_default(value, self.given.get(name, self.takes.parameters[name].default), name)
            args, named = (given,), {}
        if self.flat and args and args[0].dim() > 2:
            args = (args[0].flatten(1),)
        if args and min(args[0].dim(), MOST_AXES) not in self.axes:
            said = "tables of rows, (n, d)" if self.axes == (2,) else f"{' or '.join(map(str, self.axes))} axes"
            fault = (
                f"it was read for {said}, and gets {args[0].dim()} axes, with which its source does something else or "
                "fails; give it what it was read for, or write what goes along other axes (cat, glu, batch norm, "
                "biases with axes of their own) along the last one, dim=-1"
            )
            raise OtherAxes("transpile", [fault])
        return args, named


def called_as(
    network: nn.Module,
    called: tuple[nn.Module | None, Mapping[str, Any]],
    taken: tuple[tuple[int, ...], bool],
    inside: bool = True,
) -> nn.Module:
    """The network, called as the part of which it is made was, where that is anything but one input of any axes.

    `called` is that part, or None, and its options; `taken` are the axes that it takes, and whether it makes rows
    first. `inside` a module, what calls it may name that input, which is x from now on.
    """
    (part, given), (axes, flat) = called, taken
    takes = None if part is None else _takes(part)
    entries = [] if takes is None else list(takes.parameters.values())
    by_name = bool(entries) and (
        entries[0].kind is inspect.Parameter.KEYWORD_ONLY or (inside and entries[0].name != "x")
    )
    if len(axes) < MOST_AXES or flat or len(entries) > 1 or by_name:
        hook = CalledAsBefore(takes, given, axes, flat)
        network.register_forward_pre_hook(hook, with_kwargs=True)
    return network
