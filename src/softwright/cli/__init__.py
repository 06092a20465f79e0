"""The `softwright` command: one file a command, and nothing heavy imported before a command runs.

    approximate   a formula or a table becomes an attention network
    evaluate      a stored network at points
    export        a stored network in a format for other programs
    in-context    an attention stack fits a model to the rows of a file
    info          what a file holds
    memorize      labelled texts become a memory
    recall        what a memory says to texts
    theorem       the papers' constructions with the papers' bounds
    reproduce     the papers' experiments, constructed instead of trained
    transpile     a feed-forward network in a file becomes attention, neuron by neuron
    verify        re-prove the certificate in a file

Every command takes `--json` and ends with one of the exit codes of `softwright.cli.exits`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from softwright.cli.approximate import approximate_command
from softwright.cli.evaluate import evaluate_command
from softwright.cli.exits import EXIT_CODE_HELP
from softwright.cli.export import export_command
from softwright.cli.in_context import in_context_command
from softwright.cli.info import info_command
from softwright.cli.memorize import memorize_command
from softwright.cli.recall import recall_command
from softwright.cli.reproduce import reproduce_command
from softwright.cli.theorem import SETTINGS, theorem_command
from softwright.cli.transpile import transpile_command
from softwright.cli.verify import verify_command
from softwright.version import __version__

_SHORT_OPTIONS = frozenset({"-o", "-h"})

app = typer.Typer(
    name="softwright",
    help="Softmax attention whose weights are computed, not trained.",
    epilog=EXIT_CODE_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("approximate", epilog=EXIT_CODE_HELP, no_args_is_help=True)(approximate_command)
app.command("evaluate", epilog=EXIT_CODE_HELP, no_args_is_help=True)(evaluate_command)
app.command("export", epilog=EXIT_CODE_HELP, no_args_is_help=True)(export_command)
app.command("in-context", epilog=EXIT_CODE_HELP, no_args_is_help=True)(in_context_command)
app.command("info", epilog=EXIT_CODE_HELP, no_args_is_help=True)(info_command)
app.command("memorize", epilog=EXIT_CODE_HELP, no_args_is_help=True)(memorize_command)
app.command("recall", epilog=EXIT_CODE_HELP, no_args_is_help=True)(recall_command)
app.command("theorem", epilog=EXIT_CODE_HELP, context_settings=SETTINGS)(theorem_command)
app.command("reproduce", epilog=EXIT_CODE_HELP)(reproduce_command)
app.command("transpile", epilog=EXIT_CODE_HELP, no_args_is_help=True)(transpile_command)
app.command("verify", epilog=EXIT_CODE_HELP, no_args_is_help=True)(verify_command)


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
    """Arguments such as "-x**2" are formulas, not options: a leading blank tells the option parser so."""
    return [
        f" {text}" if len(text) > 1 and text[0] == "-" and text[1] != "-" and text not in _SHORT_OPTIONS else text
        for text in arguments
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; `arguments` are those of the process unless given."""
    app(args=protect_formulas(sys.argv[1:] if arguments is None else arguments), prog_name="softwright")
