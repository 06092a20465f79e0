"""Theorems B1 to B4 proved again: what the builder makes is VERIFIED, what a forger makes of it only if it is true."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwright.errors import InvalidInput
from softwright.targets import Expression
from softwright.theorems.tools.network import TheoremNetwork
from tests.checker.theorem_files import TheoremFile, changed_leaves, changed_tensors, lowered, theorem_file

SMALL: dict[str, tuple[str, dict[str, Any]]] = {
    "B1": ("B1", {"pieces": 4, "width": 0.1}),
    "B2": ("B2", {"formula": "x*y", "cells": 4, "columns": 2}),
    "B3": ("B3", {"target": "sign", "cells": 5, "p": 2, "eps0": 0.2}),
    "B4": ("B4", {"formula": "exp(x)", "cells": 5}),
    "B4 in L1": ("B4", {"formula": "floor", "norm": "L1", "cells": 6, "eps0": 0.2}),
}
SIZES: list[tuple[str, dict[str, Any]]] = [
    ("B1", {}),
    ("B1", {"dim": 5, "pieces": 40, "seed": 3, "eps0": 1e-9}),
    ("B1", {"beta": 20.0}),  # a bound of 1
    ("B1", {"slopes": [[1.0], [2.0], [-1.0]], "offsets": [0.0, 0.0, 0.0], "width": 0.3, "eps0": 0.5}),
    ("B2", {"cells": 8}),
    ("B2", {"cells": 1, "formula": "x**2"}),
    ("B2", {"formula": "sqrt(abs(x))", "cells": 9}),  # no gradient at 0
    ("B2", {"formula": "sin(20*x)", "cells": 4}),
    ("B2", {"formula": "sin(x + y)", "cells": 5, "beta": 3.0}),
    ("B2", {"formula": "exp(x), cos(y*x)", "cells": 6, "columns": 2}),
    ("B2", {"formula": "log(x + y)", "box": {"y": [3, 5], "x": [1, 2]}, "cells": 8}),
    ("B2", {"formula": "where(x < 0, 0, x) + y*z", "cells": 3}),
    ("B3", {"cells": 5, "eps0": 0.3}),
    ("B3", {"target": "root"}),
    ("B3", {"target": "root", "p": 3, "cells": 6}),
    ("B3", {"target": "floor", "p": 4, "cells": 7}),
    ("B3", {"target": "root", "p": 2.5, "cells": 6}),
    ("B4", {"formula": "sign", "norm": "L1.25", "cells": 6}),
    ("B3", {"target": "sign", "cells": 2, "beta": 30.0, "p": 7}),
    ("B3", {"target": "disc", "cells": 4, "p": 11.3}),
    ("B3", {"target": "exp(3*x)", "cells": 5, "p": 40}),
    ("B3", {"target": "x*y*z", "cells": 2, "p": 1000.5}),  # powers that are no floats
    ("B4", {"formula": "floor", "norm": "L7", "cells": 6}),
    ("B4", {"formula": "sin(x)", "box": {"x": [1e5, 1e5 + 1]}, "norm": "L3.7", "cells": 6}),
    ("B3", {"target": "sqrt(x)", "box": {"x": [0, 1]}, "p": 1}),
    ("B3", {"target": "x*y*z", "cells": 2, "columns": 3}),
    ("B3", {"target": "3", "box": {"x": [0, 1]}, "cells": 4}),
    ("B4", {"formula": "tanh(90*x)", "cells": 2, "beta": 300.0}),
    ("B4", {"formula": "3", "box": {"x": [0, 1]}}),
    ("B4", {"norm": "L2", "cells": 5, "eps0": 0.01}),
    ("B4", {"formula": "disc", "norm": "L2", "cells": 4, "eps0": 0.3}),
]


def off_the_band(file: TheoremFile, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points up to 2 in size that are half the width away from every wall, and their cells."""
    sizes, drawn = (file.sections["target"][name] for name in ("sizes", "drawn"))
    a, b = np.array(drawn["slopes"]), np.array(drawn["offsets"])
    points = rng.uniform(-2, 2, (4_000, a.shape[1]))
    heights = points @ a.T + b
    first = heights.argmax(axis=1)
    normals = np.sqrt(((a[:, None] - a[None]) ** 2).sum(axis=-1)) + np.eye(len(a))
    away = (heights.max(axis=1)[:, None] - heights) / normals[first]
    away[np.arange(len(points)), first] = np.inf
    kept = away.min(axis=1) >= sizes["width"] / 2
    return points[kept], first[kept]


def holds(file: TheoremFile) -> bool:
    """Whether what is stated is true of the stored network, by running it at many points of the target in the file."""
    said, target = file.sections["certificate"], file.sections["target"]
    network, rng = TheoremNetwork.rebuilt(file.sections["model"], file.tensors), np.random.default_rng(3)
    if target["label"] == "B1":
        points, cells = off_the_band(file, rng)
        out = network.evaluate(points[:, :, None])[:, :, 0]
        return bool(np.abs(out - np.eye(out.shape[1])[cells]).max(initial=0.0) <= said["bound"])
    drawn = target["drawn"]
    f, box = Expression(drawn["formula"], tuple(drawn["variables"])), np.array(drawn["box"])
    count = max(3, int(10_000 ** (1 / len(box))))
    inside = (np.arange(count) + 0.5) / count
    if said["norm"] == "sup":
        inside = np.linspace(0, 1, count)
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*[inside] * len(box), indexing="ij")], axis=1)
    points = box[:, 0] + grid * (box[:, 1] - box[:, 0])
    d, n = network.inputs
    out = network.evaluate(points.reshape(len(points), n, d).swapaxes(1, 2))[:, :, 0]
    gaps = np.abs(out - f(points)).max(axis=1)
    if said["norm"] == "sup":
        return bool(gaps.max() <= said["bound"] * (1 + 1e-12) + 1e-13)
    p = float(said["norm"][1:])
    mean = ((gaps / max(gaps.max(), 1e-300)) ** p).mean() ** (1 / p) * gaps.max()
    return bool(np.prod(box[:, 1] - box[:, 0]) ** (1 / p) * mean <= said["bound"] * 1.01)


@pytest.mark.parametrize(("label", "sizes"), SIZES, ids=[f"{label}-{sizes}" for label, sizes in SIZES])
def test_what_is_built_is_verified(label: str, sizes: dict[str, Any]) -> None:
    file = theorem_file(label, **sizes)
    verdict = file.verdict()
    assert verdict.status == "VERIFIED", verdict
    assert (verdict.arithmetic == "real") == (label != "B1")
    assert holds(file)


@given(
    st.sampled_from(["B1", "B2", "B3", "B4"]),
    st.integers(1, 7),
    st.sampled_from(["x", "x - y/3", "sin(5*x)*y", "abs(x - 0.3)", "tanh(9*x + y)", "1/(x + 1.5)"]),
    st.floats(0.05, 3),
    st.sampled_from([0.4, 0.03, 1e-4]),
    st.sampled_from([0.0, 5.0, 300.0]),
)
@settings(max_examples=15)
def test_any_sizes_are_verified(label: str, cells: int, formula: str, side: float, eps0: float, beta: float) -> None:
    own: dict[str, Any] = {"formula": formula, "cells": cells, "side": min(side, 1.0) if "1/" in formula else side}
    if label == "B1":
        own = {"pieces": cells + 1, "dim": 1 + cells % 3, "width": side / 100}
    if label == "B3":
        own["target"] = own.pop("formula")
    try:
        file = theorem_file(label, eps0=eps0, beta=beta, **own)
    except InvalidInput:  # scores that float64 does not resolve, or a band that covers everything
        return
    verdict = file.verdict()
    assert verdict, verdict


@pytest.mark.parametrize("name", SMALL)
def test_changed_tensors(name: str) -> None:
    label, sizes = SMALL[name]
    refused = 0
    for what, file in changed_tensors(theorem_file(label, **sizes)):
        verified = bool(file.verdict())
        refused += not verified
        assert not verified or holds(file), what
    assert refused > 50


# What may change without making anything false, by very little or if it is the seed.
FREE = ("seed", "eps0", "beta", "width", "slopes", "offsets")


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("section", ["model", "target"])
def test_changed_entries(name: str, section: str) -> None:
    label, sizes = SMALL[name]
    for path, file in changed_leaves(theorem_file(label, **sizes), section):
        if file.verdict():
            assert section == "target" and path[1] in FREE[:2] if path[0] == "sizes" else path[1] in FREE[2:], path
            assert holds(file), path


@pytest.mark.parametrize("name", SMALL)
def test_a_lower_bound(name: str) -> None:
    label, sizes = SMALL[name]
    original = theorem_file(label, **sizes)
    for what, file in lowered(original):
        assert not file.verdict() or holds(file), what
    for part in ("exact_part", "rounding_part"):
        file = original.copied()
        said = file.sections["certificate"]
        if said[part]:
            said[part] /= 1000
            said["bound"] = said["exact_part"] + said["rounding_part"]
            assert not file.verdict(), part


@pytest.mark.parametrize("name", ["B2", "B3", "B4", "B4 in L1"])
def test_another_function_or_box(name: str) -> None:
    """Everywhere in the file at once, as a forger would; only the network stays."""
    label, sizes = SMALL[name]
    original = theorem_file(label, **sizes)
    key = "target" if label == "B3" else "formula"
    text, box = original.sections["target"]["drawn"]["formula"], original.sections["target"]["drawn"]["box"]
    for new, sides in ((f"-({text})", box), (f"{text} + 0.5", box), (text, [[2 * a, b] for a, b in box])):
        if new == text and sides == box:
            continue
        file = original.copied()
        target, said = file.sections["target"], file.sections["certificate"]
        names = target["drawn"]["variables"]
        target["drawn"] = {**target["drawn"], "formula": new, "box": sides}
        target["sizes"] = {**target["sizes"], key: new, "box": dict(zip(names, sides, strict=True))}
        where = ", ".join(f"{name} in [{a!r}, {b!r}]" for name, (a, b) in zip(names, sides, strict=True))
        beginning = "sup" if said["norm"] == "sup" else f"{said['norm']} norm"
        middle = "|network - f|" if said["norm"] == "sup" else "network - f"
        said["statement"] = f"{beginning} over {where} of {middle} for f = {new}"
        verdict = file.verdict()
        assert not verdict
        assert "statement" not in verdict.reason


@pytest.mark.parametrize("name", SMALL)
def test_swapped_stages_and_missing_entries(name: str) -> None:
    label, sizes = SMALL[name]
    original = theorem_file(label, **sizes)
    swapped = original.copied()
    swapped.sections["model"]["stages"].reverse()
    swapped.tensors = {
        key.replace("stages.0", "stages.x").replace("stages.1", "stages.0").replace("stages.x", "stages.1"): tensor
        for key, tensor in swapped.tensors.items()
    }
    assert not swapped.verdict()
    bare = original.copied()
    del bare.sections["target"]["drawn"]
    assert "build the theorem again" in bare.verdict().reason


def test_two_cells_exchanged() -> None:
    """The tokens of a softmax may stand in any order, but then they are not those of the grid."""
    file = theorem_file("B2", **SMALL["B2"][1])
    file.tensors["stages.0.R"][:5] = file.tensors["stages.0.R"][:5][:, ::-1]
    assert not file.verdict()
    other = theorem_file("B2", **SMALL["B2"][1])
    values = other.tensors["stages.0.R"][3]
    values[[0, 3]] = values[[3, 0]]
    assert not other.verdict()


def test_more_than_can_be_checked_is_said() -> None:
    file = theorem_file("B3", target="sign", cells=5)
    file.sections["target"]["sizes"]["p"] = 10**9
    assert "cannot be checked" in file.verdict().reason
    assert math.isfinite(file.sections["certificate"]["bound"])
