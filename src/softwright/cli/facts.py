"""What is said about a network, as rows of a table and as JSON; the same facts for `approximate` and `info`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softwright.built import Built

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
    "seconds",
)


def certificate_rows(built: Built) -> list[tuple[str, str]]:
    """A row for what is proved, if anything is and the result does not list it already."""
    certificate = getattr(built, "certificate", None)
    if certificate is None or any(name in ("proved", "proved bound", "certificate") for name, _ in built.rows()):
        return []
    return [("certificate", line) if i == 0 else ("", line) for i, line in enumerate(str(certificate).splitlines())]


def as_json_facts(built: Built) -> dict[str, Any]:
    """Everything a program may want to know, without the weights and without the tree of a proof."""
    observed = built.observed
    facts: dict[str, Any] = {
        "target": built.target,
        "box": built.network.box.as_dict(),
        "outputs": built.network.outputs,
        "tokens": built.network.tokens,
        "parameters": built.plan.parameters,
        "plan": built.plan.as_dict(),
        "observed": None if observed is None or not math.isfinite(observed.error) else observed.as_dict(),
        "certificate": None,
    }
    certificate = getattr(built, "certificate", None)
    if certificate is not None:
        full = certificate.to_json()
        facts["certificate"] = {name: full[name] for name in _CERTIFICATE_ENTRIES if name in full}
    return facts
