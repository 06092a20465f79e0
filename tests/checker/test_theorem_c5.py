"""Theorem C5 proved again: what the builder makes is VERIFIED, what a forger makes of it only if it is true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softwright.errors import InvalidInput
from softwright.targets import Expression
from softwright.theorems.permutation_equivariant import equivariant
from softwright.theorems.tools.network import TheoremNetwork
from tests.checker.theorem_files import TheoremFile, changed_leaves, changed_tensors, lowered, theorem_file

SMALL: dict[str, Any] = {"levels": 3, "ramp": 0.0625, "formula": "x - m/2"}
SIZES: list[dict[str, Any]] = [
    {},
    {"levels": 6, "p": 3, "formula": "exp(3*x)/(1 + m)"},
    {"levels": 4, "length": 3},
    {"dim": 2, "levels": 2, "formula": "x1*m2, x2 - m1"},
    {"p": 1, "formula": "x + m"},
    {"p": 4, "formula": "sin(20*x)*m"},
    {"levels": 3, "formula": "abs(x - m)", "head_size": 3},
    {"levels": 3, "formula": "2"},
    {"levels": 3, "formula": "sqrt(x)", "ramp": 2.0**-20},
]


def holds(file: TheoremFile) -> bool:
    """The norm of the difference at random inputs that are multiples of 2^-24, against the bound stated."""
    target, said = file.sections["target"], file.sections["certificate"]
    network, d = TheoremNetwork.rebuilt(file.sections["model"], file.tensors), target["sizes"]["dim"]
    names = ("x", "m") if d == 1 else tuple(f"{letter}{i + 1}" for letter in "xm" for i in range(d))
    rng = np.random.default_rng(5)
    X = np.round(rng.random((20_000, d, network.inputs[1])) * 2**24) / 2**24
    f = equivariant(Expression(target["sizes"]["formula"], names), X)
    gaps = np.abs(network.evaluate(X) - f).reshape(len(X), -1).max(axis=1)
    p = float(said["norm"][1:])
    return bool((gaps**p).mean() ** (1 / p) <= said["bound"] * 1.03 + 1e-12)


@pytest.mark.parametrize("sizes", SIZES, ids=map(str, SIZES))
def test_what_is_built_is_verified(sizes: dict[str, Any]) -> None:
    file = theorem_file("C5", **sizes)
    verdict = file.verdict()
    assert verdict.status == "VERIFIED", verdict
    assert holds(file)


@given(
    st.sampled_from([(2, 2), (3, 2), (4, 2), (4, 3)]),
    st.sampled_from(["x", "m - x/3", "sin(5*x)*m", "abs(x - 0.3)", "tanh(9*x) + m", "1/(x + m + 0.5)"]),
    st.integers(1, 5),
    st.integers(3, 20),
)
@settings(max_examples=8)
def test_any_sizes_are_verified(shape: tuple[int, int], formula: str, p: int, ramp: int) -> None:
    try:
        file = theorem_file("C5", levels=shape[0], length=shape[1], formula=formula, p=p, ramp=2.0**-ramp)
    except InvalidInput as error:  # as many cells as tokens
        assert "cells must exceed" in str(error)
        return
    verdict = file.verdict()
    assert verdict, verdict


def test_changed_tensors() -> None:
    refused = 0
    for what, file in changed_tensors(theorem_file("C5", **SMALL)):
        verified = bool(file.verdict())
        refused += not verified
        assert not verified or holds(file), what
    assert refused > 100


@pytest.mark.parametrize("section", ["model", "target"])
def test_changed_entries(section: str) -> None:
    """All sizes are used; of the scale only its name is in the file, beside the number that is checked."""
    for path, file in changed_leaves(theorem_file("C5", **SMALL), section):
        assert not file.verdict(), path


def test_a_lower_bound() -> None:
    original = theorem_file("C5", **SMALL)
    for what, file in lowered(original):
        assert not file.verdict() or holds(file), what
    for part in ("exact_part", "rounding_part"):
        file = original.copied()
        said = file.sections["certificate"]
        said[part] /= 1000
        said["bound"] = said["exact_part"] + said["rounding_part"]
        assert not file.verdict(), part


@pytest.mark.parametrize("new", ["x - m", "-(x - m/2)", "m - x/2"])
def test_another_function(new: str) -> None:
    file = theorem_file("C5", **SMALL)
    target, said = file.sections["target"], file.sections["certificate"]
    said["statement"] = said["statement"].replace(target["sizes"]["formula"], new)
    target["sizes"]["formula"] = new
    verdict = file.verdict()
    assert not verdict
    assert "part" in verdict.reason


def test_swapped_stages_and_two_labels_exchanged() -> None:
    original = theorem_file("C5", **SMALL)
    swapped = original.copied()
    swapped.sections["model"]["stages"].reverse()
    swapped.tensors = {
        key.replace("stages.0", "stages.x").replace("stages.2", "stages.0").replace("stages.x", "stages.2"): tensor
        for key, tensor in swapped.tensors.items()
    }
    assert not swapped.verdict()
    bends = original.tensors["stages.2.W_2"]
    bends[0, [0, 1]] = bends[0, [1, 0]]
    assert not original.verdict()


def test_thresholds_that_inputs_do_not_meet_exactly_are_refused() -> None:
    """Off the multiples of 2^-24 a ramp would be rounded, which the rounding part does not charge."""
    file = theorem_file("C5", **SMALL)
    file.tensors["stages.0.b_1"] -= 2.0**-30
    assert "2^-24" in file.verdict().reason


def test_more_than_can_be_checked_is_said() -> None:
    file = theorem_file("C5", **SMALL)
    file.sections["target"]["sizes"]["levels"] = 10**40
    assert not file.verdict()
    file.sections["target"]["sizes"]["levels"] = 3
    file.sections["target"]["sizes"]["length"] = 10**9
    file.sections["model"]["inputs"][1] = 10**9
    assert "fewer than tokens" in file.verdict().reason
