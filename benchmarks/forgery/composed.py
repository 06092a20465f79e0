"""What a forger does to stacks of formulas: most entries of their tensors are 0, and their evidence is a program."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
from judging.composition import Stack
from judging.formulas import Formula

from forgery.file import Forgery, Mutation, pick

FUNCTIONS = ("sin", "cos", "exp", "log", "sqrt", "tanh", "atan")
KINDS = ("table", "product", "exponential", "maximum", "step")


def _is_stack(f: Forgery) -> bool:
    return f.sections.get("model", {}).get("kind") == "composition"


def _parts(f: Forgery) -> dict[str, Any]:
    return f.said["evidence"][0]["parts"]


def _entry(f: Forgery, rng: np.random.Generator) -> tuple[np.ndarray, tuple[int, ...], str]:
    """An entry that is not 0 of some tensor."""
    name = pick(rng, sorted(f.tensors))
    array = f.tensors[name] = f.tensors[name].copy()
    places = np.argwhere(array != 0)
    at = tuple(int(i) for i in places[rng.integers(len(places))]) if len(places) else (0,) * array.ndim
    return array, at, f"{name}{list(at)}"


def scale_entry(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    if not _is_stack(f):
        return None
    array, at, place = _entry(f, rng)
    factor = pick(rng, [-1.0, 0.0, 2.0, 0.5, 1 + 10.0 ** rng.uniform(-9, -1), 1 - 10.0 ** rng.uniform(-9, -1)])
    array[at] *= factor
    return f"{place} * {factor}"


def move_entry(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """An entry exchanged with another one of its tensor."""
    if not _is_stack(f):
        return None
    array, at, place = _entry(f, rng)
    other = tuple(int(rng.integers(n)) for n in array.shape)
    array[at], array[other] = array[other], array[at]
    return f"{place} with {list(other)}"


def rescale_gate(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """A head's score times s and its output by s: a product stays the same to first order."""
    if not _is_stack(f):
        return None
    layer = int(rng.integers(len(f.sections["model"]["program"])))
    names = [f"layers.{layer}.{kind}" for kind in ("Wq", "Wo")]
    q, o = (f.tensors[name].copy() for name in names)
    h, s = int(rng.integers(len(q))), pick(rng, [0.5, 2.0, 1.5, 0.9, 1.01])
    q[h, :, 0] *= s
    o[h] /= s
    f.tensors |= {names[0]: q, names[1]: o}
    return f"head {h} of layer {layer} by {s}"


def tight_claim(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """A weight changed a little, and the claim what a few points show of the error, or somewhat more or less."""
    if not _is_stack(f):
        return None
    array, at, place = _entry(f, rng)
    array[at] *= 1 + pick(rng, [-1, 1]) * 10.0 ** rng.uniform(-8, -2)
    names = list(f.sections["model"]["box"])
    sides = np.array([f.sections["model"]["box"][name] for name in names], dtype=float)
    points = sides[:, 0] + rng.random((300, len(names))) * (sides[:, 1] - sides[:, 0])
    formula = Formula(f.target["text"], names)
    with np.errstate(all="ignore"):
        off = np.abs(Stack(f.tensors, f.sections["model"]).at_points(points) - formula.at_points(points)).max()
    share = rng.uniform(0.7, 4.0)
    exact = float(np.nan_to_num(off, nan=1.0)) * share + 1e-300
    rounding = f.claim["parts"]["rounding"]
    for name, value in (("exact", exact), ("rounding", rounding), ("bound", (exact + rounding) * (1 + 1e-12))):
        f.restate((f.claim if name == "bound" else f.claim["parts"], name), value)
        f.claim["hex"][name] = float(value).hex()
    return f"{place}, claimed {share:.2f} times what is seen"


def _everywhere(f: Forgery, pattern: str, other: str) -> None:
    """A text replaced in the formula, in the program and in what is told of columns alike."""
    for name in ("model", "target", "certificate"):
        f.sections[name] = json.loads(re.sub(pattern, other, json.dumps(f.sections[name])))


def other_function(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    if not _is_stack(f):
        return None
    text = json.dumps(_parts(f))
    used = [name for name in FUNCTIONS if re.search(rf"\b{name}\(", text)]
    if not used:
        return None
    one, other = pick(rng, used), pick(rng, list(FUNCTIONS))
    if rng.random() < 0.6:
        _everywhere(f, rf"\b{one}\(", f"{other}(")
    else:
        f.said["evidence"][0]["parts"] = json.loads(re.sub(rf"\b{one}\(", f"{other}(", text))
    return f"{one} -> {other}"


def other_number(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    """A number of the program, there alone or wherever it is spelt."""
    if not _is_stack(f):
        return None
    features = _parts(f)["features"]
    spelt = r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])"
    places = [
        (entry, field, number)
        for entry in features
        for field in ("score", "value", "base", "function")
        for number in re.findall(spelt, entry[field])
    ]
    if not places:
        return None
    entry, field, old = places[int(rng.integers(len(places)))]
    new = pick(rng, [f"{float(old) * (1 + 10.0 ** rng.uniform(-10, -1)):.17g}", f"({old} + 1e-9)", "0", f"-{old}"])
    pattern = rf"(?<![\w.]){re.escape(old)}(?![\w.])"
    if rng.random() < 0.5:
        entry[field] = re.sub(pattern, new, entry[field])
    else:
        for feature in features:
            for name in ("score", "value", "base", "function"):
                feature[name] = re.sub(pattern, new, feature[name])
    return f"{old} -> {new} in {field} of {entry['name']}"


def other_kind(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    if not _is_stack(f):
        return None
    entry = pick(rng, _parts(f)["features"])
    entry["kind"] = pick(rng, list(KINDS))
    if rng.random() < 0.5:
        entry["value"], entry["base"] = entry["base"], entry["value"]
    return f"{entry['name']} is {entry['kind']}"


def other_frame(f: Forgery, rng: np.random.Generator, _: list[Forgery]) -> str | None:
    if not _is_stack(f) or not _parts(f)["tables"]:
        return None
    table = pick(rng, _parts(f)["tables"])
    which = pick(rng, ["center", "halfwidth", "exact", "rounding"])
    if which in ("center", "halfwidth"):
        table[which] = pick(rng, ["0", "1", "1/2", "2", "1000001/1000000", "-1/3", table["halfwidth"]])
    else:
        table["proofs"][0][which] *= pick(rng, [0.0, 0.5, 0.999, 1.5, 1e3])
    return f"{which} of the table of {table['features'][0]}"


COMPOSED: tuple[Mutation, ...] = (
    scale_entry,
    move_entry,
    rescale_gate,
    tight_claim,
    other_function,
    other_number,
    other_kind,
    other_frame,
)
