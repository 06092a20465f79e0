"""`Verdict`: what the checker says of a file."""

from __future__ import annotations

from dataclasses import dataclass

from softwright.checker.refusal import printable


@dataclass(frozen=True)
class Verdict:
    """`status`: VERIFIED (re-proved), CONSISTENT (nothing is wrong, but the file cannot re-prove it), NOT VERIFIED.

    As a truth value it is True for VERIFIED alone: `if sw.verify(path): ...`. The reason is one printable line,
    whatever texts of the file it quotes.
    """

    status: str
    reason: str
    boxes: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", printable(self.reason))

    @property
    def verified(self) -> bool:
        return self.status == "VERIFIED"

    def __bool__(self) -> bool:
        return self.verified

    def __str__(self) -> str:
        return f"{self.status}: {self.reason} ({self.boxes} boxes, {self.seconds:.2f} s)"
