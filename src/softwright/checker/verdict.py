"""`Verdict`: what the checker says of a file, and of what exactly it says it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from softwright.checker.precision import precision_of
from softwright.checker.refusal import printable
from softwright.fileformat import ModelFile

VERIFIED = "VERIFIED"
ON_A_PART = "VERIFIED ON A PART"
CONSISTENT = "CONSISTENT"
NOT_VERIFIED = "NOT VERIFIED"


@dataclass(frozen=True)
class Verdict:
    """`status` and what it is about.

    VERIFIED            re-proved on the whole box of the model
    VERIFIED ON A PART  re-proved, but only on the part of the model's box that `domain` names
    CONSISTENT          nothing is wrong, but the file does not hold what a proof needs
    NOT VERIFIED        what is wrong, in `reason`

    As a truth value it is True for VERIFIED alone: `if sw.verify(path): ...`. `target`, `domain` and `dtype` say what
    was proved of what and where; `hypotheses` what had to be assumed: IEEE 754 arithmetic, and how exact the run-time
    library's exp is. All texts are printable lines, whatever a file says.
    """

    status: str
    reason: str
    boxes: int = 0
    seconds: float = 0.0
    target: str = ""
    domain: str = ""
    dtype: str = ""
    hypotheses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("reason", "target", "domain", "dtype"):
            object.__setattr__(self, name, printable(getattr(self, name)))

    @property
    def verified(self) -> bool:
        return self.status == VERIFIED

    def __bool__(self) -> bool:
        return self.verified

    def to_json(self) -> dict[str, Any]:
        fields = ("status", "reason", "target", "domain", "dtype", "boxes", "seconds")
        return {**{name: getattr(self, name) for name in fields}, "hypotheses": list(self.hypotheses)}

    def __str__(self) -> str:
        about = [f"target {self.target}"] if self.target else []
        about += [f"on {self.domain}"] if self.domain else []
        about += [f"in {self.dtype} under {', '.join(self.hypotheses)}"] if self.hypotheses else []
        scope = f"; {', '.join(about)}" if about else ""
        return f"{self.status}: {self.reason}{scope} ({self.boxes} boxes, {self.seconds:.2f} s)"


def scoped(verdict: Verdict, file: ModelFile) -> Verdict:
    """The verdict with what it is about; one about a part of the model's box says so."""
    if verdict.status == NOT_VERIFIED:
        return verdict
    said, model = file.sections["certificate"], file.sections["model"]
    precision, box, target = precision_of(said["dtype"]), said.get("domain"), said["target"]
    whole = {name: [float(x) for x in sides] for name, sides in model.get("box", {}).items()} if box else None
    partial = verdict.verified and box is not None and box != whole
    return replace(
        verdict,
        status=ON_A_PART if partial else verdict.status,
        target=verdict.target or str(target.get("text") or target.get("name") or target["kind"]),
        domain=", ".join(f"{name} in [{low:.17g}, {high:.17g}]" for name, (low, high) in box.items()) if box else "",
        dtype=precision.name,
        hypotheses=("ieee754", f"exp-ulp<={precision.exp_ulps}"),
    )
