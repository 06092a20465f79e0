"""`PROGRAMS`: for each kind of network that has a fixed forward, what writes it down as a `Program`.

A writer is given what a file of the network says of it (the section `model`) and its tensors, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from softwright.errors import InvalidInput
from softwright.export.program import Program, with_casts
from softwright.export.programs.approximation import approximation
from softwright.export.programs.composition import composition
from softwright.export.programs.in_context import in_context
from softwright.export.programs.memory import memory
from softwright.export.programs.sequence import sequence
from softwright.export.programs.theorem import theorem
from softwright.export.programs.transpiled import transpiled
from softwright.result.constructed import tensors_of

if TYPE_CHECKING:
    from softwright.result.built import Built

PROGRAMS: dict[str, Callable[[Mapping[str, Any], Mapping[str, np.ndarray]], Program]] = {
    "approximation": approximation,
    "composition": composition,
    "transpiled": transpiled,
    "in_context": in_context,
    "memory": memory,
    "program": sequence,
    "theorem": theorem,
}


def program_of(built: Built[Any]) -> Program:
    """What was built as a program; an `InvalidInput` says why there is none."""
    if getattr(built.certificate, "engine", "") == "factorised":
        fault = "the certificate speaks of the factorised engine, a program computes the dense one"
        raise InvalidInput("export", [f"{fault}; certify it with engine='sdpa' or engine='any'"])
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors_of(built.network).items()}
    return PROGRAMS[built.kind](built.network.describe(), tensors)


def stored_program(built: Built[Any]) -> Program:
    """The same with constants as they are stored, and nodes that change types where it computes in another."""
    program = program_of(built)
    return with_casts(program, tensors_of(built.network)) if program.ends else program
