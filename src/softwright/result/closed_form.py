"""`ClosedForm`: a proved statement whose proof is a formula, not a list of boxes.

Theorems' own bounds, the margin of a memory, the bound of a transpiled network and that of a gradient step in context
are of this kind: evaluating a closed formula, rounded outwards, at the sizes and weights at hand is the whole proof.
`statement` says in one sentence what is bounded by `bound` and for which inputs; `quantities` are the numbers that went
into the formula, so that a reader can redo it by hand.

    |what runs - what was asked|  <=  exact_part + rounding_part  <=  bound

A theorem about real arithmetic only has `rounding_part` 0 and the assumption EXACT_ARITHMETIC, and says so in print.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from softwright.errors import Faults, InvalidInput
from softwright.fileformat import reference_sha256
from softwright.precision import name_of
from softwright.result.numbers import check_hex, is_number
from softwright.result.runtimes import runtimes_of
from softwright.result.statement import EXACT_ARITHMETIC, Apart, hypotheses_of, to_flat, to_statement
from softwright.result.statement import SCHEMA as STATEMENT
from softwright.version import __version__

if TYPE_CHECKING:
    import numpy as np

    from softwright.result.constructed import Network

__all__ = ["EXACT_ARITHMETIC", "SCHEMA", "ClosedForm"]

SCHEMA = "softwright-closed-form/1"
_APART = ("hypotheses", "runtimes")  # that version 1 had no entries for


@dataclass(frozen=True)
class ClosedForm:
    """What was proved, for which inputs, by which formula, from which numbers."""

    schema: ClassVar[str] = SCHEMA
    statement: str
    bound: float
    exact_part: float
    rounding_part: float
    method: str
    dtype: str
    weights_sha256: str
    target: dict[str, Any]
    version: str
    seconds: float
    quantities: dict[str, float] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    engine: str = "any"
    norm: str = "sup"
    reference_sha256: str = ""  # of the arrays that the file keeps beside the network; empty if there are none
    hypotheses: tuple[str, ...] = ()  # ids of all that it rests on; empty: those of its dtype
    runtimes: tuple[str, ...] = ()  # which runs it covers, and which not; empty: those of its dtype
    domain: dict[str, tuple[float, float]] = field(default_factory=dict)  # the box of inputs, where it is one
    outside: dict[str, Any] = field(default_factory=dict)  # {"gap", "of"}: of the box, where no |difference| < gap
    parts: dict[str, list[Any]] = field(default_factory=dict)  # what a composed proof is put together from, by kind

    def __post_init__(self) -> None:
        faults = Faults("ClosedForm")
        for name in ("statement", "method", "dtype", "weights_sha256", "version", "engine", "norm"):
            value = getattr(self, name)
            faults.check(isinstance(value, str) and bool(value), f"{name} = {value!r} must be a text")
        shown = isinstance(self.quantities, dict) and all(map(is_number, self.quantities.values()))
        faults.check(shown, f"quantities = {self.quantities!r} must be numbers by name")
        faults.check(all(isinstance(text, str) for text in self.assumptions), "assumptions must be texts")
        faults.check(isinstance(self.target, dict), f"target = {self.target!r} must be a description by entries")
        numbers = ("bound", "exact_part", "rounding_part")
        good = [
            faults.check(
                isinstance(getattr(self, name), float) and 0 <= getattr(self, name) < math.inf,
                f"{name} = {getattr(self, name)!r} is not a finite number >= 0; state nothing instead",
            )
            for name in numbers
        ]
        if all(good):
            faults.check(
                Fraction(self.exact_part) + Fraction(self.rounding_part) <= Fraction(self.bound),
                f"bound {self.bound!r} is below exact_part + rounding_part; round the sum up",
            )
        faults.raise_if_any()
        if not self.hypotheses:
            object.__setattr__(
                self, "hypotheses", hypotheses_of(self.dtype, self.assumptions, self.target, False, engine=self.engine)
            )
        if not self.runtimes:
            object.__setattr__(self, "runtimes", runtimes_of(self.dtype, self.assumptions, self.engine))

    @classmethod
    def of(
        cls,
        network: Network,
        target: dict[str, Any],
        started: float,
        *,
        statement: str,
        bound: float,
        exact_part: float,
        rounding_part: float,
        method: str,
        quantities: dict[str, float] | None = None,
        assumptions: tuple[str, ...] = (),
        engine: str = "any",
        norm: str = "sup",
        reference: Mapping[str, np.ndarray] | None = None,
        domain: dict[str, tuple[float, float]] | None = None,
        outside: dict[str, Any] | None = None,
        parts: dict[str, list[Any]] | None = None,
        digest: str | None = None,
    ) -> ClosedForm:
        """The certificate of this very network; `started` is the `time.monotonic()` at which the proof began.

        `reference` are the arrays that it is compared with, where they are none of its own: those of `Built.reference`.
        `digest` is that of the network's tensors, where they are not all in memory.
        """
        from softwright.result.constructed import digest_of  # torch is not needed to read a certificate

        return cls(
            statement=statement,
            bound=bound,
            exact_part=exact_part,
            rounding_part=rounding_part,
            method=method,
            dtype=name_of(network.dtype),
            weights_sha256=digest_of(network) if digest is None else digest,
            target=target,
            version=__version__,
            seconds=time.monotonic() - started,
            quantities={} if quantities is None else quantities,
            assumptions=assumptions,
            engine=engine,
            norm=norm,
            reference_sha256=reference_sha256(reference or {}),
            domain={} if domain is None else domain,
            outside={} if outside is None else outside,
            parts={} if parts is None else parts,
        )

    @property
    def boxes(self) -> int:
        return 0

    def summary(self) -> str:
        parts = f"exact {self.exact_part:.3g} + rounding {self.rounding_part:.2g}"
        return f"<= {self.bound:.3g}, {self.statement} ({parts}, {self.method})"

    def facts(self) -> list[tuple[str, str]]:
        return [("proved error", self.summary())]

    def to_json(self, tensors: Sequence[str] = (), reference: Sequence[str] = ()) -> dict[str, Any]:
        """JSON-ready dictionary, the `certificate` section of a model file with these tensors of both kinds."""
        return to_statement(self.flat(), Apart(self.hypotheses, self.runtimes, tensors, reference))

    def flat(self) -> dict[str, Any]:
        """The entries of the statement side by side, as files of version 1 hold them."""
        content = {"schema": SCHEMA, **asdict(self), "assumptions": list(self.assumptions)}
        for name in (*_APART, *(() if self.reference_sha256 else ("reference_sha256",))):
            del content[name]
        del content["domain"], content["outside"], content["parts"]
        if self.domain:
            content["domain"] = {name: list(side) for name, side in self.domain.items()}
            content["variables"] = list(self.domain)  # JSON objects have no order that all programs keep
            content["hex"] = {
                "domain": {name: [float(end).hex() for end in side] for name, side in self.domain.items()}
            }
        if self.outside:
            content["outside"] = {**self.outside, "hex": float(self.outside["gap"]).hex()}
        if self.parts:
            content["parts"] = self.parts
        return content

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ClosedForm:
        schema, apart = data.get("schema"), Apart()
        if schema == STATEMENT:
            data, apart = to_flat(data)
        elif schema != SCHEMA:
            read = f"{STATEMENT!r} and {SCHEMA!r}"
            raise InvalidInput("ClosedForm", [f"schema {schema!r}, this version reads {read}"])
        names = {entry.name for entry in fields(cls)} - {*_APART, "domain", "outside"}
        known: dict[str, Any] = {name: data[name] for name in names if name in data}
        if "domain" in data:
            known["domain"] = _domain_of(data)
        if "outside" in data:
            known["outside"] = _outside_of(data["outside"])
        if "parts" in data and not (isinstance(data["parts"], dict) and data["parts"]):
            raise InvalidInput("ClosedForm", [f"parts {data['parts']!r} must be what a composition is made of"])
        known |= {"hypotheses": apart.hypotheses, "runtimes": apart.runtimes}
        return cls(**{**known, "assumptions": tuple(data.get("assumptions", ()))})

    def __str__(self) -> str:
        rests = f"; rests on: {', '.join(self.assumptions)}" if self.assumptions else ""
        numbers = ", ".join(f"{name} = {value:.6g}" for name, value in self.quantities.items())
        runs = f"covers {'; '.join(self.runtimes)}\n" if self.runtimes else ""
        return (
            f"{self.statement}: {self.norm} error <= {self.bound:.4g}\n"
            f"{self.exact_part:.4g} exact + {self.rounding_part:.2g} rounding "
            f"({self.dtype}, engine {self.engine}){rests}\n{runs}"
            f"{self.method}{' with ' + numbers if numbers else ''}; weights {self.weights_sha256[:12]}"
        )


def _domain_of(data: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """The sides in the order of the variables; the hexadecimal twin must be the same numbers."""
    faults, sides, names, twins = Faults("ClosedForm"), data["domain"], data.get("variables"), data.get("hex")
    twins = twins.get("domain") if isinstance(twins, dict) else None
    if not (isinstance(sides, dict) and isinstance(twins, dict) and set(twins) == set(sides)):
        raise InvalidInput("ClosedForm", ["the domain or its hexadecimal form is missing; certify again"])
    if not (
        isinstance(names, list) and all(isinstance(name, str) for name in names) and sorted(names) == sorted(sides)
    ):
        raise InvalidInput("ClosedForm", [f"variables {names!r} and domain {sides!r} do not fit; certify again"])
    for name, side in sides.items():
        pair = isinstance(side, list) and len(side) == 2 and all(map(is_number, side))
        if faults.check(pair, f"domain of {name}: {side!r} is no pair of numbers; certify again"):
            check_hex(side, twins[name], f"domain of {name}", faults)
    faults.raise_if_any()
    return {name: (float(sides[name][0]), float(sides[name][1])) for name in names}


def _outside_of(data: Any) -> dict[str, Any]:
    """The gap, whose hexadecimal twin must be the same number, and the differences that it is about."""
    faults = Faults("ClosedForm")
    right = isinstance(data, dict) and set(data) == {"gap", "of", "hex"} and is_number(data["gap"]) and data["gap"] > 0
    right = right and isinstance(data["of"], list) and bool(data["of"])
    if faults.check(right, f"the excluded bands {data!r} are no gap and differences; certify again"):
        faults.check(all(isinstance(one, str) and one for one in data["of"]), "differences must be texts")
        check_hex([data["gap"]], [data["hex"]], "the gap", faults)
    faults.raise_if_any()
    return {"gap": float(data["gap"]), "of": list(data["of"])}
