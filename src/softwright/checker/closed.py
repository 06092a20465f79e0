"""Certificates whose proof is a formula: what the checker can say of them.

The weights must be those certified, and the stated numbers must be finite and add up. Where a file holds all that the
formula needs, a re-proof registered in `REPROOFS` redoes it from the tensors alone, in ball arithmetic; elsewhere the
answer is CONSISTENT: nothing is wrong, but nothing was re-proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from flint import fmpq

from softwright.checker.memory import reprove_memory
from softwright.checker.parser import require
from softwright.fileformat import ModelFile, read_model

SCHEMA = "softwright-closed-form/1"

# kind of model -> re-proof: returns what was re-proved, in words, or raises NotProvedError
REPROOFS: dict[str, Callable[[ModelFile], str]] = {"memory": reprove_memory}


def check_closed_form(path: str | Path) -> tuple[str, str] | None:
    """Status and reason for a closed-form certificate; None if the file's certificate is not of this kind."""
    file = read_model(path)
    said = file.sections.get("certificate")
    if said is None or said.get("schema") != SCHEMA:
        return None
    require(said["weights_sha256"] == file.weights_sha256, "the weights are not the ones that were certified (SHA-256)")
    require(said["target"] == file.sections.get("target"), "the file's target is not the one that was certified")
    model = file.sections["model"]
    require(said["dtype"] == model.get("dtype", said["dtype"]), "the dtype stated is not the model's")
    # A formula is in the file: its certificate has boxes or gates that can be proved again, never a bare number.
    require(said["target"]["kind"] != "expression", "the error against a formula was not proved by a formula of sizes")
    numbers = [said[name] for name in ("bound", "exact_part", "rounding_part")]
    require(all(math.isfinite(x) and x >= 0 for x in numbers), "the bound or its parts are damaged")
    bound, exact, rounding = (fmpq(*float(x).as_integer_ratio()) for x in numbers)
    require(exact + rounding <= bound, "the bound is below the sum of its parts")
    kind = model.get("kind")
    if kind in REPROOFS:
        return "VERIFIED", REPROOFS[kind](file)
    return "CONSISTENT", (
        f"{said['method']} states {said['statement']} within {said['bound']:.6g}; weights and sums were checked, "
        "the formula was not evaluated again"
    )
