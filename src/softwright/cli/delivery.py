"""What the commands that build something share: their options, and the way from a result to files and to the screen.

    with delivery(output, plot, as_json, page=page, explain=explain) as deliver:
        deliver(build(..., progress=deliver.say))

What can go wrong after the work is looked at before it, so that no result is lost to a missing folder. If a tolerance
is not reached, the best network found is delivered all the same, and the exit code says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softwright.cli.exits import TOLERANCE_NOT_REACHED, exit_codes, print_json
from softwright.cli.facts import as_json_facts
from softwright.cli.screen import Say, echo, print_facts, spinner, warn
from softwright.errors import FileFormatError, ToleranceNotReached
from softwright.precision import PRECISIONS

if TYPE_CHECKING:
    from softwright.result.built import Built


def _dtypes(incomplete: str) -> list[str]:
    return [name for name in PRECISIONS if name.startswith(incomplete)]


def option(help: str, *names: str, **more: Any) -> Any:
    """An option whose default says nothing, so that --help leaves it out."""
    return typer.Option(*names, help=help, show_default=False, **more)


def argument(help: str, **more: Any) -> Any:
    """The same for an argument."""
    return typer.Argument(help=help, show_default=False, **more)


ModelFile = Annotated[Path, argument("A file written by softwright.")]
Output = Annotated[Path | None, option("Write the network to this file.", "-o", "--output")]
Plot = Annotated[Path | None, option("Write a figure to this file (.png, .svg, .pdf).")]
Page = Annotated[Path | None, option("Write a page to look at to this file (.html).")]
Certify = Annotated[bool, typer.Option("--certify/--no-certify", help="Prove the result, where possible.")]
Explain = Annotated[bool, typer.Option("--explain", help="Say why this construction was chosen.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Dtype = Annotated[str, typer.Option(help="What the network runs in: float64 or float32.", autocompletion=_dtypes)]
Workers = Annotated[int | None, option("Processes of this machine that work; as many as it has cores unless given.")]
Cluster = Annotated[str | None, option("The address of a Dask scheduler whose workers work: tcp://HOST:PORT")]
Resume = Annotated[
    Path | None, option("A folder where every finished piece is written down; the same command goes on from there.")
]


class Delivery:
    """Saves and draws a result when called with it, and reports it when all is done."""

    def __init__(self, say: Say, output: Path | None, plot: Path | None, page: Path | None, explain: bool) -> None:
        self.say = say
        self._output, self._plot, self._page, self._explain = output, plot, page, explain
        self._built: Built | None = None
        self._written: dict[str, str] = {}
        self._more: dict[str, Any] = {}
        self._rows: list[tuple[str, str]] = []
        self._lines: list[str] = []

    def __call__(
        self,
        built: Built,
        *,
        save: Callable[[Path], None] | None = None,
        more: Mapping[str, Any] | None = None,
        rows: Sequence[tuple[str, str]] = (),
        lines: Sequence[str] = (),
        written: Mapping[str, Path | None] | None = None,
    ) -> None:
        """Write the files. `more` are entries for --json; `rows` and `lines` stand below the facts on screen; `written`
        are files that the command has written itself."""
        if self._output is not None:
            self.say("writing")
            (save or built.save)(self._output)
        if self._plot is not None:
            self.say("drawing")
            built.plot(self._plot)
        if self._page is not None:
            self.say("writing the page")
            built.page(self._page, file=None if self._output is None else self._output.name)
        files = {"file": self._output, **(written or {}), "plot": self._plot, "page": self._page}
        self._written = {kind: str(path) for kind, path in files.items() if path is not None}
        self._built, self._more, self._rows, self._lines = built, dict(more or {}), list(rows), list(lines)

    def report(self, failure: ToleranceNotReached | None, as_json: bool) -> None:
        """Say what was built, or why not, as one JSON object or as a table."""
        built = self._built
        if as_json:
            content: dict[str, Any] = {"ok": failure is None}
            if failure is not None:
                content["error"] = {
                    "kind": "tolerance not reached",
                    "message": str(failure),
                    "faults": [],
                    "exit_code": TOLERANCE_NOT_REACHED,
                }
            print_json(content | ({} if built is None else as_json_facts(built)) | self._more | self._written)
            return
        if built is not None:
            print_facts("softwright", [*built.rows(), *self._rows, *self._written.items()])
            if self._explain:
                echo(built.plan.explain())
        for line in self._lines:
            echo(line)
        if failure is not None:
            warn(f"tolerance not reached: {failure}")


@contextmanager
def delivery(
    output: Path | None,
    plot: Path | None,
    as_json: bool,
    *,
    page: Path | None = None,
    explain: bool = False,
    folder: bool = False,
    others: Sequence[Path | None] = (),
) -> Iterator[Delivery]:
    """Exit codes, a spinner, files and report around a command that builds. With `folder`, output is a new folder;
    `others` are files that the command will write itself."""
    failure: ToleranceNotReached | None = None
    with exit_codes(as_json):
        check_outputs(None if folder else output, page, *others)
        check_model_file(None if folder else output)
        if folder and output is not None and output.exists():
            raise FileFormatError(f"{output}: exists already; remove it or choose another name")
        if plot is not None:
            check_outputs(plot)
            from softwright.report.style import check_figure

            check_figure(plot)
        with spinner("loading", quiet=as_json) as say:
            deliver = Delivery(say, output, plot, page, explain)
            try:
                yield deliver
            except ToleranceNotReached as error:
                failure = error
                if error.best is not None:
                    deliver(error.best)
        deliver.report(failure, as_json)
    if failure is not None:
        raise typer.Exit(TOLERANCE_NOT_REACHED)


def check_model_file(path: Path | None) -> None:
    """Raise before the work if the name of a model file asks for another format."""
    if path is not None and path.suffix != ".safetensors":
        from softwright.export import check_model_file as check

        check(path)


def check_outputs(*paths: Path | None) -> None:
    """Raise before the work if a file could not be written after it."""
    from softwright.fileformat import writable

    for path in paths:
        if path is not None:
            writable(path)
