"""Theorems C1 to C4 and C6 proved again: true files pass, and forged ones only where what they say is still true."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, ctx

import softwright as sw
from softwright.checker.proved import compare
from softwright.checker.refusal import NotProvedError
from softwright.checker.theorems.reading import Stage, TheoremFile
from softwright.checker.theorems.table import THEOREMS
from softwright.fileformat import write_model
from softwright.result.closed_form import EXACT_ARITHMETIC
from softwright.theorems import find_theorem
from softwright.theorems.tools.construction import Construction
from softwright.theorems.tools.network import TheoremNetwork
from tests.layouts import read_flat

Said = dict[str, Any]
SIZES: dict[str, list[dict[str, Any]]] = {
    "C1": [{}, {"values": 8, "length": 4}, {"jitter": 2.0, "seed": 3}, {"entries": [-3.0, 9.0, 40.0, 3e3]}],
    "C2": [{}, {"scale": "tight"}, {"vocabulary": 3, "dim": 2, "head_size": 2}, {"vocabulary": 5, "length": 3}],
    "C3": [{}, {"dim": 3, "heads": 2, "head_size": 2}, {"heads": 5, "seed": 4}, {"dim": 6, "seed": 8}],
    "C4": [{}, {"sequences": 6, "length": 3}, {"dim": 2, "vocabulary": 3}, {"dim": 3, "head_size": 4, "vocabulary": 3}],
    "C6": [{}, {"sequences": 3, "length": 3}, {"dim": 2, "vocabulary": 3}, {"data": [[[1.0, 2.0]], [[2.0, 3.0]]]}],
}
SMALL = {"C1": {"values": 5}, "C2": {"scale": "tight"}, "C3": {"heads": 2}, "C4": {"dim": 2, "vocabulary": 3}, "C6": {}}
CASES = [(label, sizes) for label, many in SIZES.items() for sizes in many]


def file_of(made: Construction) -> TheoremFile:
    described, tensors = made.network.describe(), made.network.state_dict()
    stages = []
    for i, entry in enumerate(described["stages"]):
        own = {name.split(".")[2]: x.numpy().copy() for name, x in tensors.items() if name.startswith(f"stages.{i}.")}
        stages.append(Stage(entry["type"], {k: v for k, v in entry.items() if k != "type"}, own))
    return TheoremFile(
        made.label, "", made.network.inputs, copy.deepcopy(made.sizes), copy.deepcopy(made.drawn), stages
    )


def said_of(made: Construction) -> Said:
    rounding = made.rounding or 0.0
    return {
        "statement": made.statement,
        "method": f"theorem {made.label}",
        "norm": made.norm,
        "engine": "any",
        "assumptions": [EXACT_ARITHMETIC] if made.rounding is None else list(made.assumptions),
        "bound": made.bound + rounding,
        "exact_part": made.bound,
        "rounding_part": rounding,
        "quantities": dict(made.quantities),
    }


def accepted(file: TheoremFile, said: Said) -> bool:
    try:
        compare(said, THEOREMS[file.label].prove(file))
    except NotProvedError:
        return False
    except (LookupError, TypeError, ValueError, ArithmeticError):  # what `verify` takes for damage
        return False
    return True


@pytest.mark.parametrize(("label", "sizes"), CASES, ids=[f"{label}-{sizes}" for label, sizes in CASES])
def test_what_is_built_is_verified(label: str, sizes: dict[str, Any], tmp_path: Path) -> None:
    sw.theorem(label).build(progress=False, **sizes).save(tmp_path / "theorem.safetensors")
    verdict = sw.verify(tmp_path / "theorem.safetensors")
    assert verdict.status == "VERIFIED", verdict
    assert verdict.seconds < 5


@pytest.mark.parametrize("label", sorted(SIZES))
def test_a_file_without_what_was_drawn(label: str, tmp_path: Path) -> None:
    path = tmp_path / "theorem.safetensors"
    sw.theorem(label).build(progress=False).save(path)
    file = read_flat(path)
    said, target = file.sections["certificate"], dict(file.sections["target"])
    had = target.pop("drawn", None)
    write_model(path, file.tensors, {**file.sections, "target": target, "certificate": {**said, "target": target}})
    verdict = sw.verify(path)
    assert verdict.verified == (had is None)
    assert had is None or "does not hold what was drawn" in verdict.reason


# ------------------------------------------------------------------------- whether a statement is true, found otherwise


def network_of(file: TheoremFile) -> TheoremNetwork:
    tensors = {f"stages.{i}.{name}": x for i, stage in enumerate(file.stages) for name, x in stage.tensors.items()}
    stages = [{"type": stage.type, **stage.flags} for stage in file.stages]
    return TheoremNetwork.rebuilt({"label": file.label, "inputs": file.inputs, "stages": stages}, tensors)


def exact_attention(stage: Stage, X: np.ndarray, k: int) -> list[Any]:
    """Column k of a softmax layer (one head) at an exact input (d, n), in balls of the working precision."""

    def through(W: np.ndarray, x: Any) -> list[Any]:
        return [sum((arb(float(w)) * y for w, y in zip(row, x, strict=True)), arb(0)) for row in W]

    columns = [[arb(float(x)) for x in column] for column in X.T]
    query = through(stage["W_Q"][0], columns[k])
    scores = [sum((a * b for a, b in zip(through(stage["W_K"][0], x), query, strict=True)), arb(0)) for x in columns]
    weights = [(score - scores[0]).exp() for score in scores]
    values = [through(stage["W_V"][0], x) for x in columns]
    mean = [
        sum((w * v[i] for w, v in zip(weights, values, strict=True)), arb(0)) / sum(weights)
        for i in range(len(values[0]))
    ]
    return [y + x for y, x in zip(through(stage["W_O"][0], mean), columns[k], strict=True)]


def digits_of(outputs: dict[Any, list[Any]]) -> float:
    """-log10 of the least distance between outputs of different keys; infinite where two cannot be told apart."""
    worst = -math.inf
    for one, other in combinations(outputs.values(), 2):
        gap = max((abs(a - b).lower() for a, b in zip(one, other, strict=True)), key=float)
        worst = max(worst, float((-(gap.log() / arb(10).log())).upper()) if gap > 0 else math.inf)
    return worst


def holds(file: TheoremFile, said: Said) -> bool:
    """Whether what is stated of the file is true, by long numbers or by running the network."""
    if file.label == "C1":
        entries, n = file.drawn["entries"], file.inputs[1]
        with ctx.workprec(2000):
            found = {}
            for members in combinations(entries, n):
                weights = [arb(a).exp() for a in members]
                found[members] = [sum(arb(a) * w for a, w in zip(members, weights, strict=True)) / sum(weights)]
            return digits_of(found) <= said["exact_part"] * (1 + 1e-9)
    if file.label == "C2":
        X = np.array(file.drawn["sequences"])
        with ctx.workprec(2000):
            found = {}
            for x in X:
                tokens = [tuple(column) for column in x.T]
                for k, token in enumerate(tokens):
                    found[frozenset(tokens), token] = exact_attention(file.stages[0], x, k)
            return digits_of(found) <= said["exact_part"] * (1 + 1e-9)
    if file.label == "C3":
        return file.stages[0].flags["hard"]
    X, Y = (np.array(file.drawn[name]) for name in ("sequences", "labels"))
    return float(np.abs(network_of(file).evaluate(X) - Y).max()) <= said["bound"]


# -------------------------------------------------------------------------------------------------------------- forging

Forgery = tuple[str, TheoremFile, Said]


def tensor_forgeries(file: TheoremFile, said: Said, rng: np.random.Generator) -> Iterator[Forgery]:
    ways: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "negated": lambda x: -x,
        "scaled": lambda x: x * (1 + 1e-3),
        "permuted": lambda x: rng.permutation(x.ravel()).reshape(x.shape),
        "turned": lambda x: x[..., ::-1].copy(),
        "one entry": lambda x: x + 1e-2 * (np.arange(x.size) == rng.integers(x.size)).reshape(x.shape),
        "one entry a little": lambda x: x * (1 + 1e-6 * (np.arange(x.size) == rng.integers(x.size)).reshape(x.shape)),
        "gone": np.zeros_like,
    }
    for i, stage in enumerate(file.stages):
        for name, tensor in stage.tensors.items():
            for way, forge in ways.items():
                stages = list(file.stages)
                stages[i] = replace(stage, tensors={**stage.tensors, name: forge(tensor)})
                yield f"{name} {way}", replace(file, stages=stages), said
        for flag, value in stage.flags.items():
            stages = list(file.stages)
            stages[i] = replace(stage, flags={**stage.flags, flag: not value})
            yield f"{flag} turned", replace(file, stages=stages), said


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    if not isinstance(tree, (dict, list)):
        yield path, tree
    for key, value in inner:
        yield from leaves(value, (*path, key))


def with_leaf(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    tree = copy.deepcopy(tree)
    place = tree
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return tree


def entry_forgeries(file: TheoremFile, said: Said) -> Iterator[Forgery]:
    for section in ("sizes", "drawn"):
        for path, value in leaves(getattr(file, section)):
            for other in [value + 1, -value, value * 1.01] if not isinstance(value, str) else ["", "paper"]:
                yield (
                    f"{section} {path}",
                    replace(file, **{section: with_leaf(getattr(file, section), path, other)}),
                    said,
                )
    for name in ("exact_part", "rounding_part"):
        for share in (0.9, 0.5, 0.01):
            lower = said[name] * share
            yield f"{name} {share}", file, {**said, name: lower, "bound": said["bound"] - said[name] + lower}
    for name, value in said["quantities"].items():
        yield f"quantity {name}", file, {**said, "quantities": {**said["quantities"], name: value * 1.01 + 1e-3}}
    yield "bound", file, {**said, "bound": said["bound"] * 0.9 - 1e-9}
    yield "statement", file, {**said, "statement": said["statement"] + " and more"}
    yield "inputs", replace(file, inputs=(file.inputs[0], file.inputs[1] + 1)), said


@pytest.mark.parametrize("label", sorted(SMALL))
def test_forgeries_pass_only_where_they_are_true(label: str) -> None:
    made = find_theorem(label).build(**SMALL[label])
    file, said = file_of(made), said_of(made)
    assert accepted(file, said)
    assert holds(file, said)
    rng = np.random.default_rng(1)
    forged = [*tensor_forgeries(file, said, rng), *entry_forgeries(file, said)]
    refused = 0
    for what, changed, stated in forged:
        with torch.no_grad():
            if accepted(changed, stated):
                assert holds(changed, stated), what
                assert not what.startswith(("quantity", "bound", "statement", "inputs")), what
            else:
                refused += 1
    assert refused > len(forged) // 4


@pytest.mark.parametrize("label", ["C1", "C2", "C4", "C6"])
def test_the_part_proved_is_not_far_from_what_is_stated(label: str) -> None:
    made = find_theorem(label).build(**SMALL[label])
    file, said = file_of(made), said_of(made)
    part = "exact_part" if made.rounding is None else "rounding_part"
    assert not accepted(file, {**said, part: said[part] / 1000, "bound": said["bound"] / 1000})


def test_too_much_work_is_refused_with_the_reason() -> None:
    made = find_theorem("C1").build(values=5)
    entries = np.arange(40.0) * 100
    wide = replace(file_of(made), drawn={"entries": entries.tolist()}, sizes={**made.sizes, "values": 40, "length": 20})
    with pytest.raises(NotProvedError, match="too many to be compared"):
        THEOREMS["C1"].prove(wide)
