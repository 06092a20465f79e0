"""`softwright zoo`: proved models by name: listed, shown, written to a file, or built again from their recipes.

Listing and showing read one table and need no torch.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from softwright.cli.delivery import AsJson, argument, check_model_file, check_outputs, option
from softwright.cli.exits import CHECK_FAILED, exit_codes, print_json
from softwright.cli.screen import echo, print_facts, spinner
from softwright.errors import Faults, FileFormatError

if TYPE_CHECKING:
    from softwright.zoo.recipes import Recipe

ACTIONS = ("list", "show", "get", "build")


def zoo_command(
    action: Annotated[str, argument(f"One of {', '.join(ACTIONS)}.")],
    name: Annotated[str | None, argument("A model; `list` and `build` take a group too, or nothing: all.")] = None,
    *,
    output: Annotated[
        Path | None,
        option("Write the model to this file (get, build); several into this folder.", "-o", "--output"),
    ] = None,
    cluster: Annotated[
        str | None, option("Build on this Dask scheduler, tcp://HOST:PORT; needs softwright\\[scale].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Proved models by name: list them, show a recipe, get the stored file, or build one, a group or all again."""
    with exit_codes(as_json):
        from softwright.zoo import recipes

        faults = Faults("zoo")
        close = get_close_matches(action, ACTIONS, 1)
        meant = f" (did you mean {close[0]!r}?)" if close else ""
        faults.check(action in ACTIONS, f"unknown action {action!r}{meant}; choose from {', '.join(ACTIONS)}")
        named = name is not None or action not in ("show", "get")
        faults.check(named, f"which model? softwright zoo {action} NAME")
        faults.check(cluster is None or action == "build", "--cluster is for build")
        reading = action in ("list", "show") and output is not None
        faults.check(not reading, f"-o is for get and build; softwright zoo get {name or 'NAME'} -o FILE.safetensors")
        faults.check(action != "get" or output is not None, "where to? give -o FILE.safetensors")
        faults.raise_if_any()
        if action == "list":
            _list([recipes.recipe(one) for one in recipes.names(name)], as_json)
            return
        if action == "build" and (name is None or cluster is not None or name in recipes.groups()):
            single = name is not None and name not in recipes.groups()
            place = None if output is None else _In(output, folder=not single or output.is_dir())
            if place is not None and not place.folder:
                check_outputs(place.path)
                check_model_file(place.path)
            good = _built_all([str(name)] if single else recipes.names(name), place, cluster, as_json)
            if not good:
                raise typer.Exit(CHECK_FAILED)
            return
        row = recipes.recipe(str(name))
        if action == "show":
            _show(row, as_json)
            return
        if output is not None:
            check_outputs(output)
            check_model_file(output)
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


@dataclass(frozen=True)
class _In:
    """Where models are written: a file for one, unless it is a folder; a folder for several."""

    path: Path
    folder: bool

    def of(self, name: str) -> Path:
        return self.path / f"{name}.safetensors" if self.folder else self.path


def _built_all(names: list[str], output: _In | None, cluster: str | None, as_json: bool) -> bool:
    """Build models at once, write their files; whether all are VERIFIED."""
    from softwright.fileformat import write_atomically
    from softwright.scale import completed
    from softwright.zoo import recipes
    from softwright.zoo.making import file_of

    for name in names:
        recipes.recipe(name)
    if output is not None and output.folder:
        _make_folder(output.path)
    failed, count = [], 0
    for done in completed(file_of, names, cluster=cluster):
        said = str(done.error) if done.error is not None else _verdict(done.result)
        count += 1
        if done.error is not None or not said.startswith("VERIFIED"):
            failed.append(done.item)
        elif output is not None:
            write_atomically(output.of(done.item), done.result)
        if not as_json:
            echo(f"{done.item}: {said.splitlines()[0][:100]}")
    if as_json:
        print_json({"ok": not failed, "built": count - len(failed), "failed": failed})
    else:
        echo(f"{count - len(failed)} of {count} built and VERIFIED")
    return not failed


def _make_folder(folder: Path) -> None:
    """The folder that several models are written into, before any of them is built."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise FileFormatError(f"{folder}: is a file; several models go into a folder, give another name") from error
    except OSError as error:
        raise FileFormatError(f"{folder}: cannot be made ({error.strerror}); give a folder you may write to") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileFormatError(f"{folder}: cannot be written into; check the folder's rights, or give another")


def _verdict(content: bytes) -> str:
    """What the checker says of a file, on this machine, wherever it was built."""
    from tempfile import TemporaryDirectory

    from softwright.checker.verify import verify

    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        path.write_bytes(content)
        return str(verify(path))
