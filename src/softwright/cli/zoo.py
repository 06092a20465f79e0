"""`softwright zoo`: proved models by name: listed, shown, written to a file, or built again from their recipes.

Listing and showing read one table and need no torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from softwright.cli.delivery import AsJson, argument, check_outputs, option
from softwright.cli.exits import CHECK_FAILED, exit_codes, print_json
from softwright.cli.screen import echo, print_facts, spinner
from softwright.errors import Faults

if TYPE_CHECKING:
    from softwright.zoo.recipes import Recipe

ACTIONS = ("list", "show", "get", "build")


def zoo_command(
    action: Annotated[str, argument(f"One of {', '.join(ACTIONS)}.")],
    name: Annotated[str | None, argument("The model; `list` takes a group instead, or nothing.")] = None,
    *,
    output: Annotated[Path | None, option("Write the model to this file (get, build).", "-o", "--output")] = None,
    as_json: AsJson = False,
) -> None:
    """Proved models by name: list them, show a recipe, get the stored file, or build it again."""
    with exit_codes(as_json):
        from softwright.zoo import recipes

        faults = Faults("zoo")
        faults.check(action in ACTIONS, f"unknown action {action!r}; choose from {', '.join(ACTIONS)}")
        faults.check(action == "list" or name is not None, f"which model? softwright zoo {action} NAME")
        faults.check(action != "get" or output is not None, "where to? give -o FILE.safetensors")
        faults.raise_if_any()
        if action == "list":
            _list([recipes.recipe(one) for one in recipes.names(name)], as_json)
            return
        row = recipes.recipe(str(name))
        if action == "show":
            _show(row, as_json)
            return
        if output is not None:
            check_outputs(output)
        if action == "get" and output is not None:
            from softwright.fileformat import write_atomically
            from softwright.zoo.stored import content

            write_atomically(output, content(row.name))
            _said(as_json, row.name, output, "as stored; `softwright verify` proves it again")
            return
        verdict = _built(row.name, output, as_json)
    if not verdict:
        raise typer.Exit(CHECK_FAILED)


def _list(rows: list[Recipe], as_json: bool) -> None:
    if as_json:
        print_json({"ok": True, "models": [dict(row.rows()) for row in rows]})
        return
    width = max(len(row.name) for row in rows)
    group = ""
    for row in rows:
        if row.group != group:
            group = row.group
            echo(f"{group}:")
        echo(f"  {row.name:<{width}}  {row.says}")
    echo(f"{len(rows)} models")


def _show(row: Recipe, as_json: bool) -> None:
    if as_json:
        print_json({"ok": True, **dict(row.rows())})
    else:
        print_facts("zoo", row.rows())


def _said(as_json: bool, name: str, output: Path | None, what: str) -> None:
    if as_json:
        print_json({"ok": True, "name": name, "file": None if output is None else str(output), "says": what})
    else:
        print_facts("zoo", [("name", name), *([] if output is None else [("file", str(output))]), ("says", what)])


def _built(name: str, output: Path | None, as_json: bool) -> bool:
    """Build a model from its recipe and verify it; whether it is VERIFIED."""
    from tempfile import TemporaryDirectory

    with spinner("building", quiet=as_json) as say, TemporaryDirectory() as folder:
        from softwright.checker.verify import verify
        from softwright.zoo.making import build

        path = Path(folder) / "model.safetensors"
        built = build(name)
        built.save(path)
        say("verifying")
        verdict = verify(path)
        if output is not None:
            built.save(output)
    _said(as_json, name, output, str(verdict))
    return verdict.verified
