"""`softwright kernels`: how exact exp is in torch's kernels on this processor, and which certificates hold there."""

from __future__ import annotations

from typing import Annotated

import typer

from softwright.cli.delivery import AsJson
from softwright.cli.exits import CHECK_FAILED, exit_codes, print_json
from softwright.cli.screen import echo, spinner

SETTINGS = {"no_args_is_help": False}


def kernels_command(
    stride: Annotated[
        int, typer.Option(min=1, help="Look at every n-th float32 argument; 1 is all 1.1e9 of them, minutes a kernel.")
    ] = 499,
    as_json: AsJson = False,
) -> None:
    """Measure exp in torch's float32 kernels here; says which of the hypotheses exp-ulp<=4 and exp-ulp<=32 holds."""
    with exit_codes(as_json):
        found = []
        with spinner("reading exp", quiet=as_json) as say:
            import torch

            from softwright.attention.exp_accuracy import KERNELS, exp_at_zero, measure
            from softwright.precision import EXP_ULPS

            for kernel in KERNELS:
                if say is not None:
                    say(kernel.name)
                found.append(measure(kernel, stride))
            exact = exp_at_zero()
        holds = [ulps for ulps in EXP_ULPS if exact and all(row.holds(ulps) for row in found)]
        if as_json:
            rows = [{**vars(row), "ulps": row.ulps} for row in found]
            print_json({"ok": bool(holds), "holds": holds, "exp(0)=1": exact, "kernels": rows})
        else:
            echo(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, every {stride}th argument")
            for row in found:
                echo(f"  {row.kernel:28} {row.ulps:.2f} ulp at most ({row.arguments} arguments)")
            echo(f"exp(0) is exactly 1: {'yes' if exact else 'no'}")
            echo(_said(holds, EXP_ULPS))
    if not holds:
        raise typer.Exit(CHECK_FAILED)


def _said(holds: list[int], known: tuple[int, ...]) -> str:
    if not holds:
        return "no hypothesis of float32 certificates holds here: use float64, or engine 'double'"
    if holds[0] == known[0]:
        return f"exp-ulp<={holds[0]} holds at all of them: float32 certificates apply here"
    return (
        f"only exp-ulp<={holds[0]} holds: certificates that rest on exp-ulp<={known[0]} do not apply in float32; "
        f"set SOFTWRIGHT_EXP_ULPS={holds[0]} and certify again, or use engine 'double'"
    )
