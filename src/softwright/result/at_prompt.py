"""`AtPrompt`: what is proved of one prompt, or of all prompts near it, and not of a whole set of inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from softwright.errors import InvalidInput
from softwright.fileformat import write_model
from softwright.result.statement import hypotheses_of, text_of

Tensors = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class AtPrompt:
    """A bound for a prompt at hand. `seen` is how far this machine's run was from what it is compared with, enclosed in
    ball arithmetic where that is exact numbers; `budget` says what every part adds, `quantities` what was found of the
    prompt and went into the bound."""

    statement: str
    bound: float
    seen: float
    budget: Mapping[str, float]
    quantities: Mapping[str, float]
    dtype: str
    assumptions: tuple[str, ...] = ()
    further: tuple[str, ...] = ()  # the ids of hypotheses beyond those of every run
    content: Callable[[AtPrompt], tuple[Tensors, Mapping[str, Any]]] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def hypotheses(self) -> tuple[str, ...]:
        """The ids of all that had to be assumed."""
        return (*hypotheses_of(self.dtype, self.assumptions, {}, boxes=False), *self.further)

    @property
    def trust(self) -> list[dict[str, str]]:
        """The same with what they say, as files have it."""
        return [{"id": name, "text": text_of(name)} for name in self.hypotheses]

    def save(self, path: str | Path) -> None:
        """A file of all that the bound rests on, the prompt among it; `sw.verify(path)` proves it again."""
        if self.content is None:
            remedy = "save what was built: its certificate is about the set that the prompt is in"
            raise InvalidInput("save", [f"a bound of this kind has no file of its own; {remedy}"])
        write_model(path, *self.content(self))

    def __str__(self) -> str:
        lines = [f"{self.statement}: <= {self.bound:.4g} proved, {self.seen:.3g} in this run ({self.dtype})"]
        lines += [f"  {name:<28} {value:.3g}" for name, value in self.budget.items()]
        lines.append("  with " + ", ".join(f"{name} {value:.5g}" for name, value in self.quantities.items()))
        lines += [f"  rests on: {text}" for text in self.assumptions]
        return "\n".join([*lines, f"  under: {', '.join(self.hypotheses)}"])
