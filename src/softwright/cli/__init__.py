"""The `softwright` command: one file per command, and nothing heavy imported before a command runs.

A command is the function `<name>_command` of the module `softwright.cli.<name>`; its `SETTINGS`, if it has any, go to
typer. Every command takes `--json` and ends with one of the exit codes of `softwright.cli.exits`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from softwright.cli.exits import EXIT_CODE_HELP
from softwright.cli.screen import printable
from softwright.version import __version__

COMMANDS = (
    "approximate",
    "certify",
    "compile",
    "evaluate",
    "export",
    "in_context",
    "info",
    "kernels",
    "memorize",
    "page",
    "program",
    "recall",
    "studio",
    "theorem",
    "reproduce",
    "transpile",
    "verify",
    "zoo",
)
_SHORT_OPTIONS = frozenset({"-o", "-h"})


app = typer.Typer(
    name="softwright",
    help="Softmax attention whose weights are computed, not trained.",
    epilog=EXIT_CODE_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name in COMMANDS:
    _module = import_module(f"softwright.cli.{_name}")
    _settings = {"epilog": EXIT_CODE_HELP, "no_args_is_help": True} | getattr(_module, "SETTINGS", {})
    app.command(_name.replace("_", "-"), **_settings)(getattr(_module, f"{_name}_command"))


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"softwright {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Softmax attention whose weights are computed, not trained."""


def protect_formulas(arguments: Sequence[str]) -> list[str]:
    """Arguments such as "-x**2" are formulas, not options: a leading blank tells the option parser so.

    The parser repeats what it does not know; of options it does so letter by letter, so these are made printable.
    """
    return [_protected(text) for text in arguments]


def _protected(text: str) -> str:
    if text.startswith("--"):
        name, equals, value = text.partition("=")
        return f"{printable(name)}{equals}{value}"
    return f" {text}" if len(text) > 1 and text[0] == "-" and text not in _SHORT_OPTIONS else text


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; `arguments` are those of the process unless given."""
    app(args=protect_formulas(sys.argv[1:] if arguments is None else arguments), prog_name="softwright")
