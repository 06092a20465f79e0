"""Certificates whose proof is a formula: what the checker can say of them.

The stated numbers must be finite and add up, and the formula is evaluated again from the tensors alone, in ball
arithmetic. A sum of stated numbers proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from flint import fmpq

from softwright.checker.composition.statement import prove_composition
from softwright.checker.in_context.statement import prove_step
from softwright.checker.memory.recall import prove_recall
from softwright.checker.programs.statement import HYPOTHESES, prove_program
from softwright.checker.refusal import require
from softwright.checker.theorems.table import prove_theorem
from softwright.checker.transpiled.statement import prove_transpiled
from softwright.checker.verdict import Verdict, settled
from softwright.fileformat import ModelFile


def check_sums(file: ModelFile) -> None:
    """Bound and parts are numbers that add up, and the target is no formula."""
    said = file.sections["certificate"]
    # A formula is in the file: its certificate has boxes or gates that can be proved again, never a bare number.
    require(said["target"]["kind"] != "expression", "the error against a formula was not proved by a formula of sizes")
    numbers = [said[name] for name in ("bound", "exact_part", "rounding_part")]
    require(all(math.isfinite(x) and x >= 0 for x in numbers), "the bound or its parts are damaged")
    bound, exact, rounding = (fmpq(*float(x).as_integer_ratio()) for x in numbers)
    require(exact + rounding <= bound, "the bound is below the sum of its parts")


def reprove_recall(file: ModelFile, _: Callable[[int], None]) -> Verdict:
    """A memory recalls its labels: proved again from the tensors."""
    check_sums(file)
    proved, count = prove_recall(file), file.tensors["readout.keys"].shape[0]
    return settled(proved, target=f"recall of the labels of {count} stored items")


def reprove_step(file: ModelFile, _: Callable[[int], None]) -> Verdict:
    """One step of a solver in context: proved again from the tensors and the settings."""
    check_sums(file)
    return settled(prove_step(file))


def reprove_composition(file: ModelFile, progress: Callable[[int], None]) -> Verdict:
    """A formula compiled into a stack: that its program is the formula, and how far its heads are from the program."""
    boxes = prove_composition(file, progress)
    said = file.sections["certificate"]
    norm = "sup" if said["norm"] == "sup" else f"{said['norm']} norm of"
    return settled(f"{norm} |network - target| <= {said['bound']:.6g} re-proved", boxes=boxes)


def reprove_program(file: ModelFile, _: Callable[[int], None]) -> Verdict:
    """A program over sequences: its meaning, columns and heads proved again from the text and the tensors."""
    check_sums(file)
    verdict = settled(prove_program(file))
    return replace(verdict, hypotheses=HYPOTHESES)


def reprove_theorem(file: ModelFile, _: Callable[[int], None]) -> Verdict:
    """A theorem of the papers: proved again from the tensors, the sizes and what was drawn."""
    check_sums(file)
    said, proved = file.sections["certificate"], prove_theorem(file)
    reason, arithmetic = f"{proved.statement}: within {said['bound']:.6g}", "real" if proved.rounding is None else ""
    return settled(reason, proved.hypotheses, arithmetic=arithmetic)


def reprove_transpiled(file: ModelFile, _: Callable[[int], None]) -> Verdict:
    """A transpiled network against its source: proved again from the tensors of both."""
    check_sums(file)
    said, proved = file.sections["certificate"], prove_transpiled(file)
    arithmetic = "real" if proved.total is None else ""
    return settled(f"{proved.statement}: within {said['bound']:.6g}", arithmetic=arithmetic)
