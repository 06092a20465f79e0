"""Tensors are read as exactly one layout: no entry may be anywhere else, and none may be much different."""

from __future__ import annotations

import functools
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import softwright as sw
from softwright.checker.claims import read_claim
from softwright.checker.composition import bound
from softwright.checker.composition.statement import prove_composition
from softwright.checker.refusal import NotProvedError
from softwright.fileformat import ModelFile, read_model

BOX = sw.Box(x=(0.5, 1), y=(-1, 1))
FORMULA = "max(x, y) + y*exp(-x) + x*y*sin(y)"


@functools.cache
def stored(dtype: str = "float64") -> ModelFile:
    """A file whose certificate has its entries side by side."""
    with TemporaryDirectory() as folder:
        built = sw.approximate(FORMULA, BOX, tol=1e-2, strategy="compose", dtype=dtype)
        built.save(path := Path(folder) / "m.safetensors")
        return read_claim(read_model(path)).file


@pytest.fixture(autouse=True)
def _budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is false is sought to the end of the budget: here of ten times the boxes that the true file takes."""
    monkeypatch.setattr(bound, "MOST", 10 * needed())


@functools.cache
def needed() -> int:
    return prove_composition(stored(), lambda _: None)


def proved(tensors: dict[str, np.ndarray]) -> bool:
    try:
        return prove_composition(ModelFile(tensors, stored().sections), lambda _: None) > 0
    except NotProvedError:
        return False


def changed(name: str, entry: tuple[int, ...], value: float) -> dict[str, np.ndarray]:
    tensors = {key: array.copy() for key, array in stored().tensors.items()}
    tensors[name][entry] = value
    return tensors


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_what_was_built_is_proved(dtype: str) -> None:
    assert prove_composition(stored(dtype), lambda _: None) > 0


@pytest.mark.parametrize("name", sorted(stored().tensors))
def test_no_entry_may_stand_where_the_layout_has_none(name: str) -> None:
    array = stored().tensors[name]
    places = np.argwhere(array == 0)
    chosen = places[np.random.default_rng(0).permutation(len(places))[:12]]
    wrong = [tuple(place) for place in chosen if proved(changed(name, tuple(place), 0.5))]
    assert wrong == []


@pytest.mark.parametrize("name", sorted(stored().tensors))
def test_no_entry_may_be_much_different(name: str) -> None:
    array = stored().tensors[name]
    places = [tuple(place) for place in np.argwhere(array != 0)]
    hidden = {place for place in places if array[place] <= -1000.0}  # scores of tokens that no head looks at
    places = [place for place in places if place not in hidden and abs(array[place]) > 0.05]
    chosen = [places[k] for k in np.random.default_rng(1).permutation(len(places))[:5]]
    for factor in (-1.0, 0.0, 1.5):
        wrong = [place for place in chosen if proved(changed(name, place, factor * float(array[place])))]
        assert wrong == []


def test_tensors_are_named_and_shaped_as_heads_ask_for() -> None:
    tensors = dict(stored().tensors)
    for other in (
        {**tensors, "more": np.zeros(1)},
        {name: array for name, array in tensors.items() if name != "read"},
        {**tensors, "layers.0.Wq": tensors["layers.0.Wq"][:, :, :1]},
        {**tensors, "layers.0.Wv": np.concatenate([tensors["layers.0.Wv"]] * 2, axis=2)},
        {**tensors, "base_bank": tensors["base_bank"][:-1]},
        {**tensors, "read": tensors["read"].astype(np.float32)},
        {**tensors, "read": np.full_like(tensors["read"], np.nan)},
        {**tensors, "read": tensors["read"] * 1e200},
        {**tensors, "layers.0.Wq": tensors["layers.1.Wq"], "layers.1.Wq": tensors["layers.0.Wq"]},
    ):
        assert not proved(other)


def test_the_order_of_heads_is_part_of_the_layout() -> None:
    """Gates of different features exchanged in all four tensors compute the same; they are refused all the same."""
    tensors = dict(stored().tensors)
    count = len(tensors["layers.0.Wq"])
    order = list(range(count))[::-1]
    for kind in ("Wq", "Wk", "Wv", "Wo"):
        tensors[f"layers.0.{kind}"] = tensors[f"layers.0.{kind}"][order]
    assert count > 1
    assert not proved(tensors)
