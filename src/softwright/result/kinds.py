"""`KINDS`: one row per kind of network that a verb returns. Saving, loading, `info`, `plot` and `evaluate` ask it.

Everything is a name, "module:object", and is loaded when it is asked for: this room imports none of the rooms it names.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from softwright.errors import InvalidInput


@dataclass(frozen=True)
class Kind:
    """A kind of network: its class, the functions that draw a `Built` of it, and the command that asks it."""

    name: str
    network: str
    figure: str
    command: str = ""  # the command that runs a stored network of this kind; empty: Python alone
    stored: bool = True  # whether a file can hold it; the class then has `describe` and `rebuilt`
    shards: str = ""  # the function that writes it as a folder of files, where there is one
    at: str = ""  # the function that proves a bound for a prompt at hand, where there is one
    within: str = ""  # keeps, of a `Built` and inputs drawn, the inputs of which its claim speaks
    drawn: str = ""  # draws so many inputs that the network takes, where not every array of their shape is one
    page: str = ""  # the function that says what fills its page; without one a page holds facts and claim alone


KINDS: dict[str, Kind] = {
    row.name: row
    for row in (
        Kind(
            "approximation",
            network="softwright.attention.network:AttentionNetwork",
            figure="softwright.approximation.figure:plot_built",
            command="evaluate",
            page="softwright.page.approximation:content",
        ),
        Kind(
            "composition",
            network="softwright.attention.composition:ComposedNetwork",
            figure="softwright.compiler.figure:plot_composed",
            command="evaluate",
            within="softwright.compiler.look:within",
            page="softwright.page.composition:content",
        ),
        Kind(
            "memory",
            network="softwright.memory.network:MemoryNetwork",
            figure="softwright.memory.figure:plot_memory",
            command="recall",
            shards="softwright.memory.shards:save_shards",
            page="softwright.page.memory:content",
        ),
        Kind(
            "transpiled",
            network="softwright.transpiler.network:TranspiledNetwork",
            figure="softwright.transpiler.figure:plot_transpiled",
            page="softwright.page.transpiled:content",
        ),
        Kind(
            "transpiled_module",
            at="softwright.transpiler.whole.at_prompt:certify_at",
            network="softwright.transpiler.network:TranspiledModule",
            figure="softwright.transpiler.figure:plot_transpiled",
            stored=False,
            page="softwright.page.transpiled:module_content",
        ),
        Kind(
            "in_context",
            network="softwright.methods.network:InContextStack",
            figure="softwright.methods.figure:plot_in_context",
            command="in-context",
            at="softwright.methods.solution.at_prompt:certify_at",
            drawn="softwright.methods.reference:prompts",
            page="softwright.page.in_context:content",
        ),
        Kind(
            "program",
            network="softwright.attention.program:ProgramNetwork",
            figure="softwright.programs.figure:plot_program",
            command="evaluate",
            within="softwright.programs.observe:within",
            page="softwright.page.program:content",
        ),
        Kind(
            "theorem",
            network="softwright.theorems.tools.network:TheoremNetwork",
            figure="softwright.theorems.figure:plot_theorem",
            page="softwright.page.theorem:content",
        ),
    )
}


def kind_of(name: Any) -> Kind:
    """The row of a kind; an `InvalidInput` that lists the rows for a name that has none."""
    row = KINDS.get(name) if isinstance(name, str) else None
    if row is None:
        raise InvalidInput("kind", [f"unknown kind of network {name!r}; this version knows {', '.join(KINDS)}"])
    return row


def loaded(place: str) -> Any:
    """The object that a name "module:object" means."""
    module, name = place.split(":")
    return getattr(import_module(module), name)
