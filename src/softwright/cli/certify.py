"""`softwright certify`: prove a stored network, by processes of this machine or on a cluster; go on after a stop."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softwright.cli.delivery import (
    AsJson,
    Cluster,
    ModelFile,
    Output,
    Resume,
    Workers,
    check_model_file,
    check_outputs,
    option,
)
from softwright.cli.exits import CHECK_FAILED, exit_codes, print_json
from softwright.cli.screen import echo, spinner
from softwright.errors import InvalidInput

if TYPE_CHECKING:
    from softwright.proof.question import Certification
    from softwright.result.built import Built


def certify_command(
    file: ModelFile,
    *,
    bound: Annotated[float | None, option("Prove that the error is at most this.")] = None,
    tightness: Annotated[
        float | None, option("Prove the smallest bound to within this of a certain error; 0.05 if nothing is asked.")
    ] = None,
    norm: Annotated[str, typer.Option(help="sup, or L1, L2, ...")] = "sup",
    engine: Annotated[str | None, option("How the network will run; as it says itself unless given.")] = None,
    order: Annotated[int | None, option("Degree of the Taylor models.")] = None,
    max_work: Annotated[float, typer.Option(help="Most work, counted: about a second of one core a unit.")] = 60.0,
    max_seconds: Annotated[float, typer.Option(help="Most seconds by the clock: a last resort.")] = 600.0,
    max_boxes: Annotated[int, typer.Option(help="Most boxes.")] = 200_000,
    workers: Workers = None,
    cluster: Cluster = None,
    resume: Resume = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Prove how far a stored network is from its formula; with -o, write it with the certificate."""
    with exit_codes(as_json):
        check_outputs(output)
        check_model_file(output)
        with spinner("loading", quiet=as_json) as say:
            from softwright.proof.prover import certify
            from softwright.result.built import load
            from softwright.scale import several

            built = load(file)
            found = certify(
                built.network,
                _target(built),
                bound=bound,
                tightness=tightness,
                norm=norm,
                engine=engine,
                order=order,
                max_work=max_work,
                max_seconds=max_seconds,
                max_boxes=max_boxes,
                workers=workers or (None if cluster is not None else several()),
                cluster=cluster,
                resume=resume,
                progress=say,
            )
            if output is not None and found.certificate is not None:
                say("writing")
                replace(built, certificate=found.certificate, unproved="").save(output)
        _report(found, file, output, as_json)
    if not found.proved:
        raise typer.Exit(CHECK_FAILED)


def _target(built: Built) -> Any:
    if built.kind != "approximation":
        raise InvalidInput(
            "certify", [f"a network of kind {built.kind!r} is proved when it is built; verify proves it"]
        )
    if built.source is None:
        raise InvalidInput("certify", ["the file does not hold its target; call certify(network, target) in Python"])
    return built.source


def _report(found: Certification, file: Path, output: Path | None, as_json: bool) -> None:
    written = output if found.certificate is not None else None
    if as_json:
        numbers = {"bound": found.bound, "lower": found.lower, "proved_bound": found.proved_bound}
        content = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
        content |= {"status": found.status, "reason": found.reason, "witness": list(found.witness)}
        content |= {"boxes": found.boxes, "seconds": found.seconds, "source": str(file)}
        print_json({"ok": found.proved, **content} | ({} if written is None else {"file": str(written)}))
        return
    echo(str(found))
    if written is not None:
        echo(f"written to {written}")
