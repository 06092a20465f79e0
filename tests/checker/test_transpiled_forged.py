"""Forged files of transpiled networks, signed anew: refused, or what they say still holds where it was looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.checker.transpiled_files import TranspiledFile, made

BASES: dict[str, Callable[[], TranspiledFile]] = {
    "relu": lambda: made("relu"),
    "gelu cast": lambda: made("gelu", "float32"),
    "tanh double cast": lambda: made("tanh", "float32", "double"),
    "hardtanh sdpa": lambda: made("hardtanh", "float32", "sdpa", source="float32"),
    "mish multihead": lambda: made("mish", "float64", "multihead"),
    "relu multihead cast": lambda: made("relu", "float32", "multihead"),
    "elu sequence": lambda: made("elu", "float64", "sequence"),
    "softsign cast": lambda: made("softsign", "float32"),
    "gated silu": lambda: made("silu", gated=True),
    "gated sigmoid cast": lambda: made("sigmoid", "float32", gated=True),
    "gated relu multihead": lambda: made("relu", "float64", "multihead", gated=True),
}


@pytest.fixture(params=BASES)
def base(request: pytest.FixtureRequest) -> TranspiledFile:
    return BASES[request.param]()


def refused(file: TranspiledFile) -> bool:
    verdict = file.verdict()
    return not verdict and verdict.status == "NOT VERIFIED"


def test_the_bases_are_verified_and_hold(base: TranspiledFile) -> None:
    verdict = base.verdict()
    assert verdict, verdict.reason
    if base.sections["model"]["layout"] != "multihead" or base.reference:
        assert base.holds()


def test_smaller_numbers(base: TranspiledFile) -> None:
    """Bound, parts and what is said of the layers: none may be a thousandth of itself."""
    for names in (["bound", "exact_part", "rounding_part"], ["bound", "rounding_part"], ["rounding_part"]):
        file = base.copied()
        for name in names:
            file.said[name] /= 1000
        assert refused(file), names
    if base.said["exact_part"] > 0:
        file = base.copied()
        file.said["exact_part"] /= 1000
        assert refused(file)
    for name in base.said["quantities"]:
        file = base.copied()
        file.said["quantities"][name] /= 1000
        assert refused(file), name


def test_changed_sentences(base: TranspiledFile) -> None:
    said = base.said
    changes: dict[str, Any] = {
        "statement": said["statement"].replace("inputs in the box", "all inputs, in real arithmetic"),
        "method": "by hand",
        "norm": "L2",
        "engine": "any",
        "assumptions": said["assumptions"][:1],
        "dtype": "float32" if said["dtype"] == "float64" else "float64",
        "quantities": {**said["quantities"], "another": 1.0},
    }
    for name, value in changes.items():
        file = base.copied()
        file.said[name] = value
        assert refused(file), name


def test_changed_tensors(base: TranspiledFile) -> None:
    """Negated, scaled, permuted, one entry by one unit in the last place: every tensor, of the network or beside it."""
    for part in ("tensors", "reference"):
        for name, array in getattr(base, part).items():
            ulp = array.copy()
            ulp.flat[-1] = np.nextafter(ulp.flat[-1], np.inf, dtype=array.dtype)
            for changed in (-array, array * array.dtype.type(1.5), np.roll(array, 1), ulp):
                if np.array_equal(changed, array):
                    continue
                file = base.copied()
                getattr(file, part)[name] = changed
                if file.verdict():  # tokens, steps and shares may be others, if the bound still holds
                    assert name.rpartition(".")[2] in ("tokens", "steps", "shares"), name
                    assert file.holds()


def test_renamed_and_shadowed_tensors(base: TranspiledFile) -> None:
    for name, array in base.tensors.items():
        for other in (name.replace("steps.", "steps.0"), f"{name}.", name.upper(), f"reference.{name}"):
            file = base.copied()
            file.tensors[other] = array + 1  # a second spelling
            assert refused(file), other
            del file.tensors[name]
            assert refused(file), other
    for name in base.reference:
        file = base.copied()
        file.reference[f"{name}0"] = file.reference.pop(name)
        assert refused(file), name


def test_other_shapes_and_types(base: TranspiledFile) -> None:
    for name, array in base.tensors.items():
        for changed in (array[None], array[..., :-1], np.sign(array).astype(np.float16), np.full_like(array, np.nan)):
            file = base.copied()
            file.tensors[name] = changed
            assert refused(file), name


@pytest.mark.parametrize("kept", [False, True])
def test_another_source(base: TranspiledFile, kept: bool) -> None:
    """Other activations and parameters; even where the digest is that of the source now described."""
    for name, parameters in (
        ("tanh", []),
        ("leaky_relu", [0.01]),
        ("elu", [0.7001]),
        ("hardtanh", [-0.7, 1.301]),
        ("relu", []),
    ):
        entry = {"name": name, "parameters": parameters}
        file = base.copied()
        if file.target["activations"][0] == entry:
            continue
        file.target["activations"][0] = entry
        if kept or (file.sections["model"]["layout"] == "multihead" and not file.reference):
            assert refused(file)
            continue
        file.name_source()
        assert refused(file), name


def test_reference_tensors_of_another_network() -> None:
    """The source is changed, and everything named and signed for it: the network is not its rounding."""
    for activation in ("gelu", "relu", "sigmoid"):
        base = made(activation, "float32")
        for name in base.reference:
            file = base.copied()
            file.reference[name] = file.reference[name] * (1 + 1e-6)
            file.name_source()
            assert refused(file), name
    file = made("relu", "float32")
    file.reference = {}
    file.target["weights"] = "network"
    assert "does not hold the weights" in file.verdict().reason


def test_wider_boxes(base: TranspiledFile) -> None:
    for factor in (1.0 + 2.0**-40, 3.0, 1e3, 1e300):
        file = base.copied()
        file.target["box"] = [[factor * x for x in side] for side in file.target["box"]]
        plain = file.reference or file.sections["model"]["layout"] != "multihead"
        assert refused(file) or (factor < 4 and (not plain or file.holds()))
    for box in ([[0.0], [1.0]], [[2.0] * 3, [1.0] * 3], [[0.0] * 3], "all", [[0.0, 0.0, True], [1.0] * 3]):
        file = base.copied()
        file.target["box"] = box
        assert refused(file), box
    file = base.copied()
    file.target["box"] = None
    assert refused(file)


def test_other_descriptions(base: TranspiledFile) -> None:
    """Every entry of model and target says what the tensors hold, and nothing else is said."""
    model, target = base.sections["model"], base.target
    for section, changes in (
        (
            "model",
            {"layout": "sequence" if model["layout"] != "sequence" else "multihead", "names": ["tanh"], "steps": []},
        ),
        ("model", {"more": 1}),
        ("target", {"sizes": [*target["sizes"][::-1], 1], "text": "Sequential 9-9-9, tanh", "sha256": "0" * 64}),
        ("target", {"kind": "expression", "weights": "somewhere"}),
        ("target", {"more": 1}),
    ):
        for name, value in changes.items():
            file = base.copied()
            file.sections[section][name] = value
            assert refused(file), name
    for i, step in enumerate(model["steps"]):
        for name, value in step.items():
            file = base.copied()
            file.sections["model"]["steps"][i][name] = (
                not value
                if isinstance(value, bool)
                else value + 1
                if isinstance(value, int | float)
                else "linear heads"
            )
            assert refused(file), (i, name)


def test_numbers_that_overflow() -> None:
    """Nothing is said of a run whose sums, scores or values pass the largest number."""
    for base in (made("relu", "float32", source="float32"), made("hardtanh", "float32", "sdpa", source="float32")):
        for name in [name for name in base.tensors if name.endswith("weight")]:
            file = base.copied()
            file.tensors[name] = np.full_like(file.tensors[name], 3e38)
            file.name_source()
            for entry in ("bound", "rounding_part"):
                file.said[entry] = 1e300
            file.said["quantities"] = dict.fromkeys(file.said["quantities"], 1e300)
            assert refused(file), name


@pytest.mark.parametrize("seed", range(40))
def test_random_changes(seed: int) -> None:
    """Weights and everything said of them changed together: VERIFIED only where the bound still holds."""
    rng = np.random.default_rng(seed)
    file = made(
        str(rng.choice(["relu", "hardtanh", "silu", "elu", "hardsigmoid"])), str(rng.choice(["float64", "float32"]))
    )
    for _ in range(int(rng.integers(1, 3))):
        part = file.reference if file.reference and rng.random() < 0.5 else file.tensors
        name = str(rng.choice(sorted(part)))
        array = part[name]
        at = tuple(int(rng.integers(n)) for n in array.shape)
        array[at] *= array.dtype.type(1 + rng.choice([-2, -1, 1, 3]) * 10.0 ** rng.uniform(-16, 1))
        if file.reference:
            for layer, weights in file.reference.items():
                file.tensors[layer.replace("layers", "steps")] = weights.astype(np.float32)
    factor = 10.0 ** rng.uniform(-2, 1)
    file.said["rounding_part"] *= factor
    file.said["bound"] = (file.said["rounding_part"] + file.said["exact_part"]) * (1 + 1e-15)
    file.name_source()
    if file.verdict():
        assert file.holds()
