"""Following the forward of a torch module (`torch.fx`), called as it is by default.

A forward may have options: `mask=None`, `training=False`, `mode="mean"`. While it is followed, an option is a stand-in
that is no None, so that `if mask is not None` goes the way of those who give a mask; whoever calls the module with its
inputs alone goes the other way. So a forward is followed twice where it has options, and what the defaults do counts:
or, of a part whose caller is known, what the options do that it is given. Arguments by name (`layer(input=x)`) are put
where they stand without names, so that whoever reads a graph finds them in one place.

`y += x` is kept as what it is: it changes every other name of y too, and whoever reads a graph must see that.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx, nn

from softwright.errors import InvalidInput
from softwright.targets.mlp.torch_layers import is_foreign, numbers_of

_COMPARISONS = (operator.eq, operator.ne)
_FIXED = (type(None), bool, str)  # options that choose what a forward does, rather than enter what it computes

_PLACES = (("input", "tensors", "self"), ("other", "mat2", "exponent"))  # of torch's built-in functions

FREE = inspect.Parameter.empty  # among the options that a module is given: one that is computed
DEFAULT_ALONE = "default alone"  # in the notes of an input whose default a graph stands for


class Proxy(fx.Proxy):
    """A value of a forward that is followed, with its changes in place, which torch.fx takes for plain sums."""

    def __iadd__(self, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", operator.iadd, (self, other), {})

    def __isub__(self, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", operator.isub, (self, other), {})

    def __imul__(self, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", operator.imul, (self, other), {})

    def __itruediv__(self, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", operator.itruediv, (self, other), {})


class _Tracer(fx.Tracer):
    """Follows a forward; with `usual`, options that have None, a truth value or a text as default have it."""

    def __init__(self, usual: bool = False, given: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.usual, self.given = usual, dict(given or {})
        self.cast = torch.is_autocast_enabled("cpu")

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return Proxy(node, self)

    def create_node(self, *args: Any, **named: Any) -> fx.Node:
        if torch.is_autocast_enabled("cpu") is not self.cast:
            raise InvalidInput(
                "transpile", ["it switches torch.autocast on or off, which no layer says; leave that out"]
            )
        return super().create_node(*args, **named)

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> tuple[Any, list[Any]]:
        function, entries = super().create_args_for_root(root_fn, is_module, concrete_args)
        return function, [self._standing_for(entry) for entry in entries]

    def _standing_for(self, entry: Any) -> Any:
        if isinstance(entry, fx.Proxy) and entry.node.target in self.given:
            given = self.given[str(entry.node.target)]
            return entry if given is FREE else given
        return entry.node.args[0] if self.usual and is_option(entry) else entry

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if is_foreign(m):
            return True
        return type(m).__module__.startswith("torch.nn") and not isinstance(m, nn.Sequential)

    def to_bool(self, obj: fx.Proxy) -> bool:
        """T5 asks whether a value has the dtype of a weight; in a module of one dtype all have that."""
        node = obj.node
        if node.target in _COMPARISONS and any(_is_dtype(entry) for entry in node.args):
            own = next((p.dtype for p in numbers_of(self.root)), None)
            kinds = [own if _is_dtype(entry) else entry for entry in node.args]
            return (kinds[0] == kinds[1]) is (node.target is operator.eq)
        return super().to_bool(obj)


class _Outline(_Tracer):
    """Follows a forward down to the parts that it calls, and not into them."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


def outline(module: nn.Module, given: Mapping[str, Any]) -> fx.Graph | None:
    """The parts that a forward calls, and what it does besides; None if it cannot be followed."""
    try:
        return _Outline(usual=True, given=given).trace(module)
    except Exception:  # whatever a foreign forward raises when it is traced
        return None


def is_option(given: Any) -> bool:
    """Whether an argument of a forward, or its node, has None, a truth value or a text as its default."""
    node = given.node if isinstance(given, fx.Proxy) else given
    return isinstance(node, fx.Node) and node.op == "placeholder" and node.args != () and type(node.args[0]) in _FIXED


def traced(module: nn.Module, given: Mapping[str, Any] | None = None) -> fx.Graph:
    """The graph of a module's forward; raises whatever a foreign forward does when it is traced.

    `given` are options, by name, that whoever calls the module gives it; `FREE` are those that it computes.
    """
    if not given:
        return _by_place(_without_questions(_chosen(module)), module)
    graph = _Tracer(usual=True, given=given).trace(module)
    for node in graph.nodes:
        if (
            node.op == "placeholder"
            and given.get(node.target) is not FREE
            and (node.target in given or is_option(node))
        ):
            node.args = (given.get(node.target, node.args[0] if node.args else None),)
            node.meta[DEFAULT_ALONE] = True
    return _by_place(_without_questions(graph), module)


def _by_place(graph: fx.Graph, module: nn.Module) -> fx.Graph:
    """The graph with arguments by place where they were given by name."""
    for node in graph.nodes:
        if not node.kwargs or node.op not in ("call_module", "call_function"):
            continue
        called: Any = module.get_submodule(str(node.target)).forward if node.op == "call_module" else node.target
        try:
            bound = inspect.signature(called).bind(*node.args, **node.kwargs)
            node.args, node.kwargs = bound.args, bound.kwargs
        except (TypeError, ValueError):  # a built-in function has no signature
            node.args, node.kwargs = _built_in(tuple(node.args), dict(node.kwargs))
    return graph


def _built_in(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    for names in _PLACES[len(args) :]:
        name = next((name for name in names if name in named), None)
        if name is None:
            break
        args = (*args, named.pop(name))
    return args, named


def _chosen(module: nn.Module) -> fx.Graph:
    """The graph of a forward, called as it is by default where an option decides what it does.

    While a forward is followed, an option is no None: `if mask is not None` goes the way of those who give one. Where
    the graph with the defaults in place has other operations, it is the one: whoever calls the module with its inputs
    alone goes that way.
    """
    try:
        free = _Tracer().trace(module)
    except Exception:
        usual = _with_defaults(module)
        if any(is_option(node) for node in usual.nodes):
            return usual
        raise
    if not any(is_option(node) for node in free.nodes):
        return free
    try:
        usual = _with_defaults(module)
    except Exception:  # it needs its option, which then is an input like others
        return free
    return free if _operations(free) == _operations(usual) else usual


def _with_defaults(module: nn.Module) -> fx.Graph:
    graph = _Tracer(usual=True).trace(module)
    for node in graph.nodes:
        if is_option(node):
            node.meta[DEFAULT_ALONE] = True
    return graph


def _operations(graph: fx.Graph) -> list[tuple[str, Any]]:
    return [(node.op, node.target) for node in graph.nodes if node.op != "get_attr"]


def _is_dtype(value: Any) -> bool:
    return isinstance(value, fx.Node) and value.target is getattr and value.args[1:] == ("dtype",)


def _without_questions(graph: fx.Graph) -> fx.Graph:
    """The graph without weights and dtypes that were only looked at."""
    for node in reversed(list(graph.nodes)):
        if not node.users and (node.op == "get_attr" or node.target in _COMPARISONS or _is_dtype(node)):
            graph.erase_node(node)
    return graph


def in_two(node: fx.Node, width: int | None) -> bool:
    """Whether chunk or split makes two halves of the values; that it is along the last axis is seen by running it."""
    called = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    names = ("chunks", "split_size", "split_size_or_sections")
    size: Any = node.args[1] if len(node.args) > 1 else next((node.kwargs[n] for n in names if n in node.kwargs), None)
    if called == "chunk" or width is None:
        return bool(size == 2) and called == "chunk"
    half = width / 2
    return list(size) == [half, half] if isinstance(size, list | tuple) else bool(size == half)
