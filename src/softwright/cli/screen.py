"""What the commands share on screen: tables on stdout, and on stderr a spinner that leaves no trace."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import typer

Say = Callable[[str], None]


@contextmanager
def spinner(first_message: str, quiet: bool) -> Iterator[Say]:
    """A spinner with the seconds gone and a message that the yielded function replaces.

    It is shown on stderr, only on a terminal, and not at all if `quiet`; results on stdout stay clean either way.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda message: None
        return
    columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(first_message, total=None)
        yield lambda message: progress.update(task, description=escape(message))


@contextmanager
def shown_warnings() -> Iterator[None]:
    """What the library warns of (a voided certificate, say) as plain lines on stderr, without a place in its source."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        warn(str(warning.message))


def print_facts(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """A two-column table; where stdout is no terminal, plain lines of full width, so that no value is cut."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        widest = max(len(name) for name, _ in rows)
        for name, value in rows:
            typer.echo(f"{name:<{widest}}  {value}")
        return
    table = Table(title=title, title_style="bold", title_justify="left", show_header=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(value))  # Text, because a formula with [brackets] is not markup
    console.print(table)


def warn(message: str) -> None:
    typer.echo(f"warning: {message}", err=True)
