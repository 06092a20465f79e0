"""Theorems A3 to A6 proved again: what the builder makes is VERIFIED, what a forger makes of it only if it is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import softwright as sw
from softwright.theorems.tools.network import TheoremNetwork
from tests.checker.theorem_files import (
    SLACK,
    TheoremFile,
    changed_leaves,
    changed_tensors,
    lowered,
    put,
    sections_of,
    theorem_file,
)

FORMULAS = ("sin(3*x)", "abs(x) + x*y, exp(x + y) - 2", "max(2*x - y, 0)", "3, x", "x**3 - y**2", "sin(1)*x + pi + 0*y")
FORMULAS += ("exp(x + y + sin(x + y))", "-(2*(x*y))", "clip(x, -0.5, 0.3)*2**x", "0.1*x + 0.7*y - 1e-3, 0*x + cos(2)")
FORMULAS += ("0.1*x*(0.3*y + 0.7*z)*pi", "(x + 0.3)*(0.1*y) - 2*(3.3*y*x)", "0.3*max(2*y + 3.3*x, 9)")
FORMULAS += ("exp(x)*y - abs(x), max(x, 0.3*y) - min(0.1 - x, y)", "x*y*z/3 + sqrt(x + 1)")

SIZES: dict[str, list[dict[str, Any]]] = {
    "A3": [
        {},
        {"heads": 1, "tokens": 1, "dim": 1, "hidden": 1},
        {"tokens": 3, "dim": 2, "hidden": 12, "low": -1.5, "high": 1 / 3, "eps0": 0.5},
        {"tokens": 2, "dim": 2, "heads": 40, "low": -100.0, "high": 70.0, "eps0": 1e-15},
        *({"formula": text, "low": -1.0, "knots": 8, "heads": 6} for text in FORMULAS),
        {"formula": "x**2", "low": -1.0, "high": 2.0, "knots": 3, "heads": 200},
    ],
    "A4": [
        {},
        {"cells": 1},
        {"cells": 2, "eps0": 0.5},
        {"formula": "x", "cells": 6, "points": 130},
        {"formula": "3 + 0*x", "cells": 3, "eps0": 1e-14},
        {"formula": "sqrt(x + 2) + abs(x), tanh(9*x)", "cells": 7, "radius": 1 / 3},
        {"formula": "cbrt(x) + sign(x)*sqrt(abs(x))", "cells": 5},
        {"formula": "x + 2*y", "cells": 4},
        {"formula": "x*y*z + max(x, y)", "cells": 3, "radius": 2.0},
        {"formula": "sin(a)*b + c*d", "cells": 2},
    ],
    "A5": [
        {},
        {"loss": "logistic", "points": 50},
        {"points": 6, "tokens": 2, "dim": 1, "eps0": 0.5},
        {"loss": "logistic", "steps": 3, "points": 40, "eps0": 1e-200, "w_max": 1e3, "x_max": 0.01},
        {"steps": 2, "eta": 3.0, "x_max": 4.0, "dim": 5, "points": 30, "tokens": 1},
    ],
    "A6": [
        *({"activation": name} for name in ("relu", "leaky_relu", "hard_tanh", "hard_sigmoid")),
        {"points": 3, "width": 2, "eps0": 0.5, "radius": 1 / 3},
        {"activation": "leaky_relu", "slope": -2.0, "depth": 4, "width": 20},
        {"activation": "hard_sigmoid", "points": 500, "eps0": 1e-200, "radius": 100.0},
    ],
}
SMALL: dict[str, dict[str, Any]] = {
    "A3": {"heads": 3, "tokens": 2, "dim": 2, "hidden": 4},
    "A4": {"formula": "sin(2*x) + x", "cells": 3, "points": 40},
    "A5": {"loss": "logistic", "points": 9, "tokens": 3, "dim": 2, "steps": 2},
    "A6": {"activation": "leaky_relu", "points": 12, "width": 3, "dim": 2, "slope": 0.1},
}
CASES = [(label, sizes) for label, many in SIZES.items() for sizes in many]


def asked_of_units(file: TheoremFile, X: np.ndarray) -> np.ndarray:
    target = file.sections["target"]
    *hidden, last = [(np.array(each["weights"]), np.array(each["offsets"])) for each in target["drawn"]["layers"]]
    slope = target["sizes"]["slope"]
    phi: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "relu": lambda u: np.maximum(u, 0.0),
        "leaky_relu": lambda u: np.where(u > 0, u, slope * u),
        "hard_tanh": lambda u: np.clip(u, -1.0, 1.0),
        "hard_sigmoid": lambda u: np.clip(u / 6 + 0.5, 0.0, 1.0),
    }
    h = X[..., 0]
    for W, t in hidden:
        h = phi[target["sizes"]["activation"]](h @ W.T + t)
    return (h @ last[0].T + last[1])[:, None, :]


def asked_of_hidden_layer(file: TheoremFile, X: np.ndarray) -> np.ndarray:
    target = file.sections["target"]
    count, d, n = X.shape
    if target["sizes"]["formula"]:
        f = sw.Expression(target["sizes"]["formula"], target["drawn"]["variables"])
        return f(X.reshape(count, n)).reshape(count, 1, -1)
    W, t, C, c = (np.array(target["drawn"]["network"][name]) for name in ("W", "t", "C", "c"))
    x = np.swapaxes(X, 1, 2).reshape(count, -1)
    return np.swapaxes((np.maximum(x @ W.T + t, 0.0) @ C.T + c).reshape(count, n, d), 1, 2)


def asked_of_cells(file: TheoremFile, X: np.ndarray) -> np.ndarray:
    target = file.sections["target"]
    return sw.Expression(target["sizes"]["formula"], target["drawn"]["variables"])(X[:, 0])[:, :, None]


def asked_of_descent(file: TheoremFile, Z: np.ndarray) -> np.ndarray:
    sizes = file.sections["target"]["sizes"]
    d, out = (Z.shape[1] - 2) // 2, Z.copy()
    x, y, w = Z[:, :d], Z[:, d], Z[:, d + 1 : 2 * d + 1, 0]
    for _ in range(sizes["steps"]):
        u = (w[:, :, None] * x).sum(axis=1)
        g = (1 / (1 + np.exp(-u)) if sizes["loss"] == "logistic" else u) - y
        w = w - sizes["eta"] * (g[:, None] * x).mean(axis=2)
    out[:, d + 1 : 2 * d + 1] = w[:, :, None]
    return out


ASKED: dict[str, Callable[[TheoremFile, np.ndarray], np.ndarray]] = {
    "A3": asked_of_hidden_layer,
    "A4": asked_of_cells,
    "A5": asked_of_descent,
    "A6": asked_of_units,
}


def is_true(file: TheoremFile, count: int = 60) -> bool:
    """Whether the stored network is within the stated bound of what the file, as it is now, asks for."""
    network = TheoremNetwork.rebuilt(file.sections["model"], file.tensors)
    X = file.made.sample(np.random.default_rng(2), count)
    gap = np.abs(network.evaluate(X) - ASKED[file.made.label](file, X)).max()
    return bool(gap <= file.sections["certificate"]["bound"] * (1 + 1e-9) + SLACK)


@pytest.mark.parametrize(("label", "sizes"), CASES, ids=[f"{label}-{sizes}" for label, sizes in CASES])
def test_what_is_built_is_verified(label: str, sizes: dict[str, Any]) -> None:
    file = theorem_file(label, **sizes)
    verdict = file.verdict()
    assert verdict.status == "VERIFIED", verdict
    assert verdict.arithmetic == "real"
    assert is_true(file)


@pytest.mark.parametrize("label", SMALL)
def test_changed_tensors(label: str) -> None:
    refused = tried = 0
    for what, file in changed_tensors(theorem_file(label, **SMALL[label])):
        verified, tried = bool(file.verdict()), tried + 1
        refused += not verified
        assert not verified or is_true(file), what
    assert refused > 0.8 * tried


@pytest.mark.parametrize("label", SMALL)
@pytest.mark.parametrize("section", ["model", "target"])
def test_changed_entries(label: str, section: str) -> None:
    refused = 0
    for path, file in changed_leaves(theorem_file(label, **SMALL[label]), section):
        verified = bool(file.verdict())
        refused += not verified
        assert not verified or (section == "target" and is_true(file)), path
    assert refused > 10


@pytest.mark.parametrize("label", SMALL)
def test_swapped_and_missing_stages(label: str) -> None:
    original = theorem_file(label, **SMALL[label])
    stages = original.sections["model"]["stages"]
    for i in range(len(stages) - 1):
        file = original.copied()
        other = {str(i): str(i + 1), str(i + 1): str(i)}
        names = {name: name.split(".") for name in original.tensors}
        file.tensors = {
            f"stages.{other.get(at, at)}.{kind}": file.tensors[name] for name, (_, at, kind) in names.items()
        }
        put(file.sections["model"], ("stages", i), stages[i + 1])
        put(file.sections["model"], ("stages", i + 1), stages[i])
        assert not file.verdict(), i
    for i in range(len(stages)):
        file = original.copied()
        del file.sections["model"]["stages"][i]
        assert not file.verdict(), i


@pytest.mark.parametrize("label", SMALL)
def test_a_lower_bound(label: str) -> None:
    for what, file in lowered(theorem_file(label, **SMALL[label])):
        assert not file.verdict() or is_true(file, 2_000), what
        assert "0.001" not in what or not file.verdict(), what


@pytest.mark.parametrize("label", SMALL)
def test_numbers_that_are_told(label: str) -> None:
    original = theorem_file(label, **SMALL[label])
    for name, value in original.sections["certificate"]["quantities"].items():
        file = original.copied()
        put(file.sections["certificate"], ("quantities", name), value / 2)
        assert not file.verdict() or not value, name
    for name, other in (("dtype", "float32"), ("quantities", {}), ("norm", "L2"), ("assumptions", [])):
        file = original.copied()
        file.sections["certificate"][name] = other
        assert not file.verdict(), name


@pytest.mark.parametrize("label", SMALL)
def test_sizes_that_no_memory_holds(label: str) -> None:
    original = theorem_file(label, **SMALL[label])
    sizes, huge = original.sections["target"]["sizes"], 10**13
    for name in [name for name, value in sizes.items() if type(value) is int and name != "seed"]:
        file = original.copied()
        file.sections["target"]["sizes"][name] = huge
        if name in ("tokens", "dim"):
            dim, tokens = (huge if key == name else sizes.get(key, 1) for key in ("dim", "tokens"))
            file.sections["model"]["inputs"] = [2 * dim + 2 if label == "A5" else dim, tokens]
        assert not file.verdict() or name == "knots", name  # how many knots there were says nothing of the network


@pytest.mark.parametrize("label", ["A3", "A4", "A6"])
def test_a_file_without_what_was_drawn_says_so(label: str) -> None:
    file = theorem_file(label, **SMALL[label])
    del file.sections["target"]["drawn"]
    assert "build the theorem again" in file.verdict().reason


@pytest.mark.parametrize(
    ("formula", "other"),
    [("sin(3*x)", "sin(3*x) + 0.4"), ("x*y", "y*x - x"), ("x, y", "y, x"), ("abs(x)", "abs(x)*1.4"), ("x", "-x")],
)
def test_another_formula(formula: str, other: str) -> None:
    file = theorem_file("A3", formula=formula, low=-1.0, knots=6, heads=30)
    assert file.verdict()
    file.sections["target"]["sizes"]["formula"] = other
    assert not file.verdict()


def test_other_formulas_and_values_of_cells() -> None:
    original = theorem_file("A4", formula="sin(3*x)", cells=8)
    for other in (
        "sin(3*x) + 0.4",
        "-sin(3*x)",
        "sin(4*x)",
        "1/x",
        "sin(3*y)",
        "sin(3*x), x",
        "sin(3*x) if x < 1 else 9",
    ):
        file = original.copied()
        file.sections["target"]["sizes"]["formula"] = other
        assert not file.verdict(), other
    for shift in (1e-3, 0.8):  # a value may be off as far as the bound leaves room
        file = original.copied()
        file.tensors["stages.4.M"][0, 5] += shift
        assert bool(file.verdict()) == (shift < 0.1)


def test_formulas_that_no_hidden_layer_is_read_off() -> None:
    file = theorem_file("A3", formula="x + y", knots=2, heads=4)
    for text in ("sin(x*y)", "x*y*(x - y)", "x/y", "exp(x) + sin(x) + z", "max(x, y)", "sin(x"):
        file.sections["target"]["sizes"]["formula"] = text
        assert not file.verdict(), text


def test_ridges_that_stand_for_other_terms() -> None:
    """What a file gives instead of the terms of several directions is measured against them, and by the units."""
    original = theorem_file("A3", formula="x**2*y + sin(x)", low=-1.0, knots=12, heads=30)
    assert original.verdict()
    ridges = original.sections["target"]["drawn"]["ridges"][0]
    for other in ("", "x", "x*x*y", f"{ridges}+0.3*x", f"{ridges}, x", "1/x", "sin("):
        file = original.copied()
        file.sections["target"]["drawn"]["ridges"] = [other]
        assert not file.verdict(), other
    for entries in ([], [ridges, ridges], [3], ridges, None):
        file = original.copied()
        file.sections["target"]["drawn"]["ridges"] = entries
        assert not file.verdict(), entries
    for formula in ("x**2*y*1.3 + sin(x)", "x**2*y + sin(x)*1.4", "sin(x)"):
        file = original.copied()
        file.sections["target"]["sizes"]["formula"] = formula
        assert not file.verdict(), formula


def test_layers_of_the_user() -> None:
    rng = np.random.default_rng(5)
    layers = [(40.0 * rng.normal(size=(n, m)), 9.0 * rng.normal(size=n)) for m, n in ((2, 5), (5, 3), (3, 1))]
    for activation in ("relu", "hard_sigmoid"):
        built = sw.theorem("A6").build(layers=layers, activation=activation, points=700, progress=False)
        tensors = {name: tensor.numpy() for name, tensor in built.network.state_dict().items()}
        verdict = TheoremFile(tensors, sections_of(built), built.source).verdict()
        assert verdict, verdict
