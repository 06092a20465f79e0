"""`JUDGES`: one judge per kind of network."""

from __future__ import annotations

from collections.abc import Callable

import softwright as sw
from judging import approximation, composition, in_context, memory, program, theorems, transpiled
from judging.claim import Claim, Seen
from judging.search import Effort

JUDGES: dict[str, Callable[[Claim, sw.Built, Effort], Seen]] = {
    "approximation": approximation.judge,
    "composition": composition.judge,
    "memory": memory.judge,
    "in_context": in_context.judge,
    "program": program.judge,
    "theorem": theorems.judge,
    "transpiled": transpiled.judge,
}
