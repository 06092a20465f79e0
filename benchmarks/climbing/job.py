"""`Job`: a network that was built, and how its own claim is tried beyond what the judge of its kind does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from judging.claim import NOTHING, Claim, Known, Seen

import softwright as sw


@dataclass
class Job:
    """`further` looks at the loaded network with what only the builder of the job knows."""

    what: str
    built: sw.Built
    known: Known | None = None
    further: Callable[[Claim, sw.Built], Seen] = lambda claim, built: NOTHING
