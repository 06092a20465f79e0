"""What the commands share on screen: tables and lines on stdout, and on stderr a spinner that leaves no trace.

Texts of files and users may hold control characters, which a terminal obeys: they could wipe a line and print another.
`printable` is the one way to the screen; it writes them out.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer

from softwright.progress import Say, reporting

# All of C0 and C1 but the tab, marks that turn the direction of writing, line separators, and lone surrogates.
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def printable(text: str) -> str:
    """One line that a terminal shows and does not obey: control characters are written out, as \\x1b."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def echo(text: str, *, err: bool = False) -> None:
    """Print lines, each printable. All but the first are indented, so that no text of a file passes for one of ours."""
    first, *others = text.split("\n")
    lines = [first, *[line if line.startswith("  ") or not line else f"  {line}" for line in others]]
    typer.echo("\n".join(printable(line) for line in lines), err=err)


def warn(message: str) -> None:
    echo(f"warning: {message}", err=True)


@contextmanager
def spinner(first_message: str, quiet: bool) -> Iterator[Say]:
    """A spinner with the seconds gone and a message that the yielded function replaces.

    It is shown on stderr, only on a terminal, and not at all if `quiet`; results on stdout stay clean either way. What
    the library warns of meanwhile (a voided certificate, say) follows as plain lines, without a place in its source.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        # The inner one makes messages printable, those too that the library reports by itself.
        with (
            reporting(False if quiet else None, first_message, patience=0.0) as show,
            reporting(lambda message: show(printable(message))) as say,
        ):
            yield say
    for warning in caught:
        warn(str(warning.message))


def print_facts(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """A two-column table; where stdout is no terminal, plain lines of full width, so that no value is cut."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    rows = [(printable(name), printable(value)) for name, value in rows]
    if not console.is_terminal:
        widest = max(len(name) for name, _ in rows)
        for name, value in rows:
            typer.echo(f"{name:<{widest}}  {value}")
        return
    table = Table(title=Text(printable(title), style="bold"), title_justify="left", show_header=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), Text(value))  # Text, because a formula with [brackets] is not markup
    console.print(table)
