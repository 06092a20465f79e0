"""What new users and an attacker once found, where no other test stands for it: each row is a case that went wrong.

The other cases are in `checker/test_forged.py`, `checker/test_verdict.py`, `proof/test_extremes.py`,
`transpiler/test_source.py`, `transpiler/test_onnx.py`, `attention/test_autocast.py`, `cli/test_hostile_input.py`,
`cli/test_screen.py`, `targets/test_hostile_tables.py`, `result/test_hostile_sections.py` and `test_atomic_writing.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import softwright as sw
from softwright.cli import app
from softwright.fileformat import read_model, write_model
from softwright.proof.prover import certify


def told(path: Path, command: str = "info") -> tuple[int, str]:
    result = CliRunner().invoke(app, [command, str(path)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    file = read_model(path)
    change(file.sections)
    write_model(path, file.tensors, file.sections)


def state(sections: dict[str, Any], exact: float, rounding: float) -> None:
    claim = sections["certificate"]["claim"]
    parts = {"bound": exact + rounding, "exact": exact, "rounding": rounding}
    claim |= {"bound": parts["bound"], "parts": {"exact": exact, "rounding": rounding}}
    claim["hex"] |= {name: number.hex() for name, number in parts.items()}


def a_bound_that_a_file_only_tells(path: Path) -> None:
    """`info` printed "proved error <= 1e-30" for whatever stood in the file."""
    sw.transpile(nn.Sequential(nn.Linear(2, 3), nn.GELU()).eval(), (-1, 1)).save(path)
    rewritten(path, lambda sections: state(sections, 0.0, 1e-30))
    code, shown = told(path)
    assert code == 0 and "1e-30" in shown and "told by a file" in shown and "verify" in shown
    assert told(path, "verify")[0] == 1


def a_proof_on_a_small_part_of_the_box(path: Path) -> None:
    """A certificate on [-0.001, 0.001] was printed as if it covered [-1, 1], where the network is off by 999."""
    built = sw.approximate("sin(3*x)", {"x": (-1, 1)}, tol=1e-3, certify=False)
    target = "sin(3*x) + 1000*max(x - 0.001, 0)"
    part = certify(built.network, target, bound=1e-3, domain={"x": (-0.001, 0.001)}).certificate
    assert part is not None and "[-0.001, 0.001]" in str(part)
    assert dict(replace(built, certificate=part).rows())["proved on"].startswith("x in [-0.001, 0.001] only")
    assert "proved on" not in dict(sw.approximate("sin(3*x)", {"x": (-1, 1)}, tol=1e-3).rows())


def a_formula_with_a_carriage_return(path: Path) -> None:
    """`7 +\r    sin(3*x)` was VERIFIED, and the terminal showed sin(3*x) alone."""
    sw.approximate("7 + sin(3*x)", {"x": (-1, 1)}, tol=1e-3).save(path)
    assert sw.verify(path)

    def hide(sections: dict[str, Any]) -> None:
        for target in (sections["target"], sections["certificate"]["claim"]["reference"]["target"]):
            target["text"] = "7 +\r                sin(3*x)"

    rewritten(path, hide)
    assert not sw.verify(path)
    assert "\r" not in told(path)[1]


def a_formula_of_four_hundred_sines(path: Path) -> None:
    """verify of max(400 sines) took more than a minute: its budget was counted in boxes, not in time."""
    sw.approximate("max(sin(x), sin(2*x))", {"x": (-1, 1)}, tol=0.5, certify=True).save(path)
    text = "max(" + ", ".join(f"sin({n}*x)" for n in range(1, 401)) + ")"

    def grow(sections: dict[str, Any]) -> None:
        for target in (sections["target"], sections["certificate"]["claim"]["reference"]["target"]):
            target["text"] = text

    rewritten(path, grow)
    verdict = sw.verify(path, max_seconds=1.0)
    assert not verdict and verdict.seconds < 30.0


def a_cast_under_a_proof_in_float64(path: Path) -> None:
    """`built.network.to(torch.float32)` left "float64, proved <= 1e-10" on display, and went to a file in silence."""
    built = sw.approximate("sin(3*x)", {"x": (-1, 1)}, tol=1e-6)
    built.network.to(torch.float32)
    assert "void" in repr(built) and "proved error" not in repr(built)
    with pytest.warns(UserWarning, match="no certificate"):
        built.save(path)
    assert not sw.verify(path)


CASES = (
    a_bound_that_a_file_only_tells,
    a_proof_on_a_small_part_of_the_box,
    a_formula_with_a_carriage_return,
    a_formula_of_four_hundred_sines,
    a_cast_under_a_proof_in_float64,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_what_was_found_stays_mended(case: Callable[[Path], None], tmp_path: Path) -> None:
    case(tmp_path / "net.safetensors")
