"""`Certificate`: a proved statement about one network, and the proof that lets others re-check it.

The statement. For every point x of `domain` whose coordinates are numbers of `dtype`, the network with exactly the
weights of `weights_sha256`, run in `dtype` by `engine`, differs from the target f by at most `bound` in every output:

    |fl(g)(x) - f(x)|  <=  |g(x) - f(x)| + |fl(g)(x) - g(x)|  <=  exact_part + rounding_part  <=  bound.

g is the network in real arithmetic; |g - f| <= exact_part holds at all real x of the domain. For `norm="Lp"` the left
side is (int over the domain of max over outputs |.|^p dx)^(1/p), Lebesgue measure, not divided by the volume.

The proof. A bisection tree of the domain in preorder, one byte per node: i in 0..d-1 splits the box along variable i
(in the order of `domain`) at the exact midpoint, the lower half first; 255 is a leaf, on which the inequality was
proved directly. Such a tree covers the domain by construction; no list of boxes has to be believed. Stored as zlib in
base64.

Additive problems. Where heads depend on few variables each and so do the terms of the formula, the tree is a list of
`Part`s. With c_i a constant vector,

    |g - f| <= sum_i |sum_{heads of i} g_h - sum_{terms of i} f_t - c_i|  +  |sum_i c_i|  <=  exact_part,

and every summand is proved on its own variables. Groups that share variables are used for walls: a gated head with the
one kinked term it stands for is a part of its own, proved in closed form without a tree (`walls.py`). The terms of a
formula are what remains when +, - and negation are taken apart at the top (a - (b + 2*c) has the terms a, b and 2*c),
numbered from 0 through all outputs in order.

Tables. The bound is that of the error at the table's points. What was proved between them is `between`, a statement
about the table's multilinear interpolation (see `between.py`); it is there for tables on grids alone.

Statement and proof are stored as JSON. Numbers that the statement rests on are stored a second time in hexadecimal, so
that no decimal conversion of another program can shift them; reading demands that both forms agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from softwright.domain import Box, as_box
from softwright.errors import Faults, InvalidInput
from softwright.precision import PRECISIONS, Dtype, name_of
from softwright.result.between import Between
from softwright.result.numbers import check_hex, check_types, is_count, is_number, sum_rounded_up
from softwright.result.parts import Part, read_tree, tree_faults
from softwright.result.proof_tree import LEAF, count_leaves, decode_tree, encode_tree, leaf_boxes
from softwright.result.runtimes import runtimes_of
from softwright.result.statement import SCHEMA as STATEMENT
from softwright.result.statement import Apart, hypotheses_of, to_flat, to_statement

__all__ = [
    "LEAF",
    "SCHEMA",
    "Between",
    "Certificate",
    "Part",
    "count_leaves",
    "decode_tree",
    "encode_tree",
    "leaf_boxes",
    "sum_rounded_up",
]

SCHEMA = "softwright-certificate/1"
ENGINES = ("sdpa", "factorised", "double", "any")
NORMS = ("sup", "Lp")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_NUMBERS = ("bound", "exact_part", "rounding_part")


@dataclass(frozen=True)
class Certificate:
    """What was proved, for what, how, and the proof; made by `certify`, kept in the model file, re-checked by `verify`.

    `tree` holds preorder bytes, or the parts of an additive proof, or None where no boxes are needed (a closed form).
    `lower` is the largest |g - f| rigorously seen, at `witness`: the smallest bound lies in [lower, exact_part].
    """

    schema: ClassVar[str] = SCHEMA
    norm: str
    bound: float
    exact_part: float
    rounding_part: float
    domain: dict[str, tuple[float, float]]
    dtype: str
    engine: str
    method: str
    order: int
    boxes: int
    tree: bytes | tuple[Part, ...] | None
    weights_sha256: str
    target: dict[str, Any]
    version: str
    seconds: float
    assumptions: tuple[str, ...] = ()
    lower: float = 0.0
    witness: tuple[float, ...] = ()
    p: float | None = field(default=None)  # only with norm="Lp"
    between: Between | None = None  # only for tables on grids
    reference_sha256: str = ""  # of the arrays that the file keeps beside the network; empty if there are none
    hypotheses: tuple[str, ...] = ()  # ids of all that it rests on; empty: those of its dtype and its target
    runtimes: tuple[str, ...] = ()  # which runs it covers, and which not; empty: those of its dtype

    def __post_init__(self) -> None:
        faults = Faults("Certificate")
        for fault in _faults_of(self):
            faults.add(fault)
        faults.raise_if_any()
        if not self.hypotheses:
            found = hypotheses_of(self.dtype, self.assumptions, self.target, True, self.tree is not None, self.engine)
            object.__setattr__(self, "hypotheses", found)
        if not self.runtimes:
            object.__setattr__(self, "runtimes", runtimes_of(self.dtype, self.assumptions, self.engine))

    @property
    def box(self) -> Box:
        return Box(self.domain)

    def covers(
        self, box: Box | Mapping[str, Sequence[float]] | Sequence[Any], dtype: Dtype, engine: str | None = None
    ) -> bool:
        """Whether the statement speaks about this box (a part of the domain, same names), dtype and engine."""
        wanted = as_box(box, tuple(self.domain))
        inside = set(wanted.names) == set(self.domain) and all(
            self.domain[name][0] <= low and high <= self.domain[name][1] for name, low, high in wanted
        )
        same_engine = engine is None or speaks_of(self.engine, engine)
        # A part of a domain has a smaller sup norm and a smaller integral: both kinds of statement pass down.
        return inside and name_of(dtype) == self.dtype and same_engine

    def summary(self) -> str:
        parts = f"exact {self.exact_part:.3g} + rounding {self.rounding_part:.2g}"
        where = "at the table's points" if self.target["kind"] == "table" else f"in {self.norm} norm"
        return f"<= {self.bound:.3g} {where} ({parts}, {self.boxes} box(es), {self.seconds:.2f} s)"

    def facts(self) -> list[tuple[str, str]]:
        between = [] if self.between is None else [("proved between points", self.between.summary())]
        return [("proved error", self.summary()), *between]

    def to_json(self, tensors: Sequence[str] = (), reference: Sequence[str] = ()) -> dict[str, Any]:
        """JSON-ready dictionary, the `certificate` section of a model file with these tensors of both kinds."""
        return to_statement(self.flat(), Apart(self.hypotheses, self.runtimes, tensors, reference))

    def flat(self) -> dict[str, Any]:
        """The entries of the statement side by side, as files of version 1 hold them."""
        tree: Any = None
        if isinstance(self.tree, bytes):
            tree = encode_tree(self.tree)
        elif self.tree is not None:
            tree = [part.to_json() for part in self.tree]
        between = {} if self.between is None else {"between": self.between.to_json()}
        reference = {"reference_sha256": self.reference_sha256} if self.reference_sha256 else {}
        return {
            "schema": SCHEMA,
            "norm": self.norm,
            "p": self.p,
            "bound": self.bound,
            "exact_part": self.exact_part,
            "rounding_part": self.rounding_part,
            "domain": {name: list(side) for name, side in self.domain.items()},
            "variables": list(self.domain),  # JSON objects have no order that all programs keep
            "dtype": self.dtype,
            "engine": self.engine,
            "method": self.method,
            "order": self.order,
            "assumptions": list(self.assumptions),
            "boxes": self.boxes,
            "tree": tree,
            "weights_sha256": self.weights_sha256,
            "target": self.target,
            "version": self.version,
            "seconds": self.seconds,
            "lower": self.lower,
            "witness": list(self.witness),
            **between,
            **reference,
            "hex": {
                **{name: float(getattr(self, name)).hex() for name in _NUMBERS},
                "domain": {name: [float(end).hex() for end in side] for name, side in self.domain.items()},
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | str) -> Certificate:
        """Read what `to_json` wrote, as a dictionary or as text; every fault found is listed in one error."""
        return _read(data)

    def __str__(self) -> str:
        sides = " x ".join(f"{name} in [{low:g}, {high:g}]" for name, (low, high) in self.domain.items())
        norm = "sup" if self.norm == "sup" else f"L{self.p:g}"
        between = "" if self.between is None else f"{self.between}\n"
        where = "at the points of a table" if self.target["kind"] == "table" else f"on {sides}"
        rests = f"; rests on: {', '.join(self.assumptions)}" if self.assumptions else ""
        return (
            f"{norm} error <= {self.bound:.4g} {where}\n{between}"
            f"{self.exact_part:.4g} exact + {self.rounding_part:.2g} rounding ({self.dtype}, engine {self.engine}); "
            f"seen at least {self.lower:.4g}{rests}\n"
            f"covers {'; '.join(self.runtimes)}\n"
            f"{self.method}, order {self.order}, {self.boxes} boxes in {self.seconds:.2g} s; "
            f"weights {self.weights_sha256[:12]}"
        )


def speaks_of(proved: str, engine: str) -> bool:
    """Whether a proof for the first engine covers runs by the second; "any" are those that compute in the dtype."""
    return proved == engine or (proved == "any" and engine != "double")


def _faults_of(c: Certificate) -> list[str]:
    """Everything wrong with the statement and the form of its proof."""
    faults = Faults("")
    remedy = "certify the network again"
    faults.check(c.norm in NORMS, f"norm {c.norm!r} is unknown; use one of {', '.join(NORMS)}")
    exponent_fits = c.p is None if c.norm != "Lp" else (is_number(c.p) and c.p is not None and c.p >= 1)
    faults.check(
        exponent_fits, f"p = {c.p!r} does not fit norm {c.norm!r}; an Lp norm needs 1 <= p < infinity, sup none"
    )
    numbers = [
        faults.check(
            is_number(getattr(c, name)) and getattr(c, name) >= 0,
            f"{name} = {getattr(c, name)!r} is not a finite number >= 0; {remedy}",
        )
        for name in (*_NUMBERS, "lower", "seconds")
    ]
    if all(numbers):
        faults.check(
            Fraction(c.exact_part) + Fraction(c.rounding_part) <= Fraction(c.bound),
            f"bound {c.bound!r} is below exact_part + rounding_part = {c.exact_part!r} + {c.rounding_part!r}; {remedy}",
        )
    names: tuple[str, ...] = ()
    if faults.check(isinstance(c.domain, dict), f"domain {c.domain!r} must map names to (low, high)"):
        names = tuple(c.domain)
        try:
            Box(c.domain)
        except InvalidInput as error:
            for fault in error.faults:
                faults.add(f"domain: {fault}")
    faults.check(c.dtype in PRECISIONS, f"dtype {c.dtype!r} is not covered; use one of {', '.join(PRECISIONS)}")
    faults.check(c.engine in ENGINES, f"engine {c.engine!r} is unknown; use one of {', '.join(ENGINES)}")
    faults.check(isinstance(c.method, str) and bool(c.method), f"method {c.method!r} must say in words what proved it")
    for name in ("order", "boxes"):
        faults.check(is_count(getattr(c, name)), f"{name} = {getattr(c, name)!r} is not a count; {remedy}")
    faults.check(
        isinstance(c.assumptions, tuple) and all(isinstance(text, str) for text in c.assumptions),
        f"assumptions {c.assumptions!r} must be a tuple of texts",
    )
    faults.check(
        isinstance(c.weights_sha256, str) and bool(_SHA256.match(c.weights_sha256)),
        f"weights_sha256 {c.weights_sha256!r} is not 64 hexadecimal digits; {remedy}",
    )
    faults.check(
        isinstance(c.target, dict) and isinstance(c.target.get("kind"), str),
        f"target {c.target!r} needs a 'kind'; pass Target.describe()",
    )
    faults.check(isinstance(c.version, str), f"version {c.version!r} is not a text")
    faults.check(
        isinstance(c.witness, tuple) and len(c.witness) in (0, len(names)) and all(map(is_number, c.witness)),
        f"witness {c.witness!r} is not a point of {len(names)} coordinates",
    )
    for fault in tree_faults(c.tree, names, c.boxes):
        faults.add(fault)
    if c.between is not None:
        table = isinstance(c.target, dict) and c.target.get("kind") == "table"
        faults.check(table, f"a statement between points stands beside a target that is no table; {remedy}")
        faults.found += c.between.faults(len(names))
    return faults.found


_KEYS = {
    "norm": str,
    "bound": (int, float),
    "exact_part": (int, float),
    "rounding_part": (int, float),
    "domain": dict,
    "variables": list,
    "dtype": str,
    "engine": str,
    "method": str,
    "order": int,
    "assumptions": list,
    "boxes": int,
    "weights_sha256": str,
    "target": dict,
    "version": str,
    "seconds": (int, float),
    "lower": (int, float),
    "witness": list,
    "hex": dict,
}


def _read(data: Mapping[str, Any] | str) -> Certificate:
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except ValueError as error:
            raise InvalidInput("Certificate", [f"not valid JSON ({error}); certify the network again"]) from error
    if not isinstance(data, Mapping):
        raise InvalidInput("Certificate", [f"expected a JSON object, got {type(data).__name__}"])
    apart = Apart()
    if data.get("schema") == STATEMENT:
        data, apart = to_flat(data)
    elif data.get("schema") != SCHEMA:
        known = f"{STATEMENT!r} and {SCHEMA!r}"
        raise InvalidInput(
            "Certificate", [f"schema {data.get('schema')!r}, this version reads {known}; upgrade or certify again"]
        )
    faults = Faults("Certificate")
    check_types(data, _KEYS, "", faults)
    faults.raise_if_any()
    names = data["variables"]
    faults.check(
        sorted(map(str, names)) == sorted(map(str, data["domain"])),
        f"variables {names} and domain {list(data['domain'])} name different things; certify again",
    )
    for name in _NUMBERS:
        check_hex(data[name], data["hex"].get(name), name, faults)
    hex_domain = data["hex"].get("domain")
    hex_domain = hex_domain if isinstance(hex_domain, dict) else {}
    for name, side in data["domain"].items():
        check_hex(side, hex_domain.get(name), f"domain of {name}", faults)
    tree = read_tree(data.get("tree"), faults)
    faults.raise_if_any()
    return Certificate(
        norm=data["norm"],
        p=data.get("p"),
        bound=float(data["bound"]),
        exact_part=float(data["exact_part"]),
        rounding_part=float(data["rounding_part"]),
        domain={name: (float(data["domain"][name][0]), float(data["domain"][name][1])) for name in names},
        dtype=data["dtype"],
        engine=data["engine"],
        method=data["method"],
        order=data["order"],
        assumptions=tuple(data["assumptions"]),
        boxes=data["boxes"],
        tree=tree,
        weights_sha256=data["weights_sha256"],
        target=dict(data["target"]),
        version=data["version"],
        seconds=float(data["seconds"]),
        lower=float(data["lower"]),
        witness=tuple(data["witness"]),
        between=Between.from_json(data["between"]) if data.get("between") is not None else None,
        reference_sha256=data.get("reference_sha256", ""),
        hypotheses=apart.hypotheses,
        runtimes=apart.runtimes,
    )
