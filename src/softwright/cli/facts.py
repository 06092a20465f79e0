"""What is said about a network, as JSON; the same facts for `approximate` and `info`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softwright.result.built import Built

_CERTIFICATE_ENTRIES = (
    "norm",
    "p",
    "bound",
    "exact_part",
    "rounding_part",
    "dtype",
    "engine",
    "method",
    "boxes",
    "assumptions",
    "hypotheses",
    "runtimes",
    "seconds",
    "between",
    "statement",
    "quantities",
)


def as_json_facts(built: Built) -> dict[str, Any]:
    """Everything a program may want to know, without the weights and without the tree of a proof."""
    observed = built.observed
    facts: dict[str, Any] = {"kind": built.kind, "target": built.target}
    if built.kind == "approximation":
        facts |= {"box": built.network.box.as_dict(), "outputs": built.network.outputs, "tokens": built.network.tokens}
        facts["engine"] = built.engine
    facts |= {
        "parameters": built.plan.parameters,
        "plan": built.plan.as_dict(),
        "observed": None if observed is None or not math.isfinite(observed.error) else observed.as_dict(),
        "certificate": None,
        "unproved": built.certificate_void or built.unproved,
    }
    certificate = built.certificate
    if certificate is not None:
        full = {**certificate.flat(), "hypotheses": list(certificate.hypotheses)}
        full["runtimes"] = list(certificate.runtimes)
        facts["certificate"] = {name: full[name] for name in _CERTIFICATE_ENTRIES if name in full}
    return facts
