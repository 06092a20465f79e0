"""`Limits`: how much one studio may take of its machine, and one user of the studio."""

from __future__ import annotations

from dataclasses import dataclass

from softwright.errors import Faults


@dataclass(frozen=True)
class Limits:
    """workers      processes that build at the same time
    seconds      of one job, on the clock and of the processor
    memory       bytes of data that one job may hold beside what is loaded already
    queue        jobs that wait, of all users together
    each         jobs of one user that wait or run
    kept         finished jobs that one user's history holds; the oldest go
    upload       bytes of one file that is sent
    uploads      files that one user may have lying here
    request      bytes of any other request
    """

    workers: int = 2
    seconds: float = 120.0
    memory: int = 1 << 30
    queue: int = 300
    each: int = 150
    kept: int = 300
    upload: int = 20 << 20
    uploads: int = 20
    request: int = 64 << 10

    def __post_init__(self) -> None:
        faults = Faults("studio")
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            faults.check(value > 0, f"{name} = {value!r}; give a number above 0")
        faults.raise_if_any()
