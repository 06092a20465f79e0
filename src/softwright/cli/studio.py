"""`softwright studio`: build, look, compare and verify in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from softwright.cli.delivery import AsJson, option
from softwright.cli.exits import exit_codes, print_json
from softwright.cli.screen import echo

SETTINGS = {"no_args_is_help": False}


def studio_command(
    *,
    host: Annotated[
        str, typer.Option(help="The address to listen on; others than this machine's need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")] = 8377,
    folder: Annotated[Path | None, option("Where histories are kept.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Jobs that run at the same time.")] = 2,
    seconds: Annotated[float, typer.Option(min=1.0, help="Most seconds of one job.")] = 120.0,
    memory: Annotated[int, typer.Option(min=64, help="Most megabytes of one job.")] = 1024,
    cluster: Annotated[
        str, typer.Option(help="The address of a Dask scheduler that jobs are sent to: tcp://HOST:8786.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Serve the studio on this machine, until it is interrupted."""
    with exit_codes(as_json):
        from softwright.studio.limits import Limits
        from softwright.studio.pool import default_folder
        from softwright.studio.serve import serve

        def ready(address: str) -> None:
            print_json({"ok": True, "address": address}) if as_json else echo(f"open {address}")

        limits = Limits(workers=workers, seconds=seconds, memory=memory << 20)
        serve(folder or default_folder(), host=host, port=port, limits=limits, cluster=cluster, ready=ready)
