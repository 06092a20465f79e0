"""`Certified`: what all certificates have in common, and `SCHEMAS`, one row per layout of a certificate in a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from softwright.errors import InvalidInput
from softwright.result.kinds import loaded
from softwright.result.statement import is_boxes

_BOXES, _CLOSED = "softwright.result.certificate:Certificate", "softwright.result.closed_form:ClosedForm"
# schema -> the class that reads it; of a statement, that which its evidence asks for
SCHEMAS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "softwright-statement/2": lambda data: _BOXES if is_boxes(data) else _CLOSED,
    "softwright-certificate/1": lambda _: _BOXES,
    "softwright-closed-form/1": lambda _: _CLOSED,
}


@runtime_checkable
class Certified(Protocol):
    """A proved statement about one network, by the SHA-256 of its weights: exact_part + rounding_part <= bound."""

    schema: ClassVar[str]  # of version 1, which `flat` writes

    @property
    def bound(self) -> float: ...
    @property
    def exact_part(self) -> float: ...
    @property
    def rounding_part(self) -> float: ...
    @property
    def dtype(self) -> str: ...
    @property
    def weights_sha256(self) -> str: ...
    @property
    def reference_sha256(self) -> str: ...
    @property
    def target(self) -> dict[str, Any]: ...
    @property
    def assumptions(self) -> tuple[str, ...]: ...
    @property
    def hypotheses(self) -> tuple[str, ...]: ...
    @property
    def runtimes(self) -> tuple[str, ...]: ...
    @property
    def seconds(self) -> float: ...

    def summary(self) -> str:
        """What was proved, in one line."""
        ...

    def facts(self) -> list[tuple[str, str]]:
        """All that was proved, one line each, for tables on screen; `summary` comes first."""
        ...

    def to_json(self, tensors: Sequence[str] = (), reference: Sequence[str] = ()) -> dict[str, Any]:
        """The `certificate` section of a file whose network has these tensors, and these beside it to compare with."""
        ...

    def flat(self) -> dict[str, Any]:
        """The same entries side by side, as files of version 1 hold them."""
        ...

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote; every fault found is listed in one error."""
        ...


def read_certificate(data: Mapping[str, Any]) -> Certified:
    """The certificate of a file's section, of whichever kind its schema names."""
    schema = data.get("schema") if isinstance(data, Mapping) else None
    row = SCHEMAS.get(schema) if isinstance(schema, str) else None
    if row is None:
        known = ", ".join(SCHEMAS)
        raise InvalidInput("certificate", [f"unknown schema {schema!r}; this version reads {known}; certify again"])
    return loaded(row(data)).from_json(data)
