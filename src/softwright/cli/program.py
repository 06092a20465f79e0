"""`softwright program`: the programs over sequences that come with softwright: listed, shown, built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from softwright.cli.delivery import AsJson, Certify, Dtype, Explain, Output, Plot, argument, delivery
from softwright.cli.exits import exit_codes, print_json
from softwright.cli.screen import echo, print_facts
from softwright.errors import Faults, InvalidInput

if TYPE_CHECKING:
    from softwright.programs.examples.row import Example

ACTIONS = ("list", "show", "build")


def program_command(
    action: Annotated[str, argument(f"One of {', '.join(ACTIONS)}.")],
    name: Annotated[str | None, argument("The program; `list` takes where it is from instead, or nothing.")] = None,
    *,
    length: Annotated[int | None, typer.Option(help="Longest sequence; the row's own unless given.")] = None,
    dtype: Dtype = "float64",
    certify: Certify = True,
    output: Output = None,
    plot: Plot = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Programs by name: list them, show one and its mechanism layer by layer, or build it with its proof."""
    if action != "build":
        with exit_codes(as_json):
            _told(action, name, length, dtype, as_json)
        return
    with delivery(output, plot, as_json, explain=explain) as deliver:
        row = _row(name)
        from softwright.programs.verb import compile as build

        deliver(build(row.text, row.tokens(length), tol=row.tol, dtype=dtype, certify=certify, progress=deliver.say))


def _row(name: str | None) -> Example:
    from softwright.programs.examples.library import example

    if name is None:
        raise InvalidInput("program", ["which program? softwright program build NAME"])
    return example(name)


def _told(action: str, name: str | None, length: int | None, dtype: Dtype, as_json: bool) -> None:
    """What needs no proof: the list, or one program and what its heads do."""
    from softwright.programs.examples.library import examples

    faults = Faults("program")
    faults.check(action in ACTIONS, f"unknown action {action!r}; choose from {', '.join(ACTIONS)}")
    faults.check(action == "list" or name is not None, f"which program? softwright program {action} NAME")
    faults.raise_if_any()
    if action == "list":
        rows = examples(name)
        if as_json:
            entries = [{"name": r.name, "of": r.of, "meaning": r.meaning, "program": r.text} for r in rows]
            print_json({"ok": True, "programs": entries})
        else:
            print_facts("programs", [(r.name, f"{r.meaning} ({r.of}): {r.text}") for r in rows])
        return
    row = _row(name)
    tokens, lines = row.mechanism(length, dtype)
    if as_json:
        told = {"name": row.name, "of": row.of, "meaning": row.meaning, "program": row.text, "tokens": tokens}
        print_json({"ok": True, **told, "mechanism": lines})
        return
    print_facts(row.name, [("meaning", row.meaning), ("program", row.text), ("tokens", tokens), ("of", row.of)])
    for line in lines:
        echo(line)
