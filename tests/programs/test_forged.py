"""Files of programs that say what is not so: other weights, other texts, other bounds, under digests that fit."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softwright as sw
from softwright.attention.program import ProgramNetwork
from softwright.checker.verify import reprove
from softwright.fileformat import ModelFile, read_model, weights_sha256
from softwright.programs.meaning import meaning
from softwright.programs.observe import observe

TOKENS = sw.Sequence(length=(1, 6), x=(-1, 1), s=sw.Symbols("abc"))
TEXT = "sum(x[j] for s[j] == s[i] and j < i), max(prev(x, 1, default=0.5)), sorted(s)[i] == s[n-1-i], smooth(x, 0.25)"


@pytest.fixture(scope="module", params=["float64", "float32"])
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ModelFile:
    path: Path = tmp_path_factory.mktemp("forged") / "p.safetensors"
    sw.compile(TEXT, TOKENS, tol=1e-2, dtype=request.param).save(path)
    return read_model(path)


def signed(file: ModelFile, tensors: dict[str, np.ndarray], sections: dict[str, Any]) -> ModelFile:
    """The file with other tensors, its digest made to fit."""
    said = copy.deepcopy(sections)
    said["certificate"]["claim"]["subject"]["sha256"] = weights_sha256(tensors)
    return ModelFile(tensors, said)


def test_as_it_is(file: ModelFile) -> None:
    assert reprove(signed(file, dict(file.tensors), file.sections)).verified


def test_no_weight_may_change(file: ModelFile) -> None:
    """By a thousandth of its size, by a sign, from zero: caught, or still within the bound that is proved."""
    rng = np.random.default_rng(5)
    meant = meaning(TEXT, TOKENS)
    bound, caught = file.sections["certificate"]["claim"]["bound"], 0
    for name, array in file.tensors.items():
        flat = array.reshape(-1)
        places = np.flatnonzero(flat)
        chosen = rng.choice(places, min(2, len(places)), replace=False) if len(places) else []
        for place in [*chosen, *rng.integers(0, flat.size, 1)]:
            for change in (1.001, -1.0):
                tensors = {key: value.copy() for key, value in file.tensors.items()}
                old = tensors[name].reshape(-1)[place]
                tensors[name].reshape(-1)[place] = old * array.dtype.type(change) if old else array.dtype.type(0.01)
                if not reprove(signed(file, tensors, file.sections)).verified:
                    caught += 1
                    continue
                network = ProgramNetwork.rebuilt(file.sections["model"], tensors)
                assert observe(network, meant, bound).error <= bound, (name, int(place), change)
    assert caught > 45


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("j < i", "j <= i"),
        ("s[j] == s[i]", "s[j] != s[i]"),
        ("default=0.5", "default=0.25"),
        ("prev(x, 1", "prev(x, 2"),
        ("max(", "min("),
        ("n-1-i", "i"),
        ("0.25)", "0.26)"),
        ("sum(", "mean("),
        ("sorted(s)", "sorted(s, by=0)"),
    ],
)
def test_no_other_program_is_verified(file: ModelFile, old: str, new: str) -> None:
    assert old in TEXT
    said = copy.deepcopy(file.sections)
    for target in (said["target"], said["certificate"]["claim"]["reference"]["target"]):
        target["text"] = target["text"].replace(old, new)
    assert not reprove(ModelFile(file.tensors, said)).verified


def test_bounds_and_sets_may_not_grow_better(file: ModelFile) -> None:
    said = copy.deepcopy(file.sections)
    claim = said["certificate"]["claim"]
    smaller = claim["bound"] / 2
    claim |= {"bound": smaller, "parts": {"exact": smaller, "rounding": 0.0}}
    claim["hex"] = {"bound": smaller.hex(), "exact": smaller.hex(), "rounding": (0.0).hex()}
    assert "only proved" in reprove(ModelFile(file.tensors, said)).reason
    for change in ("length", "x"):
        said = copy.deepcopy(file.sections)
        certificate = said["certificate"]["claim"]
        places = (said["target"], said["model"], certificate["reference"]["target"], certificate["set"])
        for place in places:
            if change == "length":
                place["tokens"]["length"] = [1, 7]
            else:
                next(f for f in place["tokens"]["fields"] if f["name"] == "x")["high"] = 2.0
        if reprove(ModelFile(file.tensors, said)).verified:  # then it must be true: the bound is stated with some room
            assert change == "x"
            wider = meaning(TEXT, sw.Sequence(length=(1, 6), x=(-1, 2), s=sw.Symbols("abc")))
            network = ProgramNetwork.rebuilt(said["model"], dict(file.tensors))
            assert observe(network, wider, certificate["bound"]).error <= certificate["bound"]
