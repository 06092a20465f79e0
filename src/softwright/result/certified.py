"""`Certified`: what all certificates have in common, and `SCHEMAS`, one row per kind of certificate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from softwright.errors import InvalidInput
from softwright.result.kinds import loaded

SCHEMAS: dict[str, str] = {
    "softwright-certificate/1": "softwright.result.certificate:Certificate",
    "softwright-closed-form/1": "softwright.result.closed_form:ClosedForm",
}


@runtime_checkable
class Certified(Protocol):
    """A proved statement about one network, by the SHA-256 of its weights: exact_part + rounding_part <= bound."""

    schema: ClassVar[str]

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
    def seconds(self) -> float: ...

    def summary(self) -> str:
        """What was proved, in one line."""
        ...

    def facts(self) -> list[tuple[str, str]]:
        """All that was proved, one line each, for tables on screen; `summary` comes first."""
        ...

    def to_json(self) -> dict[str, Any]:
        """The `certificate` section of a model file, with its `schema`."""
        ...

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote; every fault found is listed in one error."""
        ...


def read_certificate(data: Mapping[str, Any]) -> Certified:
    """The certificate of a file's section, of whichever kind its schema names."""
    schema = data.get("schema") if isinstance(data, Mapping) else None
    place = SCHEMAS.get(schema) if isinstance(schema, str) else None
    if place is None:
        known = ", ".join(SCHEMAS)
        raise InvalidInput("certificate", [f"unknown schema {schema!r}; this version reads {known}; certify again"])
    return loaded(place).from_json(data)
