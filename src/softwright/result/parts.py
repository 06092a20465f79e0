"""`Part`: the proof of one summand of an additive problem, and the form of a proof made of them.

The statement that parts add up to is in `certificate.py`. Every part has a bisection tree of its own, on its own
variables, or none where a closed form proves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from softwright.errors import Faults, InvalidInput
from softwright.result.numbers import check_hex, check_types, is_count, is_number
from softwright.result.proof_tree import count_leaves, decode_tree, encode_tree

_PART_KEYS = {
    "variables": list,
    "heads": list,
    "terms": list,
    "exact_part": (int, float),
    "rounding_part": (int, float),
    "tree": str | None,
    "constant": list,
    "hex": dict,
}


@dataclass(frozen=True)
class Part:
    """The proof of one summand of an additive problem, on its own variables (in the order of the domain)."""

    variables: tuple[str, ...]
    heads: tuple[int, ...]
    terms: tuple[int, ...]
    exact_part: float
    rounding_part: float
    tree: bytes | None  # None: a closed form, which a checker finds again by itself
    constant: tuple[float, ...]  # one number per output, taken off this part's residual

    def to_json(self) -> dict[str, Any]:
        return {
            "variables": list(self.variables),
            "heads": list(self.heads),
            "terms": list(self.terms),
            "exact_part": self.exact_part,
            "rounding_part": self.rounding_part,
            "tree": None if self.tree is None else encode_tree(self.tree),
            "constant": list(self.constant),
            "hex": {
                "exact_part": self.exact_part.hex(),
                "rounding_part": self.rounding_part.hex(),
                "constant": [c.hex() for c in self.constant],
            },
        }


def tree_faults(tree: bytes | tuple[Part, ...] | None, names: tuple[str, ...], boxes: int) -> list[str]:
    """Everything wrong with the form of a proof over the variables `names` that states so many boxes."""
    if tree is None:
        return []
    faults = Faults("")
    leaves = 0
    trees: list[tuple[bytes, int]] = []
    if isinstance(tree, bytes):
        trees.append((tree, len(names)))
    elif faults.check(
        isinstance(tree, tuple) and len(tree) > 0 and all(isinstance(part, Part) for part in tree),
        "tree must be bytes, a tuple of Parts, or None",
    ):
        for i, part in enumerate(tree):
            order = [names.index(name) for name in part.variables if name in names]
            faults.check(
                len(order) == len(part.variables) and order == sorted(set(order)) and len(order) > 0,
                f"part {i}: variables {list(part.variables)} must be some of {list(names)}, in that order",
            )
            for name in ("exact_part", "rounding_part"):
                value = getattr(part, name)
                faults.check(
                    is_number(value) and value >= 0, f"part {i}: {name} = {value!r} is not a finite number >= 0"
                )
            faults.check(
                len(part.constant) > 0 and all(map(is_number, part.constant)),
                f"part {i}: constant {part.constant!r} must hold one finite number per output",
            )
            if part.tree is not None:
                trees.append((part.tree, len(part.variables)))
        for name in ("heads", "terms"):
            used = sorted(index for part in tree for index in getattr(part, name))
            faults.check(used == list(range(len(used))), f"the parts must use all {name} exactly once, got {used}")
    for each, dim in trees:
        try:
            leaves += count_leaves(each, dim)
        except InvalidInput as error:
            faults.found += error.faults
    faults.check(
        bool(faults.found) or leaves == boxes, f"boxes = {boxes}, but the tree has {leaves} leaves; certify again"
    )
    return faults.found


def read_tree(tree: Any, faults: Faults) -> bytes | tuple[Part, ...] | None:
    """The tree of a file: bytes, parts with trees of their own, or nothing; faults are added to those found."""
    if tree is None:
        return None
    try:
        if isinstance(tree, str):
            return decode_tree(tree)
        if not isinstance(tree, list):
            faults.add(f"'tree' is a {type(tree).__name__}; it must be a text, a list of parts, or null")
            return None
        return tuple(_read_part(part, f"part {i}: ", faults) for i, part in enumerate(tree))
    except InvalidInput as error:
        faults.found += [fault for fault in error.faults if fault not in faults.found]
        return None


def _read_part(data: Any, where: str, faults: Faults) -> Part:
    if not isinstance(data, dict):
        raise InvalidInput("Certificate", [f"{where}expected an object, got {type(data).__name__}"])
    here = Faults("Certificate")
    check_types(data, _PART_KEYS, where, here)
    here.raise_if_any()
    for name in ("exact_part", "rounding_part", "constant"):
        check_hex(data[name], data["hex"].get(name), f"{where}{name}", faults)
    for name in ("heads", "terms"):
        here.check(all(map(is_count, data[name])), f"{where}{name} {data[name]} must be indices; certify again")
    here.check(all(map(is_number, data["constant"])), f"{where}constant {data['constant']} must hold numbers")
    here.raise_if_any()
    return Part(
        variables=tuple(map(str, data["variables"])),
        heads=tuple(data["heads"]),
        terms=tuple(data["terms"]),
        exact_part=float(data["exact_part"]),
        rounding_part=float(data["rounding_part"]),
        tree=None if data["tree"] is None else decode_tree(data["tree"]),
        constant=tuple(map(float, data["constant"])),
    )
