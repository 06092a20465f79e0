"""`Verdict`: what the checker says of a file, and of what exactly it says it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from softwright.checker.claims import set_of
from softwright.checker.precision import as_run
from softwright.checker.refusal import printable
from softwright.fileformat import ModelFile

VERIFIED = "VERIFIED"
ON_A_PART = "VERIFIED ON A PART"
GIVEN = "VERIFIED GIVEN"
NOT_VERIFIED = "NOT VERIFIED"
_TEXTS = ("reason", "target", "domain", "dtype", "arithmetic")


@dataclass(frozen=True)
class Verdict:
    """`status` and what it is about.

    VERIFIED            re-proved, on the whole box of the model where there is one
    VERIFIED ON A PART  re-proved, but only on the part of the model's box that `domain` names
    VERIFIED GIVEN      re-proved as far as the file goes; `given` names what it leaves to others to answer for
    NOT VERIFIED        what is wrong, in `reason`

    As a truth value it is True for VERIFIED alone: `if sw.verify(path): ...`. `target`, `domain`, `dtype`, `arithmetic`
    and `runtimes` say what was proved of what, where, and for which runs; `hypotheses` is all that had to be assumed:
    IEEE 754 arithmetic and how exact the run-time library's exp is, where the run is spoken of, and those of `given`.
    In print the first of `runtimes` stands for all. All texts are printable lines, whatever a file says.
    """

    status: str
    reason: str
    boxes: int = 0
    seconds: float = 0.0
    target: str = ""
    domain: str = ""
    dtype: str = ""
    arithmetic: str = ""
    runtimes: tuple[str, ...] = ()
    hypotheses: tuple[str, ...] = ()
    given: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in _TEXTS:
            object.__setattr__(self, name, printable(getattr(self, name)))
        for name in ("runtimes", "hypotheses", "given"):
            object.__setattr__(self, name, tuple(map(printable, getattr(self, name))))

    @property
    def verified(self) -> bool:
        return self.status == VERIFIED

    def __bool__(self) -> bool:
        return self.verified

    def to_json(self) -> dict[str, Any]:
        fields = ("status", "reason", "target", "domain", "dtype", "arithmetic", "boxes", "seconds")
        lists = ("runtimes", "hypotheses", "given")
        return {name: getattr(self, name) for name in fields} | {name: list(getattr(self, name)) for name in lists}

    def __str__(self) -> str:
        status = f"{self.status} {', '.join(self.given)}" if self.given else self.status
        about = [f"target {self.target}"] if self.target else []
        about += [f"on {self.domain}"] if self.domain else []
        about += [f"in {self.arithmetic} arithmetic"] if self.arithmetic else []
        about += [f"run by {self.runtimes[0]}"] if self.runtimes else []
        about += [f"under {', '.join(self.hypotheses)}"] if self.hypotheses else []
        scope = f"; {', '.join(about)}" if about else ""
        return f"{status}: {self.reason}{scope} ({self.boxes} boxes, {self.seconds:.2f} s)"


def settled(reason: str, given: Iterable[str] = (), **about: Any) -> Verdict:
    """The verdict about what was proved, given further hypotheses, if there are any."""
    further = tuple(given)
    return Verdict(GIVEN if further else VERIFIED, reason, given=further, **about)


def scoped(verdict: Verdict, file: ModelFile) -> Verdict:
    """The verdict with what it is about; one about a part of the model's box says so."""
    if verdict.status == NOT_VERIFIED:
        return verdict
    said, model = file.sections["certificate"], file.sections["model"]
    precision, box, target = as_run(said["dtype"], said["engine"]), said.get("domain"), said["target"]
    whole = {name: [float(x) for x in sides] for name, sides in model.get("box", {}).items()} if box else None
    partial = box is not None and box != whole
    where = box_in_words(box) if box else set_in_words(set_of(target, said.get("quantities", {})))
    if "outside" in said:
        bands = said["outside"]
        where = f"{where} where no |c| < {bands['gap']:g}, c one of {', '.join(bands['of'])}"
    return replace(
        verdict,
        status=ON_A_PART if partial and verdict.verified else verdict.status,
        reason=f"{verdict.reason}; on a part of the model's box" if partial and verdict.given else verdict.reason,
        target=verdict.target or str(target.get("text") or target.get("name") or target["kind"]),
        domain=where,
        dtype=precision.name,
        arithmetic=verdict.arithmetic or precision.name + (f" ({precision.inside} inside)" if precision.inside else ""),
        runtimes=() if verdict.arithmetic == "real" else precision.runtimes,
        hypotheses=(
            *(() if verdict.arithmetic == "real" else precision.hypotheses),
            *verdict.hypotheses,
            *verdict.given,
        ),
    )


def box_in_words(box: dict[str, Any]) -> str:
    return ", ".join(f"{name} in [{low:.17g}, {high:.17g}]" for name, (low, high) in box.items())


def set_in_words(inputs: dict[str, Any]) -> str:
    """The inputs that a closed form is about; empty where only its sentence says it."""
    if inputs["kind"] == "box":
        sides = enumerate(zip(inputs["low"], inputs["high"], strict=True))
        return box_in_words({f"x{i}": side for i, side in sides})
    if inputs["kind"] == "prompts":
        return "prompts with " + ", ".join(f"{name} <= {value:.17g}" for name, value in inputs["at_most"].items())
    if inputs["kind"] == "every sequence":
        return sequences_in_words(inputs["tokens"])
    if inputs["kind"] == "stored items":
        return f"the {inputs['items']} stored items"
    return "" if inputs["kind"] == "stated" else str(inputs["kind"])


def sequences_in_words(tokens: dict[str, Any]) -> str:
    """Lengths and fields of the sequences that a program is about."""
    words = []
    for field in tokens["fields"]:
        if field["kind"] == "symbol":
            words.append(f"{field['name']} in {{{' '.join(field['symbols'])}}}")
        elif field["kind"] == "truth":
            words.append(f"{field['name']} true or false")
        else:
            whole = "" if field["kind"] == "real" else "whole "
            words.append(f"{whole}{field['name']} in [{field['low']:.17g}, {field['high']:.17g}]")
    return f"all sequences of {tokens['length'][0]} to {tokens['length'][1]} tokens with {', '.join(words)}"
