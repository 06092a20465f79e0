"""What a statement rests on: hypotheses by name, the arithmetic, and the words of its premises.

All of it is known when a proof has been done again, so all of it is written again here, and a statement must say the
same: a hypothesis that is missing would hide what the proof needs, one too many would blame what it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from softwright.checker.claims import BY_BOXES, Claim
from softwright.checker.entries import Test, check_entries, is_text, same
from softwright.checker.precision import Precision, as_run
from softwright.checker.refusal import require
from softwright.checker.verdict import Verdict

HYPOTHESIS: dict[str, Test] = {"id": is_text, "text": is_text}
NOT_SHOWN = "as stated: the file does not hold what the network is compared with"
# Step -> whether a sentence is one of today's. Those of version 1 said more than is proved, or left a condition out; in
# files of that version they are read as they were meant.
TODAY: dict[str, Callable[[str], bool]] = {
    "memory": lambda text: text.startswith("every input whose id is one of"),
    "solver": lambda text: "Newton-Schulz" not in text or text.endswith("2^64 in size"),
}


def check_trust(claim: Claim, verdict: Verdict) -> None:
    """What the statement says that it rests on is what the re-proof needed: no more, and no less."""
    if claim.said is None:
        return
    said = claim.said["claim"]
    precision = as_run(said["dtype"], said["engine"])
    arithmetic = "real" if verdict.arithmetic == "real" else f"{precision.name} as run"
    require(said["arithmetic"] == arithmetic, f"what was proved is about {arithmetic} arithmetic")
    covered = "; ".join(verdict.runtimes)
    require(said["runtimes"] == list(verdict.runtimes), f"the runtimes that such a claim covers are: {covered}")
    today = all(TODAY[step](said["text"]) for step in claim.steps if step in TODAY)
    require(today, "the sentence is one of older certificates; certify again")
    check_named(claim.said["trust"], verdict.hypotheses)
    if claim.steps[0] in (*BY_BOXES, "solver"):
        words = premises(said["reference"]["target"], claim.said["evidence"][0], said, precision)
        require(said["premises"] == words, f"the premises of such a claim are: {'; '.join(words)}")


def check_named(trust: Any, hypotheses: tuple[str, ...]) -> None:
    """That a list of hypotheses, as it stands in a file, is the one that a proof rests on."""
    require(isinstance(trust, list), "the hypotheses are no list")
    for entry in trust:
        check_entries(entry, HYPOTHESIS, "a hypothesis")
    wanted = [{"id": name, "text": text_of(name)} for name in hypotheses]
    named = ", ".join(hypotheses) or "nothing"
    require(same(trust, wanted), f"the hypotheses are not what the proof rests on: {named}")


def text_of(hypothesis: str) -> str:
    """What a hypothesis says."""
    name, _, rest = hypothesis.partition(":")
    ulps, count = (hypothesis.removeprefix(start) for start in ("exp-ulp<=", "layernorm-roundings<="))
    texts = {
        "ieee754": "arithmetic as IEEE 754 has it, rounded to nearest",
        f"layernorm-roundings<={count}": f"mean and variance in LayerNorm are sums of at most {count} roundings",
        f"exp-ulp<={ulps}": f"exp of the run-time library is accurate to {ulps} ulp",
        "exp(0)=1": "exp(0) of the run-time library is exactly 1",
        "callable-values": "the callable's values are those of the function that is meant",
        "user-lipschitz": "the Lipschitz constant given for the callable holds",
        "user-second-derivative": "the bound given for the callable's second derivatives holds",
        "stated-exact-part": f"the exact part of the error is {NOT_SHOWN}",
        "stated-bound": f"the error is {NOT_SHOWN}",
        "table": f"the table is the one of SHA-256 {rest}",
        "source-weights": f"the source network is the one of SHA-256 {rest}",
    }
    return texts.get(name, hypothesis)


def premises(target: dict[str, Any], step: dict[str, Any], claim: dict[str, Any], precision: Precision) -> list[str]:
    """The words of what is taken for granted, as certificates by boxes and of solvers say it."""
    words = [precision.words, f"inputs are {precision.name} numbers of the domain"]
    if target["kind"] == "table":
        beyond = "" if "between" in claim else " and nothing between them"
        return [f"the bound covers the table's {step['count']} points{beyond}", *words]
    if target["kind"] == "function":
        promised = target["lipschitz"] if target["second_derivative"] is None else target["second_derivative"]
        name = "Lipschitz constant" if target["second_derivative"] is None else "bound on second derivatives"
        given = tuple(promised) if isinstance(promised, list) else promised
        taken = "the callable's float64 values are exact at float64 points"
        return [f"the given {name} of {target['name']}: {given}", taken, *words]
    return words
