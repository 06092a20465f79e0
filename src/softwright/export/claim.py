"""What an exported file says of itself, in words: the claim, its bound, and the runs that it covers.

A certificate speaks of torch's kernels. Its rounding part does not: it holds for every run that computes the same
operations in the same type as IEEE 754 has it, sums in any order, with an exp as exact as was charged. So a file for
another program repeats the claim under that hypothesis, by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from softwright.precision import computing_in, exp_ulps_of

_ELSEWHERE = {
    "float64": "a runtime that computes float64 in float32, as OpenVINO does",
    "float32": "a runtime that multiplies in TF32 or bfloat16",
}


def claim_lines(sections: Mapping[str, Any]) -> list[str]:
    """The claim of a file with these sections, one sentence a line."""
    target, certificate = sections["target"], sections["certificate"]
    what = target.get("text") or target.get("name") or target["kind"]
    lines = [f"softwright {sections['model']['kind']}: {what}"]
    if certificate is None:
        return [*lines, "There is no certificate: nothing is proved of this network."]
    claim = certificate["claim"]
    parts = f"exact part {claim['parts']['exact']!r} + rounding part {claim['parts']['rounding']!r}"
    lines += [
        f"Claim: {claim['text']}.",
        f"Bound: {claim['bound']!r} in the {claim['norm']} norm, {parts}; {claim['arithmetic']} arithmetic.",
    ]
    if claim["set"]["kind"] == "box" and "domain" in claim["set"]:
        sides = (f"{name} in [{low!r}, {high!r}]" for name, (low, high) in claim["set"]["domain"].items())
        lines.append(f"Set: {', '.join(sides)}.")
    if "outside" in claim["set"]:
        gap, differences = claim["set"]["outside"]["gap"], claim["set"]["outside"]["of"]
        lines.append(f"Except where {' or '.join(f'|{one}| < {gap!r}' for one in differences)}.")
    lines.append(f"Weights: SHA-256 {claim['subject']['sha256']}.")
    return [
        *lines,
        covered(claim),
    ]


def covered(claim: Mapping[str, Any]) -> str:
    """Which runs the claim holds in, and which are known to break it."""
    if claim["arithmetic"] == "real":
        return "Covers: no run; the claim is about real arithmetic."
    ulps = exp_ulps_of(claim["dtype"], claim["engine"], claim["premises"])
    inside = computing_in(claim["dtype"], claim["engine"]).name
    once = "" if inside == claim["dtype"] else f", of {claim['dtype']} numbers, and round once to {claim['dtype']}"
    given = f"hypotheses ieee754, exp-ulp<={ulps}"
    how = f"every operation in {inside} as IEEE 754 has it, sums in any order, exp accurate to {ulps} ulp ({given})"
    return f"Covers: runs that compute {how}{once}; not {_ELSEWHERE[inside]}."
